"""Those that search is compared with: FAISS, usearch and NumPy, each on packed codes, one thread."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mihash.search import Columns

_BLOCK = 65_536

Found = tuple[NDArray[Any], NDArray[Any]]
Ranges = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]
"""For all queries together: where each one's part begins and ends, distances, ids."""


def missing() -> list[str]:
    """Return the peers that are not installed."""
    names = []
    for name in ("faiss", "usearch"):
        try:
            __import__(name)
        except ImportError:
            names.append(name)
    return names


class Faiss:
    """FAISS's `IndexBinaryFlat` over codes (n, bytes)."""

    def __init__(self, codes: NDArray[np.uint8]) -> None:
        import faiss

        self.use_threads(1)
        self._index = faiss.IndexBinaryFlat(8 * codes.shape[1])
        self._index.add(codes)

    @staticmethod
    def use_threads(n_threads: int) -> None:
        """Set how many OpenMP threads a search takes."""
        import faiss

        faiss.omp_set_num_threads(n_threads)

    def nearest(self, queries: NDArray[np.uint8], k: int, counting: bool = False) -> Found:
        """Return ids and distances of the k nearest, by a heap (the default) or by counting distances."""
        self._index.use_heap = not counting
        distances, ids = self._index.search(queries, k)
        return ids, distances

    def within(self, queries: NDArray[np.uint8], radius: int) -> Ranges:
        """Return all codes up to a radius as FAISS does."""
        found: Ranges = self._index.range_search(queries, radius + 1)  # its bound is the first that is left out
        return found


def as_lists(ranges: Ranges) -> list[Found]:
    """Return what FAISS found within a radius as ids and distances for each query, by (distance, id)."""
    ends, distances, ids = ranges
    found = []
    for start, end in zip(ends[:-1].tolist(), ends[1:].tolist(), strict=True):
        near, at = ids[start:end], distances[start:end].astype(np.int32)
        order = np.lexsort((near, at))
        found.append((near[order], at[order]))
    return found


def usearch_nearest(queries: NDArray[np.uint8], codes: NDArray[np.uint8], k: int) -> Found:
    """Return ids and distances of the k nearest by usearch's exact search over bits."""
    from usearch.index import MetricKind, search

    found = search(codes, queries, k, MetricKind.Hamming, exact=True, threads=1)
    return found.keys, found.distances


def numpy_nearest(queries: Columns, columns: Columns, k: int) -> Found:
    """Return ids and distances of the k nearest, block by block, keeping what is nearer than the k-th so far."""
    ids = np.empty((len(queries), k), dtype=np.int64)
    distances = np.empty((len(queries), k), dtype=np.int64)
    for q, query in enumerate(queries):
        kept, kept_at = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64)
        for start in range(0, len(columns), _BLOCK):
            at = _distances(query, columns[start : start + _BLOCK])
            near = np.flatnonzero(at < kept_at.max()) if len(kept) == k else np.arange(len(at))
            if len(near):
                kept, kept_at = np.concatenate([kept, near + start]), np.concatenate([kept_at, at[near]])
            if len(kept) > k:
                best = np.argpartition(kept_at, k - 1)[:k]
                kept, kept_at = kept[best], kept_at[best]
        order = np.lexsort((kept, kept_at))
        ids[q], distances[q] = kept[order], kept_at[order]
    return ids, distances


def numpy_within(queries: Columns, columns: Columns, radius: int) -> list[Found]:
    """Return ids and distances of all codes up to a radius, for each query by (distance, id)."""
    found = []
    for query in queries:
        at = np.concatenate(
            [_distances(query, columns[start : start + _BLOCK]) for start in range(0, len(columns), _BLOCK)]
        )
        near = np.flatnonzero(at <= radius)
        order = np.argsort(at[near], kind="stable")
        found.append((near[order], at[near][order]))
    return found


def _distances(query: NDArray[Any], columns: Columns) -> NDArray[Any]:
    total = np.bitwise_count(columns[:, 0] ^ query[0])
    if columns.shape[1] > 1:
        total = total.astype(np.uint16)
    for number in range(1, columns.shape[1]):
        total += np.bitwise_count(columns[:, number] ^ query[number])
    return total
