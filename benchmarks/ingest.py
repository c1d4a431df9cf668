"""What filling an index costs: CPU of a row with the defaults, as storing, learning, and watch and price.

Rows come 1,000 in a call. Storing is everything that is neither learning nor measuring: keys, checksums, the
transactions, the codes of new rows and the rehashes in the background. MIHASH_INGEST_ROWS sets how many rows there
are, 60,000 by default: the longer the stream, the less a row costs.

The last two columns are CPU seconds for one second of waiting, above 1 where both cores work: for calls of 1,000
rows, and for one call with all rows. On a busy machine they say how busy it is.
"""

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

import mihash
from mihash.loop import learning_loop

from .report import console, show_grid

N = int(os.environ.get("MIHASH_INGEST_ROWS", "60000"))
CHUNK = 1_000
CASES = ((128, False), (384, False), (128, True))
MOST_US = 100


def run() -> None:
    """Print the table."""
    rows = [_ingest(d, labelled) for d, labelled in CASES]
    head = ["rows", "storing", "learning", "watch and price", "in all", "rehashes", "CPU / wall", "in one call"]
    show_grid(f"CPU of a row in µs, {N:,} rows; at most {MOST_US} wanted", head, rows)


def _ingest(d: int, labelled: bool) -> list[str]:
    rng = np.random.default_rng(0)
    own = rng.integers(0, 100, N)
    X = rng.standard_normal((100, d), dtype=np.float32)[own] + rng.standard_normal((N, d), dtype=np.float32)
    y = own % 10 if labelled else None
    with tempfile.TemporaryDirectory() as folder:
        _filled(Path(folder) / "first", X[:4000], None if y is None else y[:4000])  # compiles
        spent, ratio, learning, loop, updates = _filled(Path(folder) / "index", X, y)
        at_once = _filled(Path(folder) / "once", X, y, chunk=len(X))[1]
    observing = loop.observing_s + loop.branches[0].deciding_s
    parts = [spent - learning - observing, learning, observing, spent]
    name = f"{d} numbers, {'with' if labelled else 'without'} labels"
    console.print(f"{name}: {1e6 * spent / N:.0f} µs CPU a row")
    ratios = (f"{each:.2f}" for each in (ratio, at_once))
    return [name, *(f"{1e6 * part / N:.0f}" for part in parts), str(updates), *ratios]


def _filled(
    folder: Path, X: np.ndarray, y: np.ndarray | None, chunk: int = CHUNK
) -> tuple[float, float, float, Any, int]:
    """Fill an index; return CPU seconds, those of one second, those of learning, its loop, and its rehashes."""
    learning, learn_rows = [0.0], learning_loop.learn_rows

    def timed(*rows: Any) -> None:
        begin = time.thread_time()
        learn_rows(*rows)
        learning[0] += time.thread_time() - begin

    learning_loop.learn_rows = timed
    try:
        with mihash.open(folder) as index:
            begin, waited = time.process_time(), time.perf_counter()
            for start in range(0, len(X), chunk):
                part = slice(start, start + chunk)
                index.add(X[part], None if y is None else y[part])
            index.wait()
            spent, waited = time.process_time() - begin, time.perf_counter() - waited
            return spent, spent / waited, learning[0], index._durable.loop, index.stats().updates
    finally:
        learning_loop.learn_rows = learn_rows
