"""Linear hash functions on a Gaussian kernel map."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from . import ordered_sums as sums
from .hash_mapping import HashMapping, frozen
from .linear import LinearMapping
from .ordered_sums import Matrix


class KernelMapping(HashMapping):
    """Linear hash functions on a Gaussian kernel map: bit i is 1 where w_i . k(x) + offset_i > 0.

    k(x) = exp(-||x - a||^2 / (2 width^2)), one number for each anchor a.

    Parameters
    ----------
    anchors
        The anchors (m, d); a copy is kept.
    width
        The kernel's width sigma.
    weights
        The matrix W (m, b).
    offset
        One number for each bit; zeros by default.
    kernel
        The kernel map of these anchors and this width, if the caller has it already.

    Examples
    --------
    >>> mapping = KernelMapping([[0.0], [3.0]], width=1.0, weights=np.eye(2), offset=[-0.5, -0.5])
    >>> mapping.encode([[0.1], [2.9], [9.0]]).ravel()
    array([1, 2, 0], dtype=uint8)
    """

    kind = "kernel"

    def __init__(
        self,
        anchors: ArrayLike,
        width: ArrayLike,
        weights: ArrayLike,
        offset: ArrayLike | None = None,
        *,
        kernel: GaussianKernel | None = None,
    ) -> None:
        self._kernel = GaussianKernel(anchors, float(np.reshape(width, ()))) if kernel is None else kernel
        self._linear = LinearMapping(weights, offset)
        super().__init__(self._kernel.anchors.shape[1], self._linear.n_bits)
        if self._linear.n_features != len(self._kernel.anchors):
            raise InvalidInput(
                f"`weights` must have a row for each of the {len(self._kernel.anchors)} anchors; "
                f"got {self._linear.n_features}."
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return anchors, width, weights and offset."""
        return {"anchors": self._kernel.anchors, "width": self._kernel.width, **self._linear.arrays()}

    def project(self, X: Matrix) -> Matrix:
        """Return k(X) W + offset."""
        return self._linear.project(self._kernel.features(X))

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes: certified signs on the kernel map, which uses exp: the same on one machine."""
        return self._linear.signs(self._kernel.features(X), projections)


class GaussianKernel:
    """The kernel map k(x) = exp(-||x - a||^2 / (2 width^2)); what depends on the anchors alone is computed once.

    Examples
    --------
    >>> kernel = GaussianKernel(np.array([[0, 0], [1, 1]], dtype=np.float32), width=1.0)
    >>> kernel.features(np.zeros((1, 2), dtype=np.float32)).round(3)
    array([[1.   , 0.368]], dtype=float32)
    """

    def __init__(self, anchors: ArrayLike, width: float) -> None:
        if not (np.isfinite(width) and width > 0):
            raise InvalidInput(f"`width` must be above 0; got {width}.")
        self.anchors = frozen("anchors", anchors, ndim=2)
        self.width = frozen("width", [width], ndim=1)
        self._centre = self.anchors.mean(axis=0)
        centred = self.anchors - self._centre
        self._inner = np.ascontiguousarray(-2 * centred.T)
        self._squares = np.einsum("ij,ij->i", centred, centred)
        self._factor = np.float32(-0.5 / float(self.width[0]) ** 2)

    def features(self, X: Matrix) -> Matrix:
        """Return k(x) for each row (n, anchors), each row independent of the others to the last bit."""
        Z = X - self._centre
        squares = sums.product(Z, self._inner)
        squares += np.einsum("ij,ij->i", Z, Z)[:, None]
        squares += self._squares
        np.maximum(squares, 0, out=squares)
        squares *= self._factor
        return np.exp(squares, out=squares)
