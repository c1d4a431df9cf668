"""Retrieval measures on codes ranked by Hamming distance (Sec. 4.1): AP, mAP, DCG, NDCG, precision.

Distances are whole numbers, so most items of a ranking are tied, and the order inside a tie changes a measure
more than the hash mapping does. So the rule is an argument, ``ties``:

``"expected"``
    the mean over all orders of equally distant items, in closed form (the default);
``"best"``, ``"worst"``
    the largest and the smallest value that any order of equally distant items gives;
``"index"``
    the lower database index first, as a stable sort ranks and as most published code does.

Nothing is sorted. All but ``"index"`` need only how many items, and how many relevant ones, each query has at
each distance (`mihash.distance_counts`); ``"index"`` passes over the database once more, with a counter for each
distance.

A query without a relevant item in the database has no AP and no NDCG: they are NaN, and a mean leaves the
query out. Its DCG and its precision are 0.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .distance_counts import BLOCK, Counts, Pairs, checked_pairs, count, fill_keys
from .distance_counts import Relevant as Relevant  # noqa: PLC0414 -- public here
from .kernels import jit

Floats = NDArray[np.float64]

TIES = ("expected", "best", "worst", "index")
DIVISORS = ("retrieved", "relevant")
_EXPECTED, _BEST, _WORST = 0, 1, 2  # positions in TIES


@jit
def _by_index(items: Counts, relevant: Counts, top: int, discounts: Floats, pairs: Pairs) -> Floats:
    """Return (3, n_queries): sum of precisions at relevant items, DCG and relevant items of the top."""
    (n_queries, n_levels), n = items.shape, pairs.codes.shape[1]
    totals = np.zeros((3, n_queries))
    rank, found = np.zeros_like(items), np.zeros_like(items)
    for k in range(1, n_levels):
        rank[:, k] = rank[:, k - 1] + items[:, k - 1]
        found[:, k] = found[:, k - 1] + relevant[:, k - 1]
    buffer = np.empty(BLOCK, dtype=np.uint16)
    for start in range(0, n, BLOCK):
        keys = buffer[: min(BLOCK, n - start)]
        for i in range(n_queries):
            fill_keys(keys, i, start, n_levels, pairs)
            for key in keys:
                if key < n_levels:
                    rank[i, key] += 1
                    continue
                level = key - n_levels
                rank[i, level] += 1
                found[i, level] += 1
                place = rank[i, level]
                if place <= top:
                    totals[0, i] += found[i, level] / place
                    totals[1, i] += discounts[place - 1]
                    totals[2, i] += 1
    return totals


@jit
def _shuffled_sum(n: int, r: int, m: int, n_before: int, r_before: int, harmonic: Floats) -> float:
    """Return the expected sum of precisions over the first m of n shuffled items, r of them relevant."""
    c = (r - 1) / (n - 1) if n > 1 else 0.0
    steps = float(harmonic[n_before + m] - harmonic[n_before])
    return (r / n) * (c * m + (r_before + 1 - c * (n_before + 1)) * steps)


@jit
def _run_sum(x: int, n_before: int, r_before: int, harmonic: Floats) -> float:
    """Return the sum of precisions over x relevant items in a row, (r_before + i) / (n_before + i)."""
    return x + (r_before - n_before) * float(harmonic[n_before + x] - harmonic[n_before])


@jit
def _cut_average(
    n: int, r: int, m: int, n_before: int, r_before: int, total: float, ties: int, harmonic: Floats
) -> float:
    """Return AP over the relevant items retrieved, where the top ends after m of a level's n items.

    How many of the level's r relevant items, x, are among the m decides the divisor. A further relevant item
    may lower the quotient, so neither the most nor the fewest need be best or worst: all x are tried. For the
    expectation, x is hypergeometric; its weights follow from one another, outwards from the largest.
    """
    low, high = max(0, m - (n - r)), min(m, r)
    if ties != _EXPECTED:
        value = -np.inf if ties == _BEST else np.inf
        for x in range(low, high + 1):
            gap = 0 if ties == _BEST else m - x
            average = 0.0
            if r_before + x > 0:
                average = (total + _run_sum(x, n_before + gap, r_before, harmonic)) / (r_before + x)
            value = max(value, average) if ties == _BEST else min(value, average)
        return value
    mode = min(high, max(low, (m + 1) * (r + 1) // (n + 2)))
    mass, value = 0.0, 0.0
    for step in (1, -1):
        weight = 1.0
        x = mode
        while low <= x <= high and weight > 1e-20:
            if step == 1 or x != mode:
                mass += weight
                if r_before + x > 0:
                    gain = _shuffled_sum(m, x, m, n_before, r_before, harmonic) if m > 0 else 0.0
                    value += weight * (total + gain) / (r_before + x)
            if step == 1:
                weight *= ((r - x) / (x + 1)) * ((m - x) / (n - r - m + x + 1))
            else:
                weight *= (x / (r - x + 1)) * ((n - r - m + x) / (m - x + 1))
            x += step
    return value / mass


@jit
def _by_level(
    items: Counts,
    relevant: Counts,
    top: int,
    ties: int,
    retrieved: bool,
    harmonic: Floats,
    discounted: Floats,
) -> Floats:
    """Return (3, n_queries): AP, DCG and relevant items of the top, from the counts at each distance."""
    n_queries, n_levels = items.shape
    scores = np.zeros((3, n_queries))
    for i in range(n_queries):
        n_before, r_before = 0, 0
        total = 0.0
        cut = False
        for k in range(n_levels):
            n, r = items[i, k], relevant[i, k]
            m = min(n, top - n_before)
            if n == 0:
                continue
            if m == 0:
                break
            if m < n and retrieved:
                scores[0, i] = _cut_average(n, r, m, n_before, r_before, total, ties, harmonic)
                cut = True
            if ties == _EXPECTED:
                total += _shuffled_sum(n, r, m, n_before, r_before, harmonic)
                scores[1, i] += (r / n) * (discounted[n_before + m] - discounted[n_before])
                scores[2, i] += r * (m / n)
            else:
                x = min(m, r) if ties == _BEST else max(0, m - (n - r))
                first = n_before if ties == _BEST else n_before + m - x
                total += _run_sum(x, first, r_before, harmonic)
                scores[1, i] += discounted[first + x] - discounted[first]
                scores[2, i] += x
            n_before += m
            r_before += r
        n_relevant = relevant[i].sum()
        divisor = r_before if retrieved else min(top, n_relevant)
        if n_relevant == 0:
            scores[0, i] = np.nan
        elif not cut:
            scores[0, i] = total / divisor if divisor > 0 else 0.0
    return scores


# Interface -----------------------------------------------------------------------------------------------


def average_precision(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int | None = None,
    ties: str = "expected",
    divisor: str = "retrieved",
) -> Floats:
    """Return the average precision (n_queries,) of each query's ranking by Hamming distance.

    AP is the mean, over the relevant items, of the precision at each one's rank. A level of n items, r
    relevant, that follows N items, R relevant, adds the expected sum (r / n) [c n + (R + 1 - c (N + 1))
    (H(N + n) - H(N))], with c = (r - 1) / (n - 1) and harmonic numbers H. A query without a relevant item in
    the database has no AP: NaN.

    Parameters
    ----------
    query_codes, codes
        Packed codes of the queries and of the database, (n_queries, bytes) and (n, bytes).
    relevant
        Booleans (n_queries, n), or the tuple ``(query_labels, labels)``: integers, where an item is relevant
        to a query of its class, or 0/1 matrices (rows, classes), where it is if they share a label. Labels
        never become a matrix of all pairs.
    n_bits
        The length of a code.
    top
        Look at the first ``top`` items only (mAP@k); None, or more than n, means all.
    ties
        ``"expected"``, ``"best"``, ``"worst"`` or ``"index"``: how equally distant items are ordered.
    divisor
        What to divide by under ``top``: ``"retrieved"``, the relevant items inside the top (the authors' and
        most papers' choice; 0 if there is none), or ``"relevant"``, the most that could be inside the top.

    Examples
    --------
    >>> import mihash
    >>> codes = mihash.pack([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]])
    >>> relevant = [[False, True, False, True]]
    >>> mihash.average_precision(codes[:1], codes, relevant, n_bits=3)  # ranks 2 or 3, and 4
    array([0.45833333])
    >>> mihash.average_precision(codes[:1], codes, ([7], [0, 7, 0, 7]), n_bits=3, ties="best")
    array([0.5])
    """
    validation.choice("divisor", divisor, DIVISORS)
    return _score(query_codes, codes, relevant, n_bits, top, ties, divisor).precision


def mean_average_precision(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int | None = None,
    ties: str = "expected",
    divisor: str = "retrieved",
) -> float:
    """Return mAP, the mean of `average_precision` over the queries that have a relevant item.

    Parameters are those of `average_precision`. If no query has a relevant item, mAP is NaN.

    Examples
    --------
    >>> import mihash
    >>> codes = mihash.pack([[0, 0, 0], [0, 0, 1], [0, 1, 1], [1, 1, 1]])
    >>> mihash.mean_average_precision(codes[[0, 3, 0]], codes, ([0, 1, 5], [0, 1, 0, 1]), n_bits=3)
    0.8333333333333333
    """
    values = average_precision(query_codes, codes, relevant, n_bits, top, ties, divisor)
    defined = values[~np.isnan(values)]
    return float(defined.mean()) if len(defined) else float("nan")


def dcg(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int | None = None,
    ties: str = "expected",
) -> Floats:
    """Return the discounted cumulative gain (n_queries,): the sum of 1 / log2(rank + 1) over relevant items.

    Parameters are those of `average_precision`. A query without a relevant item has a DCG of 0.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0, 0], [0, 0, 1], [0, 1, 1]])
    >>> ranking.dcg(codes[:1], codes, [[True, False, True]], n_bits=3)  # ranks 1 and 3
    array([1.5])
    """
    return _score(query_codes, codes, relevant, n_bits, top, ties).gain


def ndcg(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int | None = None,
    ties: str = "expected",
) -> Floats:
    """Return the normalised DCG (n_queries,): `dcg` over that of a ranking with all relevant items first.

    Parameters are those of `average_precision`. A query without a relevant item has no NDCG: NaN.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0, 0], [0, 0, 1], [0, 1, 1]])
    >>> ranking.ndcg(codes[:1], codes, [[True, False, True]], n_bits=3)
    array([0.91972079])
    """
    score = _score(query_codes, codes, relevant, n_bits, top, ties)
    ideal = score.discounted[np.minimum(score.n_relevant, score.top)]
    return _quotient(score.gain, ideal, np.nan)


def precision_at(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int,
    ties: str = "expected",
) -> Floats:
    """Return precision@k (n_queries,): the fraction of the first ``top`` items that is relevant.

    Parameters are those of `average_precision`. Where ``top`` is more than n, the fraction is that of all n.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]])
    >>> ranking.precision_at(codes[:1], codes, [[True, True, False, False]], n_bits=3, top=2)
    array([0.75])
    """
    validation.integer("top", top, minimum=1)
    score = _score(query_codes, codes, relevant, n_bits, top, ties)
    return score.hits / max(1, score.top)


def precision_within(
    query_codes: ArrayLike, codes: ArrayLike, relevant: Relevant, n_bits: int, radius: int
) -> Floats:
    """Return the fraction (n_queries,) of the items at a distance of at most ``radius`` that is relevant.

    Other parameters are those of `average_precision`. A query with no item that near scores 0.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 1, 1]])
    >>> ranking.precision_within(codes[:1], codes, [[True, True, False, False]], n_bits=3, radius=1)
    array([0.66666667])
    """
    n_near = validation.integer("radius", radius, minimum=0) + 1
    items, hits = distance_counts(query_codes, codes, relevant, n_bits)
    return _quotient(hits[:, :n_near].sum(axis=1), items[:, :n_near].sum(axis=1), 0.0)


def distance_counts(
    query_codes: ArrayLike, codes: ArrayLike, relevant: Relevant, n_bits: int
) -> tuple[Counts, Counts]:
    """Return how many items, and how many relevant ones, each query has at each distance.

    Both are (n_queries, n_bits + 1), the relevant items among all; every measure here but those with
    ``ties="index"`` is a function of them. Parameters are those of `average_precision`.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> items, relevant = ranking.distance_counts(codes[:1], codes, [[True, True, False, False]], n_bits=2)
    >>> items.tolist(), relevant.tolist()
    ([[1, 2, 1]], [[1, 1, 0]])
    """
    return _levels(checked_pairs(query_codes, codes, relevant, n_bits), n_bits)


def distance_distributions(
    query_codes: ArrayLike, codes: ArrayLike, relevant: Relevant, n_bits: int
) -> tuple[Floats, Floats]:
    """Return p+ and p-, the distributions (n_bits + 1,) of distances to relevant and to other items (Fig. 6).

    Each is the mean of the queries' own distributions, without the queries that have no such item; if none
    has one, it is NaN throughout. Parameters are those of `average_precision`.

    Examples
    --------
    >>> from mihash import pack, ranking
    >>> codes = pack([[0, 0], [0, 1], [1, 1]])
    >>> ranking.distance_distributions(codes[:1], codes, [[True, True, False]], n_bits=2)
    (array([0.5, 0.5, 0. ]), array([0., 0., 1.]))
    """
    items, hits = distance_counts(query_codes, codes, relevant, n_bits)
    return _mean_distribution(hits), _mean_distribution(items - hits)


class _Score(NamedTuple):
    """What one pass gives for each query, and the table that NDCG needs."""

    precision: Floats
    gain: Floats
    hits: Floats
    n_relevant: Counts
    top: int
    discounted: Floats


def _score(
    query_codes: ArrayLike,
    codes: ArrayLike,
    relevant: Relevant,
    n_bits: int,
    top: int | None,
    ties: str,
    divisor: str = "relevant",
) -> _Score:
    """Check, count and score; the three measures cost little compared to the count that they share."""
    validation.choice("ties", ties, TIES)
    if top is not None:
        validation.integer("top", top, minimum=1)
    pairs = checked_pairs(query_codes, codes, relevant, n_bits)
    n = pairs.codes.shape[1]
    depth = n if top is None else min(top, n)
    items, hits = _levels(pairs, n_bits)
    n_relevant = hits.sum(axis=1)
    ranks = np.arange(1, depth + 1, dtype=np.float64)
    discounts = 1 / np.log2(ranks + 1)
    discounted = np.concatenate(([0.0], np.cumsum(discounts)))
    retrieved = divisor == "retrieved"
    if ties == "index":
        scores = _by_index(items, hits, depth, discounts, pairs)
        count = scores[2] if retrieved else np.minimum(depth, n_relevant)
        scores[0] = np.where(n_relevant > 0, _quotient(scores[0], count, 0.0), np.nan)
    else:
        harmonic = np.concatenate(([0.0], np.cumsum(1 / ranks)))
        scores = _by_level(items, hits, depth, TIES.index(ties), retrieved, harmonic, discounted)
    return _Score(scores[0], scores[1], scores[2], n_relevant, depth, discounted)


def _levels(pairs: Pairs, n_bits: int) -> tuple[Counts, Counts]:
    """Return how many items, and how many relevant ones, each query has at each distance."""
    counts = count(pairs, n_bits)
    hits = counts[:, n_bits + 1 :].copy()
    return counts[:, : n_bits + 1] + hits, hits


def _mean_distribution(counts: Counts) -> Floats:
    sums = counts.sum(axis=1, keepdims=True)
    rows = counts[sums[:, 0] > 0] / sums[sums[:, 0] > 0]
    return rows.mean(axis=0) if len(rows) else np.full(counts.shape[1], np.nan)


def _quotient(values: NDArray[Any], divisors: NDArray[Any], otherwise: float) -> Floats:
    """Divide where the divisor is above 0."""
    quotient = np.full(len(values), otherwise)
    np.divide(values, divisors, out=quotient, where=divisors > 0)
    return quotient
