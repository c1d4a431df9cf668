"""The basis of `MomentHash`: what the moments of a stream say about where its hyperplanes should lie.

With labels the ridge discriminant B = (C + (d/n) t I)^-1 A, without labels the leading principal directions of C;
t = tr C / d. The gradient of mutual information is preconditioned inside the basis and outside of it.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_solve, cholesky

from ..batch.itq import closest_rotation
from ..information import arriving_information
from ..mapping import ordered_sums as sums
from .leading_covariance import LeadingCovariance
from .moments import Moments

Matrix = NDArray[np.float32]
Covariance = Matrix | LeadingCovariance
Factor = tuple[Matrix, float]

_LEAST_RIDGE = 1e-3  # in units of t: so much on the diagonal makes a covariance in float32 positive definite
_SPARE = 16  # directions beyond those asked for, with which the iteration for the leading ones converges faster
_ITERATIONS, _AGAIN = 12, 3
_ROTATIONS = 30  # turns of ITQ
_SMALL, _FEW_ROTATIONS = 1000, 10  # turns where the sample has fewer examples: more would fit that sample alone
_POWERS = (0.0, 0.5, 1.0)  # of whitening: none, half and full
_CLEARLY = 1.05  # times as much information makes a power the better one
_TINY = 1e-12


class Basis(NamedTuple):
    """What is computed from the moments at a refresh.

    Attributes
    ----------
    mean
        What rows are centred at (d,): the mean of the class means, or without labels that of the stream.
    B
        The basis (d, k).
    inside
        The preconditioner of the gradient in the basis (k, k).
    outside
        The Cholesky factor (d, d) of C + ridge t I, whose inverse is the preconditioner outside of it. Where only
        leading directions of C are known, V (d, r): the inverse is (I - V V') / floor.
    floor
        The number of that name; 0 for a Cholesky factor.
    """

    mean: Matrix
    B: Matrix
    inside: Matrix
    outside: Matrix
    floor: float = 0.0

    def column_lengths(self) -> NDArray[np.float64]:
        """Return the length of each column of B (k,)."""
        return sums.lengths(np.ascontiguousarray(self.B.T))

    def precondition(self, gradient: Matrix) -> Matrix:
        """Return (C + ridge t I)^-1 times a gradient (d, b)."""
        return solve((self.outside, self.floor), gradient)


def dimension(C: Covariance) -> int:
    """Return how many features a covariance is of."""
    return C.n_features if isinstance(C, LeadingCovariance) else len(C)


def scale_of(C: Covariance, moments: Moments) -> float | None:
    """Return t, the mean eigenvalue of C; None if every example was the same."""
    trace = C.trace if isinstance(C, LeadingCovariance) else float(np.trace(C, dtype=np.float64))
    t = trace / dimension(C)
    if not np.isfinite(t) or t <= _TINY * max(1e-30, float(np.square(moments.mean).mean())):
        return None
    return t


def factor(C: Covariance, ridge: float) -> Factor:
    """Return the Cholesky factor L of C + ridge I = L L' and 0, or V and f with the inverse (I - V V') / f."""
    if isinstance(C, LeadingCovariance):
        return C.factor(ridge)
    full = C.copy()
    full[np.diag_indices(len(C))] += np.float32(ridge)
    return cholesky(full, lower=True, overwrite_a=True, check_finite=False), 0.0


def solve(factored: Factor, A: Matrix) -> Matrix:
    """Return (C + ridge I)^-1 A for what `factor` returned."""
    matrix, floor = factored
    if not floor:
        found: Matrix = cho_solve((matrix, True), A, check_finite=False)
        return found
    return (A - matrix @ (matrix.T @ A)) / np.float32(floor)


def discriminant(
    moments: Moments, C: Covariance, t: float, ridge: float = 1.0
) -> tuple[Matrix, NDArray[np.float64]]:
    """Return the basis B = (C + ridge (d/n) t I)^-1 A (d, c) and E = A' B, the covariance of the classes in it."""
    A = moments.cross()
    B = solve(factor(C, max(ridge * dimension(C) / moments.n, _LEAST_RIDGE) * t), A)
    E = (A.T @ B).astype(np.float64)
    return B, (E + E.T) / 2


def spectrum(E: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the eigenvalues of E that are not rounding, and their vectors; none for a single class."""
    values, vectors = np.linalg.eigh(E)
    kept = (values > 1e-5 * values[-1]) & (values[-1] > _TINY)
    return values[kept], vectors[:, kept]


def principal_directions(C: Covariance, n: int, start: Matrix | None) -> tuple[NDArray[np.float64], Matrix]:
    """Return the n largest eigenvalues of a covariance, largest first, and their vectors (d, n).

    A subspace iteration, from ``start`` if directions of a similar matrix are known. Near the end of the spectrum
    directions may be mixed with those that just miss it.

    Examples
    --------
    >>> C = np.diag(np.float32([4.0, 9.0, 1.0]))
    >>> values, vectors = principal_directions(C, 2, None)
    >>> values.round(3).tolist(), np.abs(vectors.round(3)).tolist()
    ([9.0, 4.0], [[0.0, 1.0], [1.0, 0.0], [0.0, 0.0]])
    """
    if isinstance(C, LeadingCovariance):
        return C.excess[:n] + C.rest, np.ascontiguousarray(C.directions[:, :n])
    d = len(C)
    if n + _SPARE > d // 2:  # nearly all of them: the full decomposition is not slower
        values, vectors = np.linalg.eigh(C)
        return values[::-1][:n].astype(np.float64), np.ascontiguousarray(vectors[:, ::-1][:, :n])
    spare = np.random.default_rng(0).standard_normal((d, n + _SPARE)).astype(np.float32)
    if start is not None:
        spare[:, : start.shape[1]] = start
    Q = np.linalg.qr(spare)[0]
    for _ in range(_ITERATIONS if start is None else _AGAIN):
        Q = np.linalg.qr(C @ Q)[0]
    values, turn = np.linalg.eigh((Q.T @ C @ Q).astype(np.float64))
    return values[::-1][:n], np.asarray(Q @ turn[:, ::-1][:, :n].astype(np.float32))


def rotations(P: Matrix, n_bits: int, seed: int) -> NDArray[np.float64]:
    """Return rotations (k, b) that bring principal components (n, k) close to binary codes (ITQ).

    For more bits than components, several rotations from different starts.
    """
    k = P.shape[1]
    parts = []
    for number, start in enumerate(range(0, n_bits, k)):
        n = min(k, n_bits - start)
        rng = np.random.default_rng([seed, 13, number])
        R = np.linalg.qr(rng.standard_normal((n, n)))[0].astype(np.float32)
        V = P[:, :n]
        for _ in range(_ROTATIONS if len(P) >= _SMALL else _FEW_ROTATIONS):
            signs = np.where(V @ R > 0, np.float32(1), np.float32(-1))
            R = closest_rotation(V, signs).astype(np.float32)
        parts.append(np.pad(R, ((0, k - n), (0, 0))))
    return np.concatenate(parts, axis=1).astype(np.float64)


def principal_hyperplanes(
    P: Matrix, values: NDArray[np.float64], n_bits: int, seed: int, near: NDArray[np.uint8] | None
) -> tuple[NDArray[np.float64], bool]:
    """Return hyperplanes (k, b) in the principal directions, and whether these were whitened.

    They are ITQ of components (n, k) with variances (k,).

    Where a few directions hold most of the variance, such as those between clusters that lie far apart, every
    hyperplane would separate along these, and items of one cluster would share a code. So the components are also
    whitened, by half and in full, and the start is the one whose codes say most about who is near.

    Parameters
    ----------
    P, values
        The components, and their variances in the stream.
    n_bits, seed
        The code length, and what seeds the rotations.
    near
        Which of the last rows of P are near to each of the first (m, n): m rows are compared with the others. None
        leaves the components as they are.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> P = rng.standard_normal((1000, 8)).astype(np.float32)
    >>> P[:, 0] += 100 * rng.choice([-1, 1], 1000)  # two clusters far apart
    >>> distances = np.square(P[:100, None] - P[None]).sum(axis=2)
    >>> near = (distances <= np.sort(distances[:, 100:], axis=1)[:, 20:21]).view(np.uint8)
    >>> for near in (None, near):
    ...     M, whitened = principal_hyperplanes(P, P.var(axis=0), 16, 0, near)
    ...     print(whitened, len(np.unique(P @ M > 0, axis=0)) > 50)
    False False
    True True
    """
    best, most, whitened = rotations(P, n_bits, seed), -1.0, False
    if near is None:
        return best, whitened
    for power in _POWERS:
        scale = np.maximum(values, _TINY) ** (-power / 2)
        M = scale[:, None] * rotations((P * scale).astype(np.float32), n_bits, seed) if power else best
        codes, m = np.packbits(P @ M.astype(np.float32) > 0, axis=1, bitorder="little"), len(near)
        found = arriving_information(codes[:m], codes[m:], near[:, m:].view(np.bool_), n_bits).mean()
        if most < 0 or found > _CLEARLY * most:
            best, most, whitened = M, found, power > 0
    return best, whitened
