"""The plan against what then happens: an index of 40,000 and of 300,000 generated vectors of 384 numbers.

The rates come from the calibration of `mihash plan` with the first rows of the file as its sample. Then an index
with the defaults takes all rows, 10,000 in a call, and another process opens it, searches, rehashes and upserts.
Times are CPU seconds of a process, memory is the peak of the second one. MIHASH_PLAN_ROWS names other sizes, and
MIHASH_PLAN_LEARNER a learner.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from mihash.index.defaults import default_bits, default_learner
from mihash.sizing.calibration import calibrate, n_learned
from mihash.sizing.plan import Plan, plan

from .peers import generated
from .report import console, number, verdict

SIZES = tuple(int(n) for n in os.environ.get("MIHASH_PLAN_ROWS", "40000,300000").split(","))
LEARNER = os.environ.get("MIHASH_PLAN_LEARNER")
MOST_OFF = 1.3

_FILL = """
import json, sys, time
import numpy as np, mihash

def fill(folder, X):
    begin = time.process_time()
    with mihash.open(folder, **json.loads(sys.argv[3])) as index:
        for start in range(0, len(X), 10_000):
            index.add(X[start : start + 10_000])
        index.wait()
        spent, updates = time.process_time() - begin, index.stats().updates
    return spent, updates

X = np.load(sys.argv[2])
fill(sys.argv[1] + ".first", X[:4000])  # compiles
print(json.dumps(fill(sys.argv[1], X)))
"""

_ASK = """
import json, sys, time
import numpy as np, mihash

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

def best(work, rounds=5):
    times = []
    for _ in range(rounds):
        begin = time.process_time()
        n = work()
        times.append((time.process_time() - begin) / n)
    return min(times)

Q = np.load(sys.argv[2])
with mihash.open(sys.argv[1]) as index:
    def ask(**options):
        for q in Q:
            index.search(q, **options)
        return len(Q)

    def rehash():
        index.rehash()
        index.wait()
        return 1

    def upsert(n):
        for call in range(n):
            index.upsert(Q, 500 * call + np.arange(500))
        return 500 * n

    index.search(Q[0])
    index._table.target.wait()  # it measures how many vectors to look up
    found = {"query_s": best(lambda: ask(rescore=0)), "rescored_query_s": best(ask), "rehash_s": best(rehash)}
    found["candidates"] = index.stats().rescore
    found["memory_peak_bytes"] = peak()
    upsert(1)
    found["upsert_s"] = best(lambda: upsert(8), rounds=1)
    index.wait()
print(json.dumps(found))
"""

_SHOWN = (
    ("ingest_cpu_s", "adding all rows, rehashes included", "s", 1.0),
    ("disk_bytes", "disk", "MB", 1e-6),
    ("memory_peak_bytes", "memory, with a rehash", "MB", 1e-6),
    ("updates", "rehashes", "", 1.0),
    ("rehash_s", "a rehash", "s", 1.0),
    ("query_s", "a query, by codes alone", "ms", 1e3),
    ("candidates", "vectors that a search without options looks up", "", 1.0),
    ("rescored_query_s", "a query without options", "ms", 1e3),
    ("upsert_s", "an upsert of one row, 500 in a call", "us", 1e6),
)


def run() -> None:
    """Print a table for each size."""
    for n in SIZES:
        X = generated(n)
        d = X.shape[1]
        learner, n_bits = (LEARNER, default_bits(d, False, LEARNER)) if LEARNER else default_learner(d, False)
        costs = _planned(X, learner, n_bits)
        _show(f"{n:,} x {d}, {learner}, {n_bits} bits", costs, _measured(X, learner, n_bits))


def _planned(X: np.ndarray, learner: str, n_bits: int) -> dict[str, float]:
    d = X.shape[1]
    machine = calibrate(d, n_bits, learner=learner, sample=X[: n_learned(d)], progress=_tell)
    costs: Plan = plan(machine, len(X))
    return vars(costs) | {"ingest_cpu_s": costs.ingest_s + costs.rehashing_s}


def _tell(what: str) -> None:
    console.print(f"[dim]calibrating: {what}[/dim]")


def _measured(X: np.ndarray, learner: str, n_bits: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path, rows, queries = (Path(folder) / name for name in ("index", "rows.npy", "queries.npy"))
        np.save(rows, X)
        np.save(queries, X[np.random.default_rng(1).choice(len(X), 500, replace=False)])
        spent, updates = _child(_FILL, path, rows, json.dumps({"learner": learner, "n_bits": n_bits}))
        disk = sum(file.stat().st_size for file in path.iterdir())
        found: dict[str, Any] = _child(_ASK, path, queries)
        return found | {"ingest_cpu_s": spent, "updates": updates, "disk_bytes": disk}


def _child(program: str, *arguments: Path | str) -> Any:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout)


def _show(title: str, planned: dict[str, float], measured: dict[str, Any]) -> None:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("what", "planned", "measured", "ratio", f"within {MOST_OFF - 1:.0%}"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name, what, unit, scale in _SHOWN:
        ratio = planned[name] / measured[name]
        cells = (f"{number(scale * each[name])} {unit}".strip() for each in (planned, measured))
        table.add_row(what, *cells, f"{ratio:.2f}x", verdict(1 / MOST_OFF <= ratio <= MOST_OFF))
    console.print(table)
