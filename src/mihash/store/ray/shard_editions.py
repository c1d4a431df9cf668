"""The moments that a shard can answer for: the edition after each entry, while a search may ask for it."""

import threading
import time
from bisect import bisect_right

from ..edition import Edition

_KEPT_S = 3.0
_KEPT_BYTES = 64 << 20


class RecentEditions:
    """The editions after recent entries.

    The coordinator says which entry is the oldest that it may still ask for. Readers in other processes do not,
    and come a little later: so what is superseded is kept for a few seconds more, unless that is much.

    Parameters
    ----------
    number, edition
        The last entry so far, and the edition after it.
    """

    def __init__(self, number: int, edition: Edition | None) -> None:
        self._lock = threading.Lock()
        self._all: list[tuple[int, float, Edition | None]] = [(number, time.monotonic(), edition)]
        self._oldest = 0

    @property
    def last(self) -> int:
        """The newest entry that can be asked for."""
        return self._all[-1][0]

    def add(self, number: int, edition: Edition | None) -> None:
        """Take the edition after an entry, unless it is known."""
        with self._lock:
            if number > self._all[-1][0]:
                self._all.append((number, time.monotonic(), edition))

    def at(self, number: int, last: int, version: int) -> Edition | None:
        """Return the edition that entry ``number`` of the log saw; None if that is not known, or not yet.

        It must have entry ``last``, the shard's own newest one up to there, and be of a version.
        """
        with self._lock:
            place = bisect_right([each[0] for each in self._all], number) - 1
            if place < 0 or self._all[place][0] < last:
                return None
            edition = self._all[place][2]
        return edition if edition is not None and edition.version == version else None

    def forget(self, oldest: int = 0, kept_s: float = _KEPT_S) -> None:
        """Drop what was superseded some seconds ago and is before entry ``oldest``, but for what that one saw."""
        with self._lock:
            self._oldest = max(self._oldest, oldest)
            end = max(bisect_right([each[0] for each in self._all], self._oldest) - 1, 0)
            newest = self._all[-1][2]
            most = 1 + _KEPT_BYTES // (1 + (0 if newest is None else newest.n))
            until = time.monotonic() - kept_s
            recent = next((place for place in range(end, 0, -1) if self._all[place][1] <= until), 0)
            del self._all[: max(recent, end - most)]
