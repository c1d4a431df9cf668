"""The stored vectors: rows in the order of their sequence numbers, in blobs of at most 4,096 rows and 64 MiB.

A segment holds consecutive rows of the stream with their labels; purging deleted rows leaves gaps, and then the
ids are stored with it. Every row has a checksum of its own, so one can be read and checked without its segment.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, InvalidInput
from .checksum import row_checks
from .database import Database

SEGMENT_ROWS = 4096
SEGMENT_BYTES = 64 << 20  # SQLite takes 10^9 bytes in one row
_COLUMNS = "first, last, n, ids, head, labels, digest, checks, vectors"
_ONE = f"SELECT {_COLUMNS} FROM segment WHERE first = ?"

LabelKind = tuple[str, int]


def rows_at_most(row_bytes: int) -> int:
    """Return how many rows of so many bytes a segment holds: a power of two, at most 4,096.

    Examples
    --------
    >>> rows_at_most(4 * 128), rows_at_most(4 * 62_000), rows_at_most(10**9)
    (4096, 256, 1)
    """
    fitting = max(1, SEGMENT_BYTES // max(1, row_bytes))
    return min(SEGMENT_ROWS, 1 << (fitting.bit_length() - 1))


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
        Class labels (n,), a 0/1 matrix, or None where there are none.
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

    def cast(self, X: NDArray[np.float32]) -> NDArray[Any]:
        """Return vectors as they are stored, or raise where they do not fit."""
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
        size = self._rows(segment.vectors.shape[1])
        for start in range(0, len(segment), size):
            _insert(connection, segment.part(slice(start, start + size)))

    def _rows(self, n_features: int) -> int:
        """Return how many rows a segment holds at most."""
        return rows_at_most(n_features * self._dtype.itemsize)

    def after(self, last: int, kind: LabelKind | None, n_features: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number, one segment in each short transaction."""
        query = (
            f"SELECT {_COLUMNS} FROM segment WHERE last > ? AND first >= "
            "coalesce((SELECT max(first) FROM segment WHERE first <= ?), 0) ORDER BY first LIMIT 1"
        )
        while True:
            with self._database.read() as connection:
                row = connection.execute(query, (last, last)).fetchone()
                if row is None:
                    return
                segment = self._decode(row, kind, n_features)
            if segment.ids[0] <= last:
                segment = segment.part(segment.ids > last)
            last = int(segment.ids[-1])
            yield segment

    def fetch(self, ids: NDArray[np.int64], n_features: int) -> NDArray[np.float32] | None:
        """Return the vectors of some rows (n, d), reading no more than these; None where one is not there."""
        vectors = np.empty((len(ids), n_features), dtype=self._dtype)
        checks = np.empty(len(ids), dtype="<u8")
        order = np.argsort(ids, kind="stable")
        with self._database.read() as connection:
            at = 0
            while at < len(order):
                found = connection.execute(
                    "SELECT first, last, n, ids, head FROM segment WHERE first <= ? ORDER BY first DESC LIMIT 1",
                    (int(ids[order[at]]),),
                ).fetchone()
                if found is None:
                    return None
                first, last, n, packed = found[:4]
                _ids_of(*found)
                end = at + int(np.searchsorted(ids[order[at:]], last, side="right"))
                wanted = order[at:end]
                if not len(wanted):
                    return None
                rows = _rows_of(ids[wanted], first, n, packed)
                if rows is None:
                    return None
                stride = n_features * self._dtype.itemsize
                with (
                    connection.blobopen("segment", "vectors", first, readonly=True) as blob,
                    connection.blobopen("segment", "checks", first, readonly=True) as seals,
                ):
                    if len(blob) != n * stride or len(seals) != 8 * n:
                        raise CorruptStore(_damaged(first))
                    for place, row in zip(wanted.tolist(), rows.tolist(), strict=True):
                        vectors[place] = np.frombuffer(_read(blob, row, stride), dtype=self._dtype)
                        checks[place] = int.from_bytes(_read(seals, row, 8), "little")
                at = end
        if not (row_checks(vectors, ids) == checks).all():
            raise CorruptStore(_damaged(int(ids[0])))
        return vectors.astype(np.float32, copy=False)

    def labels_of(self, ids: NDArray[np.int64], kind: LabelKind) -> list[Any]:
        """Return the labels of stored rows (sorted), None for those that have none."""
        query = (
            "SELECT first, last, n, ids, head, labels, digest, checks FROM segment WHERE first <= ? "
            "ORDER BY first DESC LIMIT 1"
        )
        found: list[Any] = []
        with self._database.read() as connection:
            while len(found) < len(ids):
                row = int(ids[len(found)])
                first, last, n, packed, head, blob, digest, checks = connection.execute(query, (row,)).fetchone()
                stored = _ids_of(first, last, n, packed, head)
                if digest != _digest(head, blob, checks):
                    raise CorruptStore(_damaged(first))
                labels = None if blob is None else _labels(blob, n, kind)
                mine = ids[len(found) : int(np.searchsorted(ids, last, side="right"))]
                places = np.searchsorted(stored, mine)
                if not len(mine) or (places >= n).any() or (stored[places] != mine).any():
                    raise CorruptStore(_damaged(first))
                found += [None] * len(mine) if labels is None else list(labels[places])
        return found

    def merge(
        self, connection: sqlite3.Connection, kind: LabelKind | None, n_features: int, full: bool = False
    ) -> None:
        """Put small neighbouring segments together, up to what one may hold.

        With ``full`` they are cut anew, so that all but the last are full. That is for rows that come in parts of
        odd sizes: codes are made in blocks, and each segment may end in half a block.
        """
        run: list[int] = []
        size, bare, most = 0, False, self._rows(n_features)
        headers = connection.execute("SELECT first, n, labels IS NULL FROM segment ORDER BY first").fetchall()
        for first, n, unlabelled in headers:
            if bare != unlabelled or (n >= most if full else size + n > most):
                self._join(connection, run, kind, n_features)
                run, size, bare = [], 0, unlabelled
            if n < most or not full:
                run.append(first)
                size += n
            if full and size >= most:
                rest = self._join(connection, run, kind, n_features)
                size -= most
                run = [rest] if size else []
        self._join(connection, run, kind, n_features)

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
                _insert(connection, rest)

    def ids(self, connection: sqlite3.Connection) -> NDArray[np.int64]:
        """Return the sequence numbers of all rows."""
        query = "SELECT first, last, n, ids, head FROM segment ORDER BY first"
        parts = [_ids_of(*row) for row in connection.execute(query)]
        return np.concatenate(parts) if parts else np.empty(0, dtype=np.int64)

    def each(self, kind: LabelKind | None, n_features: int) -> Iterator[Segment | CorruptStore]:
        """Yield every segment, or what is wrong with it."""
        with self._database.read() as connection:
            firsts = _firsts(connection)
        for first in firsts:
            try:
                with self._database.read() as connection:
                    row = connection.execute(_ONE, (first,)).fetchone()
                if row is not None:  # else it was merged meanwhile
                    yield self._decode(row, kind, n_features)
            except CorruptStore as error:
                yield error

    def _join(
        self, connection: sqlite3.Connection, run: list[int], kind: LabelKind | None, n_features: int
    ) -> int:
        """Put segments together and cut them where they are full; return the first row of the last piece."""
        if len(run) < 2:
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
        segment = self._decode(connection.execute(_ONE, (first,)).fetchone(), kind, n_features)
        connection.execute("DELETE FROM segment WHERE first = ?", (first,))
        return segment

    def _decode(self, row: tuple[Any, ...], kind: LabelKind | None, n_features: int) -> Segment:
        first, last, n, packed, head, labels, digest, checks, blob = row
        ids = _ids_of(first, last, n, packed, head)
        sizes_right = len(blob) == n * n_features * self._dtype.itemsize and len(checks) == 8 * n
        if not sizes_right or digest != _digest(head, labels, checks):
            raise CorruptStore(_damaged(first))
        vectors = np.frombuffer(blob, dtype=self._dtype).reshape(n, n_features)
        if not (row_checks(vectors, ids) == np.frombuffer(checks, dtype="<u8")).all():
            raise CorruptStore(_damaged(first))
        return Segment(ids, vectors, None if labels is None or kind is None else _labels(labels, n, kind))


def _firsts(connection: sqlite3.Connection) -> list[int]:
    return [first for (first,) in connection.execute("SELECT first FROM segment ORDER BY first").fetchall()]


def _insert(connection: sqlite3.Connection, segment: Segment) -> None:
    first, last, n = int(segment.ids[0]), int(segment.ids[-1]), len(segment)
    packed = None if last - first + 1 == n else segment.ids.astype("<i8").tobytes()
    labels = None
    if segment.labels is not None:
        labels = np.ascontiguousarray(segment.labels).astype(segment.labels.dtype.newbyteorder("<")).tobytes()
    checks = row_checks(segment.vectors, segment.ids).astype("<u8").tobytes()
    head = _head(first, last, n, packed)
    blob = np.ascontiguousarray(segment.vectors).data.cast("B")
    connection.execute(
        f"INSERT INTO segment ({_COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (first, last, n, packed, head, labels, _digest(head, labels, checks), checks, blob),
    )


def _head(first: int, last: int, n: int, packed: bytes | None) -> bytes:
    header = f"{first} {last} {n} {packed is None}".encode()
    return hashlib.blake2b(header + (packed or b""), digest_size=16).digest()


def _digest(head: bytes, labels: bytes | None, checks: bytes) -> bytes:
    digest = hashlib.blake2b(head + str(labels is None).encode(), digest_size=16)
    digest.update(labels or b"")
    digest.update(checks)
    return digest.digest()


def _ids_of(first: int, last: int, n: int, packed: bytes | None, head: bytes) -> NDArray[np.int64]:
    """Return the ids of a segment's rows, or raise where its header is damaged."""
    if head != _head(first, last, n, packed):
        raise CorruptStore(_damaged(first))
    if packed is None:
        return np.arange(first, first + n)
    return np.frombuffer(packed, dtype="<i8").astype(np.int64)


def _labels(blob: bytes, n: int, kind: LabelKind) -> NDArray[Any]:
    dtype, n_classes = kind
    labels: NDArray[Any] = np.frombuffer(blob, dtype=np.dtype(dtype).newbyteorder("<")).astype(dtype)
    return labels.reshape(n, n_classes) if n_classes else labels


def _rows_of(ids: NDArray[np.int64], first: int, n: int, packed: bytes | None) -> NDArray[np.int64] | None:
    """Return where ids stand in a segment, None if one is not in it."""
    if packed is None:
        rows = ids - first
        return rows if (rows < n).all() else None
    stored = np.frombuffer(packed, dtype="<i8")
    rows = np.searchsorted(stored, ids)
    if (rows >= n).any() or (stored[rows] != ids).any():
        return None
    return rows


def _read(blob: sqlite3.Blob, row: int, n_bytes: int) -> bytes:
    blob.seek(row * n_bytes)
    return blob.read(n_bytes)


def _damaged(first: int) -> str:
    return f"Stored vectors near row {first} are damaged: their checksum is wrong. Use a backup."
