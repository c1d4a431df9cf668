"""The gradient of mutual information on a small sample, with smoothed soft histograms (Sec. 3.2, Eq. 7-17).

Relaxed codes V = tanh(slope p / s) in (-1, 1) have distances d_ij = (b - v_i.v_j) / 2. For each anchor i, the
distances to its neighbours and to others are two soft histograms with triangular bins; each is smoothed by
pseudo-counts of the pooled histogram of all anchors, and I_i is the mutual information (nats) between distance and
neighbourhood. The gradient flows through both ends of every pair. The spread and the log ratios of the histograms
count as constants; without smoothing, the gradient is that of I itself.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit_reordering

Matrix = NDArray[np.float32]

N_BINS = 16
"""How many bins a histogram has."""


class InformationStep(NamedTuple):
    """What a sample says about its projections.

    Attributes
    ----------
    gradient
        d(mean I) / dp (n, b).
    spread
        The root mean square of each projection (b,).
    information
        I of each anchor, in nats.
    """

    gradient: Matrix
    spread: Matrix
    information: NDArray[np.float64]


def information_step(
    projections: Matrix, near: NDArray[np.uint8], slope: float, smoothing: float
) -> InformationStep:
    """Return information and gradient for projections (n, b) of a sample whose first rows are the anchors.

    Parameters
    ----------
    projections
        Of all rows; centred.
    near
        Which rows are neighbours of each anchor (n_anchors, n), as 0 or 1; a row is not compared with itself.
    slope
        How steep the relaxed codes are, in units of the spread of each bit.
    smoothing
        How many pseudo-counts of the pooled histogram are added to each anchor's two.

    Examples
    --------
    >>> p = np.array([[2.0], [1.0], [-1.0], [-2.0]], dtype=np.float32)
    >>> near = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0]], dtype=np.uint8)
    >>> step = information_step(p, near, slope=1.0, smoothing=0.0)
    >>> bool(step.gradient[0, 0] > 0 > step.gradient[3, 0]), step.information.shape
    (True, (4,))
    """
    n_anchors, b = len(near), projections.shape[1]
    spread = np.sqrt(np.mean(projections * projections, axis=0)) + np.float32(1e-9)
    steep = np.float32(slope) / spread
    V = np.tanh(projections * steep)
    slopes = np.empty(near.shape, dtype=np.float32)
    information = np.empty(n_anchors)
    _slopes(V[:n_anchors] @ V.T, near, b, N_BINS, np.float32(smoothing), slopes, information)
    gradient = slopes.T @ V[:n_anchors]
    gradient[:n_anchors] += slopes @ V
    gradient *= 1 - V * V
    gradient *= steep * np.float32(-0.5 / n_anchors)
    return InformationStep(gradient, spread, information)


@jit_reordering
def _slopes(
    dots: Matrix,
    near: NDArray[np.uint8],
    n_bits: int,
    n_bins: int,
    smoothing: np.float32,
    slopes: Matrix,
    information: NDArray[np.float64],
) -> None:
    """Fill slopes_ij = dI_i / dd_ij and information_i from the inner products of relaxed codes."""
    n, m = dots.shape
    per = np.float32(n_bins / n_bits)
    half = np.float32(0.5) * per
    top = np.float32(n_bits)
    mass = np.zeros((n, 2, n_bins + 1), dtype=np.float32)
    counts = np.zeros((n, 2), dtype=np.float32)
    lower = np.empty((n, m), dtype=np.int16)
    pool = np.zeros((2, n_bins + 1))
    total = np.zeros(2)
    ratio = np.empty((2, n_bins + 1), dtype=np.float32)
    for i in range(n):
        own = mass[i]
        for j in range(m):
            place = (top - dots[i, j]) * half
            low = min(max(np.int32(place), np.int32(0)), np.int32(n_bins - 1))
            lower[i, j] = low
            if j != i:
                share = place - np.float32(low)
                kind = np.int64(near[i, j])
                own[kind, low] += np.float32(1) - share
                own[kind, low + 1] += share
                counts[i, kind] += np.float32(1)
        for side in range(2):
            total[side] += counts[i, side]
            for k in range(n_bins + 1):
                pool[side, k] += own[side, k]
    for side in range(2):
        for k in range(n_bins + 1):
            pool[side, k] /= max(total[side], 1.0)
    for i in range(n):
        information[i] = 0.0
        if counts[i, 0] == 0 or counts[i, 1] == 0:  # nothing to tell apart
            for j in range(m):
                slopes[i, j] = 0
            continue
        own = mass[i]
        both = counts[i, 0] + counts[i, 1]
        share_near = counts[i, 1] / both
        for k in range(n_bins + 1):
            p_far = (own[0, k] + smoothing * np.float32(pool[0, k])) / (counts[i, 0] + smoothing)
            p_near = (own[1, k] + smoothing * np.float32(pool[1, k])) / (counts[i, 1] + smoothing)
            p = p_far * (np.float32(1) - share_near) + p_near * share_near
            ratio[0, k] = np.log(p_far / p) if p_far > 0 else np.float32(0)
            ratio[1, k] = np.log(p_near / p) if p_near > 0 else np.float32(0)
            information[i] += (own[0, k] * ratio[0, k] + own[1, k] * ratio[1, k]) / both
        factor = per / both
        for j in range(m):
            bin_ = np.int64(lower[i, j])
            kind = np.int64(near[i, j])
            slopes[i, j] = (ratio[kind, bin_ + 1] - ratio[kind, bin_]) * factor
        slopes[i, i] = 0
