"""Pairs of consecutive examples, for OKH and AdaptHash: which are similar, and which of their bits are wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit_reordering
from ..reservoir import Reservoir

Matrix = NDArray[np.float32]
Flags = NDArray[np.bool_]


def loss_margin(alpha: float, n_bits: int) -> float:
    """Return alpha b without the rounding error of its last bit, which would turn a loss of 0 into a whole bit.

    >>> 10 - (1 - 0.9) * 10, loss_margin(0.9, 10)
    (9.0, 9.0)
    >>> 1 - (1 - 0.9) * 10 > 0, 1 - (10 - loss_margin(0.9, 10)) > 0
    (True, False)
    """
    return round(alpha * n_bits, 9)


def similar_pairs(X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir) -> Flags:
    """Return for rows (0, 1), (2, 3), ... whether they are neighbours; empty while that is not known.

    The last of an odd number of rows has no partner and is left out.

    Examples
    --------
    >>> X = np.zeros((5, 1), dtype=np.float32)
    >>> similar_pairs(X, np.array([1, 1, 1, 2, 2]), Reservoir(2))
    array([ True, False])
    """
    rule = reservoir.neighborhood_for(X, y)
    if rule is None or len(X) < 2:
        return np.zeros(0, dtype=np.bool_)
    first, second = slice(0, len(X) - 1, 2), slice(1, None, 2)
    labels = (None, None) if y is None else (y[first], y[second])
    return rule.between(X[first], labels[0], X[second], labels[1]).diagonal().copy()


@jit_reordering
def insert(keys: NDArray[Any], bits: NDArray[np.int64], n: int, key: float, bit: int) -> int:
    """Insert a bit into the first n, which are sorted by their keys, behind equal ones; return n + 1."""
    place = n
    while place > 0 and key < keys[place - 1]:
        keys[place], bits[place] = keys[place - 1], bits[place - 1]
        place -= 1
    keys[place], bits[place] = key, bit
    return n + 1
