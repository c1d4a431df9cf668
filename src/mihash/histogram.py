"""Triangular-kernel histograms of Hamming distances and their derivative (Sec. 3.2, Eq. 8-10).

K + 1 bins have their centres at v_0 = 0, ..., v_K = b, Delta = b / K apart. A distance between two centres counts
in both bins, in shares that fall linearly (Eq. 9), so that a histogram of real-valued distances can be
differentiated. A whole-number distance with K = b is on one centre and counts in that bin alone.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def bin_positions(distances: ArrayLike, n_bits: int, n_bins: int) -> tuple[NDArray[np.int64], Floats]:
    """Return for each distance the bin k whose centre is at or below it, and the share of bin k + 1.

    Bin k receives 1 - share: together these are the two non-zero delta_{x,k} of Eq. 9. The distance b itself
    belongs wholly to the last bin: k = K - 1 with share 1.

    Examples
    --------
    >>> bin_positions([0.0, 2.5, 8.0], n_bits=8, n_bins=8)
    (array([0, 2, 7]), array([0. , 0.5, 1. ]))
    """
    scaled = np.asarray(distances, dtype=np.float64) * (n_bins / n_bits)
    lower = np.clip(np.floor(scaled).astype(np.int64), 0, n_bins - 1)
    return lower, scaled - lower


def histogram(distances: ArrayLike, n_bits: int, n_bins: int | None = None) -> Floats:
    """Return the normalised histogram p (K + 1,) of distances in [0, b] (Eq. 8); zeros if there are none.

    Examples
    --------
    >>> histogram([0, 2.5, 4], n_bits=4)
    array([0.33333333, 0.        , 0.16666667, 0.16666667, 0.33333333])
    """
    n_bins = n_bits if n_bins is None else n_bins
    lower, share = bin_positions(distances, n_bits, n_bins)
    mass = np.bincount(lower, weights=1 - share, minlength=n_bins + 1)
    mass[1:] += np.bincount(lower, weights=share, minlength=n_bins)
    return mass / max(len(lower), 1)


def histogram_slope(weights: Floats, distances: ArrayLike, n_bits: int, n_bins: int | None = None) -> Floats:
    """Return the derivative of ``weights @ histogram(distances)`` with respect to each distance (Eq. 10).

    Moving a distance up by a little takes 1 / Delta from the bin below it and gives it to the bin above.
    On a centre, where Eq. 10 has two values, the one to the right is taken.

    Examples
    --------
    >>> histogram_slope(np.array([0.0, 1.0, 3.0]), [0.5, 1.5], n_bits=2)
    array([0.5, 1. ])
    """
    n_bins = n_bits if n_bins is None else n_bins
    lower, _ = bin_positions(distances, n_bits, n_bins)
    return (weights[lower + 1] - weights[lower]) * (n_bins / n_bits) / max(len(lower), 1)
