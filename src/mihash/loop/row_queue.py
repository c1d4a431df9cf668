"""Rows that wait to be learned from: their queue, the only place that holds them, and learning block by block."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import one_thread
from ..online import OnlineLearner
from ..reservoir import Reservoir
from ..validation import missing_rows

Labels = NDArray[Any] | None
Vectors = NDArray[np.float32]


class QueuedRows(NamedTuple):
    """Vectors (n, d), their labels, and the numbers of the rows (n,)."""

    vectors: Vectors
    labels: Labels
    numbers: NDArray[np.int64]

    def split(self, n: int) -> "tuple[QueuedRows, QueuedRows]":
        """Return the first n rows and the others."""
        head, tail = (None, None) if self.labels is None else (self.labels[:n], self.labels[n:])
        rest = QueuedRows(self.vectors[n:], tail, self.numbers[n:])
        return QueuedRows(self.vectors[:n], head, self.numbers[:n]), rest


class RowQueue:
    """Rows that wait to be learned from, the oldest first.

    A row waits for one of three reasons: the normalisation needs more rows, its block is not full, or the caller
    left it for later. Rows of the first two kinds are *due*: the loop has seen them and decides with them.

    In a stream with labels, a row whose label is missing is not learned from, and never waits.

    Attributes
    ----------
    due
        How many rows, at the head, are due.
    later
        How many rows, behind those, were left for later.
    through
        The number of the last row that became due; -1 before the first.

    Examples
    --------
    >>> queue = RowQueue()
    >>> queue.put(np.arange(10, dtype=np.float32)[:, None], None)
    >>> queue.take(6)
    >>> queue.due, queue.later, queue.through
    (6, 4, 5)
    >>> queue.drop(4)
    >>> queue.head(2).vectors.ravel().tolist()
    [4.0, 5.0]
    """

    def __init__(self) -> None:
        self._parts: deque[QueuedRows] = deque()
        self.due = self.later = 0
        self.through = -1

    @property
    def first(self) -> QueuedRows | None:
        """The oldest rows, None if the queue is empty."""
        return self._parts[0] if self._parts else None

    @property
    def newest(self) -> int:
        """The number of the last row that was put into the queue; -1 before the first."""
        return max(self.through, int(self._parts[-1].numbers[-1]) if self._parts else -1)

    def put(self, vectors: Vectors, labels: Labels, last: int | None = None) -> None:
        """Append rows for later; ``last`` is the number of the last one; by default numbering continues."""
        n = len(vectors)
        if last is None:
            last = n + self.newest
        numbers = np.arange(last - n + 1, last + 1)
        if labels is not None and n and (missing := missing_rows(labels)).any():
            vectors, labels, numbers = vectors[~missing], labels[~missing], numbers[~missing]
        if len(vectors):
            self._parts.append(QueuedRows(vectors, labels, numbers))
            self.later += len(vectors)

    def take(self, n: int | None = None) -> None:
        """Let the next n rows become due; by default all."""
        n = self.later if n is None else min(n, self.later)
        self.due, self.later = self.due + n, self.later - n
        if n:
            self.through = int(self.head(self.due).numbers[-1])

    def head(self, n: int) -> QueuedRows:
        """Return the first n rows."""
        if len(self._parts[0].vectors) < n:
            pieces, missing = list[QueuedRows](), n
            while missing:
                piece, rest = self._parts.popleft().split(missing)
                missing -= len(piece.vectors)
                pieces.append(piece)
            vectors, labels, numbers = zip(*pieces, strict=True)
            joined = None if labels[0] is None else np.concatenate(labels)
            whole = QueuedRows(np.concatenate(vectors), joined, np.concatenate(numbers))
            self._parts.extendleft(part for part in (rest, whole) if len(part.vectors))
        return self._parts[0].split(n)[0]

    def drop(self, n: int) -> None:
        """Remove the first n rows, which are due."""
        if n:
            self.head(n)
            rest = self._parts.popleft().split(n)[1]
            if len(rest.vectors):
                self._parts.appendleft(rest)
            self.due -= n

    def convert(self, function: Callable[[Vectors], Vectors]) -> None:
        """Replace all vectors by a function of them."""
        self._parts = deque(part._replace(vectors=function(part.vectors)) for part in self._parts)


def learn_rows(learner: OnlineLearner, reservoir: Reservoir, rows: QueuedRows) -> None:
    """Move a learner and its reservoir by rows, block by block; the last block may be a part of one.

    Examples
    --------
    >>> import mihash
    >>> learner, reservoir = mihash.online.LSH(8), Reservoir(10)
    >>> learner.start(2)
    >>> learn_rows(learner, reservoir, QueuedRows(np.zeros((250, 2), dtype=np.float32), None, np.arange(250)))
    >>> reservoir.seen
    250
    """
    while len(rows.vectors):
        block, rows = rows.split(learner.block_size)
        slots = reservoir.plan(len(block.vectors))
        with one_thread():
            learner.learn(block.vectors, block.labels, reservoir, slots)
            reservoir.apply(block.vectors, block.labels, slots)
