"""In which page of the file each segment is: a row is read there without SQLite, and checked by its checksum.

A segment of narrow rows fills a page of its own (`segments`). Its vectors end where the page ends, and its
checksums are in front of them. For one row SQLite reads the page, 16 KiB; here the row is read alone. The numbers
of the pages come from the interior pages of the table (sqlite.org/fileformat2.html, Sec. 1.6).

All of this may be wrong: pages are in the log first, they move when rows are purged, and a byte may be damaged.
But a row never changes while it has its number, and its checksum is of both. So what matches its checksum is the
row; what does not match is left to SQLite.
"""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...kernels import jit
from .checksums import rows_match
from .database import PAGE_BYTES
from .file_reads import FileReads

_INTERIOR = b"\5"  # the kind of an interior page of a table
_HEAD = 12  # bytes before the places of its cells
_DEEPEST = 8

Numbers = NDArray[np.int64]


class SegmentPages:
    """The pages of the segments of a database, as far as its file has them.

    Parameters
    ----------
    file
        The file.
    connection
        A connection to it.
    """

    def __init__(self, file: FileReads, connection: sqlite3.Connection) -> None:
        self._file = file
        (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'segment'").fetchone()
        self.pages, self.ends = _leaves(file, root) if page_bytes == PAGE_BYTES else _NOTHING

    def fetch(
        self, ids: Numbers, firsts: Numbers, n_features: int, dtype: np.dtype[Any]
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]:
        """Return the vectors of rows (n, d), and which of them match their checksums; others are not read.

        Parameters
        ----------
        ids
            The numbers of the rows, sorted.
        firsts
            Where segments begin.
        n_features, dtype
            What a vector is.
        """
        stride = n_features * dtype.itemsize
        segments = np.searchsorted(firsts, ids, side="right") - 1
        # How many rows the last segment has is not known here.
        found = np.flatnonzero((segments >= 0) & (segments < len(firsts) - 1))
        begins = firsts[segments[found]]
        sizes, leaves = firsts[segments[found] + 1] - begins, np.searchsorted(self.ends, begins)
        good = (sizes * (stride + 8) < PAGE_BYTES) & (leaves < len(self.pages))
        found, begins, sizes, leaves = found[good], begins[good], sizes[good], leaves[good]
        starts, places = self.pages[leaves] * PAGE_BYTES - sizes * stride, ids[found] - begins
        matches = np.zeros(len(ids), dtype=np.bool_)
        try:
            blobs = self._file.read(stride, (starts + places * stride).tolist())
            seals = self._file.read(8, (starts + (places - sizes) * 8).tolist())
        except OSError:
            return np.zeros((len(ids), n_features), dtype=dtype), matches
        seal, blob = b"".join(seals), b"".join(blobs)
        if len(seal) != 8 * len(found) or len(blob) != stride * len(found):  # one is behind the end of the file
            seal = b"".join([each.ljust(8, b"\0") for each in seals])
            blob = b"".join([each.ljust(stride, b"\0") for each in blobs])
        some = np.frombuffer(blob, dtype=dtype).reshape(-1, n_features)
        matches[found] = rows_match(some, ids[found], seal)
        if matches.all():
            return some, matches
        vectors = np.zeros((len(ids), n_features), dtype=dtype)
        vectors[found] = some
        return vectors, matches


_NOTHING: tuple[Numbers, Numbers] = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)


def _leaves(file: FileReads, root: int) -> tuple[Numbers, Numbers]:
    """Return the numbers of a table's leaf pages, and the last row number that each may have, in order."""
    pages, ends = np.array([root]), np.array([np.iinfo(np.int64).max])
    for _ in range(_DEEPEST):
        try:
            (kind,) = file.read(1, ((pages[:1] - 1) * PAGE_BYTES).tolist())
            if kind != _INTERIOR:
                return pages, ends
            level = file.read(PAGE_BYTES, ((pages - 1) * PAGE_BYTES).tolist())
        except OSError:
            return _NOTHING
        if any(len(page) != PAGE_BYTES or page[:1] != _INTERIOR for page in level):
            return _NOTHING
        parts = [
            _children(np.frombuffer(page, dtype=np.uint8), end) for page, end in zip(level, ends, strict=True)
        ]
        pages, ends = (np.concatenate(each) for each in zip(*parts, strict=True))
        if not len(pages) or (pages < 1).any() or (np.diff(ends) <= 0).any():
            return _NOTHING
    return _NOTHING


@jit
def _children(page, end):  # type: ignore[no-untyped-def]
    """Return the pages below an interior page, and the last row number of each; ``end`` is that of the page."""
    n = min(256 * int(page[3]) + int(page[4]), (len(page) - _HEAD) // 2)
    pages, ends = np.empty(n + 1, dtype=np.int64), np.empty(n + 1, dtype=np.int64)
    for i in range(n + 1):
        place, number, last = 8, 0, 0  # the last page below stands in the head
        if i < n:
            place = 256 * int(page[_HEAD + 2 * i]) + int(page[_HEAD + 2 * i + 1])
        for k in range(place, min(place + 4, len(page))):
            number = 256 * number + int(page[k])
        for k in range(place + 4, min(place + 12, len(page))):  # seven bits of each byte, until one is below 128
            last = 128 * last + int(page[k]) % 128
            if page[k] < 128:
                break
        pages[i], ends[i] = number, last if i < n else end
    return pages, ends
