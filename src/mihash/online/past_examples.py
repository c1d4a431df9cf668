"""The examples that a learner has learned from, to draw from again: kept in memory, or where they are stored."""

from abc import ABC, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..state import State

Matrix = NDArray[np.float32]
Labels = NDArray[Any] | None


class PastExamples(ABC):
    """Earlier examples of a stream by their place, the oldest first.

    The block that is being learned is not among them. An index implements it over its stored rows.
    """

    @abstractmethod
    def __len__(self) -> int:
        """Return how many there are."""

    @abstractmethod
    def at(self, places: NDArray[np.int64]) -> tuple[Matrix, Labels]:
        """Return the vectors (n, d), as they were learned, and the labels of the examples at some places."""


class KeptExamples(PastExamples):
    """All earlier examples, in memory.

    Parameters
    ----------
    blocks
        Vectors and labels of each block. All blocks but the last have the same number of rows.

    Examples
    --------
    >>> kept = KeptExamples()
    >>> for start in (0, 3):
    ...     kept = kept.after(np.arange(start, start + 3, dtype=np.float32)[:, None], None)
    >>> len(kept), kept.at(np.array([4, 0]))[0].ravel().tolist()
    (6, [4.0, 0.0])
    """

    def __init__(self, blocks: tuple[tuple[Matrix, Labels], ...] = ()) -> None:
        self._blocks = blocks

    def __len__(self) -> int:
        """Return how many there are."""
        if not self._blocks:
            return 0
        return (len(self._blocks) - 1) * len(self._blocks[0][0]) + len(self._blocks[-1][0])

    def at(self, places: NDArray[np.int64]) -> tuple[Matrix, Labels]:
        """Return the vectors and the labels of the examples at some places."""
        size = len(self._blocks[0][0])
        where = [divmod(place, size) for place in places.tolist()]
        vectors = np.stack([self._blocks[block][0][row] for block, row in where])
        labels = [labels[row] for block, row in where if (labels := self._blocks[block][1]) is not None]
        return vectors, np.stack(labels) if labels else None

    def after(self, X: Matrix, y: Labels) -> Self:
        """Return them with another block."""
        return type(self)((*self._blocks, (X, y)))

    def state(self) -> State:
        """Return all of them."""
        if not self._blocks:
            return {"X": None, "y": None, "size": 0}
        y = [labels for _, labels in self._blocks if labels is not None]
        return {
            "X": np.concatenate([vectors for vectors, _ in self._blocks]),
            "y": np.concatenate(y) if y else None,
            "size": len(self._blocks[0][0]),
        }

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the examples of a state."""
        X, y, size = state["X"], state["y"], state["size"]
        if X is None:
            return cls()
        starts = range(0, len(X), size)
        return cls(tuple((X[i : i + size], None if y is None else y[i : i + size]) for i in starts))
