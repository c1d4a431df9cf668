"""The queue of rows that wait to be learned from: the only place where such rows are held."""

from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Labels = NDArray[Any] | None
Vectors = NDArray[np.float32]


class _Rows(NamedTuple):
    """Rows that were put into the queue together.

    ``last`` is the number of the last row. ``owned`` is False while the arrays may be the caller's.
    """

    vectors: Vectors
    labels: Labels
    last: int
    owned: bool

    def split(self, n: int) -> "tuple[_Rows, _Rows]":
        """Return the first n rows and the others."""
        labels = (None, None) if self.labels is None else (self.labels[:n], self.labels[n:])
        rest = self._replace(vectors=self.vectors[n:], labels=labels[1])
        return _Rows(self.vectors[:n], labels[0], self.last - len(rest.vectors), self.owned), rest


class RowQueue:
    """Rows that wait to be learned from, the oldest first.

    A row waits for one of three reasons: the normalisation needs more rows, its block is not full, or the caller
    left it for later. Rows of the first two kinds are *due*: the loop has seen them and decides with them.

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
    >>> queue.head(2)[0].ravel().tolist()
    [4.0, 5.0]
    """

    def __init__(self) -> None:
        self._parts: deque[_Rows] = deque()
        self.due = self.later = 0
        self.through = -1

    @property
    def first(self) -> tuple[Vectors, Labels] | None:
        """The oldest rows, None where the queue is empty."""
        return self._parts[0][:2] if self._parts else None

    def put(self, vectors: Vectors, labels: Labels, last: int | None = None) -> None:
        """Append rows for later; ``last`` is the number of the last one, by default counted on."""
        if len(vectors):
            if last is None:
                last = (self._parts[-1].last if self._parts else self.through) + len(vectors)
            self._parts.append(_Rows(vectors, labels, last, owned=False))
            self.later += len(vectors)

    def take(self, n: int | None = None) -> None:
        """Let the next n rows become due; by default all."""
        n = self.later if n is None else min(n, self.later)
        self.due, self.later = self.due + n, self.later - n
        end = self.due
        for part in self._parts if n else ():
            if end <= len(part.vectors):
                self.through = part.last - len(part.vectors) + end
                return
            end -= len(part.vectors)

    def head(self, n: int) -> tuple[Vectors, Labels]:
        """Return the first n rows."""
        if len(self._parts[0].vectors) < n:
            pieces, missing = [], n
            while missing:
                piece, rest = self._parts.popleft().split(missing)
                if len(rest.vectors):
                    self._parts.appendleft(rest)
                pieces.append(piece)
                missing -= len(piece.vectors)
            vectors = np.concatenate([piece.vectors for piece in pieces])
            labels = None if pieces[0].labels is None else np.concatenate([piece.labels for piece in pieces])
            self._parts.appendleft(_Rows(vectors, labels, pieces[-1].last, owned=True))
        return self._parts[0].split(n)[0][:2]

    def drop(self, n: int) -> None:
        """Remove the first n rows, which are due."""
        self.due -= n
        while n:
            dropped, rest = self._parts.popleft().split(n)
            if len(rest.vectors):
                self._parts.appendleft(rest)
            n -= len(dropped.vectors)

    def convert(self, function: Callable[[Vectors], Vectors]) -> None:
        """Replace all vectors by a function of them."""
        self._parts = deque(part._replace(vectors=function(part.vectors)) for part in self._parts)

    def own(self) -> None:
        """Copy rows that may be in the caller's arrays, which the caller may use again."""
        self._parts = deque(
            part if part.owned else _Rows(part.vectors.copy(), _copy(part.labels), part.last, owned=True)
            for part in self._parts
        )


def _copy(labels: Labels) -> Labels:
    return None if labels is None else labels.copy()
