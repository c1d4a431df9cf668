"""Rows of a source, a chunk at a time."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from .layout import Columns, Layout
from .values import as_flags, as_labels, metadata_of_row

_CHUNK_ROWS = 1024
_CHUNK_NUMBERS = 1 << 22


class Rows(NamedTuple):
    """Consecutive rows of a source.

    Attributes
    ----------
    first
        The number of the first one, from 0.
    X
        Vectors (n, d), finite.
    y
        Labels, None if no column of labels was named.
    keys, metadata
        One for each row, None if no column was named.
    is_test
        Of a data set: which rows are test rows, None if that is not known.
    share
        How much of the source has been read with these rows, 0 to 1; None if that is not known.
    """

    first: int
    X: NDArray[np.float32]
    y: NDArray[Any] | None = None
    keys: list[Any] | None = None
    metadata: list[dict[str, Any]] | None = None
    share: float | None = None
    is_test: NDArray[np.bool_] | None = None


class Source(ABC):
    """Something that rows are read from.

    Attributes
    ----------
    name
        Its name in messages.
    note
        Which columns were guessed and which are not used; empty if there is nothing to say.
    n_rows
        How many rows it has, None where only reading would tell.
    repeatable
        Whether `rows` can start anywhere, any number of times; a stream goes on where it stands.
    has_labels
        Whether its rows come with labels.
    """

    name: str
    note: str = ""
    n_rows: int | None = None
    repeatable: bool = True
    has_labels: bool = False

    _layout: Layout
    _wanted: Columns

    def _set_layout(self, layout: Layout, wanted: Columns) -> None:
        self._layout, self._wanted = layout, wanted
        self.note, self.has_labels = layout.note, layout.label is not None

    @abstractmethod
    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in chunks."""


class ColumnSource(Source):
    """A source whose columns are read one by one, for a number of rows that is known."""

    n_rows: int

    def _assembled(self, first: int, X: NDArray[Any], values: Callable[[str], list[Any]]) -> Rows:
        """Return consecutive rows of vectors and of what the columns hold for them."""
        layout = self._layout
        X = as_float32(self.name, X, lambda place: f"row {first + place}")
        check_finite(self.name, X, first)
        y = keys = metadata = is_test = None
        if layout.label is not None:
            y = as_labels(self.name, values(layout.label), first, self._wanted.dataset)
        if layout.key is not None:
            keys = values(layout.key)
        if layout.is_test is not None:
            is_test = as_flags(self.name, values(layout.is_test), first)
        if layout.metadata:
            columns = zip(*(values(name) for name in layout.metadata), strict=True)
            metadata = [
                metadata_of_row(dict(zip(layout.metadata, row, strict=True)), f"{self.name}: row {first + place}")
                for place, row in enumerate(columns)
            ]
        return Rows(first, X, y, keys, metadata, (first + len(X)) / self.n_rows, is_test)


def chunk_rows(n_features: int) -> int:
    """Return how many rows are read at a time: 1,024, fewer where they are wide.

    Examples
    --------
    >>> chunk_rows(128), chunk_rows(100_000)
    (1024, 41)
    """
    return max(1, min(_CHUNK_ROWS, _CHUNK_NUMBERS // max(1, n_features)))


def as_float32(source: str, X: NDArray[Any], where: Callable[[int], str]) -> NDArray[np.float32]:
    """Return vectors as float32; refuse a number that is too large, with what ``where`` says of its row."""
    try:
        with np.errstate(over="raise"):
            return np.ascontiguousarray(X, dtype=np.float32)
    except FloatingPointError as error:
        place = where(validation.too_large(X))
        raise InvalidInput(f"{source}: vectors must fit into float32; {place} {validation.TOO_LARGE}") from error


def check_finite(source: str, X: NDArray[np.float32], first: int, lines: Sequence[int] | None = None) -> None:
    """Refuse vectors that are not finite or too long, naming the row, and where they are known its line."""
    try:
        validation.finite("vector", X, first)
    except InvalidInput as error:
        with np.errstate(over="ignore", invalid="ignore"):
            worst = np.flatnonzero(~np.isfinite(X).all(axis=1))
        line = f" (line {lines[worst[0]]})" if lines is not None and len(worst) else ""
        if len(worst):
            raise InvalidInput(
                f"{source}: row {first + worst[0]}{line} has a NaN or an infinity. Remove or repair it."
            ) from error
        raise InvalidInput(f"{source}: {error}") from error
