"""The plan against a measured run: disk, memory, a rehash and a query of a million vectors of 128 features.

The rates come from the calibration of `mihash plan`, on a small index; the run is an index of full size. Wall
clock and resident memory, in a process of its own for the run.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from rich.table import Table

import mihash
from mihash.sizing.calibration import calibrate
from mihash.sizing.plan import plan

from .report import console, verdict

N, D, N_BITS = 1_000_000, 128, 64
CHUNK = 4096
MOST_OFF = 1.3

_RUN = """
import json, sys, time
import numpy as np, mihash

def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024

with mihash.OnlineIndex.open(sys.argv[1]) as index:
    query = np.ones((1, index.snapshot.n_features), dtype=np.float32)
    index.search(query, method="scan")
    queries = []
    for _ in range(50):
        begin = time.perf_counter()
        index.search(query, method="scan")
        queries.append(time.perf_counter() - begin)
    rehashes = []
    for _ in range(6):
        begin = time.perf_counter()
        index.rehash()
        index.wait()
        rehashes.append(time.perf_counter() - begin)
    print(json.dumps({"rehash_s": min(rehashes), "query_s": min(queries), "memory_peak_bytes": peak()}))
"""


def run() -> None:
    costs = plan(calibrate(D, N_BITS), N)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        with mihash.OnlineIndex.create(path, N_BITS, "lsh") as index:
            for _ in range(0, N, CHUNK):
                rows = min(CHUNK, N - len(index))
                index.add(rng.standard_normal((rows, D), dtype=np.float32))
        found = subprocess.run(
            [sys.executable, "-c", _RUN, str(path)], check=True, capture_output=True, text=True
        ).stdout
        measured = json.loads(found) | {"disk_bytes": sum(file.stat().st_size for file in path.iterdir())}
    table = Table(title=f"{N:,} x {D}, {N_BITS} bits", title_justify="left", title_style="bold")
    for name in ("what", "planned", "measured", "ratio", f"within {MOST_OFF - 1:.0%}"):
        table.add_column(name, justify="left" if name == "what" else "right")
    for name, unit, scale in (
        ("disk_bytes", "MB", 1e-6),
        ("memory_peak_bytes", "MB", 1e-6),
        ("rehash_s", "s", 1.0),
        ("query_s", "ms", 1e3),
    ):
        planned, real = getattr(costs, name), measured[name]
        ratio = planned / real
        cells = (f"{scale * planned:,.3g} {unit}", f"{scale * real:,.3g} {unit}", f"{ratio:.2f}x")
        table.add_row(name, *cells, verdict(1 / MOST_OFF <= ratio <= MOST_OFF))
    console.print(table)
