"""FastHash once more, as plain loops: the loss of every pair of codes written as -1/+1, and boosted trees."""

import itertools
import math

import numpy as np


def pair_loss(loss, a, b, neighbors):
    """The loss of a pair of codes: KSH's (m y - a . b)^2, or the hinge on the distance d against m / 2."""
    m = len(a)
    inner = sum(int(x) * int(y) for x, y in zip(a, b, strict=True))
    d = (m - inner) / 2
    if loss == "ksh":
        return (m * (1 if neighbors else -1) - inner) ** 2
    return d**2 if neighbors else max(m / 2 - d, 0) ** 2


def total_loss(loss, codes, neighbors):
    """The sum over all pairs of different items."""
    pairs = itertools.combinations(range(len(codes)), 2)
    return sum(pair_loss(loss, codes[i], codes[j], neighbors[i][j]) for i, j in pairs)


def with_bit(codes, z):
    """The codes with one bit more, given as booleans."""
    return np.column_stack([codes, np.where(z, 1, -1)])


def best_bit(loss, codes, neighbors):
    """The smallest loss that any values of the next bit give; all are tried."""
    values = itertools.product((False, True), repeat=len(codes) - 1)
    return min(total_loss(loss, with_bit(codes, (True, *rest)), neighbors) for rest in values)


def boosted(X, z, n_trees, depth, rate, min_leaf, loss):
    """The sums (n,) of boosted trees: each split is the best of all thresholds, each leaf takes a Newton step."""
    y = [1.0 if value else -1.0 for value in z]
    share = sum(z) / len(z)
    f = [0.5 * math.log(share / (1 - share))] * len(z)
    for _ in range(n_trees):
        if loss == "exponential":
            g = [-a * math.exp(-a * b) for a, b in zip(y, f, strict=True)]
            h = [math.exp(-a * b) for a, b in zip(y, f, strict=True)]
        else:
            p = [1 / (1 + math.exp(2 * a * b)) for a, b in zip(y, f, strict=True)]
            g = [-2 * a * b for a, b in zip(y, p, strict=True)]
            h = [4 * b * (1 - b) for b in p]
        leaves = [list(range(len(z)))]
        for _ in range(depth):
            leaves = [part for leaf in leaves for part in split(X, leaf, g, h, min_leaf)]
        for leaf in leaves:
            step = -sum(g[i] for i in leaf) / sum(h[i] for i in leaf)
            for i in leaf:
                f[i] += rate * step
    return np.array(f)


def split(X, leaf, g, h, min_leaf):
    """The two parts of a leaf with the largest gain, or the leaf."""

    def score(rows):
        return sum(g[i] for i in rows) ** 2 / sum(h[i] for i in rows)

    best, parts = 1e-10, [leaf]
    for k in range(X.shape[1]):
        for value in sorted({float(X[i, k]) for i in leaf})[:-1]:
            left, right = ([i for i in leaf if (X[i, k] <= value) == side] for side in (True, False))
            if min(len(left), len(right)) >= min_leaf:
                gain = score(left) + score(right) - score(leaf)
                if gain > best + 1e-10:
                    best, parts = gain, [left, right]
    return parts
