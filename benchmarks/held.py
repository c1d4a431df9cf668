"""Default searches of rows that codes tell apart badly: exact in memory, against candidates by codes.

Six kinds of generated rows, 49,900 of 12 to 128 numbers, added in batches of 1,000 to two indexes. One is searched
as it is, the other with no vectors in memory, as a larger table is. 100 queries that are not stored are asked in
turn.
"""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash

from .report import console

N, N_QUERIES, K, BATCH = 50_000, 100, 10, 1000


def _growing(rng: np.random.Generator, d: int) -> NDArray[Any]:
    X = rng.standard_normal((N, d))
    X[:, 0] = np.sort(rng.uniform(0, N, N))
    return X


def _records(rng: np.random.Generator) -> NDArray[Any]:
    flags = [rng.random(N) < share for share in np.linspace(0.1, 0.9, 14)]
    return np.stack([rng.lognormal(10, 1, N), rng.integers(18, 90, N), *flags], axis=1)


KINDS: dict[str, tuple[str, Callable[[np.random.Generator], NDArray[Any]]]] = {
    "a number that grows, 80": ("euclidean", lambda rng: _growing(rng, 80)),
    "a number that grows, 12": ("euclidean", lambda rng: _growing(rng, 12)),
    "records as they are, 16": ("euclidean", _records),
    "scales .01, 1 and 100, 100": (
        "euclidean",
        lambda rng: rng.standard_normal((N, 100)) * rng.choice([0.01, 1, 100], N)[:, None],
    ),
    "products, lengths that grow, 100": (
        "ip",
        lambda rng: rng.standard_normal((N, 100)) * np.sort(rng.lognormal(0, 1, N))[:, None],
    ),
    "noise, 128": ("euclidean", lambda rng: rng.standard_normal((N, 128))),
}


def run() -> None:
    table = Table(
        "rows", "candidates", "recall", "CPU ms", "held in memory", "recall", "CPU ms", "faster", "first ms"
    )
    for name, (metric, make) in KINDS.items():
        rng = np.random.default_rng(0)
        X = make(rng).astype(np.float32)
        asked = np.zeros(N, dtype=np.bool_)
        asked[rng.choice(N, N_QUERIES, replace=False)] = True
        with tempfile.TemporaryDirectory() as folder:
            by_codes, exact = _measure(X[~asked], X[asked], metric, Path(folder))
        held = "all vectors" if exact[0] == N - N_QUERIES else "nothing"
        table.add_row(
            name, *_cells(by_codes), held, *_cells(exact)[1:], f"{by_codes[2] / exact[2]:.1f}x", f"{exact[3]:,.0f}"
        )
    console.print(table)


def _cells(found: tuple[int, float, float, float]) -> list[str]:
    return [f"{found[0]:,}", f"{found[1]:.3f}", f"{found[2]:.2f}"]


def _measure(X: NDArray[Any], Q: NDArray[Any], metric: str, folder: Path) -> list[tuple[int, float, float, float]]:
    """Return candidates, recall, CPU ms of a query and of the first: without vectors in memory, and as it is."""
    wide = X.astype(np.float64)
    apart = -Q @ wide.T if metric == "ip" else (wide**2).sum(axis=1) - 2 * Q @ wide.T
    true = np.argsort(apart, axis=1, kind="stable")[:, :K]
    for place in ("by codes", "exact"):
        with mihash.open(folder / place, metric=metric) as index:
            for start in range(0, len(X), BATCH):
                index.add(X[start : start + BATCH])
            index.wait()
    with (
        mihash.open(folder / "by codes") as by_codes,
        mihash.open(folder / "exact") as exact,
    ):
        spent, hits, firsts = np.zeros(2), np.zeros(2), []
        sides = ((by_codes, 0), (exact, 1 << 23))
        for index, most in sides:
            with mock.patch("mihash.store.recall_target.MOST_NUMBERS", most):
                begin = time.process_time()
                index.search(Q[0], K)
                firsts.append(1e3 * (time.process_time() - begin))
        for place, q in enumerate(Q):
            for side, (index, most) in enumerate(sides):
                with mock.patch("mihash.store.recall_target.MOST_NUMBERS", most):
                    begin = time.process_time()
                    keys = index.search(q, K).keys
                    spent[side] += time.process_time() - begin
                hits[side] += len(np.intersect1d(keys, true[place])) / K
        numbers = [index.stats().rescore or 0 for index, _ in sides]
    return [(numbers[i], hits[i] / len(Q), 1e3 * spent[i] / len(Q), firsts[i]) for i in range(2)]
