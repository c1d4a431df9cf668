"""Recall@10 by inner products, on generated vectors whose lengths differ and whose mean is not zero.

Each row is an index of 30,000 x 128 with 128 bits. *ip* is a default search of ``metric="ip"``, *euclidean* and
*cosine* are the same number of candidates of such an index, ranked again by inner products. 200 queries.
"""

import tempfile
import time

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash

from .report import console, verdict

N, D, N_QUERIES, K = 30_000, 128, 200, 10
SEED = 1  # how codes are ranked was chosen with 0
CHUNK = 5000
TARGET = 0.95
KINDS = {  # the spread of the logarithm of lengths, the length of the mean, and whether queries have it too
    "unit length": (0.0, 0.0, False),
    "lengths 0.6 to 1.6": (0.3, 0.0, False),
    "lengths 0.3 to 3.8": (0.8, 0.0, False),
    "lengths 0.6 to 1.6 about a mean of 3": (0.3, 3.0, False),
    "the same, queries about it too": (0.3, 3.0, True),
    "lengths 0.3 to 3.8, all about a mean of 3": (0.8, 3.0, True),
}

Rows = NDArray[np.float32]


def run() -> None:
    table = Table(title=f"{N:,} x {D}", title_justify="left", title_style="bold")
    for column in ("vectors", "ip", "candidates", "CPU ms a query", "euclidean", "cosine", "at least 0.95"):
        table.add_column(column)
    for kind, (spread, mean, queries_too) in KINDS.items():
        X, queries = _vectors(spread, mean, queries_too)
        products = queries @ X.T
        true = np.argsort(-products, axis=1, kind="stable")[:, :K]
        found, n, seconds = _by_products(X, queries)
        recall = _recall(true, found)
        others = [_recall(true, _candidates(X, queries, each, n, products)) for each in ("euclidean", "cosine")]
        table.add_row(
            kind,
            f"{recall:.3f}",
            str(n),
            f"{1e3 * seconds:.2f}",
            *(f"{each:.3f}" for each in others),
            verdict(recall >= TARGET),
        )
    console.print(table)


def _vectors(spread: float, mean: float, queries_too: bool) -> tuple[Rows, Rows]:
    rng = np.random.default_rng(SEED)
    fall = np.arange(1, D + 1)
    centres = rng.standard_normal((100, D)) / fall**0.4
    rows = centres[rng.integers(0, 100, N + N_QUERIES)] + 0.7 * rng.standard_normal((N + N_QUERIES, D)) / fall**0.3
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    queries, X = rows[:N_QUERIES], rows[N_QUERIES:] * np.exp(spread * rng.standard_normal((N, 1)))
    common = rng.standard_normal(D)
    common *= mean / np.linalg.norm(common)
    return (X + common).astype(np.float32), (queries + queries_too * common).astype(np.float32)


def _by_products(X: Rows, queries: Rows) -> tuple[NDArray[np.int64], int, float]:
    """Return what is found, how many candidates were looked up, and the CPU time of a query."""
    with tempfile.TemporaryDirectory() as folder, mihash.open(folder, metric="ip") as index:
        _fill(index, X)
        index.search(queries[:1], k=K)  # chooses how many candidates
        begin = time.process_time()
        keys = index.search(queries, k=K).keys
        return keys, int(index.stats()["rescore"]), (time.process_time() - begin) / len(queries)


def _candidates(X: Rows, queries: Rows, metric: str, n: int, products: Rows) -> NDArray[np.int64]:
    """Return the best by inner products of the n best of an index with another metric."""
    with tempfile.TemporaryDirectory() as folder, mihash.open(folder, metric=metric) as index:
        _fill(index, X)
        keys = index.search(queries, k=max(n, K), rescore=0).keys
    order = np.argsort(-np.take_along_axis(products, keys, axis=1), axis=1, kind="stable")
    return np.take_along_axis(keys, order, axis=1)[:, :K]


def _fill(index: mihash.OnlineIndex, X: Rows) -> None:
    for start in range(0, len(X), CHUNK):
        index.add(X[start : start + CHUNK])
    index.wait()


def _recall(true: NDArray[np.int64], keys: NDArray[np.int64]) -> float:
    return float(np.mean([np.isin(own, found).mean() for own, found in zip(true, keys, strict=True)]))
