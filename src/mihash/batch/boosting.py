"""Boosted trees on binned features: the second step of FastHash (Sec. 4.3.2).

Each tree is grown level by level from histograms of the derivatives of the loss; its leaves take a Newton step.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit

LOSSES = ("logistic", "exponential")
_BINS = 64
_PATIENCE = 10
_TINY = 1e-12
_LEAST_CURVATURE = 1e-3  # of a leaf, whose step is divided by it

Trees = dict[str, Any]


def boost(
    X: NDArray[np.float32],
    z: NDArray[np.bool_],
    *,
    n_trees: int,
    depth: int,
    rate: float,
    min_leaf: int,
    loss: str = "logistic",
    tolerance: float | None = None,
) -> Trees:
    """Return trees whose sum has the sign of z (n,), as the arrays of `ForestMapping` for one bit.

    Parameters
    ----------
    X
        Features (n, d).
    z
        What to fit.
    n_trees
        How many trees at most.
    depth
        The depth of a tree.
    rate
        What the values of a tree are multiplied by.
    min_leaf
        How many examples a leaf has at least.
    loss
        With f the sum of the trees and y the values as -1 and 1: ``"logistic"``, log(1 + exp(-2 y f)), or
        ``"exponential"``, exp(-y f), the published one.
    tolerance
        Stop when ten trees in a row lowered the mean loss by no more than this; None makes all of them.

    Examples
    --------
    >>> X = np.arange(8, dtype=np.float32)[:, None]
    >>> trees = boost(X, X[:, 0] > 2.5, n_trees=1, depth=1, rate=1.0, min_leaf=1)
    >>> float(trees["threshold"][0]), trees["left"].tolist()
    (2.5, [1, 1, 2])
    """
    edges, binned = _binned(X)
    n = len(X)
    y = np.where(z, 1.0, -1.0)
    share = np.clip(z.mean(), 1 / (2 * n), 1 - 1 / (2 * n))
    offset = 0.5 * float(np.log(share / (1 - share)))
    f = np.full(n, offset)
    n_nodes = 2 ** (depth + 1) - 1
    parts: list[tuple[NDArray[Any], ...]] = []
    losses = [_mean_loss(loss, y * f)]
    for _ in range(n_trees):
        gradient, curvature = _derivatives(loss, y, f)
        feature, split, left = (np.zeros(n_nodes, dtype=np.int64) for _ in range(3))
        value = np.zeros(n_nodes)
        leaf = np.empty(n, dtype=np.int64)
        size = _grow(binned, gradient, curvature, depth, min_leaf, feature, split, left, value, leaf)
        value *= rate
        f += value[leaf]
        parts.append((feature[:size], split[:size], left[:size], value[:size]))
        losses.append(_mean_loss(loss, y * f))
        if len(losses) <= _PATIENCE or tolerance is None:
            continue
        if losses[-_PATIENCE - 1] - min(losses[-_PATIENCE:]) <= tolerance:
            break
    sizes = np.array([len(part[0]) for part in parts])
    roots = np.cumsum(sizes) - sizes
    features = np.concatenate([part[0] for part in parts])
    return {
        "feature": features,
        "threshold": edges[features, np.concatenate([part[1] for part in parts])],
        "left": np.concatenate([part[2] + root for part, root in zip(parts, roots, strict=True)]),
        "value": np.concatenate([part[3] for part in parts]),
        "roots": roots,
        "offset": offset,
    }


def _binned(X: NDArray[np.float32]) -> tuple[NDArray[np.float64], NDArray[np.uint8]]:
    """Return edges (d, bins) between values of each feature, and the bin of each value (d, n)."""
    d = X.shape[1]
    edges = np.zeros((d, _BINS))
    binned = np.empty((d, len(X)), dtype=np.uint8)
    for k in range(d):
        column = np.sort(X[:, k].astype(np.float64))
        values = column[np.append(True, column[1:] > column[:-1])]
        if len(values) > _BINS:
            values = np.unique(np.quantile(column, np.linspace(0, 1, _BINS), method="inverted_cdf"))
        between = (values[1:] + values[:-1]) / 2
        edges[k, : len(between)] = between
        binned[k] = np.searchsorted(between, X[:, k])
    return edges, binned


def _derivatives(
    loss: str, y: NDArray[np.float64], f: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the first and second derivative of the loss of each example with respect to f."""
    if loss == "exponential":
        weight = np.exp(np.clip(-y * f, -30, 30))
        return -y * weight, weight
    p = 1 / (1 + np.exp(np.clip(2 * y * f, -60, 60)))
    return -2 * y * p, 4 * p * (1 - p)


def _mean_loss(loss: str, margin: NDArray[np.float64]) -> float:
    if loss == "exponential":
        return float(np.exp(np.clip(-margin, -30, 30)).mean())
    return float(np.logaddexp(0, -2 * margin).mean())


@jit
def _grow(
    binned: NDArray[np.uint8],
    gradient: NDArray[np.float64],
    curvature: NDArray[np.float64],
    depth: int,
    min_leaf: int,
    feature: NDArray[np.int64],
    split: NDArray[np.int64],
    left: NDArray[np.int64],
    value: NDArray[np.float64],
    leaf: NDArray[np.int64],
) -> int:
    """Grow a tree: write its nodes, siblings side by side, and the leaf of each example; return their number."""
    d, n = binned.shape
    leaf[:] = 0
    left[0] = 0
    value[0] = -gradient.sum() / (curvature.sum() + _TINY)
    first, size = 0, 1
    for _ in range(depth):
        width = size - first
        best = np.zeros(width)
        where = np.full(width, -1)
        cut = np.zeros(width, dtype=np.int64)
        sums = np.empty((width, _BINS, 3))
        for k in range(d):
            sums[:] = 0
            for i in range(n):
                node = leaf[i] - first
                if node >= 0:
                    entry = sums[node, binned[k, i]]
                    entry[0] += gradient[i]
                    entry[1] += curvature[i]
                    entry[2] += 1
            for node in range(width):
                g_all, h_all, n_all = sums[node, :, 0].sum(), sums[node, :, 1].sum(), sums[node, :, 2].sum()
                base = g_all * g_all / (h_all + _TINY)
                g, h, count = 0.0, 0.0, 0.0
                for b in range(_BINS - 1):
                    if sums[node, b, 2] == 0:
                        continue
                    g += sums[node, b, 0]
                    h += sums[node, b, 1]
                    count += sums[node, b, 2]
                    if count < min_leaf or n_all - count < min_leaf:
                        continue
                    rest, rest_h = g_all - g, h_all - h
                    if min(h, rest_h) < _LEAST_CURVATURE:
                        continue
                    gain = g * g / (h + _TINY) + rest * rest / (rest_h + _TINY) - base
                    if gain > best[node] + 1e-10:
                        best[node], where[node], cut[node] = gain, k, b
        start = size
        for node in range(width):
            if where[node] >= 0:
                parent = first + node
                feature[parent], split[parent], left[parent] = where[node], cut[node], size
                value[parent] = 0
                left[size], left[size + 1] = size, size + 1
                size += 2
        if size == start:
            break
        g_sum, h_sum = np.zeros(size - start), np.zeros(size - start)
        for i in range(n):
            node = leaf[i]
            if node >= first and left[node] != node:
                leaf[i] = left[node] + (binned[feature[node], i] > split[node])
                g_sum[leaf[i] - start] += gradient[i]
                h_sum[leaf[i] - start] += curvature[i]
        for node in range(size - start):
            value[start + node] = -g_sum[node] / (h_sum[node] + _TINY)
        first = start
    return size
