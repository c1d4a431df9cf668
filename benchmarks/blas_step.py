"""The online step vectorised in the obvious way: BLAS and bincount, everything computed again for each example.

Single precision; the reservoir's projections X_R W are what it spends its time on.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float32]


def step(
    W: Array, x: Array, X_reservoir: Array, near: NDArray[np.bool_], learning_rate: float, scale: float
) -> Array:
    """Return dW (d, b) of one ascent step on I in nats, with K = b."""
    n, n_bits = len(X_reservoir), W.shape[1]
    half = np.float32(scale / 2)
    code, codes = np.tanh(half * (x @ W)), np.tanh(half * (X_reservoir @ W))
    distances = (np.float32(n_bits) - codes @ code) * np.float32(0.5)
    lower = np.clip(distances.astype(np.intp), 0, n_bits - 1)
    share = distances - lower.astype(np.float32)
    keys = lower + (n_bits + 1) * near
    size = 2 * (n_bits + 1)
    mass = np.bincount(keys, 1 - share, size) + np.bincount(keys + 1, share, size)
    neg, pos = mass[: n_bits + 1], mass[n_bits + 1 :]
    both = np.maximum(neg + pos, 1e-30) / n
    n_pos = np.count_nonzero(near)
    ratio = np.zeros(size)
    np.log(neg / (n - n_pos) / both, out=ratio[: n_bits + 1], where=neg > 0)
    np.log(pos / n_pos / both, out=ratio[n_bits + 1 :], where=pos > 0)
    slope = ((ratio[keys + 1] - ratio[keys]) / n).astype(np.float32)
    by_projection = (slope @ codes) * np.float32(-0.5) * half * (1 - code * code)
    return np.float32(learning_rate) * np.outer(x, by_projection)
