"""Parquet files, through pyarrow: features in one column of lists, or in a column for each feature."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, InvalidInput, NotReady, UnknownName
from ...io.readers.layout import FEATURE_NAMES, LABEL_NAMES

_IS_TEST = "is_test"
_PANDAS_INDEX = "__index_level_"  # how pandas calls the row names that it stores as a column


def read_parquet(
    file: Path, features: str | Sequence[str] | None = None, labels: str | Sequence[str] | None = None
) -> tuple[NDArray[Any], NDArray[Any] | None, NDArray[Any] | None]:
    """Return the features (n, d), the labels or None, and which rows are test rows or None.

    Parameters
    ----------
    file
        The file.
    features
        The column whose lists are the features, or the numeric columns that are; None looks for a column of lists
        called ``features``, ``embedding``, ``embeddings``, ``vector``, ``emb`` or ``X``, and without one takes
        every numeric column but the labels.
    labels
        The column of labels; None looks for ``labels``, ``label`` or ``y``. Names of classes are numbered in
        their alphabetical order; a list of 0 and 1 is several labels.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.parquet")
    ...     pa.parquet.write_table(pa.table({"emb": [[0.5, 1.0], [2.0, 3.0]], "label": ["dog", "cat"]}), file)
    ...     X, y, _ = read_parquet(file)
    >>> X.tolist(), y.tolist()
    ([[0.5, 1.0], [2.0, 3.0]], [1, 0])
    """
    if not isinstance(labels, str | None):
        raise InvalidInput(f"`labels` must be the name of one column of a Parquet file; got {labels!r}.")
    with _Columns(file) as columns:
        y_name = columns.label_name(labels)
        X = columns.features(features, y_name)
        y = None if y_name is None else columns.labels(y_name)
        is_test = columns.flags(_IS_TEST) if _IS_TEST in columns.types else None
    return X, y, is_test


def parquet_has_labels(file: Path) -> bool:
    """Tell whether a file has a column of labels, from its head alone."""
    with _Columns(file) as columns:
        return columns.label_name(None) is not None


class _Columns:
    """The columns of one file, read one at a time."""

    def __init__(self, file: Path) -> None:
        try:
            import pyarrow.compute  # type: ignore[import-untyped]
            import pyarrow.parquet  # type: ignore[import-untyped]
        except ImportError:
            raise NotReady(
                f"{str(file)!r} is a Parquet file; reading it needs pyarrow: pip install 'mihash[arrow]'."
            ) from None
        self.file, self.arrow = file, pyarrow
        self.damage = (pyarrow.ArrowException, OSError, ValueError, KeyError)
        try:
            self.store = pyarrow.parquet.ParquetFile(file, page_checksum_verification=True)
            self.types = {field.name: field.type for field in self.store.schema_arrow}
        except self.damage as error:
            raise self.damaged(error) from error

    def __enter__(self) -> "_Columns":
        return self

    def __exit__(self, *exception: object) -> None:
        self.store.close()

    def label_name(self, given: str | None) -> str | None:
        if given is not None:
            return self.known(given)
        return next((name for name in LABEL_NAMES if name in self.types), None)

    def features(self, given: str | Sequence[str] | None, y_name: str | None) -> NDArray[Any]:
        names = self.feature_names(y_name) if given is None else [given] if isinstance(given, str) else [*given]
        wrong = [name for name in names if not (self.is_number(name) or self.is_vector(name))]
        if wrong:
            raise InvalidInput(
                f"The column {wrong[0]!r} of {str(self.file)!r} must hold numbers, or lists of numbers; "
                f"got {self.types[wrong[0]]}."
            )
        if len(names) == 1 and self.is_vector(names[0]):
            return self.matrix(names[0])
        vectors = [name for name in names if self.is_vector(name)]
        if vectors or not names:
            what = f"{vectors[0]!r} is a column of lists among several" if vectors else "no column is numeric"
            raise InvalidInput(f"{str(self.file)!r} has no features: {what}; {self.listing()}.")
        return np.column_stack([self.read(name).to_numpy() for name in names])

    def feature_names(self, y_name: str | None) -> list[str]:
        taken = (y_name, _IS_TEST)
        vectors = [name for name in self.types if self.is_vector(name) and name not in taken]
        for name in FEATURE_NAMES:
            if name in vectors:
                return [name]
        if vectors:
            raise UnknownName(
                f"{str(self.file)!r} has columns of lists, none of them called {', '.join(FEATURE_NAMES)}; "
                f"{self.listing()}. Name one with `features`, or rename it."
            )
        return [
            name
            for name in self.types
            if self.is_number(name) and name not in taken and not name.startswith(_PANDAS_INDEX)
        ]

    def labels(self, name: str) -> NDArray[Any]:
        if self.is_vector(name):
            return self.matrix(name)
        column, kinds = self.complete(name), self.arrow.types
        if kinds.is_dictionary(column.type):
            column = column.cast(column.type.value_type)
        if kinds.is_string(column.type) or kinds.is_large_string(column.type):
            return np.unique(column.to_numpy(), return_inverse=True)[1]
        found: NDArray[Any] = column.to_numpy()
        return found

    def flags(self, name: str) -> NDArray[Any]:
        found: NDArray[Any] = self.read(name).to_numpy()
        return found

    def matrix(self, name: str) -> NDArray[Any]:
        """Return a column of lists as (n, d); every row must have one, and all of one length."""
        column = self.complete(name)
        sizes = self.arrow.compute.list_value_length(column).to_numpy()
        other = np.flatnonzero(sizes != sizes[:1])
        if len(other):
            raise InvalidInput(
                f"The lists of {name!r} in {str(self.file)!r} must be of one length; row 0 has {sizes[0]} numbers "
                f"and row {other[0]} has {sizes[other[0]]}."
            )
        parts = [chunk.flatten().to_numpy(zero_copy_only=False) for chunk in column.chunks]
        width = int(sizes[0]) if len(sizes) else 0
        return np.concatenate(parts or [np.empty(0)]).reshape(len(sizes), width)

    def complete(self, name: str) -> Any:
        """Return a column that has something in each row."""
        column = self.read(name)
        if column.null_count:
            row = np.flatnonzero(column.is_null().to_numpy())[0]
            raise InvalidInput(
                f"The column {name!r} of {str(self.file)!r} must have a value in each row; row {row} has none."
            )
        return column

    def read(self, name: str) -> Any:
        try:
            return self.store.read(columns=[name]).column(name)
        except self.damage as error:
            raise self.damaged(error) from error

    def known(self, name: Any) -> str:
        if not isinstance(name, str) or name not in self.types:
            raise UnknownName(f"{str(self.file)!r} has no column {name!r}; {self.listing()}. Name one of them.")
        return name

    def is_number(self, name: str) -> bool:
        return self.is_numeric(self.types[self.known(name)])

    def is_vector(self, name: str) -> bool:
        kinds, kind = self.arrow.types, self.types[self.known(name)]
        lists = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
        return bool(lists and self.is_numeric(kind.value_type))

    def is_numeric(self, kind: Any) -> bool:
        kinds = self.arrow.types
        return bool(kinds.is_integer(kind) or kinds.is_floating(kind))

    def listing(self) -> str:
        return "its columns: " + (", ".join(f"{name} ({kind})" for name, kind in self.types.items()) or "none")

    def damaged(self, error: BaseException) -> CorruptStore:
        return CorruptStore(
            f"{str(self.file)!r} is damaged, cut short or not a Parquet file ({error}); copy or make it again."
        )
