"""A few rates of this machine, for the model of what an index costs (`mihash.sizing.plan`, docs/scale.md)."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..index.online_index import OnlineIndex
from ..index.options import Options, default_trigger
from ..loop.decisions import Check
from ..mapping import HashMapping
from ..online import learner_class
from ..search import as_columns, nearest
from ..trigger import TriggerUpdate

DTYPES = ("float32", "float16")
LEARNED = 8192

_STORED_FLOATS = 24_000_000  # of the calibration's index
_FEWEST = 1000
_WARM = 500
_LONGEST_S = 30.0  # of learning; a learner that steps row by row takes minutes for all of them
_CHUNK = 4096
_SITTINGS = 5
_LABEL_BYTES = 8
_SCANNED_BYTES = 16_000_000  # more than a core's own cache holds, as with any large index
_QUERIES = 64
_K = 10
_LOOKED_UP = 100
_UPSERTED = 500

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
        Seconds of a query apart from the scan, without looking up vectors.
    lookup_s, upsert_s
        Seconds to look up one candidate among the vectors; seconds to replace a row, learning included.
    disk_bytes, disk_base_bytes
        Bytes on the disk for a row, vector and codes of two versions included, and for what was learned.
    base_bytes
        Memory of a process that has a small index open.
    n_learned, updates, updates_doubling
        After so many examples, how often the trigger had said yes, and how often in the last half of them.
    interval
        After how many examples the trigger looked; a fixed rate updates as often.
    labelled
        Whether the examples came with labels: learning then is several times as fast, and the updates are others.
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
    interval: int = 100
    labelled: bool = False
    lookup_s: float = 0.0
    upsert_s: float = 0.0


def calibrate(
    n_features: int = 128,
    n_bits: int = 64,
    *,
    learner: str = "momenthash",
    dtype: str = "float32",
    interval: int = 100,
    sample: ArrayLike | None = None,
    labels: bool | ArrayLike = False,
    progress: Callable[[str], object] = str,
) -> Calibration:
    """Measure this machine with a small index in a temporary folder; takes some seconds to a minute.

    Parameters
    ----------
    n_features, n_bits
        Of the planned index.
    learner, dtype, interval
        Likewise. An interval above a quarter of the examples is measured with that quarter, as nothing could be
        counted otherwise.
    sample
        Vectors of the planned stream, in their order, at least 1,000: how often the trigger says yes depends on
        them. Made up by default. The first 8,192 are learned from, or what 30 seconds are enough for.
    labels
        The labels of the sample; for vectors that are made up, whether they have some, as they do for a learner
        that needs them.
    progress
        Called with what is being measured.
    """
    n_features = validation.integer("n_features", n_features, minimum=1)
    options = Options(n_bits=n_bits, learner=learner, trigger=default_trigger(interval))
    validation.choice("dtype", dtype, DTYPES)
    X, y = _examples(n_features, options, sample, labels)
    progress("learning")
    learn_s, n_learned, updates, doubling = _learning(
        X, y, replace(options, trigger=default_trigger(min(interval, len(X) // 4)))
    )
    progress("scanning")
    scan_s = _scanning(n_bits)
    with tempfile.TemporaryDirectory() as folder:
        progress("storing and rehashing")
        path = Path(folder) / "index"
        stored = _storing(path, X, n_bits, dtype, scan_s)
        progress("opening")
        base_bytes = _base(path)
    disk_bytes = max(stored.disk_bytes - (_LABEL_BYTES if y is None else 0), 0.0)
    return Calibration(
        n_features, n_bits, dtype, learn_s, stored.store_s, stored.rehash_s, scan_s, stored.query_s,
        disk_bytes, stored.disk_base_bytes, base_bytes, n_learned, updates, doubling, interval, y is not None,
        stored.lookup_s, stored.upsert_s + learn_s,
    )  # fmt: skip


def _examples(
    n_features: int, options: Options, sample: ArrayLike | None, labels: bool | ArrayLike
) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Return what is learned from, checked, with its labels."""
    needed = learner_class(options.learner).needs_labels
    if sample is None:
        if not isinstance(labels, bool):
            raise InvalidInput("`labels` without a `sample` must be True or False; vectors are made up.")
        X, cloud = _made_up(n_features)
        return X, cloud if labels or needed else None
    X = validation.features("sample", sample, n_features)
    if len(X) < _FEWEST:
        raise InvalidInput(f"`sample` must have at least {_FEWEST:,} rows; got {len(X)}.")
    if isinstance(labels, bool):
        if labels or needed:
            why = "" if labels else f", which {options.learner} needs"
            raise InvalidInput(f"`labels` must be the labels of the sample{why}; got {labels}.")
        return X[:LEARNED], None
    return X[:LEARNED], validation.labels("labels", labels, len(X))[:LEARNED]


def _made_up(n_features: int) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return vectors of a hundred clouds, and the cloud of each."""
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((100, n_features), dtype=np.float32)
    cloud = rng.integers(0, 100, LEARNED)
    return centers[cloud] + rng.standard_normal((LEARNED, n_features), dtype=np.float32), cloud


def _learning(X: NDArray[np.float32], y: NDArray[Any] | None, options: Options) -> tuple[float, int, int, int]:
    """Return seconds for an example, how many there were, and the updates in all and in the last half.

    The seconds are those of the last half: at the beginning a learner starts, and looks at its sample more often.
    """
    warm = options.make_loop()
    warm.feed(*warm.check(X[:_WARM], None if y is None else y[:_WARM]))
    loop, seen, n = options.make_loop(), [], len(X)

    def note(check: Check, mapping: HashMapping | None, _branch: int) -> None:
        if mapping is not None:
            seen.append(check.seen)

    begin = time.process_time()
    loop.put(*loop.check(X, y))
    half, half_at = 0, begin
    while loop.queue.later:
        loop.learn(options.interval, note)
        if not half and loop.seen >= n // 2:
            half, half_at = loop.seen, time.process_time()
        if loop.seen >= _FEWEST and time.process_time() - begin > _LONGEST_S:
            n = loop.seen
            break
    end = time.process_time()
    if loop.failure is not None:
        raise InvalidInput(loop.failure)
    learn_s = (end - half_at) / (n - half) if half < n else (end - begin) / n
    return learn_s, n, len(seen), sum(at > n // 2 for at in seen)


@dataclass(frozen=True)
class _Stored:
    """What an index on the disk takes for a row, and apart from its rows."""

    store_s: float
    rehash_s: float
    query_s: float
    lookup_s: float
    upsert_s: float
    disk_bytes: float
    disk_base_bytes: float


def _storing(path: Path, X: NDArray[np.float32], n_bits: int, dtype: str, scan_s: float) -> _Stored:
    """Fill an index and rehash it.

    Each sitting leaves a checkpoint of what was learned, for which there is room after some; what the next
    one adds is what rows take.
    """
    chunk = np.resize(X, (min(_CHUNK, max(_STORED_FLOATS // X.shape[1] // _SITTINGS, 700)), X.shape[1]))
    n_chunks = max(_STORED_FLOATS // chunk.size - _SITTINGS, 1)
    OnlineIndex.create(path, n_bits, "lsh", TriggerUpdate(float("inf")), dtype=dtype).close()
    for _ in range(_SITTINGS):
        with OnlineIndex.open(path) as index:
            _fill(index, chunk, 1)
    before = _on_disk(path)
    with OnlineIndex.open(path) as index:
        store_s = _fill(index, chunk, n_chunks)
        rehash_s = _rehash(index)
        n = len(index)
        query_s = _query(index, X, rescore=0)
        lookup_s = max(_query(index, X, rescore=_LOOKED_UP) - query_s, 0.0) / _LOOKED_UP
        query_s -= n * scan_s
        begin = time.perf_counter()
        replaced = np.arange(min(_UPSERTED, len(chunk)))
        index.upsert(chunk[replaced], replaced, replaced % 2)
        upsert_s = (time.perf_counter() - begin) / len(replaced)
    per_row = max(_on_disk(path) - before, 0) / (n_chunks * len(chunk) + len(replaced))
    return _Stored(
        store_s=store_s,
        rehash_s=rehash_s / n,
        query_s=max(query_s, 0.0),
        lookup_s=lookup_s,
        upsert_s=upsert_s,
        disk_bytes=per_row,
        disk_base_bytes=max(before - _SITTINGS * len(chunk) * per_row, 0.0),
    )


def _query(index: OnlineIndex, X: NDArray[np.float32], rescore: int) -> float:
    """Return the seconds of one query."""
    index.search(X[:1], rescore=rescore)
    begin = time.perf_counter()
    for i in range(_QUERIES):
        index.search(X[i : i + 1], rescore=rescore)
    return (time.perf_counter() - begin) / _QUERIES


def _fill(index: OnlineIndex, chunk: NDArray[np.float32], n_chunks: int) -> float:
    """Add a chunk several times; return the seconds for a row.

    Its labels spare the sample a search for neighbours, which is a part of learning and measured there.
    """
    labels = np.arange(len(chunk)) % 2
    begin = time.perf_counter()
    for _ in range(n_chunks):
        index.add(chunk, y=labels)
    return (time.perf_counter() - begin) / (n_chunks * len(chunk))


def _rehash(index: OnlineIndex) -> float:
    """Return the seconds of a rehash, the best of six."""
    times = []
    for _ in range(6):
        begin = time.perf_counter()
        index.rehash()
        index.wait()
        times.append(time.perf_counter() - begin)
    return min(times)


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
    n_bytes = ceil(n_bits / 8)
    n = _SCANNED_BYTES // max(n_bytes, 4)
    codes = np.random.default_rng(0).integers(0, 256, (n, n_bytes), dtype=np.uint8)
    columns = as_columns(codes)
    nearest(columns[:1], columns, _K)
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        for i in range(_QUERIES):
            nearest(columns[i : i + 1], columns, _K)
        times.append(time.perf_counter() - begin)
    return min(times) / (_QUERIES * n)
