"""Adding or upserting whole files: checked before the first row is stored, and continued after an interruption.

The position in a source is committed with its rows, with checksums of all that they store. Adding the same source
again continues after the last row that was added. It is an error if the source has changed since, or if rows of it
were deleted.
"""

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput
from ..index.online_index import OnlineIndex
from ..store.keys import Key, as_keys
from ..store.metadata import encode_metadata
from ..store.sqlite.positions import Reading, read_details
from .admission import NewKeys, Shape, check_labels, fitting_labels
from .readers import Rows, Source
from .source_checksums import Contents, Remembered

_OLD = (
    "was added by an earlier mihash, which stored checksums of its vectors only. Changes of its labels and "
    "metadata since then cannot be detected. Their checksums are stored now, too."
)

_ADD, _SKIP = "add", "skip"

Progress = Callable[[str, str, int, int | None], None]
Value = TypeVar("Value")


class Added(NamedTuple):
    """Result of adding one file or stream.

    Attributes
    ----------
    source
        The name of the file or stream.
    before
        Number of its rows that were stored before.
    added
        Number of rows added.
    deleted
        Number of rows that were added before and have been deleted since.
    restored
        Number of these that were added again.
    note
        What could not be checked; empty if everything was.
    """

    source: str
    before: int
    added: int
    deleted: int = 0
    restored: int = 0
    note: str = ""


def name_of(path: str | os.PathLike[str]) -> str:
    """Return the name under which an index stores the position in a file."""
    return f"file:{Path(path).resolve()}"


def ingest(
    index: OnlineIndex,
    sources: Sequence[tuple[Source, str | None]],
    *,
    check: bool = True,
    again: bool = False,
    deleted: str | None = None,
    progress: Progress | None = None,
) -> list[Added]:
    """Add sources to an index; an error in one of them is raised before the first row is added.

    Parameters
    ----------
    index
        The index.
    sources
        Sources, each with the name under which its position is stored (see `name_of`); None stores no position.
    check
        Check all files first. If False, and for streams, chunks before a bad row stay stored.
    again
        Begin at the first row, even if rows were added before.
    deleted
        How to treat rows that were added before and then deleted: ``"add"`` adds them again, ``"skip"`` leaves
        them out; None raises an error if there are any.
    progress
        Called with the stage ("checking" or "adding"), the name of the source, the number of rows so far, and the
        total number of rows or None.

    Examples
    --------
    >>> import tempfile, mihash
    >>> from mihash.io.readers import open_source
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
    if deleted is not None:
        validation.choice("deleted", deleted, (_ADD, _SKIP))
    tell = progress or _silent
    parts = [_Ingest(index, source, name, again, deleted) for source, name in sources]
    check_labels(index, [source for source, _ in sources])
    for part in parts:
        if part.source.repeatable:
            part.check_begin(tell)
    if check:
        _check_all(index, parts, NewKeys(index), tell)
    return [part.run(tell) for part in parts]


class Upserted(NamedTuple):
    """Result of upserting one file: its name, the number of items replaced, and the number of new items."""

    source: str
    replaced: int
    added: int


def upsert(
    index: OnlineIndex, sources: Sequence[Source], *, check: bool = True, progress: Progress | None = None
) -> list[Upserted]:
    """Store the rows of sources under their keys; items with these keys are replaced.

    The index stores no position of the sources: a second call stores every row again, and learns from it again.

    Parameters
    ----------
    index, check, progress
        As for `ingest`.
    sources
        Sources whose rows have keys, each key once.
    """
    tell = progress or _silent
    parts = [_Upsert(index, source, None) for source in sources]
    check_labels(index, sources)
    if check:
        _check_all(index, parts, NewKeys(index, replaces=True), tell)
    return [part.upsert(tell) for part in parts]


def _check_all(index: OnlineIndex, parts: "Sequence[_Ingest]", seen: NewKeys, tell: Progress) -> None:
    """Read every source that can be read again to its end, and raise if a row could not be stored."""
    shape = Shape.of(index)
    for part in parts:
        if part.source.repeatable:
            shape = part.check(shape, seen, tell)
    seen.check_unique()


class _Ingest:
    """One source on its way into an index.

    Parameters
    ----------
    index, source, name, again, deleted
        As for `ingest`.
    """

    def __init__(
        self, index: OnlineIndex, source: Source, name: str | None, again: bool = False, deleted: str | None = None
    ) -> None:
        self._index, self.source, self._name, self._policy = index, source, name, deleted
        self._known = Remembered() if name is None or again else _remembered(index, name)
        self._deletions = int(index._table.setting("tombstones") or 0)
        self._begin = self._known.contents.n_rows
        self._n_gone, self._first_gone = 0, ""
        self._total = source.n_rows
        if self._total is not None and self._total < self._begin:
            raise self._shorter(self._total)

    def check(self, shape: Shape, seen: NewKeys, tell: Progress) -> Shape:
        """Read the source through and raise if a row could not be added; return the shape of its rows."""
        n_rows = self._begin
        dtype = np.dtype(self._index.stats()["dtype"])
        for rows, places in self._deleted() if self._policy == _ADD else ():
            if rows.keys is not None:
                again = _some(rows, places).keys or []
                seen.check(self.source.name, [rows.first + place for place in places], again)
        for rows in self.source.rows(self._begin):
            shape = Shape(self._check_width(shape.width, rows), self._check_classes(shape.labels, rows))
            self._check_values(rows, dtype, seen)
            n_rows = rows.first + len(rows.X)
            tell("checking", self.source.name, n_rows, _estimate(self._total, rows))
        self._total = n_rows
        return shape

    def check_begin(self, tell: Progress) -> None:
        """Raise if the rows added before are no longer the first rows of the source."""
        before, found = self._known.contents, Contents()
        for rows in self.source.rows(0, self._begin) if self._begin else ():
            found = found.after(rows)
            if self._known.deletions != self._deletions:
                self._count_missing(rows)
            tell("checking", self.source.name, found.n_rows, _estimate(self._total, rows))
        if found.n_rows < self._begin:
            raise self._shorter(found.n_rows)
        others = before.differences(found)
        if "vectors" in others:
            raise self._replaced(
                f"its first {self._begin:,} rows are not the {self._begin:,} rows that were added"
            )
        if others and self._known.whole:
            raise self._changed(others)
        if self._n_gone and self._policy not in ((_ADD, _SKIP) if self.source.repeatable else (_SKIP,)):
            raise self._lacking()
        self._known = self._known._replace(contents=found, deletions=None if self._n_gone else self._deletions)

    def run(self, tell: Progress) -> Added:
        """Add the rows that are not stored yet; commit each chunk with the position and checksums after it."""
        if not self.source.repeatable:
            self.check_begin(tell)
        note = "" if self._known.whole else f"{self.source.name} {_OLD}"
        restored = self._restore(tell) if self._n_gone and self._policy == _ADD else 0
        for rows in self.source.rows(self._begin):
            self._check_width(self._index.n_features, rows)
            self._known = self._known._replace(contents=self._known.contents.after(rows))
            self._add(rows, range(len(rows.X)))
            tell("adding", self.source.name, self._known.contents.n_rows, _estimate(self._total, rows))
        added = self._known.contents.n_rows - self._begin
        if note and not added and not restored:
            self._add(Rows(self._begin, np.empty((0, self._index.n_features or 0), dtype=np.float32)), ())
        return Added(self.source.name, self._begin - self._n_gone, added, self._n_gone, restored, note)

    def _restore(self, tell: Progress) -> int:
        """Add the rows again that were deleted since they were added; return how many."""
        n = 0
        for rows, places in self._deleted():
            self._add(rows, places)
            n += len(places)
            tell("adding", self.source.name, n, self._n_gone)
        self._known = self._known._replace(deletions=self._deletions)
        return n

    def _deleted(self) -> Iterator[tuple[Rows, list[int]]]:
        """Yield the chunks that have rows which were added and are not stored now, with the places of those."""
        for rows in self.source.rows(0, self._begin) if self._n_gone else ():
            places = np.flatnonzero(self._missing(rows)).tolist()
            if places:
                yield rows, places

    def _missing(self, rows: Rows) -> NDArray[np.bool_]:
        """Tell which rows that were added are not stored now."""
        if rows.keys is not None:
            return ~self._index.contains(self._checked_keys(rows, rows.keys))
        numbers = self._known.numbers.of(rows.first, len(rows.X))
        missing: NDArray[np.bool_] = (numbers >= 0) & ~self._index.contains(numbers)
        return missing

    def _count_missing(self, rows: Rows) -> None:
        places = np.flatnonzero(self._missing(rows)).tolist()
        if places and not self._n_gone:
            keys = self._known.numbers.of(rows.first, len(rows.X)).tolist() if rows.keys is None else rows.keys
            self._first_gone = f"row {rows.first + places[0]}, key {keys[places[0]]!r}"
        self._n_gone += len(places)

    def _add(self, rows: Rows, places: Sequence[int]) -> None:
        """Store rows of a chunk, with the position in the source and its checksums."""
        chosen = rows if len(places) == len(rows.X) else _some(rows, places)
        source = None
        if self._name is not None:
            source = Reading(
                self._name, self._known.contents.position, lambda keys: self._noted(rows, places, keys)
            )
        with self._placed(rows):
            labels = fitting_labels(self._index, chosen.y)
            self._index.add(chosen.X, labels, chosen.keys, chosen.metadata, source=source)

    @contextmanager
    def _placed(self, rows: Rows) -> Iterator[None]:
        """Name the rows in an error about them."""
        try:
            yield
        except InvalidInput as error:
            before = f" The {rows.first:,} rows before them are stored." if rows.first else ""
            raise type(error)(f"{self._span(rows)}: {error}{before}") from error

    def _noted(self, rows: Rows, places: Sequence[int], keys: Sequence[Key]) -> str:
        """Return the details to store with rows of a chunk, given their keys."""
        if rows.keys is None and len(places):
            numbers = self._known.numbers.of(rows.first, len(rows.X))
            numbers[list(places)] = keys
            self._known = self._known._replace(numbers=self._known.numbers.replaced(rows.first, numbers.tolist()))
        return self._known.details

    def _replaced(self, how: str) -> InvalidInput:
        return InvalidInput(
            f"{self.source.name} has changed: {how}. To replace rows by their keys, use `upsert`. To add the file "
            "as a new one, give it another name, or add it from its first row with `again=True`."
        )

    def _shorter(self, n_rows: int) -> InvalidInput:
        return self._replaced(f"it has {n_rows:,} rows, and {self._begin:,} rows of it were added")

    def _changed(self, others: Sequence[str]) -> InvalidInput:
        return InvalidInput(
            f"{self.source.name}: the {self._begin:,} rows already added had other {' and '.join(others)}. Name "
            "the same columns as before. If the rows have keys, `upsert` stores them as they are now."
        )

    def _lacking(self) -> InvalidInput:
        again = '`deleted="add"` to add them again, or ' if self.source.repeatable else ""
        why = "" if self._known.whole else " (or had other keys when an earlier mihash added them)"
        return InvalidInput(
            f"{self.source.name}: {self._n_gone:,} of the {self._begin:,} rows that were added were deleted "
            f'since{why}, first {self._first_gone}. Pass {again}`deleted="skip"` to leave them out.'
        )

    def _check_width(self, width: int | None, rows: Rows) -> int:
        found: int = rows.X.shape[1]
        if width is not None and found != width:
            raise InvalidInput(
                f"{self.source.name}: row {rows.first} has a vector of {found} numbers, and the index has "
                f"vectors of {width}. Name the vector columns with `vector`, or use a file of that width."
            )
        return found

    def _check_classes(self, before: tuple[int, ...] | None, rows: Rows) -> tuple[int, ...] | None:
        if rows.y is None or np.ma.getmaskarray(rows.y).all():
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

    def _check_values(self, rows: Rows, dtype: np.dtype[Any], seen: NewKeys) -> None:
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
            numbers = range(rows.first, rows.first + len(rows.X))
            seen.check(self.source.name, numbers, self._checked_keys(rows, rows.keys))

    def _checked_keys(self, rows: Rows, keys: Sequence[Key]) -> list[Key]:
        try:
            return as_keys(list(keys), len(keys))
        except InvalidInput:
            self._each(rows, keys, as_keys)
            raise

    def _each(self, rows: Rows, values: Sequence[Value], check: Callable[[Value], Any]) -> None:
        for place, value in enumerate(values):
            try:
                check(value)
            except InvalidInput as error:
                raise InvalidInput(f"{self.source.name}: row {rows.first + place}: {error}") from error

    def _span(self, rows: Rows) -> str:
        return f"{self.source.name}: rows {rows.first} to {rows.first + len(rows.X) - 1}"


class _Upsert(_Ingest):
    """One source whose rows replace what their keys have."""

    def upsert(self, tell: Progress) -> Upserted:
        """Store every row; each chunk is one transaction."""
        n_before, n_rows = len(self._index), 0
        for rows in self.source.rows(0):
            self._check_keyed(rows)
            self._check_width(self._index.n_features, rows)
            with self._placed(rows):
                labels = fitting_labels(self._index, rows.y)
                self._index.upsert(rows.X, rows.keys or [], labels, rows.metadata)
            n_rows = rows.first + len(rows.X)
            tell("upserting", self.source.name, n_rows, _estimate(self._total, rows))
        n_new = len(self._index) - n_before
        return Upserted(self.source.name, n_rows - n_new, n_new)

    def _check_values(self, rows: Rows, dtype: np.dtype[Any], seen: NewKeys) -> None:
        self._check_keyed(rows)
        super()._check_values(rows, dtype, seen)

    def _check_keyed(self, rows: Rows) -> None:
        if rows.keys is None:
            raise InvalidInput(f"{self.source.name} has no keys: name the key column with `key`.")


def _remembered(index: OnlineIndex, name: str) -> Remembered:
    with index._table.database.read() as connection:
        return Remembered.of(index.position(name), read_details(connection, name))


def _some(rows: Rows, places: Sequence[int]) -> Rows:
    """Return some rows of a chunk."""
    chosen = list(places)
    return rows._replace(
        X=rows.X[chosen],
        y=None if rows.y is None else rows.y[chosen],
        keys=None if rows.keys is None else [rows.keys[place] for place in chosen],
        metadata=None if rows.metadata is None else [rows.metadata[place] for place in chosen],
    )


def _silent(*_: Any) -> None:
    """Do nothing: the default of `progress`."""


def _estimate(total: int | None, rows: Rows) -> int | None:
    """Return the total number of rows; if it is unknown, estimate it from the share of the file read so far."""
    if total is not None or not rows.share:
        return total
    return round((rows.first + len(rows.X)) / rows.share)
