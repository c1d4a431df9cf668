"""Exact nearest codes by counting: a scan that never sorts.

The distances of a query to all codes are whole numbers in 0..b. One pass counts them, which gives the distance
of the k-th nearest; a second collects the codes up to it, level by level in the order of their ids.
"""

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, popcount

__all__ = ["nearest", "within"]

Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_NOTHING = np.empty(0, dtype=np.bool_)


def nearest(
    queries: Words, words: Words, k: int, dead: Mask | None = None
) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """Return the ids and distances (n_queries, min(k, n)) of the nearest codes, by (distance, id).

    Both arguments are codes as rows of 64-bit words (`mihash.codes.as_words`); ``dead`` marks codes
    that are passed over.

    Examples
    --------
    >>> codes = np.array([[0b0111], [0b0001], [0b0000], [0b0011]], dtype=np.uint64)
    >>> ids, distances = nearest(np.array([[0]], dtype=np.uint64), codes, k=3)
    >>> ids.tolist(), distances.tolist()
    ([[2, 1, 3]], [[0, 1, 2]])
    >>> nearest(np.array([[0]], dtype=np.uint64), codes, 3, np.array([False, True, False, False]))[0].tolist()
    [[2, 3, 0]]
    """
    n = len(words) if dead is None else len(words) - int(np.count_nonzero(dead))
    k = min(k, n)
    ids = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k), dtype=np.int32)
    if k:
        _nearest(queries, words, _NOTHING if dead is None else dead, ids, distances)
    return ids, distances


def within(
    queries: Words, words: Words, radius: int, dead: Mask | None = None
) -> list[tuple[NDArray[np.int64], NDArray[np.int32]]]:
    """Return for each query the ids and distances of all codes at most ``radius`` away, by (distance, id).

    Examples
    --------
    >>> codes = np.array([[0b0111], [0b0001], [0b0000], [0b0011]], dtype=np.uint64)
    >>> [(ids, distances)] = within(np.array([[0]], dtype=np.uint64), codes, radius=1)
    >>> ids.tolist(), distances.tolist()
    ([2, 1], [0, 1])
    """
    found = []
    for query in queries:
        row = _distances(query, words)
        near = row <= radius
        if dead is not None:
            near &= ~dead
        ids = np.flatnonzero(near)
        order = np.argsort(row[ids], kind="stable")
        found.append((ids[order], row[ids][order].astype(np.int32)))
    return found


@jit
def _distances(query: NDArray[np.uint64], words: Words) -> NDArray[np.uint16]:
    n, n_words = words.shape
    row = np.empty(n, dtype=np.uint16)
    for j in range(n):
        row[j] = popcount(query[0] ^ words[j, 0])
    for w in range(1, n_words):
        for j in range(n):
            row[j] += popcount(query[w] ^ words[j, w])
    return row


@jit
def _nearest(
    queries: Words, words: Words, dead: Mask, ids: NDArray[np.int64], distances: NDArray[np.int32]
) -> None:
    n, n_words = words.shape
    k = ids.shape[1]
    levels = 64 * n_words + 1
    row = np.empty(n, dtype=np.uint16)
    counts = np.empty(levels + 1, dtype=np.int64)
    place = np.empty(levels, dtype=np.int64)
    for q in range(len(queries)):
        for j in range(n):
            row[j] = popcount(queries[q, 0] ^ words[j, 0])
        for w in range(1, n_words):
            for j in range(n):
                row[j] += popcount(queries[q, w] ^ words[j, w])
        if len(dead):
            for j in range(n):
                row[j] = levels if dead[j] else row[j]
        counts[:] = 0
        for j in range(n):
            counts[row[j]] += 1
        before, last = 0, 0
        for level in range(levels):
            place[level] = before
            last = level
            before += counts[level]
            if before >= k:
                break
        for j in range(n):
            level = row[j]
            if level <= last:
                at = place[level]
                if at < k:
                    ids[q, at] = j
                    distances[q, at] = level
                    place[level] = at + 1
