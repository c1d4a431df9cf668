"""Sums in a fixed order: results that are the same to the last bit on every machine.

BLAS promises nothing about last bits: they change with the shape of a product, the place of a row in it, the
number of threads and the processor. Here products are added in the order of the features, and multiply and add are
rounded apart. So a row of a result depends on that row of the input alone, and is the same on every IEEE machine.
"""

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit

Matrix = NDArray[np.float32]


def product(X: Matrix, W: Matrix) -> Matrix:
    """Return X @ W in float32, each number summed in the order of the features.

    Examples
    --------
    >>> X, W = np.ones((70, 3), dtype=np.float32), np.eye(3, 2, dtype=np.float32)
    >>> product(X, W)[0]
    array([1., 1.], dtype=float32)
    """
    out = np.zeros((len(X), W.shape[1]), dtype=np.float32)
    _product(np.ascontiguousarray(X), np.ascontiguousarray(W), out)
    return out


def lengths(X: Matrix) -> NDArray[np.float64]:
    """Return the Euclidean length of each row, squares summed in float64 in the order of the features.

    Examples
    --------
    >>> lengths(np.array([[3, 4], [0, 0]], dtype=np.float32))
    array([5., 0.])
    """
    out = np.empty(len(X))
    _lengths(np.ascontiguousarray(X), out)
    return out


def over_rows(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the sum of the rows, one after the other.

    Examples
    --------
    >>> over_rows(np.array([[1e16, 1.0], [1.0, 1.0], [-1e16, 1.0]]))
    array([0., 3.])
    """
    total: NDArray[np.float64] = np.add.accumulate(values, axis=0)[-1]
    return total


def to_unit_length(X: Matrix) -> Matrix:
    """Return rows of unit length; a row of zeros stays.

    Examples
    --------
    >>> to_unit_length(np.array([[3e-40, 4e-40], [0, 0]], dtype=np.float32)).round(3)
    array([[0.6, 0.8],
           [0. , 0. ]], dtype=float32)
    """
    X = np.ascontiguousarray(X)
    out = np.empty_like(X)
    _scale(X, lengths(X), out)
    return out


@jit
def _product(X, W, out):  # type: ignore[no-untyped-def]
    """Add X @ W to ``out``: four rows at a time and four features in one pass over the outputs."""
    n, d = X.shape
    b = W.shape[1]
    for i in range(0, n - n % 4, 4):
        o, p, q, r = out[i], out[i + 1], out[i + 2], out[i + 3]
        for k in range(0, d - 3, 4):
            u, v, w, t = W[k], W[k + 1], W[k + 2], W[k + 3]
            x, y, z, s = X[i, k : k + 4], X[i + 1, k : k + 4], X[i + 2, k : k + 4], X[i + 3, k : k + 4]
            x0, x1, x2, x3 = x[0], x[1], x[2], x[3]
            y0, y1, y2, y3 = y[0], y[1], y[2], y[3]
            z0, z1, z2, z3 = z[0], z[1], z[2], z[3]
            s0, s1, s2, s3 = s[0], s[1], s[2], s[3]
            for j in range(b):
                o[j] = (((o[j] + x0 * u[j]) + x1 * v[j]) + x2 * w[j]) + x3 * t[j]
                p[j] = (((p[j] + y0 * u[j]) + y1 * v[j]) + y2 * w[j]) + y3 * t[j]
                q[j] = (((q[j] + z0 * u[j]) + z1 * v[j]) + z2 * w[j]) + z3 * t[j]
                r[j] = (((r[j] + s0 * u[j]) + s1 * v[j]) + s2 * w[j]) + s3 * t[j]
        for row in range(i, i + 4):
            for k in range(d - d % 4, d):
                for j in range(b):
                    out[row, j] += X[row, k] * W[k, j]
    for i in range(n - n % 4, n):
        for k in range(d):
            for j in range(b):
                out[i, j] += X[i, k] * W[k, j]


@jit
def _lengths(X, out):  # type: ignore[no-untyped-def]
    """Write the lengths of rows, eight sums side by side: each waits for its last addition."""
    n, d = X.shape
    whole = n - n % 8
    sums = np.empty(8)
    for i in range(0, whole, 8):
        sums[:] = 0.0
        for k in range(d):
            for r in range(8):
                value = np.float64(X[i + r, k])
                sums[r] += value * value
        for r in range(8):
            out[i + r] = np.sqrt(sums[r])
    for i in range(whole, n):
        total = 0.0
        for k in range(d):
            value = np.float64(X[i, k])
            total += value * value
        out[i] = np.sqrt(total)


@jit
def _scale(X, sizes, out):  # type: ignore[no-untyped-def]
    """Write each row divided by its length, in float64: the inverse of a tiny length does not fit into float32."""
    for i in range(len(X)):
        factor = 1.0 / sizes[i] if sizes[i] > 0 else 0.0
        for k in range(X.shape[1]):
            out[i, k] = np.float32(X[i, k] * factor)
