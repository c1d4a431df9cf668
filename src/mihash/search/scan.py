"""Exact nearest codes by a scan that never sorts.

The distances of a query to all codes are whole numbers in 0..b. For a few neighbours among codes of one word, a
scan carries the distance of the k-th best so far as a threshold, and looks at single codes only where a whole
chunk has one below it; queries take turns on a block of codes while it is in the cache. Otherwise one pass counts
the distances, which gives that of the k-th nearest, and a second collects the codes up to it, level by level in
the order of their ids.
"""

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, popcount

__all__ = ["nearest", "within"]

Words = NDArray[np.uint64]
Mask = NDArray[np.bool_]

_NOTHING = np.empty(0, dtype=np.bool_)
_FEW = 16  # a share of the codes below which a threshold soon passes over most of them
_TILE = 16
_BLOCK = 4096
_CHUNK = 256
_SLACK = 1024
_WORD = 64


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
    passed = _NOTHING if dead is None else dead
    if k and k * _FEW <= n and words.shape[1] == 1:
        for start in range(0, len(queries), _TILE):
            tile = slice(start, start + _TILE)
            _few(queries[tile, 0], words[:, 0], passed, ids[tile], distances[tile])
    elif k:
        _many(queries, words, passed, ids, distances)
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
def _few(
    queries: NDArray[np.uint64],
    words: NDArray[np.uint64],
    dead: Mask,
    ids: NDArray[np.int64],
    distances: NDArray[np.int32],
) -> None:
    n, (n_queries, k) = len(words), ids.shape
    # At most 2 k candidates are at or below a threshold, so a full buffer always has some to drop.
    found = np.empty((n_queries, 2 * k + _SLACK), dtype=np.int64)
    found_at = np.empty((n_queries, 2 * k + _SLACK), dtype=np.int64)
    n_found = np.zeros(n_queries, dtype=np.int64)
    n_within = np.zeros(n_queries, dtype=np.int64)
    thresholds = np.full(n_queries, _WORD + 1, dtype=np.int64)
    counts = np.zeros((n_queries, _WORD + 2), dtype=np.int64)
    for block in range(0, n, _BLOCK):
        end = min(n, block + _BLOCK)
        for q in range(n_queries):
            for start in range(block, end, _CHUNK):
                stop, best = min(end, start + _CHUNK), np.uint64(_WORD + 1)
                for j in range(start, stop):
                    best = min(best, popcount(queries[q] ^ words[j]))
                if best >= thresholds[q]:
                    continue
                for j in range(start, stop):
                    level = np.int64(popcount(queries[q] ^ words[j]))
                    if level >= thresholds[q] or (len(dead) and dead[j]):
                        continue
                    if n_found[q] == found.shape[1]:
                        n_found[q] = _drop(found[q], found_at[q], thresholds[q])
                    found[q, n_found[q]], found_at[q, n_found[q]] = j, level
                    n_found[q] += 1
                    counts[q, level] += 1
                    n_within[q] += 1
                    while n_within[q] - counts[q, thresholds[q]] >= k:
                        n_within[q] -= counts[q, thresholds[q]]
                        thresholds[q] -= 1
    for q in range(n_queries):
        place = np.cumsum(counts[q]) - counts[q]
        for i in range(n_found[q]):
            level = found_at[q, i]
            at = place[level]
            place[level] += 1
            if at < k and level <= thresholds[q]:
                ids[q, at], distances[q, at] = found[q, i], level


@jit
def _drop(found: NDArray[np.int64], found_at: NDArray[np.int64], threshold: int) -> int:
    """Keep the candidates at or below a threshold, in their order; return how many they are."""
    kept = 0
    for i in range(len(found)):
        if found_at[i] <= threshold:
            found[kept], found_at[kept] = found[i], found_at[i]
            kept += 1
    return kept


@jit
def _many(queries: Words, words: Words, dead: Mask, ids: NDArray[np.int64], distances: NDArray[np.int32]) -> None:
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
