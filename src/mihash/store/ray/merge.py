"""One answer from those of all shards: by (distance, age), which is the order of a table on one machine."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..keys import key_array
from ..question import Hits, Question
from ..rescoring import Found
from .shard import Nearest


class Merged:
    """What was found for one query: ids, distances, from which shard each is, and keys where they are known."""

    def __init__(
        self, parts: list[tuple[int, NDArray[np.int64], NDArray[Any], NDArray[Any] | None]], most: int | None
    ):
        ids = np.concatenate([each[1] for each in parts])
        distances = np.concatenate([each[2] for each in parts])
        order = np.lexsort((ids, distances))[:most]
        self.ids: NDArray[np.int64] = ids[order]
        self.distances: NDArray[Any] = distances[order]
        self.shards = np.concatenate([np.full(len(each[1]), each[0]) for each in parts])[order]
        self.keys: list[Any] = self.ids.tolist()
        if any(each[3] is not None for each in parts):
            keys = [key for each in parts for key in (each[1] if each[3] is None else each[3]).tolist()]
            self.keys = [keys[place] for place in order.tolist()]


def merged(answers: dict[int, Nearest], n_queries: int, most: int | None) -> list[Merged]:
    """Return for each query what all shards have found, the first ``most`` of it."""
    found = []
    for query in range(n_queries):
        parts = [
            (shard, *lists[query], None if keys is None else keys[query])
            for shard, (lists, keys) in answers.items()
        ]
        found.append(Merged(parts, most))
    return found


def by_shard(found: list[Merged], shard: int) -> list[NDArray[np.int64]]:
    """Return of each query's ids those of a shard."""
    return [each.ids[each.shards == shard] for each in found]


def as_hits(found: list[Merged], question: Question, version: int) -> Hits:
    """Return an answer as a table on one machine gives it."""
    if not found:
        return question.nothing(version)
    whole = key_array([key for each in found for key in each.keys]).dtype  # one type for the whole answer
    keys = [key_array(each.keys).astype(whole) for each in found]
    distances = [each.distances for each in found]
    if question.radius is not None:
        return Hits(keys, distances, version)
    return Hits(np.stack(keys), np.stack(distances), version)


def nearest_of(parts: list[Found], k: int) -> list[NDArray[np.int64]]:
    """Return the ids of the k nearest of all shards for each query."""
    out = []
    for query in range(len(parts[0])):
        ids = np.concatenate([part[query][0] for part in parts])
        distances = np.concatenate([part[query][1] for part in parts])
        out.append(ids[np.lexsort((ids, distances))[:k]])
    return out
