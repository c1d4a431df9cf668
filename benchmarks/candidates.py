"""The true 10 nearest among 100 candidates by codes: a published index, by margins and two bytes, against ITQ.

An index with MomentHash and the default trigger takes the rows without labels, 5,000 in a call, and is asked for
100 items without rescoring. ITQ learns from all rows at once; its codes are ranked by margins. The mean of three
seeds, of the split, the order and the learner. Needs MIHASH_DATA; MIHASH_SEEDS names other seeds.
"""

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.store.question import Question

from .peers import nearest, share
from .report import console, show_grid, verdict

SEEDS = tuple(int(seed) for seed in os.environ.get("MIHASH_SEEDS", "0,1,2").split(","))
N_QUERIES, CANDIDATES, CHUNK = 300, 100, 5000
MOST_BELOW = 0.02

Rows = NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """A data set, a code length, and the least share wanted by margins and with the two bytes."""

    file: str
    metric: str
    n_bits: int
    margins: float
    factors: float | None


CASES = (
    Case("gist22k", "euclidean", 64, 0.55, 0.70),
    Case("gist22k", "euclidean", 128, 0.64, None),
    Case("cifar10_vgg16", "cosine", 64, 0.70, None),
    Case("tinyimagenet_alexnet_pca128", "euclidean", 64, 0.53, 0.60),
)


def run() -> None:
    """Print the table."""
    if not os.environ.get("MIHASH_DATA"):
        console.print("[dim]candidates: MIHASH_DATA is not set, so there are no real features.[/dim]")
        return
    rows = []
    for case in CASES:
        shares = np.array([_shares(case, seed) for seed in SEEDS])
        hamming, margins, factors, itq = shares.mean(axis=0)
        wanted = [f"{case.margins:.2f} {verdict(margins >= case.margins)}"]
        wanted += ["" if case.factors is None else f"{case.factors:.2f} {verdict(factors >= case.factors)}"]
        above = verdict(margins >= itq - MOST_BELOW)
        found = (f"{value:.3f}" for value in (hamming, margins, factors, itq))
        rows.append([f"{case.file}, {case.metric}", str(case.n_bits), *found, *wanted, above])
        console.print(f"[dim]{case.file}, {case.n_bits} bits: {shares.round(3).tolist()}[/dim]")
    head = ["data", "bits", "Hamming", "margins", "two bytes", "ITQ, margins"]
    head += ["margins wanted", "bytes wanted", f"margins >= ITQ - {MOST_BELOW}"]
    show_grid(f"The true 10 among {CANDIDATES} candidates, {N_QUERIES} queries, seeds {SEEDS}", head, rows)


def _shares(case: Case, seed: int) -> tuple[float, float, float, float]:
    """Return the shares found by Hamming distance, by margins and with the bytes, and by margins with ITQ."""
    X, Q = _split(case, seed)
    true = nearest(X, Q, np.ones(len(X), dtype=np.bool_))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        options = {"n_bits": case.n_bits, "metric": case.metric, "seed": seed}
        with mihash.open(path, learner="momenthash", factors=True, **options) as index:
            for start in range(0, len(X), CHUNK):
                index.add(X[start : start + CHUNK])
            index.wait()
            own = [_share(index, Q, true, margins, factors) for margins, factors in _WAYS]
        mapping = mihash.batch.ITQ(case.n_bits, seed=seed).fit(X)
        with mihash.open(Path(folder) / "itq", learner=mapping, metric=case.metric) as index:
            index.add(X)
            index.wait()
            itq = _share(index, Q, true, margins=True, factors=False)
    return own[0], own[1], own[2], itq


_WAYS = ((False, False), (True, False), (True, True))


def _share(index: mihash.OnlineIndex, Q: Rows, true: NDArray[np.int64], margins: bool, factors: bool) -> float:
    question = Question(Q, CANDIDATES, rescore=0, margins=margins, factors=factors)
    return share(question.hits(index._table.nearest(question)).keys, true)


def _split(case: Case, seed: int) -> tuple[Rows, Rows]:
    with np.load(Path(os.environ["MIHASH_DATA"]) / f"{case.file}.npz") as file:
        X = file["features"].astype(np.float32)
    if case.metric == "cosine":
        X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(seed).permutation(len(X))
    return np.ascontiguousarray(X[order[N_QUERIES:]]), np.ascontiguousarray(X[order[:N_QUERIES]])
