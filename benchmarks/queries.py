"""What one query costs an index of 300,000 generated vectors of 384 numbers: CPU of a query, one at a time.

One index has the defaults, the other codes of MomentHash with 128 bits. Queries are not among the rows.
MIHASH_QUERIES_INDEX names a folder to keep the indexes in between two runs.
"""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import mihash

from .clock import best, timed
from .peers import generated
from .report import Target, show

N, N_QUERIES, ROUNDS = 300_000, 50, 7
CASES: dict[str, dict[str, Any]] = {
    "Hamming": {"rescore": 0, "margins": False},
    "plain: margins and two bytes": {"rescore": 0},
    "100 candidates rescored": {"rescore": 100},
    "1,000 candidates rescored": {"rescore": 1000},
    "default": {},
}
TARGETS = {
    "100 candidates rescored": Target(most=2, unit="ms"),
    "1,000 candidates rescored": Target(most=8, unit="ms"),
    "default": Target(most=8, unit="ms"),
}


def run() -> None:
    """Print the table."""
    X = generated(N + N_QUERIES)
    with _folder() as folder:
        _measure(folder / "default", X, {})
        _measure(folder / "momenthash", X, {"learner": "momenthash", "n_bits": 128})


def _measure(folder: Path, X: np.ndarray, given: dict[str, Any]) -> None:
    queries = X[N:]
    with mihash.open(folder, **given) as index:
        for start in range(len(index), N, 10_000):
            index.add(X[start : min(start + 10_000, N)])
        index.wait()
        index.search(queries[0])
        index._table.target.wait()  # until recall is measured, a search looks up more than it will

        def ask(options: dict[str, Any]) -> None:
            for query in queries:
                index.search(query, **options)

        works = {
            name: timed(lambda options=options: ask(options), N_QUERIES)  # type: ignore[misc]
            for name, options in CASES.items()
        }
        chosen = index.stats()["rescore"]
        size = f"{N:,} x {queries.shape[1]}, {index.options.learner}, {index.options.n_bits} bits"
        title = f"One query on {size}, k = 10; default: {chosen} candidates"
        show(title, best(works, ROUNDS), "Hamming", "ms", TARGETS)


@contextlib.contextmanager
def _folder() -> Iterator[Path]:
    kept = os.environ.get("MIHASH_QUERIES_INDEX")
    if kept is not None:
        yield Path(kept)
    else:
        with tempfile.TemporaryDirectory() as folder:
            yield Path(folder)
