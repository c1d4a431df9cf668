"""Recall@10 of default searches under filters that match rows at random, near a point, and far from it.

GIST of photographs (22K x 512, with MIHASH_DATA) and generated clusters (100K x 128), without labels; and clusters
of which the filter excludes those of the queries. The truth is the ten nearest of the rows that match, by all
their vectors. 200 queries are not in the index.
"""

import os
import tempfile
import time

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash
from mihash.paper.datasets import open_dataset

from .report import console, verdict

N, D, N_CLUSTERS, N_QUERIES, K = 100_000, 128, 200, 200, 10
SHARES = {"75 %": 0.75, "50 %": 0.5, "10 %": 0.1, "1 %": 0.01, "0.1 %": 0.001}
N_POINTS = 3
CHUNK = 5000
TARGET = 0.95

Rows = NDArray[np.float32]
Masks = dict[str, list[NDArray[np.bool_]]]


def run() -> None:
    sets = {"clusters": _clusters()}
    if os.environ.get("MIHASH_DATA"):
        sets["gist22k"] = np.asarray(open_dataset("labelme").X, dtype=np.float32)
    for name, vectors in sets.items():
        rng = np.random.default_rng(1)
        X = vectors[rng.permutation(len(vectors))]
        _measure(name, X[N_QUERIES:], X[:N_QUERIES], _masks(X[N_QUERIES:], rng))
    _measure("clusters far apart", *_far_apart())


def _far_apart() -> tuple[Rows, Rows, Masks]:
    """Return rows in 20 clusters, queries in ten of them, and filters that exclude some or all of these ten."""
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((20, D))
    of_rows, of_queries = rng.integers(0, 20, 40_000), rng.integers(0, 10, N_QUERIES)
    X, queries = (centres[own] + rng.standard_normal((len(own), D)) for own in (of_rows, of_queries))
    firsts = {"75 %, apart": 5, "50 %, apart": 10}
    masks = {"all": [np.ones(len(X), dtype=np.bool_)]} | {kind: [of_rows >= n] for kind, n in firsts.items()}
    return X.astype(np.float32), queries.astype(np.float32), masks


def _clusters() -> Rows:
    rng = np.random.default_rng(0)
    fall = np.arange(1, D + 1)
    centres = rng.standard_normal((N_CLUSTERS, D)) / fall**0.5
    noise = 0.6 * rng.standard_normal((N + N_QUERIES, D)) / fall**0.4
    return (centres[rng.integers(0, N_CLUSTERS, N + N_QUERIES)] + noise).astype(np.float32)


def _masks(X: Rows, rng: np.random.Generator) -> Masks:
    """Return which rows match, for each kind of filter: several filters of a kind."""
    n = len(X)
    found: Masks = {"all": [np.ones(n, dtype=np.bool_)]}
    for _ in range(N_POINTS):
        at_random = rng.permutation(n)
        by_distance = np.argsort(((X - X[rng.integers(n)]) ** 2).sum(axis=1), kind="stable")
        for share, part in SHARES.items():
            for kind, order in (("random", at_random), ("near", by_distance), ("far", by_distance[::-1])):
                mask = np.zeros(n, dtype=np.bool_)
                mask[order[: int(n * part)]] = True
                found.setdefault(f"{share}, {kind}", []).append(mask)
    return found


def _measure(name: str, X: Rows, queries: Rows, masks: Masks) -> None:
    table = Table(title=f"{name}: {len(X):,} x {X.shape[1]}", title_justify="left", title_style="bold")
    for column in (
        "rows that match",
        "recall@10, mean",
        "least of its filters",
        "CPU ms a query",
        "at least 0.95",
    ):
        table.add_column(column)
    with tempfile.TemporaryDirectory() as folder, mihash.open(folder + "/index") as index:
        for start in range(0, len(X), CHUNK):
            index.add(X[start : start + CHUNK])
        index.wait()
        for kind, several in masks.items():
            recalls, seconds = [], []
            for mask in several:
                rows = np.flatnonzero(mask)
                index.update(rows.tolist(), metadata=[{"match": kind}] * len(rows))
                where = None if kind == "all" else {"match": kind}
                index.search(queries[:1], k=K, where=where)  # makes the bitmap
                begin = time.process_time()
                keys = index.search(queries, k=K, where=where).keys
                seconds.append(time.process_time() - begin)
                recalls.append(_recall(X, rows, queries, keys))
                index.update(rows.tolist(), metadata=[{}] * len(rows))
            least = min(recalls)
            table.add_row(
                kind,
                f"{np.mean(recalls):.3f}",
                f"{least:.3f}",
                f"{1e3 * np.mean(seconds) / len(queries):.2f}",
                verdict(least >= TARGET),
            )
    console.print(table)


def _recall(X: Rows, rows: NDArray[np.int64], queries: Rows, keys: NDArray[np.int64]) -> float:
    """Return the share of the true nearest of some rows that was found."""
    some = X[rows]
    scores = (some * some).sum(axis=1) - 2 * queries @ some.T
    true = rows[np.argsort(scores, axis=1, kind="stable")[:, :K]]
    return float(np.mean([np.isin(own, found).mean() for own, found in zip(true, keys, strict=True)]))
