"""What an entry of the log tells each shard: the rows that come and those that go, by the shards of their keys."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..keys import Key
from ..sqlite.segments import Segment
from .routing import shards_of

Parts = dict[int, dict[str, Any]]


def rows_by_shard(
    rows: Segment, keys: list[Key] | None, texts: list[str | None], gone: list[int] | None, n_shards: int
) -> Parts:
    """Return the parts of rows, with those that they replace; without keys they are known by their numbers."""
    shards = shards_of(rows.ids if keys is None else keys, n_shards)
    parts = {}
    for shard in np.unique(shards).tolist():
        places = np.flatnonzero(shards == shard).tolist()
        own = rows.part(shards == shard)
        parts[shard] = {
            "ids": own.ids,
            "keys": None if keys is None else [keys[place] for place in places],
            "texts": [texts[place] for place in places] if any(text is not None for text in texts) else None,
            "vectors": own.vectors,
            "labels": own.labels,
            "gone": np.array([gone[place] for place in places] if gone else [], dtype=np.int64),
        }
    return parts


def deletions(keys: Sequence[Key], gone: list[int], vectors: NDArray[Any], n_shards: int) -> Parts:
    """Return the parts of rows that go; ``vectors`` are none, of the stored kind."""
    shards = shards_of(keys, n_shards)
    nothing = {
        "ids": np.empty(0, dtype=np.int64),
        "keys": [],
        "texts": None,
        "vectors": vectors,
        "labels": None,
    }
    return {
        shard: {**nothing, "gone": np.array(gone, dtype=np.int64)[shards == shard]}
        for shard in np.unique(shards).tolist()
    }
