"""What storing, rehashing and replacing take on this machine apart from learning, by a small index."""

import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..index.durable_loop import DurableLoop
from ..index.online_index import OnlineIndex

_FLOATS = 24_000_000  # numbers in the index
_CHUNK = 4096
_SITTINGS = 5
_UPSERTED, _UPSERTS = 500, 5


@dataclass(frozen=True)
class Stored:
    """What an index on the disk takes for a row, and apart from its rows."""

    store_s: float
    rehash_s: float
    upsert_s: float
    disk_bytes: float
    disk_base_bytes: float


def storing_costs(path: Path, X: NDArray[np.float32], n_bits: int, dtype: str, labelled: bool) -> Stored:
    """Fill an index that learns nothing and rehash it.

    Its rows have labels, which spare the sample a search for neighbours: that is a part of learning. For an index
    that is not ``labelled``, they have the two bytes of one without labels.

    Each sitting leaves a checkpoint of what was learned, for which there is room after some; what the next
    one adds is what rows take.
    """
    chunk = np.resize(X, (min(_CHUNK, max(_FLOATS // X.shape[1] // _SITTINGS, 700)), X.shape[1]))
    n_chunks = max(_FLOATS // chunk.size - _SITTINGS, 1)
    factors = None if labelled else True
    OnlineIndex.create(path, n_bits, "lsh", dtype=dtype, drift=False, factors=factors).close()
    for _ in range(_SITTINGS):
        with _without_trigger(path) as index:
            _fill(index, chunk, 1)
    before = _on_disk(path)
    with _without_trigger(path) as index:
        store_s = _fill(index, chunk, n_chunks)
        rehash_s = _rehash(index)
        n = len(index)
        n_replaced = min(_UPSERTED, len(chunk) // _UPSERTS)
        upserts = [_upsert(index, chunk[:n_replaced], call * n_replaced) for call in range(_UPSERTS)]
    per_row = max(_on_disk(path) - before, 0) / (n_chunks * len(chunk) + _UPSERTS * n_replaced)
    return Stored(
        store_s=store_s,
        rehash_s=rehash_s / n,
        upsert_s=sum(upserts[1:]) / len(upserts[1:]),  # the first one also compiles
        disk_bytes=per_row,
        disk_base_bytes=max(before - _SITTINGS * len(chunk) * per_row, 0.0),
    )


def _without_trigger(path: Path) -> OnlineIndex:
    """Open an index whose loop has no trigger."""
    index = OnlineIndex.open(path)
    index._durable = DurableLoop(index._table, index.options, learn_only=True)
    return index


def _upsert(index: OnlineIndex, rows: NDArray[np.float32], first: int) -> float:
    """Replace the rows from key ``first`` on in one call; return the seconds for a row."""
    keys = np.arange(first, first + len(rows))
    begin = time.process_time()
    index.upsert(rows, keys, keys % 2)
    return (time.process_time() - begin) / len(rows)


def _fill(index: OnlineIndex, chunk: NDArray[np.float32], n_chunks: int) -> float:
    """Add a chunk several times; return the seconds for a row."""
    labels = np.arange(len(chunk)) % 2
    begin = time.process_time()
    for _ in range(n_chunks):
        index.add(chunk, labels)
    return (time.process_time() - begin) / (n_chunks * len(chunk))


def _rehash(index: OnlineIndex) -> float:
    """Return the seconds of a rehash, the best of six."""
    times = []
    for _ in range(6):
        begin = time.process_time()
        index.rehash()
        index.wait(recall=False)
        times.append(time.process_time() - begin)
    return min(times)


def _on_disk(path: Path) -> int:
    return sum(file.stat().st_size for file in path.iterdir())
