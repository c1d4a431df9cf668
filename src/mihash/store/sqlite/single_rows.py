"""Single stored rows, read without the rest of their segments: what rescoring does.

Where each segment begins is kept in memory, and in which page of the file it is (`segment_pages`). A row is read
from there. That may be out of date, as segments are merged and purged: a row that does not match its checksum is
looked up by SQLite, and checked again.
"""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore
from .checksums import rows_match
from .database import Database
from .segment_heads import HEADS, damaged, has_head_index, ids_of
from .segment_pages import SegmentPages

_SMALL = 128 << 10  # bytes of a segment that SQLite may load as a whole for one row
_PLACE_BITS = 12  # of a row's place in its segment, behind where that begins
_PART = (
    "iif(ids IS NULL AND length(vectors) <= :small, substr(vectors, {place} * :stride + 1, :stride), NULL), "
    "iif(ids IS NULL, substr(checks, {place} * 8 + 1, 8), NULL) FROM json_each(:numbers) AS each "
    "LEFT JOIN segment ON "
)
_AT_PLACES = (
    "SELECT segment.first, "
    + _PART.format(place=f"(each.value & {(1 << _PLACE_BITS) - 1})")
    + f"first = each.value >> {_PLACE_BITS}"
)
_BY_NUMBER = (
    "SELECT segment.first, "
    + _PART.format(place="(each.value - first)")
    + "first = (SELECT max(first) FROM segment WHERE first <= each.value)"
)
_NOWHERE = np.empty(0, dtype=np.int64)
_PATIENCE = 100

Row = tuple[int | None, bytes | None, bytes | None]
"""Where its segment begins, the vector and its checksum; None if that was not found."""


class SingleRows:
    """Reads single rows of the segments of a database.

    Parameters
    ----------
    database
        Where the segments are.
    dtype
        How numbers are stored.
    """

    def __init__(self, database: Database, dtype: np.dtype[Any]) -> None:
        self._database, self._dtype = database, dtype
        self._firsts = _NOWHERE  # where segments begin, as far as is known; replaced, not changed
        self._pages: SegmentPages | None = None
        self._patience = 0  # fetches until the pages are looked for again

    def fetch(self, ids: NDArray[np.int64], n_features: int) -> NDArray[np.float32] | None:
        """Return the vectors of some rows (n, d), reading no more than these; None if one is not there."""
        if not len(ids):
            return np.empty((0, n_features), dtype=np.float32)
        is_sorted = bool((ids[1:] >= ids[:-1]).all())
        wanted = ids if is_sorted else np.sort(ids)
        pages = self._known_pages()
        if pages is None:
            vectors = self._looked_up(wanted, n_features)
        else:
            vectors, matches = pages.fetch(wanted, self._firsts, n_features, self._dtype)
            missing = np.flatnonzero(~matches)
            if len(missing):
                self._patience = _PATIENCE if 4 * len(missing) > len(wanted) else 0
                others = self._looked_up(wanted[missing], n_features)
                if others is None:
                    return None
                vectors[missing] = others
        if vectors is None:
            return None
        if not is_sorted:
            vectors = vectors[np.argsort(np.argsort(ids, kind="stable"), kind="stable")]
        return vectors.astype(np.float32, copy=False)

    def _known_pages(self) -> SegmentPages | None:
        """Return where segments are in the file; None while too many rows were not found there."""
        if self._patience:
            self._patience -= 1
            self._pages = None
        elif self._pages is None:
            with self._database.read() as connection:
                self._known(connection, np.iinfo(np.int64).max)
                self._pages = SegmentPages(self._database.file, connection)
        return self._pages

    def _looked_up(self, wanted: NDArray[np.int64], n_features: int) -> NDArray[Any] | None:
        """Return the vectors of rows, sorted by number, as SQLite finds them; None if one is not there."""
        with self._database.read() as connection:
            found = self._rows(connection, wanted, n_features * self._dtype.itemsize)
            if found is None:
                return None
            vectors = np.frombuffer(b"".join([row[1] for row in found]), dtype=self._dtype).reshape(-1, n_features)  # type: ignore[misc]
            checks = b"".join([row[2] for row in found])  # type: ignore[misc]
        if len(checks) != 8 * len(wanted) or not rows_match(vectors, wanted, checks).all():
            raise CorruptStore(damaged(int(wanted[0])))
        return vectors

    def _rows(self, connection: sqlite3.Connection, wanted: NDArray[np.int64], stride: int) -> list[Row] | None:
        """Return the rows, sorted by number; None if one is not there."""
        firsts = self._known(connection, int(wanted[-1]))
        begins = firsts[np.searchsorted(firsts, wanted, side="right") - 1] if len(firsts) else wanted
        places = wanted - begins
        if len(firsts) and places.min() >= 0 and places.max() >> _PLACE_BITS == 0:
            numbers = (begins << _PLACE_BITS) | places
            found = _asked(connection, _AT_PLACES, numbers, stride)
        else:
            found = [(None, None, None)] * len(wanted)
        missing = [place for place, (_, vector, check) in enumerate(found) if not _is_whole(vector, check, stride)]
        if missing:
            if any(found[place][0] is None for place in missing):
                self._firsts, self._pages = _NOWHERE, None  # segments were merged or purged since
            again = _asked(connection, _BY_NUMBER, wanted[missing], stride)
            for place, row in zip(missing, again, strict=True):
                found[place] = row
                if not _is_whole(row[1], row[2], stride):
                    slow = self._row(connection, row[0], int(wanted[place]), stride)
                    if slow is None:
                        return None
                    found[place] = (row[0], *slow)
        return found

    def _known(self, connection: sqlite3.Connection, last: int) -> NDArray[np.int64]:
        """Return where segments begin, up to that of the newest row; nothing for a file without that index."""
        firsts = self._firsts
        if not len(firsts) or last > int(firsts[-1]):
            if not has_head_index(connection):
                return _NOWHERE
            query = "SELECT first FROM segment INDEXED BY segment_head WHERE first > ? ORDER BY first"
            after = int(firsts[-1]) if len(firsts) else -1
            new = [first for (first,) in connection.execute(query, (after,))]
            if new:
                self._firsts = firsts = np.concatenate([firsts, np.array(new, dtype=np.int64)])
        return firsts

    def _row(
        self, connection: sqlite3.Connection, first: int | None, row: int, stride: int
    ) -> tuple[bytes, bytes] | None:
        """Return vector and checksum of a row of a segment that is large or has gaps; None if it is not there."""
        if first is None:
            return None
        head = connection.execute(f"{HEADS.format(' WHERE first = ?')}", (first,)).fetchone()
        ids = ids_of(*head)
        place = int(np.searchsorted(ids, row))
        if place == len(ids) or ids[place] != row:
            return None
        with (
            connection.blobopen("segment", "vectors", first, readonly=True) as blob,
            connection.blobopen("segment", "checks", first, readonly=True) as seals,
        ):
            if len(blob) != len(ids) * stride or len(seals) != 8 * len(ids):
                raise CorruptStore(damaged(first))
            return _read(blob, place, stride), _read(seals, place, 8)


def _asked(connection: sqlite3.Connection, query: str, numbers: NDArray[np.int64], stride: int) -> list[Row]:
    values = {"numbers": str(numbers.tolist()), "small": _SMALL, "stride": stride}
    return connection.execute(query, values).fetchall()


def _is_whole(vector: bytes | None, check: bytes | None, stride: int) -> bool:
    return vector is not None and check is not None and len(vector) == stride and len(check) == 8


def _read(blob: sqlite3.Blob, row: int, n_bytes: int) -> bytes:
    blob.seek(row * n_bytes)
    return blob.read(n_bytes)
