"""Two bytes for each item that turn sums of margins into estimates of distances.

With y the distances of an item to the hyperplanes and q those of a query, both with the signs of their bits, the
code of the item has sign(y) only. The vector f sign(y) with f = |y|^2 / |y|_1 is the multiple of it whose product
with y is |y|^2. So |y|^2 - 2 f (|q|_1 - 2 m) estimates |q - y|^2 - |q|^2, where m is the sum of the query's
margins over the bits that differ (the factors of RaBitQ: Gao and Long, SIGMOD 2024). The bytes are |y|^2 from 2^-8
to 2^4 and f sqrt(b) from 2^-4 to 2^2, on a logarithmic scale: steps of 3.3 % and 1.6 %. Normalised features have a
mean square length of 1, so nearly all items are inside; others get the nearest end. If there are more bits than
features, y is first divided by sqrt(b / d).
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit
from .ordered_sums import Matrix

N_FACTORS = 2


def _scale(first: float, last: float) -> NDArray[np.float64]:
    """Return 256 values from one power of two to another, each a fixed multiple of the one before."""
    values = np.full(
        256, round(2.0 ** ((last - first) / 255) * 2.0**40) / 2.0**40
    )  # libraries differ in last bits
    values[0] = 2.0**first
    return np.multiply.accumulate(values)


SQUARES = _scale(-8, 4)
"""What the first byte stands for: |y|^2."""

LENGTHS = _scale(-4, 2)
"""What the second byte stands for: f sqrt(b)."""


def factors_of(margins: Matrix, n_features: int) -> NDArray[np.uint8]:
    """Return the two bytes (n, 2) of items with ``n_features`` features from their margins (n, b).

    Examples
    --------
    >>> factors = factors_of(np.array([[0.5, 0.5, 0.5, 0.5], [1.0, 2.0, 0.0, 1.0]], dtype=np.float32), 4)
    >>> SQUARES[factors[:, 0]].round(2), LENGTHS[factors[:, 1]].round(2)
    (array([1.  , 6.01]), array([1.  , 2.98]))
    """
    out = np.empty((len(margins), N_FACTORS), dtype=np.uint8)
    excess = _excess(margins.shape[1], n_features)
    _factors(np.ascontiguousarray(margins), excess * _middles(SQUARES), excess**0.5 * _middles(LENGTHS), out)
    return out


def _excess(n_bits: int, n_features: int) -> float:
    return max(1.0, n_bits / n_features)


def _middles(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    middles: NDArray[np.float64] = (scale[1:] + scale[:-1]) / 2
    return middles


def estimates(
    sums: NDArray[np.float32],
    margins: Matrix,
    factors: NDArray[np.uint8],
    rows: NDArray[np.int64],
    n_features: int,
    products_only: bool = False,
) -> NDArray[np.float32]:
    """Return |y|^2 - 2 f (|q|_1 - 2 m) for queries and their candidates (n_queries, n).

    f (|q|_1 - 2 m) stands for q . y, and is limited to |q| |y|. So nothing is nearer than the query itself.

    Parameters
    ----------
    sums
        m: the margins of each query, summed over the bits in which a candidate differs (n_queries, n).
    margins
        Of the queries (n_queries, b).
    factors
        The two bytes of each item (n_items, 2).
    rows
        Which items are the candidates of each query (n_queries, n).
    n_features
        The dimension of the vectors.
    products_only
        Whether to return -f (|q|_1 - 2 m) instead, which stands for the negative inner product of q and y.

    Examples
    --------
    >>> factors, margins = np.array([[170, 170]], dtype=np.uint8), np.ones((1, 4), dtype=np.float32)
    >>> estimates(np.float32([[0.0, 1.0]]), margins, factors, np.array([[0, 0]]), 4).round(2)
    array([[-3., -1.]], dtype=float32)
    """
    n_bits = margins.shape[1]
    wide = margins.astype(np.float64)
    sizes = np.add.accumulate(wide, axis=1)[:, -1:]  # in the order of the bits
    norms = np.sqrt(np.add.accumulate(wide * wide, axis=1)[:, -1:])
    out = np.empty(sums.shape, dtype=np.float32)
    roots, lengths, squares, times = _scales(n_bits, n_features, products_only)
    _estimates(sums, rows, factors, sizes[:, 0], norms[:, 0], roots, lengths, squares, times, out)
    return out


@lru_cache(16)
def _scales(n_bits: int, n_features: int, products_only: bool) -> tuple[Any, Any, Any, float]:
    """Return what the bytes stand for, as `_estimates` takes it: |y|, f, |y|^2 or 0, and how often f counts."""
    excess = _excess(n_bits, n_features)
    lengths, squares = (excess / n_bits) ** 0.5 * LENGTHS, excess * SQUARES
    own, times = (0.0, 1.0) if products_only else (1.0, 2.0)
    return np.sqrt(squares), lengths, own * squares, times


@jit
def _estimates(sums, rows, factors, sizes, norms, roots, lengths, squares, times, out):  # type: ignore[no-untyped-def]
    for q in range(len(sums)):
        for i in range(sums.shape[1]):
            square, length = factors[rows[q, i], 0], factors[rows[q, i], 1]
            product = min(lengths[length] * (sizes[q] - 2.0 * np.float64(sums[q, i])), norms[q] * roots[square])
            out[q, i] = np.float32(squares[square] - times * product)


@jit
def _factors(margins, squares, lengths, out):  # type: ignore[no-untyped-def]
    n, b = margins.shape
    root = np.sqrt(np.float64(b))
    for i in range(n):
        square, size = 0.0, 0.0
        for j in range(b):
            margin = np.float64(margins[i, j])
            square += margin * margin
            size += margin
        length = root * square / size if size > 0 else 0.0
        out[i, 0] = np.searchsorted(squares, square)
        out[i, 1] = np.searchsorted(lengths, length)
