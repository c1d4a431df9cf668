"""Certified signs: the code of a vector under linear functions, the same on every machine.

A bit is the sign of one number, s = sum_k x_k w_k + offset L, summed in float64 in the order of the features. L is
1, or the length of x for functions of vectors of unit length. A product of BLAS in float32 nearly always has that
sign too: whatever the order of its sum, it is wrong by at most gamma_d |x| |w| (Higham, Accuracy and Stability of
Numerical Algorithms, Sec. 3.1). So the product may have any shape and any number of threads, and only numbers
within that bound of 0 are summed again.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, jit_reordering
from .ordered_sums import Matrix

_SLICE = 1024  # features of one product: gamma grows with their number, and so does what is summed again
_UNIT_32, _UNIT_64 = 2.0**-24, 2.0**-53
_SMALLEST = 2.0**-126  # products below it lose digits, or all of them on processors that flush them to 0
_SAFE = 1.01  # for the rounding of the bounds themselves


class LinearSigns:
    """The signs of linear functions as packed codes.

    Parameters
    ----------
    weights
        The matrix W (d, b).
    offset
        What is added to each function (b,).
    unit
        Whether vectors count as being of unit length: the offset is then multiplied by their length. A row of
        zeros has the bits of the offset.

    Examples
    --------
    >>> signs = LinearSigns(np.ones((2, 1), dtype=np.float32), offset=np.array([-1.2]), unit=True)
    >>> signs.encode(np.array([[1, 1], [9, 0], [0, 0]], dtype=np.float32)).ravel()
    array([1, 0, 0], dtype=uint8)
    """

    def __init__(self, weights: Matrix, offset: NDArray[Any], unit: bool = False) -> None:
        self._weights = np.ascontiguousarray(weights)
        self._columns = np.ascontiguousarray(weights.T)
        self._offset = offset.astype(np.float64)
        self._unit = unit
        self._norms = np.sqrt((self._columns.astype(np.float64) ** 2).sum(axis=1)) * (1 + 2.0**-40)

    def encode(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of float32 vectors (n, d).

        ``projections`` are X W + offset in float32, if the caller has them already; not for ``unit``.
        """
        d, b = self._weights.shape
        X = np.ascontiguousarray(X)
        codes = np.empty((len(X), -(-b // 8)), dtype=np.uint8)
        if projections is None:
            P, added, n_terms = self._product(X), self._offset, min(d, _SLICE)
        else:
            P, added, n_terms = projections, np.zeros(b), d + 1
        share = n_terms * _UNIT_32
        errors = (_SAFE * (share / (1 - share) + 2.0**-40), _SAFE * 4 * (d + 4) * _UNIT_64, 2 * d * _SMALLEST)
        _encode(X, P, self._columns, self._offset, added, self._norms, self._unit, *errors, codes)
        return codes

    def _product(self, X: Matrix) -> NDArray[Any]:
        """Return X W as BLAS gives it, overflows too; slices of many features are added in float64."""
        d = len(self._weights)
        if d <= _SLICE:
            return X @ self._weights
        total = np.zeros((len(X), len(self._offset)))
        for start in range(0, d, _SLICE):
            part = slice(start, start + _SLICE)
            total += X[:, part] @ self._weights[part]
        return total


@jit_reordering
def _dot(x, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(x)):
        total += np.float64(x[k]) * np.float64(w[k])
    return total


@jit
def _ordered_dot(x, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(x)):
        total += np.float64(x[k]) * np.float64(w[k])
    return total


@jit
def _sign(x, w, offset, unit, norm, size, error):  # type: ignore[no-untyped-def]
    """Return whether s > 0: by a sum in any order in float64 where that is certain, else by the one in order."""
    scale = size if unit else 1.0
    value = _dot(x, w) + offset * scale
    if abs(value) > error * (size * norm + abs(offset) * scale):
        return value > 0
    if unit:
        scale = np.sqrt(_ordered_dot(x, x))
        if scale == 0:
            return offset > 0
    return _ordered_dot(x, w) + offset * scale > 0


@jit
def _encode(X, P, columns, offset, added, norms, unit, product_error, sum_error, lost, codes):  # type: ignore[no-untyped-def]
    """Write the signs of P + added L, each certified or found again."""
    n, n_bits = P.shape
    positive = np.zeros(codes.shape[1] * 8, dtype=np.uint8)
    words = positive.view(np.uint64)
    sure = np.zeros(n_bits, dtype=np.uint8)
    for i in range(n):
        size = np.sqrt(_dot(X[i], X[i])) * (1 + 2.0**-40)
        scale = size if unit else 1.0
        unsure = 0
        for j in range(n_bits):
            value = P[i, j] + added[j] * scale
            bound = product_error * (size * norms[j] + abs(offset[j]) * scale) + lost * (1 + size + norms[j])
            positive[j] = value > 0
            sure[j] = bound < abs(value) < np.inf
            unsure += 1 - sure[j]
        if unsure:
            for j in range(n_bits):
                if not sure[j]:
                    positive[j] = _sign(X[i], columns[j], offset[j], unit, norms[j], size, sum_error)
        for byte in range(codes.shape[1]):  # eight bytes of 0 or 1 become one byte: the product gathers their bits
            codes[i, byte] = (words[byte] * np.uint64(0x0102040810204080)) >> np.uint64(56)
