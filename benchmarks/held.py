"""Default searches of rows that codes tell apart badly: exact in memory, against candidates by codes.

Nine kinds of generated rows, 10,000 to 100,000 of 12 to 1,536 numbers, added in batches of 1,000 to two indexes.
One is searched as it is, the other with no vectors in memory, as a larger table is. 100 queries that are not
stored are asked in turn.
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
from mihash.store.held_vectors import MOST_NUMBERS

from .report import console

N_QUERIES, K, BATCH = 100, 10, 1000


def _growing(rng: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    X = rng.standard_normal((n, d))
    X[:, 0] = np.sort(rng.uniform(0, n, n))
    return X


def _records(rng: np.random.Generator, n: int, _: int) -> NDArray[Any]:
    flags = [rng.random(n) < share for share in np.linspace(0.1, 0.9, 14)]
    return np.stack([rng.lognormal(10, 1, n), rng.integers(18, 90, n), *flags], axis=1)


def _scales(rng: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    return rng.standard_normal((n, d)) * rng.choice([0.01, 1, 100], n)[:, None]


def _lengths(rng: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    return rng.standard_normal((n, d)) * np.sort(rng.lognormal(0, 1, n))[:, None]


def _tight(rng: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    return rng.standard_normal((20, d))[rng.integers(0, 20, n)] + 0.1 * rng.standard_normal((n, d))


def _noise(rng: np.random.Generator, n: int, d: int) -> NDArray[Any]:
    return rng.standard_normal((n, d))


KINDS: tuple[tuple[str, int, int, Callable[[np.random.Generator, int, int], NDArray[Any]]], ...] = (
    ("a number that grows", 50_000, 80, _growing),
    ("a number that grows", 50_000, 12, _growing),
    ("records as they are", 50_000, 16, _records),
    ("scales .01, 1 and 100", 50_000, 100, _scales),
    ("products, lengths that grow", 50_000, 100, _lengths),
    ("noise", 50_000, 128, _noise),
    ("noise", 10_000, 1536, _noise),
    ("20 tight clusters", 100_000, 96, _tight),
    ("a number that grows", 100_000, 96, _growing),
)


def run() -> None:
    table = Table(
        "rows", "candidates", "recall", "CPU ms", "held in memory", "recall", "CPU ms", "faster", "first ms"
    )
    for name, n, d, make in KINDS:
        rng = np.random.default_rng(0)
        X = make(rng, n, d).astype(np.float32)
        asked = np.zeros(n, dtype=np.bool_)
        asked[rng.choice(n, N_QUERIES, replace=False)] = True
        with tempfile.TemporaryDirectory() as folder:
            by_codes, exact = _measure(
                X[~asked], X[asked], "ip" if make is _lengths else "euclidean", Path(folder)
            )
        held = "all vectors" if exact[0] == n - N_QUERIES else "nothing"
        ratio, first = f"{by_codes[2] / exact[2]:.1f}x", f"{exact[3]:,.0f}"
        table.add_row(f"{name}, {n:,} x {d}", *_cells(by_codes), held, *_cells(exact)[1:], ratio, first)
    console.print(table)


def _cells(found: tuple[int, float, float, float]) -> list[str]:
    return [f"{found[0]:,}", f"{found[1]:.3f}", f"{found[2]:.2f}"]


def _measure(X: NDArray[Any], Q: NDArray[Any], metric: str, folder: Path) -> list[tuple[int, float, float, float]]:
    """Return candidates, recall, CPU ms of a query and of the first: without vectors in memory, and as it is."""
    wide = X.astype(np.float64)
    apart = -Q @ wide.T if metric == "ip" else (wide**2).sum(axis=1) - 2 * Q @ wide.T
    true = np.argsort(apart, axis=1, kind="stable")[:, :K]
    for place, most in (("by codes", 0), ("exact", MOST_NUMBERS)):
        with (
            mock.patch("mihash.store.recall_target.MOST_NUMBERS", most),
            mihash.open(folder / place, metric=metric) as index,
        ):
            for start in range(0, len(X), BATCH):
                index.add(X[start : start + BATCH])
            index.wait()
    with (
        mihash.open(folder / "by codes") as by_codes,
        mihash.open(folder / "exact") as exact,
    ):
        spent, hits, firsts = np.zeros(2), np.zeros(2), []
        sides = ((by_codes, 0), (exact, MOST_NUMBERS))
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
