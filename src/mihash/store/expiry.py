"""Which rows a change makes too old for the window of a table, and the times of the items that are stored."""

import math
from typing import TYPE_CHECKING

import numpy as np

from .change import Rows
from .sqlite.items import read_ages, times_before
from .window import Ages, Window, now_s

if TYPE_CHECKING:
    from .table import Table


class Expiry:
    """Finds what expires with a change. A window of time costs 16 bytes of memory an item.

    Parameters
    ----------
    table
        The table; its window may change at any time.

    Attributes
    ----------
    ages
        The times of the items that are stored; None where they were not read.
    """

    def __init__(self, table: "Table") -> None:
        self._table = table
        self._window: Window | None = None
        self.ages: Ages | None = None
        self._limit = -math.inf

    def expired(self, rows: Rows, window: Window) -> list[int]:
        """Return the rows that a change makes too old, new ones among them; those that it replaces are not."""
        gone = np.array(rows.removed, dtype=np.int64)
        if window.count is not None:
            kept = np.setdiff1d(self._table.live_ids(), gone, assume_unique=True)
            ids = np.concatenate([kept, rows.segment.ids])
            return [int(each) for each in ids[: max(0, len(ids) - window.count)]]
        ages, changed, times = self._known(window), _changed(rows), _times(window, rows)
        self._limit = min(max(ages.newest, float(times.max(initial=-math.inf))), now_s()) - window.seconds
        late = set(changed[times < self._limit].tolist())
        others = [each for each in ages.before(self._limit) if each not in set(changed.tolist())]
        with self._table.database.read() as connection:
            late.update(times_before(connection, others, window, self._limit))
        return sorted(late.difference(gone.tolist()))

    def commit(self, rows: Rows) -> None:
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
                self.ages, self._window = read_ages(connection, window), window
        return self.ages


def _changed(rows: Rows) -> "np.typing.NDArray[np.int64]":
    """Return the rows that get new metadata."""
    return rows.segment.ids if len(rows.segment) else np.array(rows.described, dtype=np.int64)


def _times(window: Window, rows: Rows) -> "np.typing.NDArray[np.float64]":
    n = len(_changed(rows))
    return window.times(rows.texts or [None] * n) if n else np.empty(0)
