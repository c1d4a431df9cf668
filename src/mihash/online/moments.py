"""Streaming moments: mean, covariance and class means of a stream, with an exponential memory.

What a linear discriminant, principal directions and whitening are made of, kept up to date one block at a time.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..state import State

Matrix = NDArray[np.float32]
Vector = NDArray[np.float64]

_FAR = 10.0  # times the usual distance from the centre: a row farther away is shortened


class Moments:
    """Discounted sums over a stream of rows (n, d) and of their classes (n, c) as a 0/1 matrix.

    Sums are taken about the median of the first block, so that a large mean costs no precision. A row that is more
    than 10 times as far from it as usual is shortened: one outlier must not outweigh everything else.

    Parameters
    ----------
    n_features
        The dimension d.
    memory
        A row's weight falls to 1/e after this many rows; None: never.

    Examples
    --------
    >>> moments = Moments(2, memory=None)
    >>> moments = moments.after(np.array([[1, 0], [3, 0]], np.float32), np.array([[1, 0], [0, 1]], np.float32))
    >>> moments.mean.tolist(), moments.covariance().tolist(), moments.cross().tolist()
    ([2.0, 0.0], [[1.0, 0.0], [0.0, 0.0]], [[-0.5, 0.5], [0.0, 0.0]])
    """

    def __init__(self, n_features: int, memory: float | None) -> None:
        self.memory = memory
        self.n = 0.0
        self.counts: Vector = np.zeros(0)
        self._centre: Matrix | None = None
        self._sum: Vector = np.zeros(n_features)
        self._squares: Matrix = np.zeros((n_features, n_features), dtype=np.float32)
        self._by_class: Matrix = np.zeros((n_features, 0), dtype=np.float32)

    @property
    def n_classes(self) -> int:
        """How many classes were seen."""
        return len(self.counts)

    @property
    def mean(self) -> Vector:
        """The mean of the rows (d,)."""
        assert self._centre is not None
        mean: Vector = self._centre + self._sum / self.n
        return mean

    def after(self, X: Matrix, Y: Matrix | None = None) -> Self:
        """Return the moments after a block of rows, with the classes of each where there are any."""
        found = type(self).__new__(type(self))
        found.memory = self.memory
        kept = np.float32(1.0 if self.memory is None else np.exp(-len(X) / self.memory))
        centre = np.median(X, axis=0).astype(np.float32) if self._centre is None else self._centre
        Z = self._shortened(X - centre)
        found._centre = centre
        found.n = self.n * float(kept) + len(X)
        found._sum = self._sum * float(kept) + Z.sum(axis=0, dtype=np.float64)
        found._squares = kept * self._squares
        found._squares += Z.T @ Z
        counts, by_class = self.counts, self._by_class
        if Y is not None:
            new = Y.shape[1] - len(counts)
            counts = np.pad(counts, (0, new)) * float(kept) + Y.sum(axis=0, dtype=np.float64)
            by_class = np.pad(by_class, ((0, 0), (0, new))) * kept + Z.T @ Y
        found.counts, found._by_class = counts, by_class
        return found

    def discounted(self, n: float) -> Self:
        """Return the same moments with the weight of n rows, if they have more.

        Examples
        --------
        >>> moments = Moments(1, memory=None).after(np.array([[1], [3], [2]], np.float32)).discounted(2)
        >>> moments.n, moments.mean.tolist()
        (2.0, [2.0])
        """
        found = type(self).__new__(type(self))
        share = min(1.0, n / self.n) if self.n else 1.0
        found.memory, found._centre = self.memory, self._centre
        found.n, found._sum, found.counts = self.n * share, self._sum * share, self.counts * share
        found._squares, found._by_class = self._squares * np.float32(share), self._by_class * np.float32(share)
        return found

    def _shortened(self, Z: Matrix) -> Matrix:
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z, dtype=np.float64))
        usual = float(np.median(lengths))
        if self.n:
            usual = max(usual, float(np.sqrt(np.trace(self._squares, dtype=np.float64) / self.n)))
        far = lengths > _FAR * usual
        if usual > 0 and far.any():
            Z = Z.copy()
            Z[far] *= (_FAR * usual / lengths[far]).astype(np.float32)[:, None]
        return Z

    def covariance(self) -> Matrix:
        """Return the covariance C (d, d)."""
        mean = self._sum / self.n
        found: Matrix = (self._squares / self.n - np.outer(mean, mean)).astype(np.float32)
        return found

    def cross(self) -> Matrix:
        """Return the covariance A (d, c) of features and class indicators."""
        mean = self._sum / self.n
        found: Matrix = (self._by_class / self.n - np.outer(mean, self.counts / self.n)).astype(np.float32)
        return found

    def state(self) -> State:
        """Return the sums."""
        return {
            "n": self.n,
            "centre": self._centre,
            "sum": self._sum,
            "squares": self._squares,
            "counts": self.counts,
            "by_class": self._by_class,
        }

    def restore(self, state: State) -> None:
        """Continue with the sums that `state` returned."""
        self.n, self._centre, self._sum = state["n"], state["centre"], state["sum"]
        self._squares, self.counts, self._by_class = state["squares"], state["counts"], state["by_class"]


def indicators(columns: NDArray[Any], n_classes: int) -> Matrix:
    """Return class numbers as a 0/1 matrix (n, c); a number of -1 has no class.

    Examples
    --------
    >>> indicators(np.array([1, -1, 0]), 2).tolist()
    [[0.0, 1.0], [0.0, 0.0], [1.0, 0.0]]
    """
    found = np.zeros((len(columns), n_classes), dtype=np.float32)
    known = columns >= 0
    found[np.flatnonzero(known), columns[known]] = 1
    return found
