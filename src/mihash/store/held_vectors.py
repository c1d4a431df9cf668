"""The vectors of a small table in memory, for exact answers where codes do not find who is near."""

import threading
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..errors import DeadlineExceeded
from .question import Found
from .rescoring import Rows, nearest_of
from .sqlite.deadline import LATE, is_late
from .sqlite.segments import Segments

if TYPE_CHECKING:
    from .edition import Edition

MOST_NUMBERS = 1 << 23
"""Of a table that may be measured to need all its vectors: 32 MiB, and up to twice that when it has grown."""

EVERY = 2**31 - 1
"""The number of candidates that stands for all vectors, held in memory."""

_AT_ONCE = 64  # queries between two looks at the clock


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
        found: Found = []
        for start in range(0, len(queries), _AT_ONCE):
            if is_late():
                raise DeadlineExceeded(LATE)
            found += nearest_of(rows, queries[start : start + _AT_ONCE], k, self._metric, mask=mask)
        return found

    def _rows_of(self, edition: "Edition", n_features: int) -> Rows | None:
        """Return the rows of an edition, dead ones too; of one from before the last purge, some are gone."""
        with self._lock:
            if edition.n_purges < self._purges:
                return None
            if edition.n_purges > self._purges:
                self._purges, self._n, self._rows = edition.n_purges, 0, None
            if self._n < edition.n:
                vectors = self._segments.fetch(edition.ids[self._n :], n_features)
                if vectors is None:
                    return None
                fresh = Rows.of(edition.ids[self._n :].copy(), vectors)
                self._rows = fresh if self._rows is None else self._rows.appended(self._n, fresh)
                self._n = edition.n
            return None if self._rows is None else self._rows.part(slice(edition.n))

    def forget(self) -> None:
        """Free the memory: the table has become too large."""
        with self._lock:
            self._n, self._rows = 0, None
