"""Mutual information between Hamming distance and neighbourhood, quality and gradient (Sec. 3.1-3.2).

I(D; C) measures how much the distance D of an item tells about C, whether it is a neighbour. Values are in bits
(logarithms to base 2): 0 <= I <= H(C) <= 1. An item without neighbours, or without non-neighbours, has I = 0 and
gives no gradient.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .codes import as_words
from .distance_counts import MOST_BITS, Words, count, make_pairs
from .errors import InvalidInput
from .histogram import histogram, histogram_slope
from .kernels import jit, popcount

Floats = NDArray[np.float64]
Counts = NDArray[np.int32]


def mutual_information(
    distances: ArrayLike,
    is_neighbor: ArrayLike,
    n_bits: int,
    n_bins: int | None = None,
    form: str = "distance",
) -> float:
    """Return I(D; C) of one item in bits, from its distances to other items.

    Parameters
    ----------
    distances
        Hamming distances in [0, n_bits], whole or (of relaxed codes) real.
    is_neighbor
        True where the other item is a neighbour.
    n_bits
        The code length b.
    n_bins
        K of Eq. 8; K + 1 bins are used. K = b by default, one bin for each distance.
    form
        ``"distance"`` for H(D) - H(D|C) (Eq. 3), ``"neighborhood"`` for H(C) - H(C|D) (Eq. 2). They agree.

    Examples
    --------
    >>> import mihash
    >>> mihash.mutual_information([0, 1, 7, 8], [True, True, False, False], n_bits=8)
    1.0
    >>> mihash.mutual_information([0, 8, 0, 8], [True, True, False, False], n_bits=8)
    0.0
    """
    n_bits = validation.integer("n_bits", n_bits, minimum=1)
    n_bins = n_bits if n_bins is None else validation.integer("n_bins", n_bins, minimum=1)
    validation.choice("form", form, ("distance", "neighborhood"))
    values = validation.numbers("distances", distances, ndim=1)
    if not (values.min() >= 0 and values.max() <= n_bits):
        raise InvalidInput(f"`distances` must lie between 0 and n_bits = {n_bits}.")
    mask = validation.boolean_matrix("is_neighbor", is_neighbor, (len(values),))
    joint = _joint(values, mask, n_bits, n_bins)
    p_distance, p_class = joint.sum(axis=0), joint.sum(axis=1)
    own = p_distance if form == "distance" else p_class
    given = p_class if form == "distance" else p_distance
    # H(A|B) = H(A, B) - H(B), with A the variable whose entropy the form starts from.
    return max(0.0, float(_entropy(own) - (_entropy(joint) - _entropy(given))))


def mutual_information_gradient(
    code: ArrayLike, codes: ArrayLike, is_neighbor: ArrayLike, n_bins: int | None = None
) -> Floats:
    """Return the gradient (b,) of I with respect to one item's relaxed code (Eq. 11-17), in bits.

    Parameters
    ----------
    code
        The item's relaxed code Phi(x) in [-1, 1], shape (b,).
    codes
        The relaxed codes (n, b) of the other items, held constant.
    is_neighbor
        True where the other item is a neighbour, shape (n,).
    n_bins
        K of Eq. 8; b by default.

    Examples
    --------
    Moving towards the neighbour's code and away from the other's separates the two distances further.

    >>> gradient = mutual_information_gradient([0.2, 0.1], [[0.9, 0.8], [-0.8, 0.7]], [True, False])
    >>> gradient.round(3)
    array([0.427, 0.05 ])
    """
    phi, others = _relaxed("code", code, 1), _relaxed("codes", codes, 2)
    n_bits = len(phi)
    if others.shape[1] != n_bits:
        raise InvalidInput(f"`codes` must have {n_bits} bits, as `code` has; got {others.shape[1]}.")
    n_bins = n_bits if n_bins is None else validation.integer("n_bins", n_bins, minimum=1)
    mask = validation.boolean_matrix("is_neighbor", is_neighbor, (len(others),))
    if mask.all() or not mask.any():
        return np.zeros(n_bits)
    distances = (n_bits - others @ phi) / 2
    p_pos, p_neg = (histogram(distances[side], n_bits, n_bins) for side in (mask, ~mask))
    prior = float(mask.mean())
    p = prior * p_pos + (1 - prior) * p_neg
    slopes = np.empty_like(distances)
    for side, share, p_side in ((mask, prior, p_pos), (~mask, 1 - prior, p_neg)):
        # dI / dp_k of this side, Eq. 12-14; a bin without items of this side has no weight.
        weights = np.where(p_side > 0, share * (_log2(p_side) - _log2(p)), 0.0)
        slopes[side] = histogram_slope(weights, distances[side], n_bits, n_bins)
    gradient: Floats = slopes @ (-others / 2)  # dd / dPhi(x) = -Phi(x') / 2, Eq. 15-17
    return gradient


def quality(codes: ArrayLike, neighbors: ArrayLike, n_bits: int) -> float:
    """Return Q_R, the mean over all items of I(D; C) with the other items (Eq. 6), in bits.

    Parameters
    ----------
    codes
        Packed codes (n, bytes) of the reservoir.
    neighbors
        A boolean matrix (n, n), True where column is a neighbour of row; its diagonal is ignored, since an
        item is not its own neighbour. Or class labels (n,), which is faster.
    n_bits
        The code length b.

    Examples
    --------
    >>> import mihash
    >>> codes = mihash.pack([[0, 0, 0, 0], [0, 0, 0, 1], [1, 1, 1, 1], [1, 1, 1, 0]])
    >>> round(mihash.quality(codes, [0, 0, 1, 1], n_bits=4), 4)
    0.9183
    """
    return mean_information(distance_counts(codes, neighbors, n_bits))


def distance_counts(codes: ArrayLike, neighbors: ArrayLike, n_bits: int) -> Counts:
    """Return, for each item, how many others are at each distance (n, 2 (b + 1)): non-neighbours, then neighbours.

    The arguments are those of `quality`, which is a function of these counts.

    Examples
    --------
    >>> distance_counts(np.array([[0], [1], [3]], dtype=np.uint8), [0, 0, 1], n_bits=2)
    array([[0, 0, 1, 0, 1, 0],
           [0, 1, 0, 0, 1, 0],
           [0, 1, 1, 0, 0, 0]], dtype=int32)
    """
    validation.integer("n_bits", n_bits, minimum=1, maximum=MOST_BITS)
    packed = validation.packed("codes", codes, n_bits)
    n = len(packed)
    if n == 0:
        raise InvalidInput("`codes` must not be empty.")
    given = np.asarray(neighbors)
    if given.ndim == 1:
        y = validation.labels("neighbors", given, n, names=True)
        return _others(packed, y, np.arange(n), n_bits)
    matrix = validation.boolean_matrix("neighbors", given, (n, n))
    counts = count(make_pairs(packed, packed, matrix), n_bits).astype(np.int32)
    counts[np.arange(n), (n_bits + 1) * matrix.diagonal()] -= 1  # an item is not its own neighbour
    return counts


def replace_items(
    counts: Counts,
    before: tuple[NDArray[np.uint8], NDArray[np.int64]],
    after: tuple[NDArray[np.uint8], NDArray[np.int64]],
    replaced: NDArray[np.int64],
) -> None:
    """Update `distance_counts` in place after a few items were replaced.

    Parameters
    ----------
    counts
        The counts of all items before.
    before, after
        Codes and class labels of all items, before and after.
    replaced
        Which items are others now.

    Examples
    --------
    >>> codes, y = np.array([[0], [1], [3]], dtype=np.uint8), np.array([0, 0, 1])
    >>> counts = distance_counts(codes, y, n_bits=2)
    >>> others, z = np.array([[0], [3], [3]], dtype=np.uint8), np.array([0, 1, 1])
    >>> replace_items(counts, (codes, y), (others, z), np.array([1]))
    >>> np.array_equal(counts, distance_counts(others, z, n_bits=2))
    True
    """
    old, new = (np.ascontiguousarray(as_words(codes).T) for codes, _ in (before, after))
    is_replaced = np.zeros(len(counts), dtype=np.bool_)
    is_replaced[replaced] = True
    _exchange(old, before[1], new, after[1], replaced, is_replaced, counts)
    counts[replaced] = _others(*after, replaced, counts.shape[1] // 2 - 1)


def each_information(counts: Counts | NDArray[np.int64]) -> Floats:
    """Return I of each item, from its counts of non-neighbours and neighbours at each distance, in bits."""
    found: Floats = _each_information(counts, _x_log2_x(int(counts[0].sum()) if len(counts) else 0))
    return found


def mean_information(counts: Counts) -> float:
    """Return the mean over all items of I, from their `distance_counts`, in bits."""
    return float(_sum_information(counts, _x_log2_x(len(counts)))) / len(counts)


def arriving_information(
    codes: NDArray[np.uint8],
    sample: NDArray[np.uint8],
    relevant: NDArray[np.bool_] | tuple[NDArray[Any], NDArray[Any]],
    n_bits: int,
) -> Floats:
    """Return I(D; C) of each item (n,) with a sample that it does not belong to, in bits.

    Parameters
    ----------
    codes, sample
        Packed codes of the items (n, bytes) and of the sample (m, bytes).
    relevant
        Who is a neighbour: a boolean matrix (n, m), or the labels of the items and of the sample.
    n_bits
        The code length b.

    Examples
    --------
    >>> sample, y = np.array([[0], [1], [7], [6]], dtype=np.uint8), np.array([0, 0, 1, 1])
    >>> items = np.array([[0], [2]], dtype=np.uint8)
    >>> arriving_information(items, sample, (np.array([0, 2]), y), n_bits=3)
    array([1., 0.])
    """
    counts = count(make_pairs(codes, sample, relevant), n_bits)
    return each_information(counts)


def own_information(codes: NDArray[np.uint8], y: NDArray[Any], rows: NDArray[np.int64], n_bits: int) -> Floats:
    """Return I(D; C) of some items of a sample with the others in it, by labels (n,) or (n, classes), in bits.

    Examples
    --------
    >>> codes, y = np.array([[0], [1], [7], [6]], dtype=np.uint8), np.array([0, 0, 1, 1])
    >>> own_information(codes, y, np.array([0]), n_bits=3).round(3)
    array([0.918])
    """
    counts = count(make_pairs(codes[rows], codes, (y[rows], y)), n_bits)
    shares_own = np.ones(len(rows), dtype=np.int64) if y.ndim == 1 else (y[rows] != 0).any(axis=1).astype(np.int64)
    counts[np.arange(len(rows)), (n_bits + 1) * shares_own] -= 1  # an item is not its own neighbour
    return each_information(counts)


def _others(codes: NDArray[np.uint8], y: NDArray[np.int64], rows: NDArray[np.int64], n_bits: int) -> Counts:
    """Count the distances of some items to all others by class; an item is not its own neighbour."""
    counts = count(make_pairs(codes[rows], codes, (y[rows], y)), n_bits).astype(np.int32)
    counts[:, n_bits + 1] -= 1
    return counts


def _relaxed(name: str, values: ArrayLike, ndim: int) -> Floats:
    codes = validation.numbers(name, values, ndim)
    if not (np.abs(codes) <= 1).all():
        raise InvalidInput(f"`{name}` must hold relaxed bits between -1 and 1.")
    return codes


def _joint(distances: Floats, mask: NDArray[np.bool_], n_bits: int, n_bins: int) -> Floats:
    """Return P(C, D) as (2, K + 1), neighbours first."""
    prior = float(mask.mean())
    sides = ((mask, prior), (~mask, 1 - prior))
    return np.stack([share * histogram(distances[side], n_bits, n_bins) for side, share in sides])


def _entropy(p: Floats) -> float:
    return float(-(p * _log2(p)).sum())


def _log2(p: Floats) -> Floats:
    """Return log2(p), and 0 where p is 0: such a term is always multiplied by 0."""
    return np.log2(p, out=np.zeros_like(p), where=p > 0)


@lru_cache(maxsize=8)
def _x_log2_x(n: int) -> Floats:
    """Return x log2(x) for the whole numbers 0..n: entropies of counts are sums of these."""
    x = np.arange(n + 1, dtype=np.float64)
    return x * _log2(x)


@jit
def _information(pos: Counts, neg: Counts, table: Floats) -> float:
    """Return I of one item from its counts of neighbours and non-neighbours per distance."""
    n_pos, n_neg, inner = 0, 0, 0.0
    for k in range(len(pos)):
        n_pos += pos[k]
        n_neg += neg[k]
        inner += table[pos[k]] + table[neg[k]] - table[pos[k] + neg[k]]
    if n_pos == 0 or n_neg == 0:
        return 0.0
    n = n_pos + n_neg
    return max(0.0, (inner - float(table[n_pos]) - float(table[n_neg]) + float(table[n])) / n)


@jit
def _each_information(counts: Counts | NDArray[np.int64], table: Floats) -> Floats:
    n, levels = counts.shape[0], counts.shape[1] // 2
    found = np.empty(n)
    for i in range(n):
        found[i] = _information(counts[i, levels:], counts[i, :levels], table)
    return found


@jit
def _sum_information(counts: Counts, table: Floats) -> float:
    n, levels = counts.shape[0], counts.shape[1] // 2
    total = 0.0
    for i in range(n):
        total += _information(counts[i, levels:], counts[i, :levels], table)
    return total


@jit
def _exchange(
    old: Words,
    old_y: NDArray[np.int64],
    new: Words,
    new_y: NDArray[np.int64],
    replaced: NDArray[np.int64],
    is_replaced: NDArray[np.bool_],
    counts: Counts,
) -> None:
    """In the counts of the items that stay, replace the old items by the new ones."""
    n_words, n = old.shape
    levels = counts.shape[1] // 2
    for i in range(n):
        if is_replaced[i]:
            continue
        for j in replaced:
            before, after = 0, 0
            for w in range(n_words):
                before += popcount(old[w, i] ^ old[w, j])
                after += popcount(old[w, i] ^ new[w, j])
            counts[i, before + levels * (old_y[i] == old_y[j])] -= 1
            counts[i, after + levels * (old_y[i] == new_y[j])] += 1
