"""Exact nearest codes by a scan that never sorts.

The distances of a query to all codes are whole numbers in 0..b. For a few neighbours, a scan carries the distance
of the k-th best so far as a threshold, and computes single distances only where one of 64 codes is below it;
queries take turns on a block of codes while it is in the cache. For many, one pass counts the distances, which
gives that of the k-th nearest, and a second collects the codes up to it, level by level in the order of their ids.

Codes that were deleted or filtered out are zeros in a bitmap. A full bitmap costs almost nothing; with a sparse
one only the remaining codes are read.
"""

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, popcount
from .columns import EVERY, Bitmap, Columns, Contiguous, Queries, contiguous, n_live
from .lanes import LANES, below, distance, lowest
from .parallel import TILE, in_threads, tiles

Found = tuple[NDArray[np.int64], NDArray[np.int32]]
"""Ids and distances, of one query or of several (n_queries, k)."""

ID_BITS = 48
"""A rank is a whole number that sorts as (distance, id): ``distance << ID_BITS | id``."""

_FEW = 12  # a share of the codes below which a threshold soon passes over most of them
_BLOCK_BYTES = 16_384
_SPARSE = 6  # up to this many codes of 64 are faster one by one
_SLACK = 1024
_GUESSED = 256  # neighbours from which on the first threshold is guessed: else many codes are found in vain
_SAMPLED = 2048  # codes for that
_CAUTION = 1.5


def nearest(queries: Columns, columns: Columns, k: int, live: Bitmap | None = None, n_threads: int = 1) -> Found:
    """Return the ids and distances (n_queries, min(k, n)) of the nearest codes, by (distance, id).

    Parameters
    ----------
    queries, columns
        Codes as words (`as_columns`).
    k
        How many codes are wanted for each query.
    live
        Which codes may be found (`as_bitmap`); all by default.
    n_threads
        How many threads share the work; the answer is the same.

    Examples
    --------
    >>> codes = np.array([[0b0111], [0b0001], [0b0000], [0b0011]], dtype=np.uint64)
    >>> ids, distances = nearest(np.array([[0]], dtype=np.uint64), codes, k=3)
    >>> ids.tolist(), distances.tolist()
    ([[2, 1, 3]], [[0, 1, 2]])
    >>> nearest(np.array([[0]], dtype=np.uint64), codes, 3, np.array([0b1101], dtype=np.uint64))[0].tolist()
    [[2, 3, 0]]
    """
    n = len(columns)
    k = min(k, n) if live is None else n_live(live, k)
    if n_threads > 1 and len(queries) <= TILE * (n_threads - 1) and n >= n_threads * _SLACK:
        return _in_parts(queries, columns, k, live, n_threads)
    ids = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k), dtype=np.int32)
    if k:
        words, rows, alive = contiguous(columns), np.ascontiguousarray(queries), EVERY if live is None else live
        n_levels = 8 * columns.itemsize * columns.shape[1] + 1
        is_few = k * _FEW <= n
        guesses = is_few and live is None and k >= _GUESSED

        def answer(tile: slice) -> None:
            if not is_few:
                _many(rows[tile], words, alive, ids[tile], distances[tile])
                return
            limits = np.full(len(rows[tile]), n_levels, dtype=np.int64)
            if guesses:
                _guess(rows[tile], words, k, limits)
            if not _few(rows[tile], words, alive, limits, ids[tile], distances[tile]):  # a guess was too low
                limits[:] = n_levels
                _few(rows[tile], words, alive, limits, ids[tile], distances[tile])

        in_threads(answer, tiles(len(queries), n_threads), n_threads)
    return ids, distances


def within(
    queries: Columns, columns: Columns, radius: int, live: Bitmap | None = None, n_threads: int = 1
) -> list[Found]:
    """Return for each query the ids and distances of all codes at most ``radius`` away, by (distance, id).

    Examples
    --------
    >>> codes = np.array([[0b0111], [0b0001], [0b0000], [0b0011]], dtype=np.uint64)
    >>> [(ids, distances)] = within(np.array([[0]], dtype=np.uint64), codes, radius=1)
    >>> ids.tolist(), distances.tolist()
    ([2, 1], [0, 1])
    """
    words, rows, alive = contiguous(columns), np.ascontiguousarray(queries), EVERY if live is None else live
    radius = min(radius, 8 * columns.itemsize * columns.shape[1])
    found: list[Found] = [(np.empty(0, np.int64), np.empty(0, np.int32))] * len(queries)

    def answer(tile: slice) -> None:
        owners, ranks = _all_within(rows[tile], words, alive, radius)
        order = np.lexsort((ranks, owners))
        ends = np.cumsum(np.bincount(owners, minlength=len(rows[tile])))
        found[tile] = [split_ranks(part) for part in np.split(ranks[order], ends[:-1])]

    in_threads(answer, tiles(len(queries), n_threads), n_threads)
    return found


def split_ranks(ranks: NDArray[np.int64]) -> Found:
    """Return ids and distances from ranks, which are whole numbers that sort as (distance, id)."""
    return ranks & ((1 << ID_BITS) - 1), (ranks >> ID_BITS).astype(np.int32)


def joined(parts: list[Found], k: int | None = None) -> Found:
    """Return the answers from ranges of codes, given in their order, as one, by (distance, id); k at most."""
    ids, distances = (np.concatenate([part[i] for part in parts], axis=-1) for i in (0, 1))
    order = np.argsort(distances, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(ids, order, axis=-1), np.take_along_axis(distances, order, axis=-1)


def _in_parts(queries: Columns, columns: Columns, k: int, live: Bitmap | None, n_threads: int) -> Found:
    """Search ranges of the codes side by side, and merge: for fewer queries than threads have work with."""
    size = LANES * -(-len(columns) // (LANES * n_threads))
    parts = [slice(start, start + size) for start in range(0, len(columns), size)]
    found: dict[int, Found] = {}

    def answer(part: slice) -> None:
        bits = None if live is None else live[part.start // LANES : -(-part.stop // LANES)]
        ids, distances = nearest(queries, columns[part], k, bits)
        found[part.start] = ids + part.start, distances

    in_threads(answer, parts, n_threads)
    return joined([found[part.start] for part in parts], k)


@jit
def _guess(queries: Queries, columns: Contiguous, k: int, limits: NDArray[np.int64]) -> None:
    """Lower the limit of each query to a distance that is most likely above that of its k-th nearest code."""
    n = len(columns[0])
    stride = max(n // _SAMPLED, 1)
    wanted = _CAUTION * k / stride + 8
    for q in range(len(queries)):
        counts = np.zeros(limits[q] + 1, dtype=np.int64)
        for j in range(0, n, stride):
            counts[distance(columns, queries, q, j)] += 1
        found, level = 0, 0
        while level < limits[q]:
            found += counts[level]
            level += 1
            if found >= wanted:
                break
        limits[q] = level


@jit
def _few(
    queries: Queries,
    columns: Contiguous,
    live: Bitmap,
    limits: NDArray[np.int64],
    ids: NDArray[np.int64],
    distances: NDArray[np.int32],
) -> bool:
    """Find the k nearest codes of those below a limit; return False if there are fewer for some query."""
    n, (n_queries, k), filtered = len(columns[0]), ids.shape, len(live) > 0
    n_bits = 8 * columns[0].itemsize * len(columns)
    block_codes = max(_BLOCK_BYTES * 8 // n_bits // LANES, 1) * LANES
    # At most 2 k candidates are at or below a threshold, so a full buffer always has some to drop.
    found = np.empty((n_queries, 2 * k + _SLACK), dtype=np.int64)
    found_at = np.empty((n_queries, 2 * k + _SLACK), dtype=np.int64)
    n_found = np.zeros(n_queries, dtype=np.int64)
    n_within = np.zeros(n_queries, dtype=np.int64)
    thresholds = limits.copy()
    counts = np.zeros((n_queries, n_bits + 2), dtype=np.int64)
    for block in range(0, n, block_codes):
        for q in range(n_queries):
            for start in range(block, min(n, block + block_codes), LANES):
                mask = live[start // LANES] if filtered else ~np.uint64(0)
                if start + LANES > n:
                    mask &= (np.uint64(1) << np.uint64(n - start)) - np.uint64(1)
                elif not filtered or popcount(mask) > np.uint64(_SPARSE):
                    mask &= below(columns, queries, q, start, thresholds[q])
                while mask:
                    j = start + lowest(mask)
                    mask &= mask - np.uint64(1)
                    level = distance(columns, queries, q, j)
                    if level >= thresholds[q]:
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
        if n_within[q] < k:
            return False
        place = np.cumsum(counts[q]) - counts[q]
        for i in range(n_found[q]):
            level = found_at[q, i]
            at = place[level]
            place[level] += 1
            if at < k and level <= thresholds[q]:
                ids[q, at], distances[q, at] = found[q, i], level
    return True


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
def _many(
    queries: Queries,
    columns: Contiguous,
    live: Bitmap,
    ids: NDArray[np.int64],
    distances: NDArray[np.int32],
) -> None:
    n, k = len(columns[0]), ids.shape[1]
    levels = 8 * columns[0].itemsize * len(columns) + 1
    row = np.empty(n, dtype=np.uint16)
    counts = np.empty(levels + 1, dtype=np.int64)
    place = np.empty(levels, dtype=np.int64)
    for q in range(len(queries)):
        row[:] = 0
        for number, column in enumerate(columns):
            for j in range(n):
                row[j] += np.uint16(popcount(queries[q, number] ^ column[j]))
        if len(live):
            for j in range(n):
                alive = live[j // LANES] >> np.uint64(j % LANES) & np.uint64(1)
                row[j] = row[j] if alive else levels
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


@jit
def _all_within(
    queries: Queries, columns: Contiguous, live: Bitmap, radius: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    n, n_queries, filtered = len(columns[0]), len(queries), len(live) > 0
    block_codes = max(_BLOCK_BYTES // (columns[0].itemsize * len(columns)) // LANES, 1) * LANES
    owners, ranks = np.empty(2 * block_codes, dtype=np.int64), np.empty(2 * block_codes, dtype=np.int64)
    n_found = 0
    for block in range(0, n, block_codes):
        for q in range(n_queries):
            if n_found + block_codes > len(ranks):
                owners, ranks = np.concatenate((owners, owners)), np.concatenate((ranks, ranks))
            for start in range(block, min(n, block + block_codes), LANES):
                mask = live[start // LANES] if filtered else ~np.uint64(0)
                if start + LANES > n:
                    mask &= (np.uint64(1) << np.uint64(n - start)) - np.uint64(1)
                elif not filtered or popcount(mask) > np.uint64(_SPARSE):
                    mask &= below(columns, queries, q, start, radius + 1)
                while mask:
                    j = start + lowest(mask)
                    mask &= mask - np.uint64(1)
                    level = distance(columns, queries, q, j)
                    if level > radius:
                        continue
                    owners[n_found], ranks[n_found] = q, level << ID_BITS | j
                    n_found += 1
    return owners[:n_found], ranks[:n_found]
