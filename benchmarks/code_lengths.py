"""Which codes an index without labels should have: learned ones and random rotations of several lengths.

Of each, the CPU of filling the index, the share of the true ten nearest among 10, 100 and 1,000 candidates by what
is kept in memory, and what a search without any option finds and costs. The generated set has MIHASH_LENGTHS_ROWS
rows, 100,000 by default; gist22k and cifar10_vgg16 (cosine) are taken where MIHASH_DATA is set.
"""

import os
import tempfile
import time
from pathlib import Path

import numpy as np

import mihash

from .peers import CANDIDATES, generated, load, nearest, share
from .report import console, show_grid

N = int(os.environ.get("MIHASH_LENGTHS_ROWS", "100000"))
N_QUERIES = 200
CODES = (
    ("momenthash", 64),
    ("randomrotation", 64),
    ("momenthash", 128),
    ("randomrotation", 128),
    ("momenthash", 256),
    ("randomrotation", 256),
    ("default", None),
)


def run() -> None:
    """Print a table for each set."""
    for name in ["generated", *(["gist22k", "cifar10_vgg16"] if "MIHASH_DATA" in os.environ else [])]:
        if name == "generated":
            rows = generated(N + N_QUERIES)
            X, Q = rows[N_QUERIES:], rows[:N_QUERIES]
        else:
            X, Q = load(name)
        true = nearest(X, Q, np.ones(len(X), dtype=np.bool_))
        table = [_measured(X, Q, true, learner, n_bits) for learner, n_bits in CODES]
        head = ["codes", "bytes", "filling, µs", *(f"among {n:,}" for n in CANDIDATES), "default", "CPU, ms"]
        show_grid(f"{name}: {len(X):,} x {X.shape[1]}", head, table)


def _measured(X: np.ndarray, Q: np.ndarray, true: np.ndarray, learner: str, n_bits: int | None) -> list[str]:
    given = {} if n_bits is None else {"learner": learner, "n_bits": n_bits}
    with tempfile.TemporaryDirectory() as folder, mihash.open(Path(folder) / "index", **given) as index:
        begin = time.process_time()
        for start in range(0, len(X), 10_000):
            index.add(X[start : start + 10_000])
        index.wait()
        filling = 1e6 * (time.process_time() - begin) / len(X)
        among = [share(index.search(Q, n, rescore=0).keys, true) for n in CANDIDATES]
        index.evaluate()  # measures how many candidates a default search looks up
        index.search(Q[0])
        begin = time.process_time()
        found = [index.search(q).keys for q in Q]
        spent = 1e3 * (time.process_time() - begin) / len(Q)
        name = f"{index.options.learner}, {index.options.n_bits} bits"
        bytes_per_row = index.options.n_bits / 8 + 2
    console.print(f"[dim]{name}: {filling:.0f} µs[/dim]")
    numbers = [f"{value:.3f}" for value in (*among, share(found, true))]
    return [name, f"{bytes_per_row:.0f}", f"{filling:.0f}", *numbers, f"{spent:.2f}"]
