"""An index of mihash against LanceDB, FAISS and usearch: ingest, disk, memory, recall, latency, filters, deletes.

Each index is made and asked in a process of its own, one after the other, with one thread for BLAS and FAISS. The
data is a generated set (MIHASH_PEERS_ROWS rows of 384 numbers, 300,000 by default), and the three sets of features
where MIHASH_DATA is set. MIHASH_PEERS_DATA names some of these sets and MIHASH_PEERS_INDEX one index to measure
again; the other numbers are kept. They go to docs/images/peers.json, and a picture to docs/images/peers.png.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .peer_indexes import peers
from .report import console, show_grid

NUMBERS = Path(__file__).parents[1] / "docs" / "images" / "peers.json"
D, N_QUERIES, N_TIMED, N_UPSERTED = 384, 200, 100, 500
CANDIDATES = (10, 100, 1000)
_FILES = {
    "gist22k": "gist22k.npz",
    "cifar10_vgg16": "cifar10_vgg16.npz",
    "tinyimagenet": "tinyimagenet_alexnet_pca128.npz",
}


def generated(n: int) -> NDArray[np.float32]:
    """Return vectors in 1,000 clusters; the spread falls as one over the square root of the direction's rank."""
    rng = np.random.default_rng(0)
    spread = (np.arange(1, D + 1) ** -0.5).astype(np.float32)
    centres = rng.standard_normal((1000, D), dtype=np.float32) * spread
    X = centres[rng.integers(0, 1000, n)] + rng.standard_normal((n, D), dtype=np.float32) * spread
    rotation = np.linalg.qr(rng.standard_normal((D, D)))[0].astype(np.float32)
    rotated: NDArray[np.float32] = X @ rotation
    return rotated


def load(name: str) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return the rows to store, and queries that are not among them."""
    if name == "generated":
        X = generated(int(os.environ.get("MIHASH_PEERS_ROWS", "300000")) + N_QUERIES)
    else:
        with np.load(Path(os.environ["MIHASH_DATA"]) / _FILES[name]) as file:
            X = file["features"].astype(np.float32)
        if name == "cifar10_vgg16":  # the cosine as a Euclidean distance, which all have
            X /= np.linalg.norm(X, axis=1, keepdims=True)
    order = np.random.default_rng(1).permutation(len(X))
    return np.ascontiguousarray(X[order[N_QUERIES:]]), np.ascontiguousarray(X[order[:N_QUERIES]])


def nearest(X: NDArray[np.float32], Q: NDArray[np.float32], keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return the true ten nearest of those that are kept."""
    rows = np.flatnonzero(keep)
    apart = (X[rows] ** 2).sum(axis=1)[None] - 2 * Q @ X[rows].T
    return rows[np.argpartition(apart, 10, axis=1)[:, :10]]


def share(found: Any, true: NDArray[np.int64]) -> float:
    """Return the mean share of the true ten that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, true, strict=True)]))


def measure(data: str, name: str) -> dict[str, Any]:
    """Make one index and ask it; memory is the growth of this process's peak since the data was loaded."""
    X, Q = load(data)
    everything = np.ones(len(X), dtype=np.bool_)
    true, part = nearest(X, Q, everything), np.arange(len(X)) % 10 == 3
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tempfile.TemporaryDirectory() as folder:
        cpu = time.process_time()
        index = peers(X.shape[1])[name](X, Path(folder))
        record: dict[str, Any] = {"data": data, "index": name, "rows": len(X), "d": X.shape[1]}
        record["ingest_us"] = 1e6 * (time.process_time() - cpu) / len(X)
        record["disk"] = sum(file.stat().st_size for file in Path(folder).rglob("*") if file.is_file()) / len(X)
        record["bytes"] = index.bytes_per_row
        record["recall"] = [share(index.candidates(Q, n), true) for n in CANDIDATES]
        record["default"], record["cpu_ms"], times = _timed(index, Q, true, None)
        record["p50_ms"], record["p99_ms"] = np.percentile(times, [50, 99]).tolist()
        begin = time.process_time()
        index.search(Q[0], 7)  # the first filter on this field, then the first with another value
        record["first_filter_ms"] = 1e3 * (time.process_time() - begin)
        begin = time.process_time()
        index.search(Q[0], 5)
        record["next_filter_ms"] = 1e3 * (time.process_time() - begin)
        record["filtered"], record["filtered_ms"], _ = _timed(index, Q, nearest(X, Q, part), 3)
        changed = np.random.default_rng(2).choice(len(X), N_UPSERTED, replace=False)
        begin = time.process_time()
        done = index.upsert(changed, X[changed])
        record["upsert_ms"] = 1e3 * (time.process_time() - begin) if done else None
        gone = np.arange(0, len(X), 10)
        index.delete(gone)
        everything[gone] = False
        record["after_deletes"], record["after_deletes_ms"], _ = _timed(index, Q, nearest(X, Q, everything), None)
        record["memory_mb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    return record


def _timed(
    index: Any, Q: NDArray[np.float32], true: NDArray[np.int64], part: int | None
) -> tuple[float, float, Any]:
    """Return recall, CPU milliseconds for a query, and the times on the wall."""
    index.search(Q[0], part)
    times, found, cpu = [], [], time.process_time()
    for q in Q[:N_TIMED]:
        begin = time.perf_counter()
        found.append(index.search(q, part))
        times.append(1e3 * (time.perf_counter() - begin))
    spent = 1e3 * (time.process_time() - cpu) / N_TIMED
    return share(found, true[:N_TIMED]), spent, times


def run() -> None:
    names = ["generated"] + (list(_FILES) if "MIHASH_DATA" in os.environ else [])
    some, again = os.environ.get("MIHASH_PEERS_DATA"), os.environ.get("MIHASH_PEERS_INDEX")
    names = some.split(",") if some else names
    records = json.loads(NUMBERS.read_text(encoding="utf-8"))["records"] if some or again else []
    for data in names:
        for name in [again] if again else peers(D):
            command = [sys.executable, "-m", f"{__package__}.peers", data, name]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                console.print(f"{name} on {data}: {done.stderr.strip().splitlines()[-1][:200]}")
                continue
            records = [r for r in records if (r["data"], r["index"]) != (data, name)]
            records.append(json.loads(done.stdout.splitlines()[-1]))
            NUMBERS.write_text(json.dumps({"records": records}, indent=1) + "\n", encoding="utf-8")
            console.print(f"[dim]{data}: {name}, {records[-1]['ingest_us']:.0f} us a row[/dim]")
        show([record for record in records if record["data"] == data])
    if records:
        draw(NUMBERS)


def show(records: list[dict[str, Any]]) -> None:
    """Print the table of one data set."""
    header = ["index", "bytes", "us a row", "disk B", "MB", "10", "100", "1,000", "default", "CPU ms", "p99"]
    rows = []
    for r in records:
        row = [r["index"], *(f"{r[name]:.0f}" for name in ("bytes", "ingest_us", "disk", "memory_mb"))]
        row += [f"{value:.3f}" for value in (*r["recall"], r["default"])]
        row += [f"{r['cpu_ms']:.2f}", f"{r['p99_ms']:.1f}"]
        row += [f"{r[name]:.3f}, {r[name + '_ms']:.2f}" for name in ("filtered", "after_deletes")]
        names = ("first_filter_ms", "next_filter_ms", "upsert_ms")
        row += ["-" if r[name] is None else f"{r[name]:.0f}" for name in names]
        rows.append(row)
    header += ["filtered, ms", "10 % deleted, ms", "first filter, ms", "next", f"{N_UPSERTED} upserts, ms"]
    if records:
        show_grid(f"{records[0]['data']}: {records[0]['rows']:,} x {records[0]['d']}", header, rows)


def draw(numbers: Path) -> None:
    """Draw recall of the default search against its CPU time, one panel for each data set."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = json.loads(numbers.read_text(encoding="utf-8"))["records"]
    names = list(dict.fromkeys(r["data"] for r in records))
    kinds = list(dict.fromkeys(r["index"] for r in records))
    figure = Figure(figsize=(4.2 * len(names), 5.2), layout="constrained")
    FigureCanvasAgg(figure)
    panels = np.atleast_1d(figure.subplots(1, len(names), sharey=True))
    for axes, name in zip(panels, names, strict=True):
        for r in (r for r in records if r["data"] == name):
            marker = "*" if r["index"].startswith("mihash") else "o"
            size = 170 if marker == "*" else 55
            color = f"C{kinds.index(r['index'])}"
            axes.scatter(r["cpu_ms"], r["default"], s=size, marker=marker, color=color, label=r["index"], zorder=2)
        rows = next(r for r in records if r["data"] == name)
        axes.set(xscale="log", xlim=(0.1, 50), xlabel="CPU of a query, ms")
        axes.set_title(f"{name}, {rows['rows']:,} x {rows['d']}", fontsize=11)
        axes.set_xticks([0.1, 1, 10], ["0.1", "1", "10"])
        axes.grid(alpha=0.3)
    panels[0].set_ylabel("recall@10 of a default search")
    figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=3, fontsize=9)
    figure.savefig(numbers.with_suffix(".png"), dpi=110)


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2])))
