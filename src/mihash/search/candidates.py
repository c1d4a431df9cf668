"""What a search finds: ids and distances, by (distance, id)."""

import numpy as np
from numpy.typing import NDArray

Found = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Ids and distances, of one query or of several (n_queries, k)."""

ID_BITS = 48
"""A rank is a whole number that sorts as (distance, id): ``distance << ID_BITS | id``."""


def split_ranks(ranks: NDArray[np.int64]) -> Found:
    """Return ids and distances from ranks, which are whole numbers that sort as (distance, id)."""
    return ranks & ((1 << ID_BITS) - 1), (ranks >> ID_BITS).astype(np.int32)


def joined(parts: list[Found], k: int | None = None) -> Found:
    """Return the answers from ranges of codes, given in their order, as one, by (distance, id); k at most."""
    ids, distances = (np.concatenate([part[i] for part in parts], axis=-1) for i in (0, 1))
    order = np.argsort(distances, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(ids, order, axis=-1), np.take_along_axis(distances, order, axis=-1)
