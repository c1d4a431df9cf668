"""What an index will cost before it is built (docs/scale.md): a few rates of this machine, and a model.

Everything that grows does so with the rows: vectors and codes on the disk, codes in memory, the time of a rehash
and of a scan. So a small index tells what a large one costs. How often the table is recomputed is the trigger's
affair: on a stream that stays the same it says yes more and more rarely, about as often in each doubling of the
stream; a fixed rate says yes all the time.
"""

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log2
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import InvalidInput
from .index import OnlineIndex
from .options import Options
from .search import as_columns, nearest

__all__ = ["Calibration", "Plan", "calibrate", "plan"]

_STORED_FLOATS = 12_000_000  # of the calibration's index
_LEARNED = 8192
_CHUNK = 4096
_SITTINGS = 5
_SCANNED = 200_000
_QUERIES = 64
_K = 10

_OPEN = """
import sys
import numpy as np
import mihash
with mihash.OnlineIndex.open(sys.argv[1]) as index:
    index.search(np.ones((1, index.snapshot.n_features), dtype=np.float32))
    with open("/proc/self/status") as status:
        print(next(line.split()[1] for line in status if line.startswith("VmRSS")))
"""
_USUAL_BASE = 200e6  # where the system does not tell


@dataclass(frozen=True)
class Calibration:
    """What this machine does, per row, for vectors of one dimension and codes of one length.

    Attributes
    ----------
    n_features, n_bits, dtype
        What was measured.
    learn_s, store_s, rehash_s, scan_s
        Seconds to learn from an example, to store a row, to read and encode a row again, to compare a code.
    query_s
        Seconds of a query beside the scan.
    disk_bytes, disk_base_bytes
        Bytes on the disk for a row, vector and codes of two versions included, and beside rows: what was learned.
    base_bytes
        Memory of a process that has a small index open.
    n_learned, updates, updates_doubling
        After so many examples, how often the trigger had said yes, and how often in the last half of them.
    """

    n_features: int
    n_bits: int
    dtype: str
    learn_s: float
    store_s: float
    rehash_s: float
    scan_s: float
    query_s: float
    disk_bytes: float
    disk_base_bytes: float
    base_bytes: float
    n_learned: int
    updates: int
    updates_doubling: int


@dataclass(frozen=True)
class Plan:
    """What an index of some size costs; on several nodes, what each of them has to bear.

    Attributes
    ----------
    rows_per_node
        How many rows a node holds.
    disk_bytes
        On a node's disk.
    memory_bytes, memory_peak_bytes
        In a node's memory, at rest and while a new version is built beside the old one.
    multi_index_bytes
        What multi-index hashing takes in addition, where it pays.
    ingest_rate
        Rows per second that one core stores and learns from.
    ingest_s
        How long the rows take to arrive, by the stream's rate or, if that is less, by the core's.
    rehash_s
        How long a rehash of all rows takes; all nodes work at the same time.
    updates, updates_fixed
        How often the table is computed, with the trigger and at a fixed rate.
    rehashing_s, rehashing_fixed_s
        Time spent on that while the table grows to its size.
    query_s
        How long one query takes with a scan.
    queries_per_s
        How many queries a second the cores of a node answer; every query goes to all nodes.
    broadcast_bytes
        What a rehash sends to each node: the mapping.
    """

    rows_per_node: int
    disk_bytes: float
    memory_bytes: float
    memory_peak_bytes: float
    multi_index_bytes: float
    ingest_rate: float
    ingest_s: float
    rehash_s: float
    updates: float
    updates_fixed: float
    rehashing_s: float
    rehashing_fixed_s: float
    query_s: float
    queries_per_s: float
    broadcast_bytes: float


def plan(
    calibration: Calibration,
    rows: int,
    *,
    rate: float | None = None,
    nodes: int = 1,
    cores: int = 1,
    interval: int = 100,
    disk_bytes_per_s: float | None = None,
) -> Plan:
    """Return what an index of so many rows costs, by the model of docs/scale.md.

    Parameters
    ----------
    calibration
        The rates of a machine (`calibrate`).
    rows
        How many vectors there will be.
    rate
        How many arrive in a second; as many as one core takes in by default.
    nodes
        Over how many machines they are spread.
    cores
        How many cores of each answer queries.
    interval
        After how many examples the trigger looks, and a fixed rate updates.
    disk_bytes_per_s
        How fast the disk reads, where vectors do not stay in the memory of the system; a rehash reads them all.

    Examples
    --------
    >>> machine = Calibration(128, 64, "float32", 2e-4, 2e-5, 1e-6, 2e-10, 5e-5, 560.0, 2e6, 200e6, 8192, 35, 6)
    >>> costs = plan(machine, 1_000_000_000, nodes=16)
    >>> costs.rows_per_node, round(costs.rehash_s), round(costs.updates), costs.broadcast_bytes
    (62500000, 62, 136, 32768)
    """
    rows = validation.integer("rows", rows, minimum=1)
    nodes = validation.integer("nodes", nodes, minimum=1)
    cores = validation.integer("cores", cores, minimum=1)
    interval = validation.integer("interval", interval, minimum=1)
    machine, share = calibration, ceil(rows / nodes)
    code_bytes = 4 if machine.n_bits <= 32 else 8 * ceil(machine.n_bits / 64)
    held = share * (code_bytes + 9)  # its code, its number, whether it was deleted
    capacity = 1 / (machine.learn_s + machine.store_s)
    taken = capacity if rate is None else min(validation.number("rate", rate, minimum=0), capacity)
    rehash_s = share * machine.rehash_s
    if disk_bytes_per_s is not None:
        rehash_s = max(rehash_s, share * machine.disk_bytes / disk_bytes_per_s)
    doublings = log2(max(rows / machine.n_learned, 1))
    updates_fixed = rows / interval + 1
    updates = min(machine.updates + machine.updates_doubling * doublings, updates_fixed)
    query_s = machine.query_s + share * machine.scan_s
    return Plan(
        rows_per_node=share,
        disk_bytes=machine.disk_base_bytes + share * machine.disk_bytes,
        memory_bytes=machine.base_bytes + held,
        memory_peak_bytes=machine.base_bytes + 2 * held,
        multi_index_bytes=share * ceil(machine.n_bits / 16) * (code_bytes + 4),
        ingest_rate=capacity,
        ingest_s=rows / taken if taken else float("inf"),
        rehash_s=rehash_s,
        updates=updates,
        updates_fixed=updates_fixed,
        # In a doubling the table has three quarters of its last size, on average; the one before costs half.
        rehashing_s=min(1.5 * machine.updates_doubling, updates) * rehash_s,
        rehashing_fixed_s=updates_fixed / 2 * rehash_s,
        query_s=query_s,
        queries_per_s=cores / query_s,
        broadcast_bytes=4 * machine.n_features * machine.n_bits,
    )


def calibrate(
    n_features: int = 128,
    n_bits: int = 64,
    *,
    learner: str = "mihash",
    dtype: str = "float32",
    sample: ArrayLike | None = None,
    progress: Callable[[str], object] = str,
) -> Calibration:
    """Measure this machine with a small index in a temporary folder; takes some seconds.

    Parameters
    ----------
    n_features, n_bits
        Of the planned index.
    learner, dtype
        Likewise.
    sample
        Vectors of the planned stream, in their order, at least 1,000: how often the trigger says yes depends on
        them. Made up by default.
    progress
        Is told what is measured.
    """
    n_features = validation.integer("n_features", n_features, minimum=1)
    X = _made_up(n_features) if sample is None else validation.features("sample", sample, n_features)
    if len(X) < 1000:
        raise InvalidInput(f"`sample` must have at least 1,000 rows; got {len(X)}.")
    progress("learning")
    learn_s, n_learned, updates, doubling = _learning(X[:_LEARNED], n_bits, learner)
    progress("scanning")
    scan_s = _scanning(n_bits)
    with tempfile.TemporaryDirectory() as folder:
        progress("storing and rehashing")
        path = Path(folder) / "index"
        stored = _storing(path, X, n_bits, dtype, scan_s)
        progress("opening")
        base_bytes = _base(path)
    return Calibration(
        n_features, n_bits, dtype, learn_s, stored.store_s, stored.rehash_s, scan_s, stored.query_s,
        stored.disk_bytes, stored.disk_base_bytes, base_bytes, n_learned, updates, doubling,
    )  # fmt: skip


def _made_up(n_features: int) -> NDArray[np.float32]:
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((100, n_features), dtype=np.float32)
    return centers[rng.integers(0, 100, _LEARNED)] + rng.standard_normal((_LEARNED, n_features), dtype=np.float32)


def _learning(X: NDArray[np.float32], n_bits: int, learner: str) -> tuple[float, int, int, int]:
    """Return seconds for an example, how many there were, and the updates in all and in the last half."""
    warm = Options(n_bits=n_bits, learner=learner).make_stream()
    labels = np.arange(len(X)) % 10 if warm.learner.needs_labels else None
    list(warm.feed(*warm.check(X[:500], None if labels is None else labels[:500])))
    stream, seen = Options(n_bits=n_bits, learner=learner).make_stream(), []
    begin = time.process_time()
    for event in stream.feed(*stream.check(X, labels)):
        if event.mapping is not None:
            seen.append(event.seen)
    return (time.process_time() - begin) / len(X), len(X), len(seen), sum(at > len(X) // 2 for at in seen)


@dataclass(frozen=True)
class _Stored:
    """What an index on the disk takes for a row, and beside its rows."""

    store_s: float
    rehash_s: float
    query_s: float
    disk_bytes: float
    disk_base_bytes: float


def _storing(path: Path, X: NDArray[np.float32], n_bits: int, dtype: str, scan_s: float) -> _Stored:
    """Fill an index and rehash it.

    Each sitting leaves a checkpoint of what was learned, for which there is room after some; what the next
    one adds is what rows take.
    """
    chunk = np.resize(X, (min(_CHUNK, max(_STORED_FLOATS // X.shape[1] // _SITTINGS, 700)), X.shape[1]))
    n_chunks = max(_STORED_FLOATS // chunk.size - _SITTINGS, 1)
    OnlineIndex.create(path, n_bits, "lsh", theta=float("inf"), dtype=dtype).close()
    for _ in range(_SITTINGS):
        with OnlineIndex.open(path) as index:
            _fill(index, chunk, 1)
    before = _on_disk(path)
    with OnlineIndex.open(path) as index:
        store_s = _fill(index, chunk, n_chunks)
        rehashes = []
        for _ in range(3):
            begin = time.perf_counter()
            index.rehash()
            index.wait()
            rehashes.append(time.perf_counter() - begin)
        query = X[:1]
        index.search(query)
        begin = time.perf_counter()
        for _ in range(_QUERIES):
            index.search(query)
        query_s = (time.perf_counter() - begin) / _QUERIES - len(index) * scan_s
        n = len(index)
    per_row = max(_on_disk(path) - before, 0) / (n_chunks * len(chunk))
    return _Stored(
        store_s=store_s,
        rehash_s=min(rehashes) / n,
        query_s=max(query_s, 0.0),
        disk_bytes=per_row,
        disk_base_bytes=max(before - _SITTINGS * len(chunk) * per_row, 0.0),
    )


def _fill(index: OnlineIndex, chunk: NDArray[np.float32], n_chunks: int) -> float:
    """Add a chunk several times; return the seconds for a row."""
    begin = time.perf_counter()
    for _ in range(n_chunks):
        index.add(chunk)
    return (time.perf_counter() - begin) / (n_chunks * len(chunk))


def _on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())


def _base(path: Path) -> float:
    try:
        run = subprocess.run([sys.executable, "-c", _OPEN, str(path)], check=True, capture_output=True, text=True)
        return 1024.0 * int(run.stdout)
    except (OSError, ValueError, subprocess.CalledProcessError):
        return _USUAL_BASE


def _scanning(n_bits: int) -> float:
    """Return seconds for a code of a scan, one query at a time."""
    codes = np.random.default_rng(0).integers(0, 256, (_SCANNED, ceil(n_bits / 8)), dtype=np.uint8)
    columns = as_columns(codes)
    nearest(columns[:1], columns, _K)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for i in range(_QUERIES):
            nearest(columns[i : i + 1], columns, _K)
        times.append(time.perf_counter() - begin)
    return min(times) / (_QUERIES * _SCANNED)
