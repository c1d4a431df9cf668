"""The vectors of a small table in memory, for exact answers where codes do not find who is near."""

import threading
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import DeadlineExceeded
from .question import Found
from .rescoring import Rows, merged, nearest_of, nothing
from .sqlite.deadline import LATE, is_late
from .sqlite.segments import Segments

if TYPE_CHECKING:
    from .edition import Edition

MOST_NUMBERS = 1 << 25
"""Of a table that may be measured to need all its vectors: 128 MiB, and up to twice that when it has grown."""

EVERY = 2**31 - 1
"""What a choice of candidates has in place of their number, if all vectors are compared in memory."""

_QUERIES = 64  # between two looks at the clock
_SCORES = 1 << 22  # of queries and rows that are compared at a time
_ROWS = 1 << 20


def n_held(n_rows: int, n_features: int) -> int:
    """Return how many numbers of four bytes the rows take in memory, with the number and the length of each.

    Examples
    --------
    >>> n_held(1000, 128)
    132000
    """
    return n_rows * (n_features + 4)


class HeldVectors:
    """Reads all vectors of a table once, and those that come later when they are needed.

    Parameters
    ----------
    segments
        Where vectors are stored.
    metric
        How they are compared.
    """

    def __init__(self, segments: Segments, metric: str) -> None:
        self._segments, self._metric = segments, metric
        self._lock = threading.Lock()
        self._purges, self._n = -1, 0
        self._rows: Rows | None = None  # a buffer, of which the first rows are never changed

    def nearest(
        self, edition: "Edition", queries: NDArray[np.float32], k: int, mask: NDArray[np.bool_] | None
    ) -> Found | None:
        """Return ids and distances of an edition's nearest rows, or of those in a mask; None if one is gone."""
        rows = self._rows_of(edition, queries.shape[1])
        if rows is None:
            return None
        if mask is not None and 4 * np.count_nonzero(mask) < len(mask):
            rows, mask = rows.part(mask), None
        n = len(rows.ids)
        found: Found = []
        size = max(1, min(_QUERIES, _SCORES // max(n, 1)))
        for start in range(0, len(queries), size):
            some, best = queries[start : start + size], nothing(min(size, len(queries) - start))
            for first in range(0, n, _ROWS):
                _check_time()
                here = slice(first, first + _ROWS)
                own = None if mask is None else mask[here]
                best = merged(best, nearest_of(rows.part(here), some, k, self._metric, mask=own), k)
            found += best
        return found

    def _rows_of(self, edition: "Edition", n_features: int) -> Rows | None:
        """Return the rows of an edition, dead ones too; of one from before the last purge, some are gone.

        What was read before a deadline is kept, and the next search goes on from there.
        """
        with self._lock:
            if edition.n_purges < self._purges:
                return None
            if edition.n_purges > self._purges:
                self._purges, self._n, self._rows = edition.n_purges, 0, None
            last = int(edition.ids[self._n - 1]) if 0 < self._n <= edition.n else -1  # else all is read
            for segment in self._segments.after(last, None, n_features) if self._n < edition.n else ():
                ids = edition.ids[self._n : edition.n][: len(segment)]
                if not np.array_equal(segment.ids[: len(ids)], ids):
                    return None
                fresh = Rows.of(ids.copy(), segment.features[: len(ids)])
                self._rows = fresh if self._rows is None else self._rows.appended(self._n, fresh)
                self._n += len(ids)
                if self._n == edition.n:
                    break
                _check_time()
            if self._n < edition.n or self._rows is None:
                return None
            return self._rows.part(slice(edition.n))

    def forget(self) -> None:
        """Free the memory: the table has become too large, or its codes find enough."""
        with self._lock:
            self._n, self._rows = 0, None


def _check_time() -> None:
    if is_late():
        raise DeadlineExceeded(LATE)
