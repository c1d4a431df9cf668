"""Text files and streams: decoded and numbered line by line, cut into chunks of rows."""

from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from .layout import Columns, Kind, Layout, lay_out
from .row_chunks import Rows, Source, as_float32, check_finite, chunk_rows
from .values import as_flags, as_labels

_PEEKED = 100  # rows that tell what the columns hold
_BOM = "\ufeff"  # some programs put it at the start of a file


class Lines:
    """The lines of a stream of bytes as text; it knows how many there were, of how many bytes."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self._name, self._stream = name, stream
        self.n, self.n_bytes = 0, 0

    def __iter__(self) -> Iterator[str]:
        """Yield each line with its end."""
        for raw in self._stream:
            self.n += 1
            self.n_bytes += len(raw)
            try:
                text = raw.decode()
            except UnicodeDecodeError as error:
                raise InvalidInput(
                    f"{self._name}: line {self.n} is not UTF-8 text (byte {raw[error.start]:#04x} at column "
                    f"{error.start + 1}). Save the file as UTF-8."
                ) from error
            yield text.removeprefix(_BOM) if self.n == 1 else text


class TextSource(Source):
    """Rows of a text file, or of a stream that can be read once.

    Parameters
    ----------
    name
        Its name in messages.
    stream
        The path of a file, or the stream.
    wanted
        The columns that the user names.
    """

    def __init__(self, name: str, stream: Path | BinaryIO, wanted: Columns) -> None:
        self.name, self._wanted = name, wanted
        self._path = stream if isinstance(stream, Path) else None
        self._size = None if self._path is None else self._path.stat().st_size
        self.repeatable = self._path is not None
        opened = stream.open("rb") if isinstance(stream, Path) else stream
        try:
            self._lines = Lines(name, opened)
            numbered = self._numbered(self._lines)
            peeked = list(islice(numbered, _PEEKED))
            if not peeked:
                raise InvalidInput(f"{name} is empty: it has no rows. Give a file with vectors.")
            self._records = chain(peeked, numbered)
        finally:
            if self.repeatable:
                opened.close()
        self._at = 0  # the row that a stream stands at
        self._set_layout(lay_out(name, self.kinds([record for _, record in peeked]), wanted), wanted)
        self._width = len(self.vector(self._layout, peeked[0][1], f"row 0 (line {peeked[0][0]})"))

    @abstractmethod
    def records(self, lines: Lines) -> Iterator[Any]:
        """Yield what each row holds; all of it has been looked at when the next line is read."""

    @abstractmethod
    def kinds(self, records: list[Any]) -> Mapping[str, Kind]:
        """Return the columns, and what the first rows have in them."""

    @abstractmethod
    def vector(self, layout: Layout, record: Any, where: str) -> Sequence[float]:
        """Return the vector of a row."""

    @abstractmethod
    def value(self, record: Any, column: str, where: str) -> Any:
        """Return what a row has in a column."""

    def key(self, record: Any, column: str, where: str) -> Any:
        """Return the key of a row."""
        return self.value(record, column, where)

    @abstractmethod
    def label(self, record: Any, column: str) -> Any:
        """Return the label of a row; None or empty if it has none."""

    @abstractmethod
    def metadata(self, layout: Layout, record: Any, where: str) -> dict[str, Any]:
        """Return the metadata of a row."""

    def rows(self, start: int = 0, stop: int | None = None) -> Iterator[Rows]:
        """Yield the rows from ``start`` up to ``stop``, in chunks."""
        if self._path is None:
            yield from self._chunks(self._lines, self._records, self._at, start, stop)
            return
        with self._path.open("rb") as stream:
            lines = Lines(self.name, stream)
            yield from self._chunks(lines, self._numbered(lines), 0, start, stop)

    def _numbered(self, lines: Lines) -> Iterator[tuple[int, Any]]:
        """Yield each record with the line that it ends in."""
        for record in self.records(lines):
            yield lines.n, record

    def _chunks(
        self, lines: Lines, records: Iterator[tuple[int, Any]], at: int, start: int, stop: int | None
    ) -> Iterator[Rows]:
        for _ in islice(records, start - at):
            pass
        size = chunk_rows(self._width)
        while stop is None or start < stop:
            n = size if stop is None else min(size, stop - start)
            found = list(islice(records, n))
            if not found:
                return
            rows = self._rows(start, [line for line, _ in found], [record for _, record in found])
            start += len(found)
            self._at = start
            yield rows._replace(share=lines.n_bytes / self._size if self._size else None)

    def _rows(self, first: int, lines: list[int], records: list[Any]) -> Rows:
        layout, places = self._layout, [f"row {first + i} (line {line})" for i, line in enumerate(lines)]
        X = self._vectors(layout, records, places)
        check_finite(self.name, X, first, lines)
        pairs = list(zip(records, places, strict=True))
        y = keys = metadata = is_test = None

        def column(name: str) -> list[Any]:
            return [self.value(record, name, where) for record, where in pairs]

        if layout.label is not None:
            y = as_labels(
                self.name, [self.label(record, layout.label) for record in records], first, self._wanted.dataset
            )
        if layout.is_test is not None:
            is_test = as_flags(self.name, column(layout.is_test), first)
        if layout.key is not None:
            keys = [self.key(record, layout.key, where) for record, where in pairs]
        if self._wanted.metadata:
            found = [self.metadata(layout, record, where) for record, where in pairs]
            metadata = found if any(found) else None
        return Rows(first, X, y, keys, metadata, is_test=is_test)

    def _vectors(self, layout: Layout, records: list[Any], places: list[str]) -> NDArray[np.float32]:
        vectors = []
        for record, where in zip(records, places, strict=True):
            vector = self.vector(layout, record, where)
            if len(vector) != self._width:
                raise InvalidInput(
                    f"{self.name}: {where} has a vector of {len(vector)} numbers, and row 0 one of {self._width}. "
                    "Remove or repair it."
                )
            vectors.append(vector)
        try:
            return as_float32(self.name, np.array(vectors, dtype=np.float64), places.__getitem__)
        except OverflowError as error:  # a whole number of hundreds of digits
            raise InvalidInput(
                f"{self.name}: a number in {places[0]}, or in one of the rows after it, is too large."
            ) from error
