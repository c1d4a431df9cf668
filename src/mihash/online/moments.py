"""Streaming moments: mean, covariance and class means of a stream, with an exponential memory.

What a linear discriminant, principal directions and whitening are made of, kept up to date one block at a time.
"""

import copy
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..state import State
from .leading_covariance import LeadingCovariance, leading_rows

Matrix = NDArray[np.float32]
Vector = NDArray[np.float64]

_FAR = 10.0  # times the usual distance from the origin of the sums: a row farther away is shortened
_FEW = 20  # rows: the mean of a class with so many weighs half of what it would with very many
_TINY = 1e-12
_AT_ONCE = 500  # rows whose squares are added in one product, which is faster than a product for each block


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
    per_class
        The same after ``per_class`` rows for each class that was seen, if that is more.
    rank
        How many leading directions of the covariance to keep; None keeps all of it.

    Examples
    --------
    >>> moments = Moments(2, memory=None)
    >>> moments = moments.after(np.array([[1, 0], [3, 0]], np.float32), np.array([[1, 0], [0, 1]], np.float32))
    >>> moments.mean.tolist(), moments.covariance().tolist(), moments.cross().tolist()
    ([2.0, 0.0], [[1.0, 0.0], [0.0, 0.0]], [[-0.5, 0.5], [0.0, 0.0]])
    """

    def __init__(
        self, n_features: int, memory: float | None, per_class: float = 0.0, rank: int | None = None
    ) -> None:
        self._memory, self._per_class, self._rank = memory, per_class, rank
        self.n = 0.0
        self.counts: Vector = np.zeros(0)
        self._origin: Matrix | None = None
        self._sum: Vector = np.zeros(n_features)
        self._lengths = 0.0  # the sum of squared lengths: the trace of the squares
        size = n_features if rank is None else 0  # rows of which the squares are the sum of x x', or these squares
        self._squares: Matrix = np.zeros((size, n_features), dtype=np.float32)
        self._share = np.float32(1)  # what is left of the squares: they are multiplied when rows are added to them
        self._waiting: tuple[tuple[Matrix, Matrix], ...] = ()  # rows that the squares lack, and their weights
        self._by_class: Matrix = np.zeros((n_features, 0), dtype=np.float32)

    @property
    def n_classes(self) -> int:
        """How many classes were seen."""
        return len(self.counts)

    @property
    def memory(self) -> float | None:
        """After how many rows the weight of one falls to 1/e."""
        return None if self._memory is None else max(self._memory, self._per_class * self.n_classes)

    @property
    def mean(self) -> Vector:
        """The mean of the rows (d,)."""
        assert self._origin is not None
        mean: Vector = self._origin + self._sum / self.n
        return mean

    @property
    def centre(self) -> Vector:
        """The mean of the class means (d,), where a class of n rows weighs n / (n + 20); without classes, `mean`.

        About it a hyperplane separates classes also where most rows are of one class.

        Examples
        --------
        >>> y = np.repeat([0, 1], [380, 20])
        >>> moments = Moments(1, memory=None).after(9 * y[:, None].astype(np.float32), indicators(y, 2))
        >>> moments.mean.round(2).tolist(), moments.centre.round(2).tolist()
        ([0.45], [3.1])
        """
        weights = self.counts / (self.counts + _FEW)
        if not weights.sum() > 0:
            return self.mean
        assert self._origin is not None
        means = self._by_class / np.maximum(self.counts, _TINY)
        centre: Vector = self._origin + means @ (weights / weights.sum())
        return centre

    def after(self, X: Matrix, Y: Matrix | None = None) -> Self:
        """Return the moments after a block of rows, with the classes of each where there are any."""
        memory = self.memory
        kept = np.float32(1.0 if memory is None else np.exp(-len(X) / memory))
        origin = np.median(X, axis=0).astype(np.float32) if self._origin is None else self._origin
        Z, lengths = self.shortened(X - origin)
        found = type(self).__new__(type(self))
        found._memory, found._per_class, found._rank = self._memory, self._per_class, self._rank
        found._origin = origin
        found.n = self.n * float(kept) + len(X)
        found._sum = self._sum * float(kept) + Z.sum(axis=0, dtype=np.float64)
        found._lengths = self._lengths * float(kept) + float((lengths * lengths).sum())
        older = ((rows, weights * kept) for rows, weights in self._waiting)
        found._waiting = (*older, (Z, np.ones(len(Z), dtype=np.float32)))
        found._squares, found._share = self._squares, self._share * kept
        at_once = _AT_ONCE if self._rank is None else max(_AT_ONCE, 2 * self._rank)
        if sum(len(rows) for rows, _ in found._waiting) >= at_once:
            found._gather()
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
        found = copy.copy(self)
        share = min(1.0, n / self.n) if self.n else 1.0
        less = np.float32(share)
        found.n, found._sum, found.counts = self.n * share, self._sum * share, self.counts * share
        found._lengths, found._by_class = self._lengths * share, self._by_class * less
        found._share = self._share * less
        found._waiting = tuple((rows, weights * less) for rows, weights in self._waiting)
        return found

    def _all_squares(self) -> Matrix:
        """Return the sum of x x', with the rows that wait."""
        if not self._waiting:
            return self._squares
        rows, weights = (np.concatenate(part) for part in zip(*self._waiting, strict=True))
        if weights[0] != 1:
            rows *= np.sqrt(weights)[:, None]
        squares: Matrix = rows.T @ rows
        squares += self._share * self._squares
        return squares

    def gathered(self) -> Self:
        """Return the same moments; where leading directions are kept, those of the rows that wait among them."""
        found = copy.copy(self)
        if self._rank is not None:
            found._gather()
        return found

    def _gather(self) -> None:
        """Let the rows that wait enter the squares."""
        if self._rank is None:
            squares = self._all_squares()
        elif self._waiting:
            waiting = [rows * np.sqrt(weights)[:, None] for rows, weights in self._waiting]
            rows = np.concatenate([np.sqrt(self._share) * self._squares, *waiting])
            squares = leading_rows(rows, self._rank)
        else:
            squares = np.sqrt(self._share) * self._squares
        self._squares, self._share, self._waiting = squares, np.float32(1), ()

    def shortened(self, Z: Matrix) -> tuple[Matrix, Vector]:
        """Return centred rows of which none is more than 10 times as long as usual, and their lengths."""
        lengths = np.sqrt(np.einsum("ij,ij->i", Z, Z), dtype=np.float64)
        usual = float(np.median(lengths))
        if self.n:
            usual = max(usual, float(np.sqrt(self._lengths / self.n)))
        far = lengths > _FAR * usual
        if usual > 0 and far.any():
            Z = Z.copy()
            Z[far] *= (_FAR * usual / lengths[far]).astype(np.float32)[:, None]
            lengths[far] = _FAR * usual
        return Z, lengths

    def covariance(self) -> Matrix | LeadingCovariance:
        """Return the covariance C (d, d), or its leading directions where only these are kept."""
        if self._rank is not None:
            centre = self._sum / self.n
            total = self._lengths / self.n - float(centre @ centre)
            root = self.gathered()._squares / np.float32(np.sqrt(self.n))
            return LeadingCovariance.of(root, centre, total)
        mean = (self._sum / self.n).astype(np.float32)
        found: Matrix = self._all_squares() / np.float32(self.n)
        found -= np.outer(mean, mean)
        return found

    def cross(self) -> Matrix:
        """Return the covariance A (d, c) of features and class indicators."""
        mean = self._sum / self.n
        found: Matrix = (self._by_class / self.n - np.outer(mean, self.counts / self.n)).astype(np.float32)
        return found

    def state(self) -> State:
        """Return the sums."""
        d = len(self._sum)
        rows = [np.zeros((0, d), dtype=np.float32), *(rows for rows, _ in self._waiting)]
        weights = [np.zeros(0, dtype=np.float32), *(weights for _, weights in self._waiting)]
        return {
            "n": self.n,
            "centre": self._origin,
            "sum": self._sum,
            "lengths": self._lengths,
            "squares": self._squares,
            "share": float(self._share),
            "waiting": np.concatenate(rows),
            "weights": np.concatenate(weights),
            "counts": self.counts,
            "by_class": self._by_class,
        }

    def restore(self, state: State) -> None:
        """Continue with the sums that `state` returned."""
        self.n, self._origin, self._sum, self._lengths = (state[k] for k in ("n", "centre", "sum", "lengths"))
        self._squares, self._share = state["squares"], np.float32(state["share"])
        self._waiting = ((state["waiting"], state["weights"]),) if len(state["waiting"]) else ()
        self.counts, self._by_class = state["counts"], state["by_class"]


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
