"""Shrinkage whitening: a preconditioner that makes correlated features learnable (beyond the paper).

Gradient ascent is too slow along directions in which the features hardly vary, and too fast along those in which
they all vary together. Whitening corrects both: z = A (x - mean) / ||A (x - mean)|| with A = a (C + rho I)^(-1/2),
C the covariance and rho a multiple of its mean eigenvalue, so that noise is not amplified.

Written with the eigenvectors V of C, A = a (I - V diag(s) V'), s = 1 - sqrt(rho / (lambda + rho)): directions
with small lambda have s near 0 and are left out, and A is never formed.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..mapping import ordered_sums as sums
from ..state import State

Matrix = NDArray[np.float32]

_MAX_ROWS = 2048
_MAX_DIRECTIONS = 256
_NEGLIGIBLE = 0.05
_TINY = 1e-12


@dataclass(frozen=True)
class Whitening:
    """A frozen preconditioner x -> z of unit length.

    Attributes
    ----------
    mean
        What is subtracted (d,).
    directions
        Eigenvectors (d, r) of the covariance that matter, at most 256.
    damping
        s (r,): how much each of them is shortened, 0 for not at all and 1 for wholly.
    gain
        The factor a; it scales the length of A (x - mean), and so the sharpness of the relaxed codes.
    """

    mean: Matrix
    directions: Matrix
    damping: Matrix
    gain: float = 1.0

    @cached_property
    def _back(self) -> Matrix:
        return np.ascontiguousarray(self.directions.T)

    @classmethod
    def identity(cls, n_features: int) -> Self:
        """Return the preconditioner that only scales to unit length.

        Examples
        --------
        >>> Whitening.identity(2).transform(np.array([[3.0, 4.0]], dtype=np.float32))
        (array([[0.6, 0.8]], dtype=float32), array([5.], dtype=float32))
        """
        empty = np.zeros((n_features, 0), dtype=np.float32)
        return cls(np.zeros(n_features, dtype=np.float32), empty, np.zeros(0, dtype=np.float32))

    @classmethod
    def fit(cls, X: Matrix, shrinkage: float) -> Self:
        """Estimate from a sample; ``shrinkage`` is rho in units of the mean eigenvalue.

        Examples
        --------
        >>> X = np.random.default_rng(0).standard_normal((500, 3)).astype(np.float32) * [9, 1, 1]
        >>> Z, _ = Whitening.fit(X.astype(np.float32), shrinkage=0.01).transform(X.astype(np.float32))
        >>> Z.std(axis=0).round(1)
        array([0.6, 0.6, 0.6], dtype=float32)
        """
        X = X[:_MAX_ROWS]
        n, d = X.shape
        mean = X.mean(axis=0, dtype=np.float64).astype(np.float32)
        centred = X - mean
        small = centred.T @ centred if d <= n else centred @ centred.T  # the smaller one
        eigenvalues, U = np.linalg.eigh(small.astype(np.float64) / n)
        eigenvalues, U = eigenvalues[-_MAX_DIRECTIONS:], U[:, -_MAX_DIRECTIONS:]
        rho = shrinkage * max(float(np.trace(small, dtype=np.float64)) / n / d, _TINY)
        keep = eigenvalues > _NEGLIGIBLE * rho
        eigenvalues, U = eigenvalues[keep], U[:, keep].astype(np.float32)
        V = U if d <= n else centred.T @ (U / np.sqrt(n * eigenvalues).astype(np.float32))
        damping = 1 - np.sqrt(rho / (eigenvalues + rho))
        return cls(mean, np.ascontiguousarray(V), damping.astype(np.float32))

    def transform(self, X: Matrix) -> tuple[Matrix, Matrix]:
        """Return z (n, d) of unit length and the lengths ||A (x - mean)|| (n,) before that.

        Each row is independent of the others to the last bit.
        """
        Z = X - self.mean
        if len(self.damping):
            parts = sums.product(Z, self.directions)
            parts *= self.damping
            Z -= sums.product(parts, self._back)
        lengths = sums.lengths(Z).astype(np.float32)
        Z /= np.maximum(lengths, np.float32(_TINY))[:, None]
        return Z, np.maximum(lengths * np.float32(self.gain), np.float32(_TINY))

    def pull(self, dW: Matrix) -> Matrix:
        """Return A dW: a step in the space of z as a step in the space of x."""
        parts = self.directions.T @ dW
        return np.float32(self.gain) * (dW - self.directions @ (self.damping[:, None] * parts))

    def push(self, M: Matrix) -> Matrix:
        """Return A^-1 M: weights in the space of x as weights in the space of z."""
        parts = self.directions.T @ M
        stretch = self.damping / (1 - self.damping)
        return (M + self.directions @ (stretch[:, None] * parts)) / np.float32(self.gain)

    def matched(self, other: Self, M: Matrix) -> Self:
        """Return this preconditioner with the gain under which weights ``M`` look as long as under ``other``."""
        wanted, got = (np.linalg.norm(space.push(M), axis=0).mean() for space in (other, self))
        return type(self)(self.mean, self.directions, self.damping, float(self.gain * got / max(wanted, _TINY)))

    def state(self) -> State:
        """Return the parts as plain values."""
        return {"mean": self.mean, "directions": self.directions, "damping": self.damping, "gain": self.gain}
