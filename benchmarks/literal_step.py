"""A literal port of the online step (Eq. 8-17): NumPy vectors over the reservoir, loops over bins and bits.

What one writes with the paper beside the editor: each p_k and each dp_k / dPhi_i is its own expression over
the reservoir, in double precision, and everything is computed anew for every example.
"""

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def step(
    W: Array,
    x: Array,
    X_reservoir: Array,
    near: NDArray[np.bool_],
    learning_rate: float,
    scale: float,
    skip_empty: bool = False,
) -> Array:
    """Return dW (d, b) of one ascent step on I in nats, with K = b.

    ``skip_empty`` leaves out bins without mass, whose terms are 0: how much that saves depends on the data.
    """
    n_bits = W.shape[1]
    code = 2 / (1 + np.exp(-scale * (x @ W))) - 1
    codes = 2 / (1 + np.exp(-scale * (X_reservoir @ W))) - 1
    distances = (n_bits - codes @ code) / 2
    sides = []
    for mask in (near, ~near):
        p_side, slopes = np.zeros(n_bits + 1), []
        for k in range(n_bits + 1):
            p_side[k] = _pulse(distances[mask], k).mean()
            slopes.append(_pulse_slope(distances[mask], k))
        sides.append((float(mask.mean()), p_side, slopes, codes[mask]))
    p = sum(prior * p_side for prior, p_side, _, _ in sides)
    gradient = np.zeros(n_bits)
    for prior, p_side, slopes, codes_side in sides:
        by_bin = prior * (_log(p_side) - _log(p))
        for i in range(n_bits):
            by_bit = -codes_side[:, i] / 2
            for k in range(n_bits + 1):
                if skip_empty and p_side[k] == 0:
                    continue
                gradient[i] += by_bin[k] * (slopes[k] * by_bit).mean()
    by_projection = gradient * scale / 2 * (1 - code**2)
    return learning_rate * np.outer(x, by_projection)


def _log(p: Array) -> Array:
    """Return log(p), and 0 where p is 0."""
    return np.log(p, out=np.zeros_like(p), where=p > 0)


def _pulse(distances: Array, k: int) -> Array:
    """Eq. 9 with bins of width 1: the share of bin k in each distance."""
    rising = (distances > k - 1) & (distances <= k)
    falling = (distances > k) & (distances < k + 1)
    return rising * (distances - (k - 1)) + falling * (k + 1 - distances)


def _pulse_slope(distances: Array, k: int) -> Array:
    """Eq. 15: the derivative of the pulse."""
    rising = (distances > k - 1) & (distances <= k)
    falling = (distances > k) & (distances < k + 1)
    return 1.0 * rising - 1.0 * falling
