"""SHK: supervised hashing with kernels, inner products of codes fitted to labels (Sec. 4.3.2, Table 1)."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..mapping import HashMapping
from ..neighbors import Labels, label_neighborhood
from .batch_method import ANCHORS, BatchMethod, Matrix, Progress, indicators
from .features import Features, check_map, leading_eigenvectors

Vector = NDArray[np.float32]
Product = Callable[[Vector], Vector]

_ENOUGH = 1e-4  # of the objective: a step that gains less is the last
_SHORTEST = 1e-6


class SHK(BatchMethod):
    """Learn hash functions, one after the other, so that inner products of codes follow the labels.

    With H (n, b) the codes of the training examples and S their similarities, 1 for neighbours and -1 for others,
    ||H H' - b S||^2 is lowered greedily: the next bit h = sgn(z(X) a) is to make h' R h large, with R = b S less
    the products h h' of the bits before it. a starts at the leading eigenvector of z(X)' R z(X), as if there were
    no signs, and is refined by accelerated gradient ascent with 2 sigma(z(X) a) - 1 in their place; of the two
    codes the better one is kept. ``history`` is ||H H' - b S||^2 as a share of ||b S||^2 after each bit.

    Works with class labels and multi-labels; the latter need a matrix of n x n numbers. Features should be centred
    and of unit length (`mihash.datasets.normalize`).

    Parameters
    ----------
    n_bits
        The code length b.
    iterations
        How many steps of ascent a bit takes at most; 0 leaves it at the eigenvector.
    ridge
        What is added to the diagonal of z(X)' z(X) / n, which scales the eigenproblem and the ascent, in units of
        its mean.
    kernel
        ``"rbf"``, the publication's Gaussian kernel map with anchors, or ``"linear"``.
    n_anchors
        How many anchors are drawn from the examples. 300 is the publication's.
    width
        The kernel's width, in units of the mean distance between examples and anchors.
    seed
        Seeds the anchors.

    Notes
    -----
    The publication ascends in the coordinates of the anchors. Here features are whitened: the same problem in
    better coordinates, in which 20 steps give more than 100 did without. ``iterations``, ``ridge`` and ``width``
    were chosen, from 10 to 500, 1e-6 to 0.1 and 0.5 to 1, on divisions of the CIFAR-10 retrieval set that no test
    query is part of (500 a class to learn from, 100 a class to query with, 12 to 48 bits).

    References
    ----------
    W. Liu, J. Wang, R. Ji, Y.-G. Jiang, S.-F. Chang, "Supervised hashing with kernels", CVPR 2012.

    Examples
    --------
    >>> import mihash
    >>> data = mihash.datasets.digits()
    >>> mapping = SHK(n_bits=16, n_anchors=50).fit(data.X[:1000], data.y[:1000])
    >>> codes, queries = mapping.encode(data.X[:1000]), mapping.encode(data.X[1000:])
    >>> round(mihash.mean_average_precision(queries, codes, (data.y[1000:], data.y[:1000]), n_bits=16), 1)
    0.9
    """

    name = "shk"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        iterations: int = 20,
        ridge: float = 1e-2,
        kernel: str = "rbf",
        n_anchors: int = 300,
        width: float = 0.5,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.iterations = validation.integer("iterations", iterations, minimum=0)
        self.ridge = validation.number("ridge", ridge, above=0)
        self.kernel, self.n_anchors, self.width = check_map(kernel, n_anchors, width)

    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> HashMapping:
        """Learn one bit after the other."""
        assert y is not None
        features = Features(X, self.kernel, self.n_anchors, self.width, self.ridge, rng=self.generator(ANCHORS))
        Z, n, b = features.Z, len(X), self.n_bits
        similar = _similarity(y)
        T = b * (Z.T @ similar(Z)).astype(np.float64)
        H = np.zeros((n, b), dtype=np.float32)
        W = np.zeros((Z.shape[1], b), dtype=np.float32)
        left = 1.0
        for k in range(b):

            def residual(v: Vector, before: Matrix = H[:, :k]) -> Vector:
                return np.float32(b) * similar(v) - before @ (before.T @ v)

            start = leading_eigenvectors(T, 1)[:, 0].astype(np.float32)
            projected = Z @ start
            length = np.float32(np.sqrt(n) / max(float(np.linalg.norm(projected)), _SHORTEST))
            start, projected = start * length, projected * length
            refined, moved, _ = _refine(Z, start, projected, residual, 1 / (n * n * b), self.iterations)
            fits = [_fit(_signs(p), residual) for p in (projected, moved)]
            better = fits[1] > fits[0]
            W[:, k], H[:, k] = (refined, _signs(moved)) if better else (start, _signs(projected))
            u = (Z.T @ H[:, k]).astype(np.float64)
            T -= np.outer(u, u)
            left += (1 - 2 * max(fits) / n**2) / b**2
            self.history.append(left)
            progress(k + 1, b)
        return features.mapping(W)


def _similarity(y: Labels) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
    """Return the function v -> S v; for classes S = 2 Y Y' - 1 is never formed."""
    if y.ndim == 1:
        Y = indicators(y)
        return lambda v: 2 * (Y @ (Y.T @ v)) - v.sum(axis=0)
    S = label_neighborhood(y).between(None, y, None, y).astype(np.float32)
    S = 2 * S - 1
    np.fill_diagonal(S, 1)  # an example without a label is still like itself
    return lambda v: S @ v


def _signs(projected: Vector) -> Vector:
    return np.where(projected > 0, np.float32(1), np.float32(-1))


def _fit(h: Vector, residual: Product) -> float:
    """Return h' R h."""
    return float(np.dot(h.astype(np.float64), residual(h)))


def _refine(
    Z: Matrix, a: Vector, projected: Vector, residual: Product, factor: float, iterations: int
) -> tuple[Vector, Vector, list[float]]:
    """Raise factor v' R v, v = tanh(Z a / 2), by accelerated gradient ascent; return a, Z a and the values.

    A step is halved until it gains at least half of what its slope promises; when momentum leads down, it is
    dropped. So the values never fall.
    """
    values = [_smooth(projected, residual, factor)[0]]
    ahead, ahead_projected = a, projected
    momentum, step = 1.0, 10.0
    for _ in range(iterations):
        here, by_projection = _smooth(ahead_projected, residual, factor)
        slope: Vector = Z.T @ by_projection
        climbed, promised = Z @ slope, float(np.dot(slope, slope))
        while True:
            length = np.float32(step)
            new, new_projected = ahead + length * slope, ahead_projected + length * climbed
            there = _smooth(new_projected, residual, factor)[0]
            if there >= here + 0.5 * step * promised or step < _SHORTEST:
                break
            step /= 2
        if there < values[-1]:
            if ahead is a:
                break
            ahead, ahead_projected, momentum = a, projected, 1.0
            continue
        after = (1 + np.sqrt(1 + 4 * momentum**2)) / 2
        share = np.float32((momentum - 1) / after)
        ahead, ahead_projected = new + share * (new - a), new_projected + share * (new_projected - projected)
        a, projected, momentum = new, new_projected, after
        values.append(there)
        if values[-1] - values[-2] < _ENOUGH * abs(values[-1]):
            break
        step *= 1.5
    return a, projected, values


def _smooth(projected: Vector, residual: Product, factor: float) -> tuple[float, Vector]:
    """Return factor v' R v with v = tanh(projected / 2), and its gradient by the projections."""
    v: Vector = np.tanh(projected / np.float32(2))
    pulled = residual(v)
    gradient: Vector = np.float32(factor) * (pulled * (1 - v * v))
    return factor * float(np.dot(v, pulled)), gradient
