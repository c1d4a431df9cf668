"""The features of batch methods: the vectors or a Gaussian kernel map of them, centred and whitened.

All methods with a ``kernel`` parameter use it. Whitening is a change of basis, z = L^-1 (f(x) - mean) with
L L' = C + rho I and C the covariance of f(x); a linear function of z is one of f(x), so it costs nothing when
encoding.
"""

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, solve_triangular

from .. import validation
from ..mapping import GaussianKernel, KernelMapping, LinearMapping
from ..neighbors import squared_distances

Matrix = NDArray[np.float32]
Floats = NDArray[np.float64]

KERNELS = ("linear", "rbf")
_SAMPLE = 2000
_TINY = 1e-30
_NARROWEST = 1e-15
_SMALL = 200
_SAFE = 1e-2  # so much on the diagonal makes a covariance in float32 positive definite


class Features:
    """Training examples as features; turns linear functions of these into a hash mapping.

    Parameters
    ----------
    X
        The examples (n, d).
    kernel
        ``"linear"`` for f(x) = x; ``"rbf"`` for exp(-||x - a||^2 / (2 sigma^2)), one number for each anchor a.
    n_anchors
        How many anchors are drawn from the examples; all of them if there are fewer.
    width
        sigma, in units of the mean distance between examples and anchors.
    shrinkage
        rho, in units of the mean eigenvalue of C; None leaves the features as they are, centred.
    rng
        Draws the anchors.

    Attributes
    ----------
    Z
        The features (n, m).

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> X = (rng.standard_normal((500, 3)) * [9, 1, 1]).astype(np.float32)
    >>> features = Features(X, "linear", shrinkage=0.01, rng=rng)
    >>> features.Z.std(axis=0).round(1)
    array([1. , 0.9, 0.9], dtype=float32)
    >>> features.mapping(np.eye(3, 2, dtype=np.float32))
    LinearMapping(3 -> 2 bits, ...)
    """

    def __init__(
        self,
        X: Matrix,
        kernel: str,
        n_anchors: int = 1000,
        width: float = 1.0,
        shrinkage: float | None = None,
        *,
        rng: np.random.Generator,
    ) -> None:
        self._kernel = _draw_kernel(X, n_anchors, width, rng) if kernel == "rbf" else None
        F = X if self._kernel is None else self._kernel.features(X)
        self._mean: Floats = F.mean(axis=0, dtype=np.float64)
        self._factor: Matrix | None = None
        self.Z: Matrix = F - self._mean.astype(np.float32)
        if shrinkage is not None:
            self._whiten(shrinkage)

    def _whiten(self, shrinkage: float) -> None:
        Z = self.Z if shrinkage >= _SAFE else self.Z.astype(np.float64)
        C = Z.T @ Z  # of one array: half the work
        C /= len(Z)
        diagonal = np.einsum("ii->i", C)
        diagonal += shrinkage * max(float(diagonal.mean()), _TINY)
        self._factor = cholesky(C, lower=True, overwrite_a=True, check_finite=False).astype(np.float32, copy=False)
        self.Z = np.ascontiguousarray(solve_triangular(self._factor, self.Z.T, lower=True, check_finite=False).T)

    def weights(self, W: Matrix) -> Matrix:
        """Return functions of z (m, b) as functions of f(x): L'^-1 W."""
        if self._factor is None:
            return W
        found: Matrix = solve_triangular(self._factor, W, lower=True, trans="T", check_finite=False)
        return found

    def mapping(self, W: Matrix, offset: NDArray[np.floating] | float = 0.0) -> LinearMapping | KernelMapping:
        """Return the mapping whose bit i is 1 where w_i . z(x) + offset_i > 0."""
        weights = self.weights(W)
        offsets = offset - self._mean @ weights
        if self._kernel is None:
            return LinearMapping(weights, offsets)
        return KernelMapping(self._kernel.anchors, self._kernel.width, weights, offsets, kernel=self._kernel)


def check_map(kernel: str, n_anchors: int, width: float) -> tuple[str, int, float]:
    """Return the parameters of the map, or raise."""
    return (
        validation.choice("kernel", kernel, KERNELS),
        validation.integer("n_anchors", n_anchors, minimum=1),
        validation.number("width", width, above=0),
    )


def leading_eigenvectors(C: Floats, k: int) -> Floats:
    """Return the eigenvectors (m, k) of the k largest eigenvalues of a symmetric matrix, largest first.

    Examples
    --------
    >>> abs(leading_eigenvectors(np.diag([1.0, 3.0, 2.0]), 2)).round(1)
    array([[0., 0.],
           [1., 0.],
           [0., 1.]])
    """
    m = len(C)
    if m <= max(_SMALL, 4 * k):
        return _all_eigenvectors(C)[:, :k]
    from scipy.sparse.linalg import ArpackError, eigsh

    start = np.random.default_rng(0).standard_normal(m)  # ARPACK would draw one of its own
    try:
        return np.asarray(eigsh(C, k=k, which="LA", v0=start)[1][:, ::-1])
    except ArpackError:  # a matrix of zeros, or eigenvalues that hardly differ
        return _all_eigenvectors(C)[:, :k]


def _all_eigenvectors(C: Floats) -> Floats:
    return np.asarray(np.linalg.eigh(C)[1][:, ::-1])


def _draw_kernel(X: Matrix, n_anchors: int, width: float, rng: np.random.Generator) -> GaussianKernel:
    order = rng.permutation(len(X))
    anchors = X[np.sort(order[:n_anchors])]
    distance = float(np.sqrt(squared_distances(X[order[-_SAMPLE:]], anchors)).mean(dtype=np.float64))
    return GaussianKernel(anchors, max(width * distance, _NARROWEST))
