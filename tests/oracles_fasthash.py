"""FastHash's first step once more, as plain loops: the loss of every pair, from codes written as -1/+1."""

import itertools

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
