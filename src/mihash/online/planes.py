"""The hyperplanes of `MomentHash` in a basis: W = B M + D with offsets c, and how a gradient moves them."""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..state import State
from .moment_basis import Basis

Matrix = NDArray[np.float32]

_MOMENTUM = np.float32(0.9)
_SHORT, _LONG = 32, 64  # bits: short codes stay as they are, long ones are turned half way to orthonormal
_HALFWAY = 0.5
_SHORTEST = 1e-3  # of the largest length of a column
_LEAST = 1e-4  # of the largest eigenvalue of the products: what is smaller is rounding
_VANISHED = np.float32(1e-4)  # of the unit spread: below it projections are rounding, which is not scaled up


class Planes(NamedTuple):
    """M inside a basis, D outside of it and the offsets c, their momenta, and their averages over k steps.

    Attributes
    ----------
    m, d
        M (k, b) and D (d, b): hyperplanes whose projections have unit spread.
    c
        The offset of each (b,): a projection of a centred row z is z W + c.
    momentum_m, momentum_d, momentum_c
        The momenta of the three.
    pull
        The gradient of D (d, b), summed over the steps since D moved last.
    mean_m, mean_d, mean_c
        The averages, which become the mapping.
    k
        How many steps the averages are over.
    whitened
        Whether they began in whitened directions; such hyperplanes are not `turned_apart`, which would undo that.
    tops
        For each direction of a class that came later, the largest length that its column in the basis has had; 0
        for the others (k,).
    """

    m: Matrix
    d: Matrix
    c: Matrix
    momentum_m: Matrix
    momentum_d: Matrix
    momentum_c: Matrix
    pull: Matrix
    mean_m: Matrix
    mean_d: Matrix
    mean_c: Matrix
    k: int
    whitened: bool = False
    tops: NDArray[np.float64] = np.empty(0)

    @classmethod
    def at(cls, m: Matrix, c: Matrix, n_features: int, whitened: bool = False) -> Self:
        """Return hyperplanes inside a basis that have not moved yet."""
        d = np.zeros((n_features, m.shape[1]), dtype=np.float32)
        return cls(m, d, c, np.zeros_like(m), d, np.zeros_like(c), d, m, d, c, 0, whitened, np.zeros(len(m)))

    @classmethod
    def restored(cls, state: State) -> Self:
        """Return the hyperplanes of a state; those of earlier versions have no offsets, and no later classes."""
        c = np.zeros(state["m"].shape[1], dtype=np.float32)
        return cls(**{"c": c, "momentum_c": c, "mean_c": c, "tops": np.zeros(len(state["m"])), **state})

    def weights(self, basis: Basis) -> Matrix:
        """Return W = B M + D (d, b)."""
        W: Matrix = basis.B @ self.m
        W += self.d
        return W

    def mean_weights(self, basis: Basis) -> Matrix:
        """Return the average W."""
        W: Matrix = basis.B @ self.mean_m
        W += self.mean_d
        return W

    def with_classes(self, k: int, places: NDArray[np.int64], rows: Matrix, tops: NDArray[np.float64]) -> Self:
        """Return hyperplanes in a basis that has directions of new classes: the rows (n, b) of M for these.

        Parameters
        ----------
        k
            How many directions the basis has.
        places
            Which directions: behind the last, or empty until now.
        rows
            Of M, for each.
        tops
            The length of the column of each, or 0 for one of the stream's first classes.
        """

        def placed(part: NDArray[Any], new: Any) -> NDArray[Any]:
            wider = np.concatenate([part, np.zeros((k - len(part), *part.shape[1:]), dtype=part.dtype)])
            wider[places] = new
            return wider

        return self._replace(
            m=placed(self.m, rows),
            momentum_m=placed(self.momentum_m, 0),
            mean_m=placed(self.mean_m, rows),
            tops=placed(self.tops, tops),
        )

    def with_columns(self, old: NDArray[np.float64], new: NDArray[np.float64]) -> Self:
        """Return hyperplanes in a basis whose columns have other lengths, in which later classes count as before.

        The column of a class grows with the share of its rows in the stream, and becomes shorter while it stays
        away. The rows of M for the first classes stay. Those for a later class began large, as its column was
        short, and are divided by its growth: if not, the newest classes would soon decide all bits. A column is
        taken to be no shorter than a thousandth of its largest length.

        Parameters
        ----------
        old, new
            The lengths of the columns before and now.
        """
        old, new, later = old[: len(self.m)], new[: len(self.m)], self.tops > 0
        tops = np.where(later, np.maximum(self.tops, new), 0.0)
        growth = np.ones(len(self.m))
        np.divide(
            np.maximum(new, _SHORTEST * tops), np.maximum(old, _SHORTEST * self.tops), out=growth, where=later
        )
        share = growth.astype(np.float32)[:, None]
        return self._replace(
            m=self.m / share, momentum_m=self.momentum_m / share, mean_m=self.mean_m / share, tops=tops
        )

    def in_basis(self, before: Basis, after: Basis) -> Self:
        """Return the same functions in another orthonormal basis; what it does not hold goes to D."""
        turned: Matrix = after.B.T @ before.B
        m, mean_m = turned @ self.m, turned @ self.mean_m
        return self._replace(
            m=m,
            d=self.d + before.B @ self.m - after.B @ m,
            momentum_m=turned @ self.momentum_m,
            mean_m=mean_m,
            tops=np.zeros(len(m)),
            mean_d=self.mean_d + before.B @ self.mean_m - after.B @ mean_m,
        )

    def moved(
        self,
        basis: Basis,
        spread: Matrix,
        inner: Matrix | None,
        outer: Matrix,
        level: Matrix,
        *,
        rate: float,
        correction: float,
        every: int,
        least_weight: float,
    ) -> Self:
        """Return the hyperplanes after a step along the gradients of M, D and c, with projections of unit spread.

        Parameters
        ----------
        basis
            What they are relative to.
        spread
            The spread of each projection (b,) before the step.
        inner, outer, level
            B' times the gradient (k, b), None to leave M and c; the gradient of D (d, b); and that of c (b,).
        rate, correction
            The step sizes of M and c, and of D.
        every
            D moves once in ``every`` steps, by the sum of their gradients, because its preconditioner is the most
            expensive part of a step. A constant gradient moves D as far as a move in each step would.
        least_weight
            The least weight of a step in the averages.
        """
        M, momentum_m, c, momentum_c = self.m, self.momentum_m, self.c, self.momentum_c
        if inner is not None:
            momentum_m = _MOMENTUM * momentum_m + basis.inside @ inner * spread
            M = M + np.float32(rate) * momentum_m * spread
            momentum_c = _MOMENTUM * momentum_c + level * spread
            c = c + np.float32(rate) * momentum_c * spread
        D, momentum_d, pull = self.d, self.momentum_d, self.pull + outer * spread
        k = self.k + 1
        if correction and k % every == 0:
            left = _MOMENTUM**every
            momentum_d = left * momentum_d + basis.precondition(pull)
            D = D + np.float32(correction * (1 - left) / (1 - _MOMENTUM)) * momentum_d * spread
            pull = np.zeros_like(pull)
        size: Matrix = np.where(spread > _VANISHED, spread, 1).astype(np.float32)
        M, D, c = M / size, D / size, c / size
        weight = np.float32(min(1.0, max(4 / (k + 3), least_weight)))
        mean_m = M if k == 1 else self.mean_m + weight * (M - self.mean_m)
        mean_d = D if k == 1 else self.mean_d + weight * (D - self.mean_d)
        mean_c = c if k == 1 else self.mean_c + weight * (c - self.mean_c)
        momenta = (momentum_m, momentum_d, momentum_c)
        return type(self)(M, D, c, *momenta, pull, mean_m, mean_d, mean_c, k, self.whitened, self.tops)


def turned_apart(W: Matrix) -> Matrix:
    """Return hyperplanes (d, b) nearer to orthonormal: U S^a V', where U S V' are W with unit columns.

    Information steps turn hyperplanes towards each other, which separates neighbours from others by Hamming
    distance. But sums of margins estimate distances only if the hyperplanes are orthogonal. The power a is 1/2
    from 64 bits on. With 32 bits or fewer it is 1, because margins gain little there and Hamming distance loses;
    between, it is interpolated. Each column keeps its length.

    Examples
    --------
    >>> W = np.eye(64, dtype=np.float32)
    >>> W[0, 1] = 1  # two hyperplanes at 45 degrees
    >>> V = turned_apart(W)
    >>> round(float(V[:, 0] @ V[:, 1] / np.linalg.norm(V[:, 0]) / np.linalg.norm(V[:, 1])), 2)
    0.41
    """
    power = 1 - (1 - _HALFWAY) * min(max((W.shape[1] - _SHORT) / (_LONG - _SHORT), 0.0), 1.0)
    if power == 1 or len(W) == 1:  # SciPy 1.13 cannot decompose a matrix of one number
        return W
    sizes = np.sqrt(np.einsum("ij,ij->j", W, W))
    columns: Matrix = (W / np.where(sizes > 0, sizes, 1)).astype(np.float32)
    few = W.shape[1] <= W.shape[0]
    products = columns.T @ columns if few else columns @ columns.T
    if not np.isfinite(products).all():
        return W  # diverged: the mapping says so
    values, vectors = eigh(products, driver="evd", overwrite_a=True, check_finite=False)
    powers = np.maximum(values, _LEAST * max(values[-1], _LEAST)) ** ((power - 1) / 2)
    turn: Matrix = (vectors * powers) @ vectors.T
    moved: Matrix = columns @ turn if few else turn @ columns
    lengths = np.sqrt(np.einsum("ij,ij->j", moved, moved))
    moved *= sizes / np.where(lengths > 0, lengths, np.float32(1))
    return moved
