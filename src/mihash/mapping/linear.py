"""Linear hash functions (Sec. 3.2), and the product that they rest on."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from ..kernels import one_thread
from .base import BLOCK_ROWS, HashMapping, Matrix, frozen

__all__ = ["LinearMapping", "multiply_rows"]


def multiply_rows(X: Matrix, W: Matrix) -> Matrix:
    """Return X @ W so that a row of the result depends on that row of X and on W alone.

    BLAS gives other last bits for other shapes and numbers of threads. So every product here has one shape, 64
    rows, the last one padded with zeros, and one thread: a vector has the same projection alone, in a batch, or in
    another order.

    Examples
    --------
    >>> X, W = np.ones((70, 3), dtype=np.float32), np.eye(3, 2, dtype=np.float32)
    >>> multiply_rows(X, W).shape
    (70, 2)
    """
    n, d = X.shape
    W = np.ascontiguousarray(W)
    out = np.empty((n, W.shape[1]), dtype=np.float32)
    whole = n - n % BLOCK_ROWS
    with one_thread():
        if whole:
            blocks = np.ascontiguousarray(X[:whole]).reshape(-1, BLOCK_ROWS, d)
            np.matmul(blocks, W, out=out[:whole].reshape(-1, BLOCK_ROWS, W.shape[1]))
        if whole < n:
            padded = np.zeros((BLOCK_ROWS, d), dtype=np.float32)
            padded[: n - whole] = X[whole:]
            out[whole:] = (padded @ W)[: n - whole]
    return out


class LinearMapping(HashMapping):
    """Linear hash functions: bit i is 1 where w_i . x + offset_i > 0 (Sec. 3.2).

    Parameters
    ----------
    weights
        The matrix W (d, b); a copy is kept.
    offset
        One number for each bit; zeros by default. It carries a mean that is subtracted, for example.

    Examples
    --------
    >>> mapping = LinearMapping(np.array([[1.0, -1.0], [0.0, 2.0]]), offset=[0.0, -1.0])
    >>> mapping.encode([[1.0, 0.0], [0.5, 2.0]]).ravel()
    array([1, 3], dtype=uint8)
    """

    kind = "linear"

    def __init__(self, weights: ArrayLike, offset: ArrayLike | None = None) -> None:
        self._weights = frozen("weights", weights, ndim=2)
        given = np.zeros(self._weights.shape[1]) if offset is None else offset
        self._offset = frozen("offset", given, ndim=1)
        if self._offset.shape != self._weights.shape[1:]:
            raise InvalidInput(
                f"`offset` must have one number for each of the {self._weights.shape[1]} bits; "
                f"got shape {self._offset.shape}."
            )

    @property
    def weights(self) -> Matrix:
        """The matrix W (d, b), read-only."""
        return self._weights

    @property
    def offset(self) -> Matrix:
        """What is added to each bit's projection (b,), read-only."""
        return self._offset

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return int(self._weights.shape[1])

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return int(self._weights.shape[0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the offset."""
        return {"weights": self._weights, "offset": self._offset}

    def project(self, X: Matrix) -> Matrix:
        """Return X W + offset, each row independent of the others to the last bit."""
        projections = multiply_rows(X, self._weights)
        projections += self._offset
        return projections
