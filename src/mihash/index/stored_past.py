"""The stored rows of an index as the past of its learner: what `MomentHash` with ``replay`` draws from."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import NotReady
from ..loop.learning_loop import Loop
from ..online.past_examples import PastExamples
from ..store.sqlite.sqlite_table import SQLiteTable
from ..store.table import Table


class StoredPast(PastExamples):
    """The rows of an index that its loop has learned from, the oldest first.

    A deleted row belongs to them until `compact`, or a window, removes its vector. That comes with a checkpoint,
    after which a replay begins, so a replay draws the same rows. Numbers and labels of rows are in memory, as the
    codes are; vectors are read from the disk.

    Parameters
    ----------
    table
        Where the rows are.
    loop
        The loop, whose queue has the rows that are not learned yet.
    """

    def __init__(self, table: Table, loop: Loop) -> None:
        if not isinstance(table, SQLiteTable):
            raise NotReady("A learner with `replay` draws from the rows of one file: it cannot be used on Ray.")
        self._table, self._loop = table, loop
        self._purges = -1  # how often rows were purged before those below were read; -1 for not read
        self._last = -1  # the newest row when they were read
        self._ids = np.empty(0, dtype=np.int64)
        self._labels: NDArray[Any] = np.empty(0)

    def __len__(self) -> int:
        """Return how many rows were learned from and are still stored."""
        self._follow()
        queue = self._loop.queue
        n = int(np.searchsorted(self._ids, queue.newest, side="right"))
        return max(0, n - queue.due - queue.later)

    def at(self, places: NDArray[np.int64]) -> tuple[NDArray[np.float32], NDArray[Any]]:
        """Return the vectors, normalised as they were learned, and the labels of the rows at some places."""
        self._follow()
        vectors = self._table.fetch(self._ids[places])
        assert vectors is not None  # nothing is purged while the loop learns
        normalization = self._loop.normalization
        return vectors if normalization is None else normalization.apply(vectors), self._labels[places]

    def _follow(self) -> None:
        """Read the numbers and labels of rows that are new, or of all after a purge."""
        kind, purges = self._table.label_kind, int(self._table.setting("compactions") or 0)
        if kind is None:
            return
        if self._purges != purges:
            self._purges = purges
            self._ids, self._labels = self._table.segments.labels_after(-1, kind)
        elif self._last < self._table.last:
            ids, labels = self._table.segments.labels_after(self._last, kind)
            self._ids, self._labels = np.concatenate([self._ids, ids]), np.concatenate([self._labels, labels])
        self._last = self._table.last
