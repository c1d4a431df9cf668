"""Mutual information against ranking measures, on random mappings (Sec. 3.3, Fig. 3).

The paper's setup: 100 queries are sampled, the rest is the table, and 50 mappings are drawn from a Gaussian. Each
gives the mean over the queries of I(D; C), AP, DCG and NDCG; Pearson's coefficient says how the first goes with
the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import ranking, validation
from ..errors import InvalidInput
from ..kernels import one_thread
from ..mapping import LinearMapping
from ..neighbors import nearest_fraction
from ..ranking import average_precision, dcg, ndcg
from .datasets import Split, draw_split
from .jobs import Job
from .scales import Stage

Floats = NDArray[np.float64]

N_MAPPINGS = 50
N_QUERIES = 100
MOST_ITEMS = 120_000  # all of Tiny-ImageNet, which stands for Places205
_MAPPING = 3  # the purposes 0 to 2 are those of a split


def measure_correlation(where: Stage, job: Job) -> dict[str, Any]:
    """Measure 50 random mappings on a data set, and return what they gave.

    The queries are a tenth of the rows where that is less than 100; the table is a random part of 120,000 rows
    where there are more. Without labels, the nearest 5 % of the table are the neighbours of a query.

    Parameters
    ----------
    where
        The data set, with the seed of the queries, the table and the mappings.
    job
        Its code length counts.

    Examples
    --------
    >>> from mihash.paper.scales import stage
    >>> result = measure_correlation(stage("cifar10", "smoke"), Job("correlation", "cifar10", "", (), 32))
    >>> result["n_queries"], result["n_items"], result["pearson"]["ap"] > 0.9
    (100, 1697, True)
    """
    dataset, n_bits = where.dataset, job.n_bits
    split = draw_split(dataset, n_test=min(N_QUERIES, len(dataset) // 10), seed=where.seed)
    X = split.X_base[:MOST_ITEMS]  # already in random order
    relevant = _relevant(split, X)
    rows: list[list[float]] = []
    with one_thread():
        for index in range(N_MAPPINGS):
            mapping = random_mapping(dataset.n_features, n_bits, index, where.seed)
            queries, codes = mapping.encode_rows(split.X_query), mapping.encode_rows(X)
            measures = [measure(queries, codes, relevant, n_bits) for measure in (average_precision, dcg, ndcg)]
            measures.insert(0, query_information(queries, codes, relevant, n_bits))
            rows.append([float(np.nanmean(values)) for values in measures])
    measured = dict(zip(("mi", "ap", "dcg", "ndcg"), np.transpose(rows).tolist(), strict=True))
    return {
        **measured,
        "pearson": {key: pearson(measured["mi"], measured[key]) for key in ("ap", "dcg", "ndcg")},
        "n_queries": len(split.X_query),
        "n_mappings": N_MAPPINGS,
        "n_bits": n_bits,
        "n_items": len(X),
        "n_items_left_out": len(split.X_base) - len(X),
    }


def random_mapping(n_features: int, n_bits: int, index: int = 0, seed: int = 0) -> LinearMapping:
    """Return the linear mapping number ``index`` of a seed, its weights drawn from N(0, 1).

    Examples
    --------
    >>> round(float(random_mapping(500, 32, index=7).weights.std()), 2)
    1.0
    """
    sequence = np.random.SeedSequence(validation.integer("seed", seed, minimum=0), spawn_key=(index, _MAPPING))
    return LinearMapping(np.random.default_rng(sequence).standard_normal((n_features, n_bits)))


def query_information(query_codes: ArrayLike, codes: ArrayLike, relevant: ranking.Relevant, n_bits: int) -> Floats:
    """Return I(D; C) of each query with the database (n_queries,), in bits, one bin for each distance.

    What `mihash.mutual_information` gives from a query's distances, for all queries at once from how many items,
    and how many relevant ones, lie at each distance: I = H(D) + H(C) - H(D, C). Parameters are those of
    `mihash.average_precision`; a query to which all items are relevant, or none, has I = 0.

    Examples
    --------
    >>> from mihash import pack
    >>> codes = pack([[0, 0], [0, 1], [1, 0], [1, 1]])
    >>> query_information(codes[:2], codes, [[True, False, False, False], [True, True, True, False]], 2).round(4)
    array([0.8113, 0.3113])
    """
    items, hits = ranking.distance_counts(query_codes, codes, relevant, n_bits)
    if not items.any():
        raise InvalidInput("`codes` must not be empty.")
    joint = np.stack([hits, items - hits], axis=1) / items.sum(axis=1)[:, None, None]
    information = _entropies(joint.sum(axis=1)) + _entropies(joint.sum(axis=2)) - _entropies(joint)
    one_sided = (joint.sum(axis=2) == 0).any(axis=1)
    return np.where(one_sided, 0.0, np.maximum(0.0, information))


def pearson(first: ArrayLike, second: ArrayLike) -> float:
    """Return Pearson's correlation coefficient of two lists; NaN where one of them does not vary.

    Examples
    --------
    >>> round(pearson([1, 2, 3], [2, 4, 5]), 3)
    0.982
    """
    a, b = validation.numbers("first", first, ndim=1), validation.numbers("second", second, ndim=1)
    if len(a) != len(b):
        raise InvalidInput(f"`first` and `second` must be of one length; got {len(a)} and {len(b)}.")
    if np.ptp(a) == 0 or np.ptp(b) == 0:
        return float("nan")
    a, b = a - a.mean(), b - b.mean()
    return float(a @ b / np.sqrt((a @ a) * (b @ b)))


def _relevant(split: Split, X: NDArray[np.float32]) -> ranking.Relevant:
    if split.y_query is None or split.y_base is None:
        return nearest_fraction(split.X_query, X)
    return split.y_query, split.y_base[: len(X)]


def _entropies(p: Floats) -> Floats:
    """Return the entropy of each row, in bits; a row may have any shape."""
    terms = p * np.log2(p, out=np.zeros_like(p), where=p > 0)
    entropies: Floats = -terms.reshape(len(p), -1).sum(axis=1)
    return entropies
