"""The stored vectors: rows in the order of their sequence numbers, in blobs that fill a page of the file.

A segment holds consecutive rows of the stream with their labels; purging deleted rows leaves gaps, and then the
ids are stored with it. Every row has a checksum of its own, so one can be read and checked without its segment.

A segment fills one page where four rows or more go into it: then SQLite finds a row in the page, and copies
nothing but the row. Wider rows are in blobs of about 48 KiB. A scan reads and checks thousands of rows at a time.
Files of format 1 have segments of up to 4,096 rows, which makes reading single rows slow; `compact` splits them.
"""

import hashlib
import sqlite3
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, InvalidInput
from ...validation import missing_rows
from .checksums import row_checks, rows_match
from .database import PAGE_BYTES, Database
from .segment_heads import HEADS, damaged, has_head_index, head_of, ids_of, unpacked_ids
from .single_rows import SingleRows

SEGMENT_ROWS = 4096
SCAN_ROWS = 2048
SCAN_BYTES = 64 << 20
_CHAIN_BYTES = 48 << 10  # of a segment of wide rows, which is a chain of pages
_ROW_EXTRA, _SEGMENT_EXTRA = 16, 160  # bytes of a row's checksum and label, and of all that a segment has once
_FEWEST = 4  # rows in a segment of one page: with fewer, a good part of the page could be empty
_COLUMNS = "first, last, n, ids, head, labels, digest, checks, vectors"
_ONE = f"SELECT {_COLUMNS} FROM segment WHERE first = ?"
_AFTER = "last > ? AND first >= coalesce((SELECT max(first) FROM segment WHERE first <= ?), 0)"
_INSERT = f"INSERT INTO segment ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"

LabelKind = tuple[str, int]


def rows_at_most(row_bytes: int) -> int:
    """Return how many rows of ``row_bytes`` a segment holds: as many as fill a page, or 48 KiB of wide rows.

    Examples
    --------
    >>> rows_at_most(4 * 128), rows_at_most(4 * 384), rows_at_most(4 * 1024), rows_at_most(10**9)
    (30, 10, 12, 1)
    """
    fitting = (PAGE_BYTES - _SEGMENT_EXTRA) // (row_bytes + _ROW_EXTRA)
    if fitting < _FEWEST:
        fitting = max(1, _CHAIN_BYTES // row_bytes)
    return min(SEGMENT_ROWS, fitting)


def kind_of(labels: NDArray[Any]) -> LabelKind:
    """Return how labels are stored: their type, and the number of classes of a 0/1 matrix or 0."""
    return labels.dtype.name, labels.shape[1] if labels.ndim == 2 else 0


@dataclass(frozen=True)
class Segment:
    """Consecutive rows.

    Attributes
    ----------
    ids
        Their sequence numbers, increasing.
    vectors
        The vectors (n, d) in the type they are stored in.
    labels
        Class labels (n,), a 0/1 matrix, or None if there are none.
    """

    ids: NDArray[np.int64]
    vectors: NDArray[Any]
    labels: NDArray[Any] | None

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self.ids)

    @property
    def features(self) -> NDArray[np.float32]:
        """The vectors as float32."""
        return self.vectors.astype(np.float32, copy=False)

    def part(self, keep: slice | NDArray[np.bool_] | NDArray[np.int64]) -> "Segment":
        """Return some of the rows."""
        labels = None if self.labels is None else self.labels[keep]
        return Segment(self.ids[keep], self.vectors[keep], labels)


class Segments:
    """The segments of a database.

    Parameters
    ----------
    database
        Where they are.
    dtype
        How numbers are stored: ``"float32"`` or ``"float16"``.
    """

    def __init__(self, database: Database, dtype: str) -> None:
        self._database = database
        self._dtype = np.dtype(dtype).newbyteorder("<")
        self._single = SingleRows(database, self._dtype)

    def cast(self, X: NDArray[np.float32]) -> NDArray[Any]:
        """Return vectors as they are stored, or raise if they do not fit."""
        if self._dtype.itemsize == 4:
            return X
        with np.errstate(over="ignore"):
            small = X.astype(self._dtype)
        bad = np.flatnonzero(~np.isfinite(small).all(axis=1))
        if len(bad):
            raise InvalidInput(
                f"`X` must fit into float16 (at most 65504); row {bad[0]} does not. Scale it, or store float32."
            )
        return small

    def append(self, connection: sqlite3.Connection, segment: Segment) -> None:
        """Store rows inside a transaction, cut into segments."""
        _insert(connection, segment, self._rows(segment.vectors.shape[1]))

    def _rows(self, n_features: int) -> int:
        """Return how many rows a segment holds at most."""
        return rows_at_most(n_features * self._dtype.itemsize)

    def after(self, last: int, kind: LabelKind | None, n_features: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number, some thousands in each short transaction."""
        query = f"SELECT {_COLUMNS} FROM segment WHERE {_AFTER} ORDER BY first"
        while True:
            with self._database.read() as connection:
                rows = _batch(connection.execute(query, (last, last)))
                if not rows:
                    return
                segment = self._decode(rows, kind, n_features)
            if segment.ids[0] <= last:
                segment = segment.part(segment.ids > last)
            last = int(segment.ids[-1])
            yield segment

    def fetch(self, ids: NDArray[np.int64], n_features: int) -> NDArray[np.float32] | None:
        """Return the vectors of some rows (n, d), reading no more than these; None if one is not there."""
        return self._single.fetch(ids, n_features)

    def labels_of(self, ids: NDArray[np.int64], kind: LabelKind) -> list[Any]:
        """Return the labels of stored rows (sorted), None for those that have none."""
        found: list[Any] = []
        with self._database.read() as connection:
            while len(found) < len(ids):
                row = int(ids[len(found)])
                holder = "first = (SELECT max(first) FROM segment WHERE first <= ?)"
                ((stored, labels),) = _labelled(connection, kind, holder, row)
                mine = ids[len(found) : int(np.searchsorted(ids, stored[-1], side="right"))]
                places = np.searchsorted(stored, mine)
                if not len(mine) or (places >= len(stored)).any() or (stored[places] != mine).any():
                    raise CorruptStore(damaged(int(stored[0])))
                found += [None] * len(mine) if labels is None else _known(labels[places])
        return found

    def labels_after(self, last: int, kind: LabelKind) -> tuple[NDArray[np.int64], NDArray[Any]]:
        """Return the ids and the labels of the rows after a sequence number that have labels."""
        dtype, n_classes = kind
        ids, labels = [np.empty(0, dtype=np.int64)], [np.empty((0, n_classes) if n_classes else 0, dtype=dtype)]
        with self._database.read() as connection:
            for stored, own in _labelled(connection, kind, f"{_AFTER} AND labels IS NOT NULL", last, last):
                if own is not None:
                    ids.append(stored)
                    labels.append(own)
        found, known = np.concatenate(ids), np.concatenate(labels)
        kept = (found > last) & ~missing_rows(known)
        return found[kept], known[kept]

    def merge(
        self,
        connection: sqlite3.Connection,
        kind: LabelKind | None,
        n_features: int,
        after: int = -1,
        full: bool = False,
    ) -> int:
        """Put small neighbouring segments together, up to what one may hold; return the row where the last begins.

        Only segments from row ``after`` on are looked at. With ``full`` they are cut anew, so that all but the
        last are full. That is for rows that come in parts of odd sizes, and for segments that are too large.
        """
        run: list[int] = []
        size, bare, most, newest = 0, False, self._rows(n_features), after
        query = "SELECT first, n, labels IS NULL FROM segment WHERE first >= ? ORDER BY first"
        for first, n, unlabelled in connection.execute(query, (after,)).fetchall():
            if bare != unlabelled or (n == most if full else size + n > most):
                self._join(connection, run, kind, n_features)
                run, size, bare = [], 0, unlabelled
            newest = first
            if n != most or not full:
                run.append(first)
                size += n
            if full and size >= most:
                newest = self._join(connection, run, kind, n_features, cut=size > most)
                size %= most
                run = [newest] if size else []
        return self._join(connection, run, kind, n_features) if run else newest

    def purge(
        self, connection: sqlite3.Connection, dead: NDArray[np.int64], kind: LabelKind | None, n_features: int
    ) -> None:
        """Remove rows by their ids (sorted) inside a transaction."""
        firsts = _firsts(connection)
        touched = np.unique(np.searchsorted(firsts, dead, side="right") - 1)
        for index in touched.tolist():
            segment = self._taken(connection, firsts[index], kind, n_features)
            rest = segment.part(~np.isin(segment.ids, dead))
            if len(rest):
                _insert(connection, rest, len(rest))

    def ids(self, connection: sqlite3.Connection) -> NDArray[np.int64]:
        """Return the sequence numbers of all rows."""
        indexed = " INDEXED BY segment_head" if has_head_index(connection) else ""  # the table has the vectors
        query = HEADS.format(indexed)
        parts = [ids_of(*row) for row in connection.execute(query)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def each(self, kind: LabelKind | None, n_features: int) -> Iterator[Segment | CorruptStore]:
        """Yield every row, some thousands at a time, or what is wrong with a segment."""
        with self._database.read() as connection:
            firsts = _firsts(connection)
        size = max(1, SCAN_ROWS // self._rows(n_features)) if n_features else 1
        for start in range(0, len(firsts), size):
            some = firsts[start : start + size]
            try:
                yield from self._several(some, kind, n_features)
            except CorruptStore:
                for first in some:
                    try:
                        yield from self._several([first], kind, n_features)
                    except CorruptStore as error:
                        yield error

    def _several(self, firsts: list[int], kind: LabelKind | None, n_features: int) -> list[Segment]:
        """Return the rows of some segments, those that were merged meanwhile left out."""
        with self._database.read() as connection:
            found = [connection.execute(_ONE, (first,)).fetchone() for first in firsts]
        groups = groupby((row for row in found if row is not None), key=lambda row: row[5] is None)
        return [self._decode(list(rows), kind, n_features) for _, rows in groups]

    def _join(
        self,
        connection: sqlite3.Connection,
        run: list[int],
        kind: LabelKind | None,
        n_features: int,
        cut: bool = False,
    ) -> int:
        """Put segments together and cut them where they are full; return the first row of the last piece.

        One alone stays as it is, unless it is to be ``cut``.
        """
        if len(run) < 2 and not cut:
            return run[0] if run else -1
        parts = [self._taken(connection, first, kind, n_features) for first in run]
        labels = [part.labels for part in parts if part.labels is not None]
        joined = Segment(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.vectors for part in parts]),
            np.concatenate(labels) if labels else None,
        )
        self.append(connection, joined)
        most = self._rows(n_features)
        return int(joined.ids[(len(joined) - 1) // most * most])

    def _taken(
        self, connection: sqlite3.Connection, first: int, kind: LabelKind | None, n_features: int
    ) -> Segment:
        """Remove a segment and return its rows."""
        row = connection.execute(_ONE, (first,)).fetchone()
        if row is None:  # its head is there, and it is not
            raise CorruptStore(damaged(first))
        segment = self._decode([row], kind, n_features)
        connection.execute("DELETE FROM segment WHERE first = ?", (first,))
        return segment

    def _decode(self, rows: list[tuple[Any, ...]], kind: LabelKind | None, n_features: int) -> Segment:
        """Return the rows of segments that follow each other, all with labels or all without."""
        try:
            return self._decoded(rows, kind, n_features)
        except (TypeError, ValueError, IndexError, OverflowError) as error:  # a value of another type, or length
            raise CorruptStore(damaged(rows[0][0])) from error

    def _decoded(self, rows: list[tuple[Any, ...]], kind: LabelKind | None, n_features: int) -> Segment:
        """Decode rows: the checksum of a row covers its number and vector, the digest of a segment its labels."""
        stride = n_features * self._dtype.itemsize
        for first, _, n, packed, head, labels, digest, checks, blob in rows:
            if len(blob) != n * stride or len(checks) != 8 * n or (packed is not None and len(packed) != 8 * n):
                raise CorruptStore(damaged(first))
            if kind is not None and digest != _digest(head, labels, checks):
                raise CorruptStore(damaged(first))
        ids = _ids_in(rows)
        vectors = np.frombuffer(b"".join([row[8] for row in rows]), dtype=self._dtype).reshape(
            len(ids), n_features
        )
        wrong = ~rows_match(vectors, ids, b"".join([row[7] for row in rows]))
        if wrong.any():
            place = np.searchsorted([row[0] for row in rows], ids[np.flatnonzero(wrong)[0]], side="right") - 1
            raise CorruptStore(damaged(rows[max(place, 0)][0]))
        if kind is None or rows[0][5] is None:
            return Segment(ids, vectors, None)
        return Segment(ids, vectors, np.concatenate([_labels(row[5], row[2], kind) for row in rows]))


def _ids_in(rows: list[tuple[Any, ...]]) -> NDArray[np.int64]:
    """Return the ids of the rows of segments; they increase, and end where the segments say."""
    sizes = [row[2] for row in rows]
    first, last = rows[0][0], rows[-1][1]
    if last - first + 1 == sum(sizes):
        ids = np.arange(first, last + 1)
    else:
        ids = np.concatenate([unpacked_ids(row[0], row[2], row[3]) for row in rows])
    ends = np.cumsum(sizes)
    begins = ids[ends - sizes] == [row[0] for row in rows]
    if not (begins.all() and (ids[ends - 1] == [row[1] for row in rows]).all() and (np.diff(ids) > 0).all()):
        raise CorruptStore(damaged(first))
    return ids


def _batch(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Take segments that follow each other until they make a batch; all of them have labels, or none has."""
    found: list[tuple[Any, ...]] = []
    n_rows = n_bytes = 0
    for row in rows:
        if found and (row[5] is None) != (found[0][5] is None):
            break
        found.append(row)
        n_rows, n_bytes = n_rows + row[2], n_bytes + len(row[8])
        if n_rows >= SCAN_ROWS or n_bytes >= SCAN_BYTES:
            break
    return found


def _firsts(connection: sqlite3.Connection) -> list[int]:
    return [first for (first,) in connection.execute("SELECT first FROM segment ORDER BY first").fetchall()]


def _insert(connection: sqlite3.Connection, segment: Segment, size: int) -> None:
    """Store rows, ``size`` in a segment."""
    if len(segment):
        connection.executemany(_INSERT, _records(segment, size))


def _records(segment: Segment, size: int) -> Iterator[tuple[Any, ...]]:
    """Yield what is stored of each segment that rows are cut into: the values of `_COLUMNS`."""
    ids, n = segment.ids, len(segment)
    vectors = np.ascontiguousarray(segment.vectors)
    checks = row_checks(vectors, ids).astype("<u8", copy=False).tobytes()
    labels, label_bytes = None, 0
    if segment.labels is not None:
        labels = np.ascontiguousarray(segment.labels).astype(segment.labels.dtype.newbyteorder("<")).tobytes()
        label_bytes = len(labels) // n
    blob = vectors.data.cast("B")
    row_bytes = len(blob) // n
    for start in range(0, n, size):
        stop = min(start + size, n)
        first, last = int(ids[start]), int(ids[stop - 1])
        packed = None if last - first + 1 == stop - start else ids[start:stop].astype("<i8").tobytes()
        own = None if labels is None else labels[start * label_bytes : stop * label_bytes]
        head, seals = head_of(first, last, stop - start, packed), checks[8 * start : 8 * stop]
        yield (
            first, last, stop - start, packed, head, own, _digest(head, own, seals), seals,
            blob[start * row_bytes : stop * row_bytes],
        )  # fmt: skip


def _digest(head: bytes, labels: bytes | None, checks: bytes) -> bytes:
    digest = hashlib.blake2b(head + str(labels is None).encode(), digest_size=16)
    digest.update(labels or b"")
    digest.update(checks)
    return digest.digest()


def _labelled(
    connection: sqlite3.Connection, kind: LabelKind, where: str, *parameters: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[Any] | None]]:
    """Yield the ids and the labels, None without, of the segments that match, in order; vectors are not read."""
    query = f"SELECT first, last, n, ids, head, labels, digest, checks FROM segment WHERE {where} ORDER BY first"
    for first, last, n, packed, head, blob, digest, checks in connection.execute(query, parameters):
        if digest != _digest(head, blob, checks):
            raise CorruptStore(damaged(first))
        yield ids_of(first, last, n, packed, head), None if blob is None else _labels(blob, n, kind)


def _labels(blob: bytes, n: int, kind: LabelKind) -> NDArray[Any]:
    dtype, n_classes = kind
    labels: NDArray[Any] = np.frombuffer(blob, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)
    return labels.reshape(n, n_classes) if n_classes else labels


def _known(labels: NDArray[Any]) -> list[Any]:
    """Return labels as a list, None for those that are missing."""
    missing = missing_rows(labels).tolist()
    return [None if gone else label for label, gone in zip(labels, missing, strict=True)]
