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

from .. import validation
from ..kernels import jit, jit_reordering
from .ordered_sums import Matrix, product

FEW_ROWS = 4  # which are multiplied without BLAS: to limit its threads would take longer
_SLICE = 1024  # features of one product: gamma grows with their number, and so does what is summed again
_UNIT_32, _UNIT_64 = 2.0**-24, 2.0**-53
_SMALLEST = 2.0**-126  # products below it lose digits, or all of them on processors that flush them to 0
_SAFE = 1.01  # for the rounding of the bounds themselves


def without_blas(n: int, n_features: int) -> bool:
    """Tell whether the signs of n rows with ``n_features`` features are computed without BLAS."""
    return n <= FEW_ROWS and n_features <= _SLICE


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
        d = len(weights)
        self._bounds = self._error_bounds(min(d, _SLICE) + d // _SLICE)

    def encode(
        self, X: Matrix, projections: Matrix | None = None, first_row: int | None = None
    ) -> NDArray[np.uint8]:
        """Return the packed codes (n, ceil(b / 8)) of float32 vectors (n, d).

        ``projections`` are X W + offset in float32, if the caller has them already; not for ``unit``. With
        ``first_row``, a number that is not finite is refused, and rows are counted from there.
        """
        d, b = self._weights.shape
        X = np.ascontiguousarray(X)
        sizes = np.empty(len(X))
        _lengths(X, self._unit, sizes)  # before the product, which then finds X in the cache
        if first_row is not None and not np.isfinite(sizes).all():
            validation.finite("X", X, first_row, any_length=True)
        codes = np.empty((len(X), -(-b // 8)), dtype=np.uint8)
        if projections is None:
            P, added, bounds = self._product(X), self._offset, self._bounds
        else:
            P, added, bounds = projections, np.zeros(b), self._error_bounds(d + 1)
        sum_error = _SAFE * 4 * (d + 4) * _UNIT_64
        offsets = (self._offset, added)
        _encode(X, sizes, P, self._columns, *offsets, self._norms, self._unit, *bounds, sum_error, codes)
        return codes

    def _error_bounds(self, n_terms: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return slope and level of the bound of a product's error, slope |x| + level, for sums of ``n_terms``."""
        share = n_terms * _UNIT_32
        product_error = _SAFE * (share / (1 - share) + 2.0**-40)
        lost = 2 * len(self._weights) * _SMALLEST
        slope, level = product_error * self._norms + lost, lost * (1 + self._norms)
        weight = product_error * np.abs(self._offset)
        return (slope + weight, level) if self._unit else (slope, level + weight)

    def _product(self, X: Matrix) -> Matrix:
        """Return X W as BLAS gives it, overflows too; products of slices of many features are added."""
        d = len(self._weights)
        if without_blas(len(X), d):
            return product(X, self._weights)
        total: Matrix = X[:, :_SLICE] @ self._weights[:_SLICE]
        for start in range(_SLICE, d, _SLICE):
            part = slice(start, start + _SLICE)
            total += X[:, part] @ self._weights[part]
        return total


@jit_reordering
def _dot(x, w):  # type: ignore[no-untyped-def]
    total = 0.0
    for k in range(len(x)):
        total += np.float64(x[k]) * np.float64(w[k])
    return total


@jit_reordering
def _squares(x):  # type: ignore[no-untyped-def]
    total = np.float32(0)
    for k in range(len(x)):
        total += x[k] * x[k]
    return total


@jit
def _length(x, exact):  # type: ignore[no-untyped-def]
    """Return the length of x; where it need not be exact, a number that is at least as great and hardly greater.

    In float32, a sum of squares is too small by at most its gamma; one that is near the ends of the range of
    float32 is summed in float64.
    """
    total = np.float64(_squares(x))
    if exact or not len(x) * 2.0**-100 < total < 2.0**120:
        return np.sqrt(_dot(x, x)) * (1 + 2.0**-40)
    return np.sqrt(total) * (1 + (len(x) + 8) * 2.0**-23)


@jit
def _lengths(X, exact, out):  # type: ignore[no-untyped-def]
    """Write the length of each row; only a row of finite numbers has a finite one."""
    for i in range(len(X)):
        out[i] = _length(X[i], exact)


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
def _encode(X, sizes, P, columns, offset, added, norms, unit, slope, level, sum_error, codes):  # type: ignore[no-untyped-def]
    """Write the signs of P + added L, where these are certain by slope |x| + level, else found again."""
    n, n_bits = P.shape
    positive = np.zeros(codes.shape[1] * 8, dtype=np.uint8)
    words = positive.view(np.uint64)
    for i in range(n):
        size = sizes[i]
        scale = size if unit else 1.0
        n_sure = 0
        for j in range(n_bits):
            value = P[i, j] + added[j] * scale
            positive[j] = value > 0
            n_sure += slope[j] * size + level[j] < abs(value) < np.inf
        if n_sure < n_bits:
            for j in range(n_bits):
                if not slope[j] * size + level[j] < abs(P[i, j] + added[j] * scale) < np.inf:
                    positive[j] = _sign(X[i], columns[j], offset[j], unit, norms[j], size, sum_error)
        for byte in range(codes.shape[1]):  # eight bytes of 0 or 1 become one byte: the product gathers their bits
            codes[i, byte] = (words[byte] * np.uint64(0x0102040810204080)) >> np.uint64(56)
