"""Finds the rows that a change expires, and stores the times of items."""

import heapq
import json
import math
import sqlite3
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .change import NumberedRows
from .window import Window

if TYPE_CHECKING:
    from .table import Table


class Ages:
    """The times of the items, so that the oldest are found at once: 16 bytes an item.

    Parameters
    ----------
    ids, times
        The items, and the time of each in seconds; items without a time (NaN) never expire.
    """

    def __init__(self, ids: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        known = np.flatnonzero(~np.isnan(times))
        order = known[np.argsort(times[known], kind="stable")]
        self._ids, self._times, self._at = ids[order], times[order], 0
        self._recent: list[tuple[float, int]] = []
        self.newest = float(self._times[-1]) if len(order) else -math.inf

    def add(self, ids: NDArray[np.int64], times: NDArray[np.float64]) -> None:
        """Take in more items."""
        for pair in zip(times.tolist(), ids.tolist(), strict=True):
            heapq.heappush(self._recent, pair)
        self.newest = max(self.newest, float(times.max(initial=-math.inf)))
        if len(self._recent) > 1000 + (len(self._ids) - self._at) // 8:
            left = sorted(self._recent)
            ids_ = np.concatenate(
                [self._ids[self._at :], np.array([number for _, number in left], dtype=np.int64)]
            )
            times_ = np.concatenate([self._times[self._at :], np.array([when for when, _ in left])])
            order = np.argsort(times_, kind="stable")
            self._ids, self._times, self._at, self._recent = ids_[order], times_[order], 0, []

    def before(self, limit: float) -> list[int]:
        """Return the items whose time is before a limit; `drop` removes them."""
        end = int(np.searchsorted(self._times, limit, side="left"))
        return [*self._ids[self._at : end].tolist(), *(number for when, number in self._recent if when < limit)]

    def drop(self, limit: float) -> None:
        """Forget the items whose time is before a limit."""
        self._at = max(self._at, int(np.searchsorted(self._times, limit, side="left")))
        while self._recent and self._recent[0][0] < limit:
            heapq.heappop(self._recent)


class Expiry:
    """Finds what expires with a change. A window of time costs 16 bytes of memory an item.

    Parameters
    ----------
    table
        The table; its window may change at any time.

    Attributes
    ----------
    ages
        The times of the items that are stored; None if they were not read.
    """

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._window: Window | None = None
        self.ages: Ages | None = None
        self._limit = -math.inf

    def expired(self, rows: NumberedRows, window: Window) -> list[int]:
        """Return the rows that a change makes too old, new ones among them; those that it replaces are not."""
        gone = np.array(rows.removed, dtype=np.int64)
        if window.count is not None:
            kept = np.setdiff1d(self._table.live_ids(), gone, assume_unique=True)
            ids = np.concatenate([kept, rows.segment.ids])
            return [int(each) for each in ids[: max(0, len(ids) - window.count)]]
        ages, changed, times = self._known(window), _changed(rows), _times(window, rows)
        newest = max(ages.newest, float(times.max(initial=-math.inf)))
        self._limit = min(newest, time.time()) - window.seconds  # an item that is dated later expires no others
        late = set(changed[times < self._limit].tolist())
        others = [each for each in ages.before(self._limit) if each not in set(changed.tolist())]
        with self._table.database.read() as connection:
            late.update(_times_before(connection, others, window, self._limit))
        return sorted(late.difference(gone.tolist()))

    def commit(self, rows: NumberedRows) -> None:
        """Take over a change that is committed."""
        if self._window is not None and self.ages is not None:
            self.ages.add(_changed(rows), _times(self._window, rows))
            self.ages.drop(self._limit)

    def forget(self) -> None:
        """Read the times again at the next change."""
        self.ages = None

    def _known(self, window: Window) -> Ages:
        if self.ages is None or self._window != window:
            with self._table.database.read() as connection:
                self.ages, self._window = _read_ages(connection, window), window
        return self.ages


def _changed(rows: NumberedRows) -> NDArray[np.int64]:
    """Return the rows that get new metadata."""
    return rows.segment.ids if len(rows.segment) else np.array(rows.described, dtype=np.int64)


def _times(window: Window, rows: NumberedRows) -> NDArray[np.float64]:
    n = len(_changed(rows))
    return window.times(rows.texts or [None] * n) if n else np.empty(0)


def _read_ages(connection: sqlite3.Connection, window: Window) -> Ages:
    """Return the times that the metadata of all items have."""
    rows = connection.execute("SELECT id, metadata FROM item").fetchall()
    times = np.array([window.time_of(text) for _, text in rows], dtype=np.float64)
    return Ages(np.array([number for number, _ in rows], dtype=np.int64), times)


def _times_before(connection: sqlite3.Connection, ids: Sequence[int], window: Window, limit: float) -> list[int]:
    """Return those of some items that are stored and have a time before a limit now."""
    query = "SELECT id, metadata FROM item WHERE id IN (SELECT value FROM json_each(?))"
    found = connection.execute(query, (json.dumps(list(ids)),))
    return [number for number, text in found if window.time_of(text) < limit]
