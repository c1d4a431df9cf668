"""Parquet files through pyarrow, a few thousand rows at a time."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...extras import load_extra
from .layout import Columns, Kind, lay_out
from .row_chunks import ColumnSource, Rows, chunk_rows

_READ_BYTES = 1 << 20  # how much of a column is read ahead; without it a row group is held as a whole


class ParquetSource(ColumnSource):
    """Rows of a Parquet file.

    Parameters
    ----------
    path
        The file.
    wanted
        The columns that the user names.

    Examples
    --------
    >>> import tempfile
    >>> import pyarrow as pa, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "mine.parquet")
    ...     pa.parquet.write_table(pa.table({"id": ["a", "b"], "emb": [[0.5, 1.0], [2.0, 3.0]]}), file)
    ...     rows, = ParquetSource(file, Columns()).rows()
    >>> rows.X.tolist(), rows.keys
    ([[0.5, 1.0], [2.0, 3.0]], ['a', 'b'])
    """

    def __init__(self, path: Path, wanted: Columns) -> None:
        self.name, self._path = str(path), path
        reason = f"{path} is a Parquet file; reading it needs pyarrow"
        self._arrow = load_extra("arrow", reason, "pyarrow", "pyarrow.parquet")
        with self._opened() as store:
            kinds = {field.name: self._kind(field.type) for field in store.schema_arrow}
            sizes = [store.metadata.row_group(i).num_rows for i in range(store.metadata.num_row_groups)]
        self._ends = np.cumsum([0, *sizes])
        self.n_rows = int(self._ends[-1])
        if not self.n_rows:
            raise InvalidInput(f"{path} is empty: it has no rows. Give a file with vectors.")
        self._set_layout(lay_out(self.name, kinds, wanted), wanted)
        self._width: int | None = None if self._layout.whole else len(self._layout.vector)

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in chunks."""
        stop = self.n_rows if stop is None else min(stop, self.n_rows)
        if start >= stop:
            return
        begin = int(np.searchsorted(self._ends, start, side="right")) - 1
        end = int(np.searchsorted(self._ends, stop, side="left"))
        first = int(self._ends[begin])
        with self._opened() as store:
            if self._width is None:
                self._width = self._first_width(store)
            batches = store.iter_batches(chunk_rows(self._width), range(begin, end), columns=self._layout.used)
            for batch in batches:
                part = batch.slice(max(0, start - first), max(0, stop - max(start, first)))
                if len(part):
                    yield self._rows(max(start, first), part)
                first += len(batch)

    def _first_width(self, store: Any) -> int:
        batch = next(store.iter_batches(1, columns=self._layout.used))
        return int(self._matrix(0, batch, self._layout.vector[0], None).shape[1])

    def _rows(self, first: int, batch: Any) -> Rows:
        layout = self._layout

        def values(name: str) -> list[Any]:
            column = self._complete(first, batch, name) if name == layout.key else batch.column(name)
            return self._values(column, name)

        if layout.whole:
            X = self._matrix(first, batch, layout.vector[0], self._width)
        else:
            X = np.column_stack([self._numbers(first, batch, name) for name in layout.vector])
        return self._assembled(first, X, values)

    def _matrix(self, first: int, batch: Any, name: str, width: int | None) -> NDArray[Any]:
        """Return a column of lists as (n, d); every row must have one, and all of one length."""
        column = self._complete(first, batch, name)
        sizes = (
            np.array([column.type.list_size] * len(column))
            if self._arrow.types.is_fixed_size_list(column.type)
            else None
        )
        if sizes is None:
            offsets = column.offsets.to_numpy()
            sizes = np.diff(offsets)
        wanted = int(sizes[0]) if width is None else width
        other = np.flatnonzero(sizes != wanted)
        if len(other):
            raise InvalidInput(
                f"{self.name}: row {first + other[0]} has a vector of {sizes[other[0]]} numbers in {name!r}, "
                f"and row 0 one of {wanted}. Remove or repair it."
            )
        if not wanted:
            raise InvalidInput(f"{self.name}: the vectors in {name!r} are empty. Give a file with vectors.")
        values = column.flatten()
        if values.null_count:
            row = first + np.flatnonzero(values.is_null().to_numpy(zero_copy_only=False))[0] // wanted
            raise InvalidInput(f"{self.name}: row {row} lacks a number in {name!r}. Remove or repair it.")
        found: NDArray[Any] = values.to_numpy(zero_copy_only=False).reshape(len(column), wanted)
        return found

    def _values(self, column: Any, name: str) -> list[Any]:
        """Return a column as Python's values; times to the nanosecond, which Python has not, as text."""
        types = self._arrow.types
        if (types.is_timestamp(column.type) or types.is_time(column.type)) and column.type.unit == "ns":
            if types.is_timestamp(column.type) and column.type.tz is not None:
                column = column.cast(self._arrow.timestamp("ns", "UTC"))
            texts = column.cast(self._arrow.string()).to_pylist()
            return [None if text is None else _time_text(text) for text in texts]
        try:
            found: list[Any] = column.to_pylist()
        except ValueError as error:
            raise InvalidInput(
                f"{self.name}: the column {name!r} is {column.type}, which cannot be stored. Leave it out, or "
                "make it text."
            ) from error
        return found

    def _numbers(self, first: int, batch: Any, name: str) -> NDArray[Any]:
        found: NDArray[Any] = self._complete(first, batch, name).to_numpy(zero_copy_only=False)
        return found

    def _complete(self, first: int, batch: Any, name: str) -> Any:
        column = batch.column(name)
        if column.null_count:
            row = first + np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0]
            raise InvalidInput(f"{self.name}: row {row} has nothing in the column {name!r}. Remove or repair it.")
        return column

    def _kind(self, kind: Any) -> Kind:
        types = self._arrow.types
        if types.is_integer(kind) or types.is_floating(kind):
            return "number"
        lists = types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)
        return "list" if lists and self._kind(kind.value_type) == "number" else "other"

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        """Open the file; an error that shows that it is damaged becomes an `InvalidInput`."""
        damage = (self._arrow.ArrowException, OSError, ValueError, KeyError)
        try:
            with self._arrow.parquet.ParquetFile(
                self._path, buffer_size=_READ_BYTES, pre_buffer=False, page_checksum_verification=True
            ) as store:
                yield store
        except (InvalidInput, FileNotFoundError):
            raise
        except damage as error:
            reason = str(error).splitlines()[0] if str(error) else type(error).__name__
            raise InvalidInput(
                f"{self.name} is damaged, cut short or not a Parquet file ({reason}). Copy or make it again."
            ) from error


def _time_text(text: str) -> str:
    """Return a time that Arrow writes with nine decimals as Python writes it, which has six or none.

    Examples
    --------
    >>> _time_text("2024-01-04 05:06:07.000000000Z"), _time_text("05:06:07.120000000")
    ('2024-01-04T05:06:07+00:00', '05:06:07.120000')
    >>> _time_text("2024-01-04 05:06:07.000000006")
    '2024-01-04T05:06:07.000000006'
    """
    found = text.replace(" ", "T", 1).replace("Z", "+00:00")
    return re.sub(r"\.000000000|(?<=\.\d{6})000", "", found)
