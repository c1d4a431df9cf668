"""Exact search in less than a scan: multi-index hashing (Norouzi, Punjani and Fleet, CVPR 2012).

A code is cut into m pieces of 16 bits, and for each piece there is a table that lists the codes by its value. If a
code is at most r = a m + i bits from the query, then it differs in at most a bits in one of the pieces 0..i, or in
at most a - 1 bits in one of the others. So step r = 0, 1, 2, ... looks into the buckets of piece r mod m whose
value differs in exactly a = floor(r / m) bits, and after it every code up to distance r has been seen; a search
ends when its k-th best is not farther than that.

Each table holds its own copy of the codes in the order of its buckets, so that a bucket is read as the scan reads
codes, 64 at a time. A code that is in several of the buckets counts in the first of them, which its pieces tell.
A query whose buckets would cost more than a scan is answered by the scan.
"""

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, popcount
from . import scan
from .columns import EVERY, Bitmap, Columns, Contiguous, Queries, contiguous, n_live
from .lanes import LANES, below, distance, lowest
from .parallel import in_threads, tiles
from .scan import ID_BITS, Found, joined, split_ranks

# What a search costs, counted in codes of a scan (measured at 32 and 64 bits, a little on the dear side).
PROBE = 500  # to open a bucket
BUCKET_CODE = 12  # to look at a code in it
NEIGHBOR = 5000  # to find, check and sort one of the k, or one within a radius
_PIECE = 16
_VALUES = 1 << _PIECE
_ROOM = 1024


class Tables(NamedTuple):
    """What the kernels read: the codes in the order of the buckets of each piece, and where the buckets begin."""

    columns: Contiguous  # the rows of `words`
    words: NDArray[np.uint64]  # (n_words, n_pieces n + 64): a bucket's last 64 lanes may reach over its end
    ids: NDArray[np.uint32]  # (n_pieces, n)
    starts: NDArray[np.uint32]  # (n_pieces, 65,537)
    values: NDArray[np.int64]  # the values of a piece by the number of their ones
    firsts: NDArray[np.int64]  # where each number of ones begins in `values`
    n_bits: int


class MultiIndex:
    """Tables over codes, for exact search with fewer comparisons.

    Parameters
    ----------
    columns
        Codes as words (`as_columns`). Codes that come behind them later are found too, by a scan of these alone.
    n_bits
        The length of a code.

    Examples
    --------
    >>> from mihash.search import as_columns
    >>> codes = np.random.default_rng(0).integers(0, 256, (1000, 4), dtype=np.uint8)
    >>> columns = as_columns(codes)
    >>> ids, distances = MultiIndex(columns, n_bits=32).nearest(columns[:1], columns, k=2)
    >>> ids.tolist(), distances.tolist()
    ([[0, 262]], [[0, 5]])
    """

    def __init__(self, columns: Columns, n_bits: int) -> None:
        self.n = len(columns) // LANES * LANES  # a whole number of words of a bitmap
        self.n_bits = n_bits
        self._hints: dict[int, NDArray[np.int64]] = {}  # how far the last k-th neighbour was, for each k
        n_pieces = -(-n_bits // _PIECE)
        words = contiguous(columns[: self.n])
        ids = np.empty((n_pieces, self.n), dtype=np.uint32)
        starts = np.zeros((n_pieces, _VALUES + 1), dtype=np.uint32)
        sorted_words = np.zeros((len(words), n_pieces * self.n + LANES), dtype=columns.dtype)
        for piece in range(n_pieces):
            _build(words, piece, ids[piece], starts[piece], sorted_words)
        values, firsts = _flips()
        self._tables = Tables(tuple(sorted_words), sorted_words, ids, starts, values, firsts, n_bits)

    def nearest(
        self, queries: Columns, columns: Columns, k: int, live: Bitmap | None = None, n_threads: int = 1
    ) -> Found:
        """Return what `scan.nearest` returns; ``columns`` begins with the codes of this index."""
        head, rest = self._parted(live)
        k = min(k, len(columns) if live is None else n_live(live))
        width = min(k, self.n if head is None else n_live(head))
        ranks = np.empty((len(queries), width), dtype=np.int64)
        done = np.zeros(len(queries), dtype=np.bool_)
        rows, alive = np.ascontiguousarray(queries), EVERY if live is None else live
        hint = self._hints.setdefault(width, np.full(1, self.n_bits))

        def answer(tile: slice) -> None:
            _nearest(rows[tile], self._tables, alive, hint, ranks[tile], done[tile])

        if width:
            in_threads(answer, tiles(len(queries), n_threads), n_threads)
        ids, distances = split_ranks(ranks)
        if not done.all():
            left = np.flatnonzero(~done)
            ids[left], distances[left] = scan.nearest(queries[left], columns[: self.n], width, head, n_threads)
        if self.n == len(columns):
            return ids, distances
        later, farther = scan.nearest(queries, columns[self.n :], k, rest, n_threads)
        return joined([(ids, distances), (later + self.n, farther)], k)

    def within(
        self, queries: Columns, columns: Columns, radius: int, live: Bitmap | None = None, n_threads: int = 1
    ) -> list[Found]:
        """Return what `scan.within` returns; ``columns`` begins with the codes of this index."""
        radius = min(radius, self.n_bits)
        head, rest = self._parted(live)
        rows, alive = np.ascontiguousarray(queries), EVERY if live is None else live
        found: list[Found] = [(np.empty(0, np.int64), np.empty(0, np.int32))] * len(queries)

        def answer(tile: slice) -> None:
            done, ends, ranks = _within(rows[tile], self._tables, alive, radius)
            found[tile] = [split_ranks(part) for part in np.split(ranks, ends[:-1])]
            for q in tile.start + np.flatnonzero(~done):
                (found[q],) = scan.within(queries[q : q + 1], columns[: self.n], radius, head)

        if self.n:
            in_threads(answer, tiles(len(queries), n_threads), n_threads)
        if self.n == len(columns):
            return found
        later = scan.within(queries, columns[self.n :], radius, rest, n_threads)
        return [
            joined([first, (ids + self.n, distances)])
            for first, (ids, distances) in zip(found, later, strict=True)
        ]

    def _parted(self, live: Bitmap | None) -> tuple[Bitmap | None, Bitmap | None]:
        """Return the bitmaps of the codes of this index, and of those behind them."""
        return (None, None) if live is None else (live[: self.n // LANES], live[self.n // LANES :])


def occupancy(columns: Columns, n_bits: int) -> NDArray[np.int64]:
    """Return how many codes each bucket of each piece would hold (n_pieces, 65,536)."""
    n_pieces = -(-n_bits // _PIECE)
    counts = np.zeros((n_pieces, _VALUES), dtype=np.int64)
    words = contiguous(columns)
    for piece in range(n_pieces):
        _count(words, piece, counts[piece])
    return counts


def work(
    queries: Columns, counts: NDArray[np.int64], radii: NDArray[np.int32], n_bits: int, most: int
) -> NDArray[np.int64]:
    """Return what a search of each query up to a radius costs, in codes of a scan; once above ``most``, so far."""
    costs: NDArray[np.int64] = _work(np.ascontiguousarray(queries), counts, _flips(), radii, n_bits, most)
    return costs


@cache
def _flips() -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return all values of a piece by the number of their ones, and where each number of ones starts."""
    values = np.arange(_VALUES, dtype=np.int64)
    ones = np.bitwise_count(values)
    starts = np.concatenate([[0], np.cumsum(np.bincount(ones))])
    return values[np.argsort(ones, kind="stable")], starts.astype(np.int64)


@jit
def _count(columns: Contiguous, piece: int, counts: NDArray[np.int64]) -> None:
    per_word = columns[0].itemsize * 8 // _PIECE
    column, shift = columns[piece // per_word], np.uint64(_PIECE * (piece % per_word))
    for j in range(len(column)):
        counts[np.int64(np.uint64(column[j]) >> shift & np.uint64(_VALUES - 1))] += 1


@jit
def _build(
    columns: Contiguous,
    piece: int,
    ids: NDArray[np.uint32],
    starts: NDArray[np.uint32],
    words: NDArray[np.uint64],
) -> None:
    n = len(ids)
    per_word = columns[0].itemsize * 8 // _PIECE
    key, shift = columns[piece // per_word], np.uint64(_PIECE * (piece % per_word))
    _count(columns, piece, starts[1:])
    for bucket in range(_VALUES):
        starts[bucket + 1] += starts[bucket]
    place = starts[:-1].copy()
    for j in range(n):
        value = np.int64(np.uint64(key[j]) >> shift & np.uint64(_VALUES - 1))
        ids[place[value]] = j
        place[value] += 1
    for number, column in enumerate(columns):
        copy = words[number, piece * n : (piece + 1) * n]
        for at in range(n):
            copy[at] = column[ids[at]]


@jit
def _work(
    queries: Queries,
    counts: NDArray[np.int64],
    flips: tuple[NDArray[np.int64], NDArray[np.int64]],
    radii: NDArray[np.int32],
    n_bits: int,
    most: int,
) -> NDArray[np.int64]:
    n_pieces, per_word = len(counts), queries.itemsize * 8 // _PIECE
    values, firsts = flips
    costs = np.zeros(len(queries), dtype=np.int64)
    for q in range(len(queries)):
        for step in range(min(radii[q], n_bits) + 1):
            piece, ones = step % n_pieces, step // n_pieces
            if ones > _PIECE or costs[q] > most:
                break
            key = _value(queries, q, piece, per_word)
            width = min(_PIECE, n_bits - _PIECE * piece)
            for i in range(firsts[ones], firsts[ones + 1]):
                if values[i] >> width == 0:
                    costs[q] += PROBE + BUCKET_CODE * counts[piece, key ^ values[i]]
    return costs


@jit
def _value(queries: Queries, q: int, piece: int, per_word: int) -> np.int64:
    shift = np.uint64(_PIECE * (piece % per_word))
    return np.int64(np.uint64(queries[q, piece // per_word]) >> shift & np.uint64(_VALUES - 1))


@jit
def _nearest(
    queries: Queries,
    tables: Tables,
    live: Bitmap,
    hint: NDArray[np.int64],
    ranks: NDArray[np.int64],
    done: NDArray[np.bool_],
) -> None:
    k = ranks.shape[1]
    for q in range(len(queries)):
        for reach in (min(hint[0], tables.n_bits), tables.n_bits):
            done[q], found = _search(queries[q : q + 1], tables, live, k, reach)
            if not done[q]:
                break
            if len(found) == k:
                ranks[q] = found
                hint[0] = max(hint[0] - 1, (found[k - 1] >> ID_BITS) + 2)  # sinks slowly: a second try is dear
                break


@jit
def _within(
    queries: Queries, tables: Tables, live: Bitmap, radius: int
) -> tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.int64]]:
    """Return which queries were answered, where the ranks of each end, and these one after the other."""
    n_queries, n = len(queries), tables.ids.shape[1]
    done, ends = np.zeros(n_queries, dtype=np.bool_), np.zeros(n_queries, dtype=np.int64)
    ranks, n_found = np.empty(_ROOM, dtype=np.int64), 0
    for q in range(n_queries):
        done[q], found = _search(queries[q : q + 1], tables, live, n + 1, radius)
        while n_found + len(found) > len(ranks):
            ranks = np.concatenate((ranks, ranks))
        ranks[n_found : n_found + len(found)] = found
        n_found += len(found)
        ends[q] = n_found
    return done, ends, ranks[:n_found]


@jit
def _search(query: Queries, tables: Tables, live: Bitmap, k: int, radius: int) -> tuple[bool, NDArray[np.int64]]:
    """Return the ranks of the k nearest, or of all up to a radius where they are fewer, sorted.

    Where that would cost more than a scan it is not done, and the first value returned is False.
    """
    columns, words, ids, starts, values, firsts, n_bits = tables
    (n_pieces, n), filtered = ids.shape, len(live) > 0
    per_word = words.itemsize * 8 // _PIECE
    ranks, n_found, cost = np.empty(2 * k + 2 * LANES if k <= n else _ROOM, dtype=np.int64), 0, np.int64(0)
    # As in the scan: the distance of the k-th best so far, and how many there are up to it.
    threshold, n_within, counts = np.int64(radius), 0, np.zeros(n_bits + 1, dtype=np.int64)
    worst = np.int64(n_bits + 1) << ID_BITS
    for step in range(radius + 1):
        piece, ones = step % n_pieces, step // n_pieces
        key = _value(query, 0, piece, per_word)
        width = min(_PIECE, n_bits - _PIECE * piece)
        for i in range(firsts[min(ones, width + 1)], firsts[min(ones, width) + 1]):
            if values[i] >> width:
                continue
            bucket = key ^ values[i]
            start, stop = np.int64(starts[piece, bucket]), np.int64(starts[piece, bucket + 1])
            cost += PROBE + BUCKET_CODE * (stop - start)
            if cost > n:
                return False, ranks[:0]
            lost = np.int64(-1)  # ids rise in a bucket: after one that lost a tie at a level, all later ones do
            for begin in range(start, stop, LANES):
                if n_found + LANES > len(ranks):
                    if n_found >= 2 * k:
                        ranks[:n_found].sort()  # those dropped, as far as they counted, were tied with the k-th
                        counts[threshold] -= n_within - k
                        n_found = n_within = k
                        worst = ranks[k - 1]
                    else:
                        ranks = np.concatenate((ranks, ranks))
                mask = below(columns, query, 0, piece * n + begin, threshold + np.int64(threshold != lost))
                if begin + LANES > stop:
                    mask &= (np.uint64(1) << np.uint64(stop - begin)) - np.uint64(1)
                while mask:
                    at = begin + lowest(mask)
                    mask &= mask - np.uint64(1)
                    j = np.int64(ids[piece, at])
                    if filtered and not live[j // LANES] >> np.uint64(j % LANES) & np.uint64(1):
                        continue
                    level = distance(columns, query, 0, piece * n + at)
                    if level > threshold:
                        continue
                    rank = level << ID_BITS | j
                    if rank >= worst:
                        lost = threshold
                        continue
                    is_first = True
                    for other in range(n_pieces):
                        number, shift = other // per_word, np.uint64(_PIECE * (other % per_word))
                        differing = np.uint64(query[0, number] ^ words[number, piece * n + at]) >> shift
                        apart = np.int64(popcount(differing & np.uint64(_VALUES - 1)))
                        is_first &= apart >= ones + (other < piece)
                    if not is_first:
                        continue
                    ranks[n_found] = rank
                    n_found += 1
                    counts[level] += 1
                    n_within += 1
                    while n_within - counts[threshold] >= k:
                        n_within -= counts[threshold]
                        threshold -= 1
        if n_within >= k and threshold <= step:
            break
    ranks = ranks[:n_found]
    ranks.sort()
    return True, ranks[:k]
