"""Adding whole files to an index: checked before the first row goes in, and continued where it was interrupted.

How far a source was read is committed with its rows, as their number and a checksum of their vectors. So whoever
adds the same source again goes on after the last row that is in, or hears that it is another one by now.
"""

import os
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .errors import InvalidInput
from .files import Rows, Source
from .index import OnlineIndex
from .online import learner_class
from .tables.filters import encode_metadata
from .tables.keys import Key, as_keys

__all__ = ["Added", "Progress", "ingest", "name_of", "rows_in"]

_KEYS = "Name another column with --key, or number the rows with --key none."
_ROWS_BIT = 32  # a position is the number of rows, and in the lower bits their CRC-32

Progress = Callable[[str, str, int, int | None], None]
Value = TypeVar("Value")


class Added(NamedTuple):
    """What became of a source.

    Attributes
    ----------
    source
        What it is called.
    before
        How many of its rows were in already.
    added
        How many were added.
    """

    source: str
    before: int
    added: int


class _Position(NamedTuple):
    n_rows: int = 0
    checksum: int = 0

    @classmethod
    def of(cls, number: int | None) -> "_Position":
        return cls() if number is None else cls(number >> _ROWS_BIT, number & (1 << _ROWS_BIT) - 1)

    @property
    def number(self) -> int:
        return self.n_rows << _ROWS_BIT | self.checksum

    def after(self, X: NDArray[np.float32]) -> "_Position":
        return _Position(self.n_rows + len(X), zlib.crc32(X.data, self.checksum))


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the name under which an index remembers how far a file was read."""
    return f"file:{Path(path).resolve()}"


def rows_in(index: OnlineIndex, name: str) -> int:
    """Return how many rows of a source are in an index."""
    return _Position.of(index.position(name)).n_rows


def ingest(
    index: OnlineIndex,
    sources: Sequence[tuple[Source, str | None]],
    *,
    check: bool = True,
    again: bool = False,
    progress: Progress | None = None,
) -> list[Added]:
    """Add sources to an index; what is wrong with one of them is told before the first row is added.

    Parameters
    ----------
    index
        The index.
    sources
        Each with the name under which its position is kept (see `name_of`), None to keep none.
    check
        Whether files are read through first. Without it, and for streams, the chunks before a bad row are in.
    again
        Whether to begin at the first row whatever is in already.
    progress
        Is called with what is done ("checking" or "adding"), with which source, the rows so far and, where it is
        known, of how many.

    Examples
    --------
    >>> import tempfile, mihash
    >>> from mihash.files import open_source
    >>> folder = tempfile.TemporaryDirectory()
    >>> file = Path(folder.name, "mine.npy")
    >>> np.save(file, np.random.default_rng(0).standard_normal((300, 8)))
    >>> with mihash.OnlineIndex.create(folder.name + "/index", n_bits=16) as index:
    ...     first = ingest(index, [(open_source(file), name_of(file))])
    ...     second = ingest(index, [(open_source(file), name_of(file))])
    >>> [(each.before, each.added) for each in first + second]
    [(0, 300), (300, 0)]
    >>> folder.cleanup()
    """
    tell = progress or _silent
    parts = [_Ingest(index, source, name, again) for source, name in sources]
    _check_labels(index, [source for source, _ in sources])
    for part in parts:
        if part.source.repeatable:
            part.check_begin(tell)
    if check:
        seen, shape = _Keys(index), _Shape.of(index)
        for part in parts:
            if part.source.repeatable:
                shape = part.check(shape, seen, tell)
        seen.check_unique()
    return [part.run(tell) for part in parts]


def _check_labels(index: OnlineIndex, sources: Sequence[Source]) -> None:
    """Raise where sources, one after the other, have labels that the index does not take, or lack them."""
    stats = index.stats()
    begun, labelled = stats["n_features"] is not None, stats["labels"]
    for source in sources:
        if begun and not labelled and source.has_labels:
            first = (
                "This index began" if stats["n_features"] is not None else f"{sources[0].name} comes first and is"
            )
            raise InvalidInput(
                f"{first} without labels: neighbours are those that are near. Leave --label out, "
                "or make an index whose first rows have labels."
            )
        if not begun and not source.has_labels and learner_class(stats["learner"]).needs_labels:
            raise InvalidInput(
                f"The learner {stats['learner']} learns from class labels, and {source.name} comes without: "
                "name their column with --label."
            )
        begun, labelled = True, labelled or source.has_labels


class _Shape(NamedTuple):
    """What rows have in common: the width of vectors, and of labels () for integers or (classes,) for 0 and 1."""

    width: int | None
    labels: tuple[int, ...] | None

    @classmethod
    def of(cls, index: OnlineIndex) -> "_Shape":
        kind = index._table.label_kind
        return cls(index.stats()["n_features"], None if kind is None else (kind[1],) if kind[1] else ())


class _Keys:
    """The keys that are on their way into an index; kept are 8 bytes of each."""

    def __init__(self, index: OnlineIndex) -> None:
        self._index = index
        self._marks: list[NDArray[np.int64]] = []
        self._places: list[tuple[str, int]] = []

    def check(self, source: str, first: int, keys: Sequence[Key]) -> None:
        """Raise where a key is stored; whether one comes twice is told by `check_unique`, when all were seen."""
        if len(self._index) and len(keys):
            stored = np.flatnonzero(self._index.contains(keys))
            if len(stored):
                place = int(stored[0])
                raise InvalidInput(
                    f"{source}: row {first + place} has the key {keys[place]!r}, which is stored already. {_KEYS}"
                )
        self._marks.append(np.array([hash((key, isinstance(key, str))) for key in keys], dtype=np.int64))
        self._places.append((source, first))

    def check_unique(self) -> None:
        """Raise where two rows have the same key."""
        marks = np.concatenate(self._marks) if self._marks else np.empty(0, dtype=np.int64)
        order = np.argsort(marks, kind="stable")
        again = order[1:][marks[order[1:]] == marks[order[:-1]]]
        if len(again):
            second = int(again.min())
            first = int(np.flatnonzero(marks == marks[second])[0])
            raise InvalidInput(f"{self._place(second)} has the key of {self._place(first)}. {_KEYS}")

    def _place(self, number: int) -> str:
        ends = np.cumsum([len(part) for part in self._marks])
        part = int(np.searchsorted(ends, number, side="right"))
        source, first = self._places[part]
        return f"{source}: row {first + number - (int(ends[part - 1]) if part else 0)}"


class _Ingest:
    """One source on its way into an index.

    Parameters
    ----------
    index, source, name, again
        As for `ingest`.
    """

    def __init__(self, index: OnlineIndex, source: Source, name: str | None, again: bool = False) -> None:
        self._index, self.source, self._name = index, source, name
        found = None if name is None or again else index.position(name)
        self._begin = _Position.of(found)
        self._total = source.n_rows
        if self._total is not None and self._total < self._begin.n_rows:
            raise self._replaced(f"it has {self._total:,} rows")

    def check(self, shape: _Shape, seen: _Keys, tell: Progress) -> _Shape:
        """Read the source through and raise where a row could not be added; return the shape of its rows."""
        n_rows = self._begin.n_rows
        dtype = np.dtype(self._index.stats()["dtype"])
        for rows in self.source.rows(self._begin.n_rows):
            shape = _Shape(self._check_width(shape.width, rows), self._check_classes(shape.labels, rows))
            self._check_values(rows, dtype, seen)
            n_rows = rows.first + len(rows.X)
            tell("checking", self.source.name, n_rows, _estimate(self._total, rows))
        self._total = n_rows
        return shape

    def run(self, tell: Progress) -> Added:
        """Add the rows that are not in yet; each chunk is committed with the position after it."""
        position = self._begin
        if not self.source.repeatable:
            self.check_begin(tell)
        for rows in self.source.rows(position.n_rows):
            position = position.after(rows.X)
            source = None if self._name is None else (self._name, position.number)
            try:
                self._index.add(rows.X, rows.y, rows.keys, rows.metadata, source=source)
            except InvalidInput as error:
                before = f" The {rows.first:,} rows before them are in." if rows.first else ""
                raise type(error)(f"{self._span(rows)}: {error}{before}") from error
            tell("adding", self.source.name, position.n_rows, _estimate(self._total, rows))
        return Added(self.source.name, self._begin.n_rows, position.n_rows - self._begin.n_rows)

    def check_begin(self, tell: Progress) -> None:
        """Raise where the rows that are in already are not the first rows of the source any more."""
        found = _Position()
        for rows in self.source.rows(0, self._begin.n_rows) if self._begin.n_rows else ():
            found = found.after(rows.X)
            tell("checking", self.source.name, found.n_rows, _estimate(self._total, rows))
        if found.n_rows < self._begin.n_rows:
            raise self._replaced(f"it has {found.n_rows:,} rows")
        if found != self._begin:
            raise self._replaced("its first rows are others")

    def _replaced(self, how: str) -> InvalidInput:
        return InvalidInput(
            f"{self.source.name} is another file than the one of which {self._begin.n_rows:,} rows are in: {how}. "
            "Put it under another name, or add it from its first row with --again."
        )

    def _check_width(self, width: int | None, rows: Rows) -> int:
        found: int = rows.X.shape[1]
        if width is not None and found != width:
            raise InvalidInput(
                f"{self.source.name}: row {rows.first} has a vector of {found} numbers, and the index has "
                f"vectors of {width}. Say with --vector which columns are the vector, or give a file that fits."
            )
        return found

    def _check_classes(self, before: tuple[int, ...] | None, rows: Rows) -> tuple[int, ...] | None:
        if rows.y is None:
            return before
        found: tuple[int, ...] = rows.y.shape[1:]
        if before is not None and found != before:
            kinds = [
                f"rows of 0 and 1 for {each[0]} classes" if each else "one number each" for each in (before, found)
            ]
            raise InvalidInput(
                f"{self._span(rows)} have other labels ({kinds[1]}) than those before them ({kinds[0]}). "
                "Give files whose labels are of one kind."
            )
        return found

    def _check_values(self, rows: Rows, dtype: np.dtype[Any], seen: _Keys) -> None:
        if dtype.itemsize == 2:
            large = np.flatnonzero(np.abs(rows.X).max(axis=1) > np.finfo(np.float16).max)
            if len(large):
                raise InvalidInput(
                    f"{self.source.name}: row {rows.first + large[0]} does not fit into float16 (at most 65504), "
                    "which this index stores. Scale the vectors, or make an index that stores float32."
                )
        if rows.metadata is not None:
            self._each(rows, rows.metadata, encode_metadata)
        if rows.keys is not None:
            try:
                as_keys(rows.keys, len(rows.keys))
            except InvalidInput:
                self._each(rows, rows.keys, as_keys)
            seen.check(self.source.name, rows.first, rows.keys)

    def _each(self, rows: Rows, values: Sequence[Value], check: Callable[[Value], Any]) -> None:
        for place, value in enumerate(values):
            try:
                check(value)
            except InvalidInput as error:
                raise InvalidInput(f"{self.source.name}: row {rows.first + place}: {error}") from error

    def _span(self, rows: Rows) -> str:
        return f"{self.source.name}: rows {rows.first} to {rows.first + len(rows.X) - 1}"


def _silent(*_: Any) -> None:
    """Tell nobody."""


def _estimate(total: int | None, rows: Rows) -> int | None:
    """Return how many rows there are, where need be by how much of the file the rows so far took."""
    if total is not None or not rows.share:
        return total
    return round((rows.first + len(rows.X)) / rows.share)
