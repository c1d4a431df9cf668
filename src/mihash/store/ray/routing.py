"""Which shard a key belongs to, and the part of a change that each shard gets.

The shard is a hash of the key that is the same on every machine and in every process.
"""

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..change import NumberedRows
from ..keys import Key
from ..sqlite.segments import Segment


def shards_of(keys: Sequence[Key] | NDArray[np.int64], n_shards: int) -> NDArray[np.int64]:
    """Return the shard of each key.

    Examples
    --------
    >>> shards_of([1, 2, 3, "1", "a"], 4).tolist()
    [1, 2, 1, 3, 0]
    >>> np.bincount(shards_of(np.arange(100_000), 4)).tolist()
    [25209, 24859, 24892, 25040]
    """
    if isinstance(keys, np.ndarray):
        numbers = keys.astype(np.int64).view(np.uint64)
    else:
        plain = [_text(key) if isinstance(key, str) else key % 2**64 for key in keys]
        numbers = np.array(plain, dtype=np.uint64)
    return (_mixed(numbers) % np.uint64(n_shards)).astype(np.int64)


def places_by_shard(keys: Sequence[Key] | NDArray[np.int64], n_shards: int) -> dict[int, list[int]]:
    """Return for each shard that has some of the keys where these stand."""
    shards = shards_of(keys, n_shards)
    return {shard: np.flatnonzero(shards == shard).tolist() for shard in np.unique(shards).tolist()}


def parts_of(rows: NumberedRows, n_shards: int) -> dict[int, dict[str, Any]]:
    """Return what an entry of the log tells each shard that a numbered change concerns."""
    names = rows.segment.ids if rows.keys is None else rows.keys
    return {shard: _entry(rows.part(places)) for shard, places in places_by_shard(names, n_shards).items()}


def rows_of(part: dict[str, Any]) -> NumberedRows:
    """Return the numbered change that a part of an entry tells a shard."""
    segment = Segment(part["ids"], part["vectors"], part["labels"])
    described = part["described"].tolist() if "described" in part else []  # not in the first logs
    return NumberedRows(segment, part["keys"], part["texts"], part["gone"].tolist(), described)


def _entry(rows: NumberedRows) -> dict[str, Any]:
    segment = rows.segment
    return {
        "ids": segment.ids,
        "keys": rows.keys if len(segment) else [],
        "texts": rows.texts,
        "vectors": segment.vectors,
        "labels": segment.labels,
        "gone": np.array(rows.gone, dtype=np.int64),
        "described": np.array(rows.described, dtype=np.int64),
    }


def _text(key: str) -> int:
    data = key.encode()
    return zlib.crc32(data) << 32 | zlib.crc32(data, 0x9E3779B9)


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return numbers in which every bit depends on every bit (the finalizer of SplitMix64)."""
    z = numbers + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = z ^ (z >> np.uint64(31))
    return mixed
