"""Ranks the nearest codes again by the distances of their vectors, and finds the true neighbours of some items."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, one_thread
from .question import Found
from .sqlite.segments import Segments

PRODUCT = "ip"
"""The metric of inner products."""

_HELD_FLOATS = 1 << 24  # of the vectors that are in memory at a time
_CHUNK_FLOATS = 1 << 21
_LANES = 8


def rescored(
    segments: Segments, queries: NDArray[np.float32], lists: Found, k: int | None, metric: str
) -> Found | None:
    """Return for each query the first k ids by (distance of the vectors, id); None if a row is gone."""
    n_features = queries.shape[1]
    out: Found = []
    for part in _parts([len(ids) for ids, _ in lists], _HELD_FLOATS // n_features):
        some = lists[part]
        wanted = np.unique(np.concatenate([ids for ids, _ in some]))
        vectors = segments.fetch(wanted, n_features) if len(wanted) else np.empty((0, n_features), np.float32)
        if vectors is None:
            return None
        for query, (ids, _) in zip(queries[part], some, strict=True):
            distances = distances_to(query, vectors, metric, np.searchsorted(wanted, ids))
            order = np.lexsort((ids, distances))[:k]
            out.append((ids[order], distances[order]))
    return out


def _parts(sizes: list[int], most: int) -> Iterator[slice]:
    """Yield runs of lists that have ``most`` rows together, or one that has more."""
    start, total = 0, 0
    for place, size in enumerate(sizes):
        if place > start and total + size > most:
            yield slice(start, place)
            start, total = place, 0
        total += size
    if start < len(sizes):
        yield slice(start, len(sizes))


def distances_to(
    query: NDArray[np.float32],
    vectors: NDArray[np.float32],
    metric: str,
    rows: NDArray[np.int64] | None = None,
) -> NDArray[np.float32]:
    """Return Euclidean distances, 1 - cosine or -q . x of a query to vectors (n, d), or to some rows of them.

    Sums are made in float64 and in a fixed order, so a distance depends on the two vectors alone.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [2.0, 0.0]], dtype=np.float32)
    >>> distances_to(np.array([1.0, 0.0], dtype=np.float32), X, "euclidean").tolist()
    [4.472..., 1.0]
    >>> distances_to(np.array([1.0, 0.0], dtype=np.float32), X, "cosine", np.array([0])).tolist()
    [0.400...]
    >>> distances_to(np.array([1.0, 0.0], dtype=np.float32), X, "ip").tolist()
    [-3.0, -2.0]
    """
    places = np.arange(len(vectors)) if rows is None else rows
    out = np.empty(len(places), dtype=np.float32)
    if len(places):
        padded = -(-len(query) // _LANES) * _LANES
        held = np.ascontiguousarray(query)[None], np.ascontiguousarray(vectors), places, np.zeros((2, padded))
        if metric == "cosine":
            _cosine(*held, out)
        else:
            _summed(*held, metric == PRODUCT, out)
    return out


@jit
def _widen(vectors, row, wide):  # type: ignore[no-untyped-def]
    """Copy a row to float64; what is behind its end stays 0, so that lanes are full."""
    for k in range(vectors.shape[1]):
        wide[k] = vectors[row, k]


@jit
def _total(sums):  # type: ignore[no-untyped-def]
    """Return the sum of the lanes, in their order."""
    total = 0.0
    for lane in range(_LANES):
        total += sums[lane]
    return total


@jit
def _summed(query, vectors, rows, held, product, out):  # type: ignore[no-untyped-def]
    """Write distances, or -q . x; each is eight sums side by side, over every eighth feature, added in order."""
    asked, other = held[0], held[1]
    _widen(query, 0, asked)
    sums = np.empty(_LANES)
    for i in range(len(rows)):
        _widen(vectors, rows[i], other)
        sums[:] = 0.0
        for k in range(0, len(asked), _LANES):
            for lane in range(_LANES):
                apart = other[k + lane] - asked[k + lane]
                sums[lane] += other[k + lane] * asked[k + lane] if product else apart * apart
        out[i] = 0.0 - _total(sums) if product else np.sqrt(_total(sums))


@jit
def _cosine(query, vectors, rows, held, out):  # type: ignore[no-untyped-def]
    """Write 1 - cosine, at least 0, and 1 for a vector of zeros; sums as for Euclidean distances."""
    asked, other = held[0], held[1]
    _widen(query, 0, asked)
    inner, squares = np.empty(_LANES), np.empty(_LANES)
    own = 0.0
    for k in range(query.shape[1]):
        own += asked[k] * asked[k]
    own = np.sqrt(own)
    for i in range(len(rows)):
        _widen(vectors, rows[i], other)
        inner[:] = 0.0
        squares[:] = 0.0
        for k in range(0, len(asked), _LANES):
            for lane in range(_LANES):
                inner[lane] += other[k + lane] * asked[k + lane]
                squares[lane] += other[k + lane] * other[k + lane]
        lengths = np.sqrt(_total(squares)) * own
        cosine = _total(inner) / lengths if lengths > 0 else 0.0
        out[i] = max(1.0 - cosine, 0.0)


def nearest_rows(
    segments: Segments,
    queries: NDArray[np.float32],
    own: NDArray[np.int64],
    k: int,
    dead: NDArray[np.int64],
    metric: str,
) -> Found:
    """Return ids and distances of the k nearest rows to each query, by (distance, id), from all that are stored.

    Rows that are ``dead`` are left out, and for each query the row that is its ``own``. Rows are first compared by
    one product in float32. The distance is computed for those that may be among the nearest, given its rounding.
    """
    best: Found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
    asked = _scaled(queries, metric)
    for ids, X in _chunks(segments, queries.shape[1], dead):
        scores, errors = _scores(asked, _scaled(X, metric), metric)
        scores[ids == own[:, None]] = np.inf
        within = min(k, len(ids)) - 1
        limits = np.partition(scores, within, axis=1)[:, within] + 2 * errors
        for place in range(len(queries)):
            near = np.flatnonzero(scores[place] <= limits[place])
            near = near[ids[near] != own[place]]
            distances = distances_to(queries[place], X, metric, near)
            ids_both = np.concatenate([best[place][0], ids[near]])
            both = np.concatenate([best[place][1], distances])
            order = np.lexsort((ids_both, both))[:k]
            best[place] = (ids_both[order], both[order])
    return best


def _chunks(
    segments: Segments, n_features: int, dead: NDArray[np.int64]
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield ids and vectors of all rows but the dead, some thousand at a time."""
    ids, parts, n = [], [], 0
    for segment in segments.after(-1, None, n_features):
        keep = ~np.isin(segment.ids, dead) if len(dead) else np.ones(len(segment), dtype=np.bool_)
        ids.append(segment.ids[keep])
        parts.append(segment.features[keep])
        n += len(ids[-1])
        if n * n_features >= _CHUNK_FLOATS:
            yield np.concatenate(ids), np.concatenate(parts)
            ids, parts, n = [], [], 0
    if n:
        yield np.concatenate(ids), np.concatenate(parts)


def _scaled(X: NDArray[np.float32], metric: str) -> NDArray[np.float32]:
    """Return rows as they are, or of unit length for the cosine: then Euclidean distances have the same order."""
    if metric != "cosine":
        return X
    lengths = np.sqrt(np.einsum("ij,ij->i", X, X, dtype=np.float64))
    inverse = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0)
    scaled: NDArray[np.float32] = (X * inverse[:, None]).astype(np.float32)
    return scaled


def _scores(
    Q: NDArray[np.float32], X: NDArray[np.float32], metric: str
) -> tuple[NDArray[np.float32], NDArray[np.float64]]:
    """Return |x|^2 - 2 q . x for each pair, and for each query how far one may be from the true value.

    For the cosine |x| is 1, of a row of zeros too: its cosine is 0. For inner products |x|^2 is left out.
    """
    sizes = squares = np.ones(len(X))
    if metric != "cosine":
        sizes = np.einsum("ij,ij->i", X, X, dtype=np.float64)
        squares = np.zeros(len(X)) if metric == PRODUCT else sizes
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        scores = Q @ X.T
        scores *= -2
        scores += squares.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", Q, Q, dtype=np.float64)) + np.sqrt(sizes.max(initial=0.0))
    np.nan_to_num(scores, copy=False, nan=-np.inf)  # of numbers that overflow: looked at again
    return scores, 4.0 * (X.shape[1] + 8) * 2.0**-24 * lengths**2
