"""Ranks the nearest codes again by the distances of their vectors, and finds the true neighbours of some items."""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit, one_thread
from .edition import appended
from .question import Found
from .sqlite.segments import Segments

PRODUCT = "ip"
"""The metric of inner products."""

_HELD_FLOATS = 1 << 24  # of the vectors that are in memory at a time
_CHUNK_FLOATS = 1 << 21
_LANES = 8
_TINY = 1e-30  # the square of a length below which float32 is not precise enough


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


class Rows(NamedTuple):
    """Stored rows: sequence numbers (n,), vectors (n, d), and the squares of their lengths (n,)."""

    ids: NDArray[np.int64]
    vectors: NDArray[np.float32]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> Self:
        """Return rows with their squares."""
        return cls(ids, vectors, np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))

    def appended(self, n: int, others: Self) -> Self:
        """Return a buffer with the first n of these rows and others behind them."""
        return type(self)(
            appended(self.ids, n, others.ids),
            appended(self.vectors, n, others.vectors),
            appended(self.squares, n, others.squares),
        )

    def part(self, which: slice | NDArray[np.bool_]) -> Self:
        """Return some rows."""
        return type(self)(self.ids[which], self.vectors[which], self.squares[which])


def nearest_rows(
    segments: Segments,
    queries: NDArray[np.float32],
    own: NDArray[np.int64],
    k: int,
    dead: NDArray[np.int64],
    metric: str,
) -> Found:
    """Return ids and distances of the k nearest rows to each query, by (distance, id), from all that are stored.

    Rows that are ``dead`` are left out, and for each query the row that is its ``own``.
    """
    best = nothing(len(queries))
    for ids, X in _chunks(segments, queries.shape[1], dead):
        best = merged(best, nearest_of(Rows.of(ids, X), queries, k, metric, own), k)
    return best


def nothing(n_queries: int) -> Found:
    """Return an empty list of ids and distances for each query."""
    return [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))] * n_queries


def merged(found: Found, others: Found, k: int) -> Found:
    """Return for each query the first k of two lists by (distance, id).

    Examples
    --------
    >>> one, other = (np.array([4, 7]), np.array([0.5, 2.0])), (np.array([5]), np.array([1.0]))
    >>> ((ids, distances),) = merged([one], [other], 2)
    >>> ids.tolist(), distances.tolist()
    ([4, 5], [0.5, 1.0])
    """
    out: Found = []
    for one, other in zip(found, others, strict=True):
        ids, distances = (np.concatenate(both) for both in zip(one, other, strict=True))
        order = np.lexsort((ids, distances))[:k]
        out.append((ids[order], distances[order]))
    return out


def nearest_of(
    rows: Rows,
    queries: NDArray[np.float32],
    k: int,
    metric: str,
    own: NDArray[np.int64] | None = None,
    mask: NDArray[np.bool_] | None = None,
) -> Found:
    """Return ids and distances of the k nearest rows to each query, by (distance, id).

    Rows are first compared by one product in float32. The distance is computed for those that may be among the
    nearest, given its rounding.

    Parameters
    ----------
    rows
        The rows.
    queries
        Feature vectors (n_queries, d).
    k
        How many of the nearest.
    metric
        How vectors are compared.
    own
        For each query the id of a row to leave out.
    mask
        Which rows may be returned; None for all.

    Examples
    --------
    >>> rows = Rows.of(np.array([7, 8, 9]), np.array([[3.0], [1.0], [-1.0]], dtype=np.float32))
    >>> query = np.array([[0.5]], dtype=np.float32)
    >>> ((ids, distances),) = nearest_of(rows, query, 2, "euclidean")
    >>> ids.tolist(), distances.tolist()
    ([8, 9], [0.5, 1.5])
    """
    n = len(rows.ids) if mask is None else int(np.count_nonzero(mask))
    if not n:
        return [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
    scores, lengths = _scores(queries, rows, metric)
    if own is not None:
        scores[rows.ids == own[:, None]] = np.inf
    if mask is not None:
        scores[:, ~mask] = np.inf
    within = min(k, n) - 1
    found: Found = []
    for place, query in enumerate(queries):
        each = scores[place]
        errors = _errors(lengths[0][place], lengths[1], len(query))
        unknown = np.isneginf(each)  # looked at in any case, and nothing follows for the others
        most = np.where(unknown, np.inf, each + errors) if unknown.any() else each + errors
        near = np.flatnonzero((each - errors <= np.partition(most, within)[within]) & (each < np.inf))
        if own is not None:
            near = near[rows.ids[near] != own[place]]
        distances = distances_to(query, rows.vectors, metric, near)
        order = np.lexsort((rows.ids[near], distances))[:k]
        found.append((rows.ids[near[order]], distances[order]))
    return found


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


def _scores(
    Q: NDArray[np.float32], rows: Rows, metric: str
) -> tuple[NDArray[np.float32], tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Return |x|^2 - 2 q . x for each pair, and the lengths of queries and of rows, one for all if they are equal.

    For the cosine q and x are of unit length, but for rows of zeros, and |x|^2 is 1. For inner products |x|^2 is
    left out.
    """
    own, squares = np.einsum("ij,ij->i", Q, Q, dtype=np.float64), rows.squares
    times: Any = np.float32(-2)
    tiny: tuple[NDArray[np.bool_], ...] = ()
    if metric == "cosine":
        tiny = tuple((each > 0) & (each < _TINY) for each in (own, squares))
        Q, times = Q * _inverse(own)[:, None], times * _inverse(squares)
        own, squares = np.ones(len(Q)), np.ones(1)
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        scores: NDArray[np.float32] = Q @ rows.vectors.T
        scores *= times
        if metric != PRODUCT:
            scores += squares.astype(np.float32)
    scores[~np.isfinite(scores)] = -np.inf  # of numbers that overflow: looked at again
    if tiny:
        scores[tiny[0]] = -np.inf
        scores[:, tiny[1]] = -np.inf
    return scores, (np.sqrt(own).astype(np.float32), np.sqrt(squares).astype(np.float32))


def _errors(length: np.float32, lengths: NDArray[np.float32], n_features: int) -> NDArray[np.float32]:
    """Return how far the score of each row may be from the true value, for a query of a length.

    That is twice what rounding can do, so that the rounding of the lengths and of this bound is covered too.
    """
    terms = np.float32(4 * (n_features + 8))
    return terms * (np.float32(2.0**-24) * (length + lengths) ** 2 + np.float32(2.0**-126))  # where products are 0


def _inverse(squares: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return 1 / |x|, 0 of a row of hardly any length."""
    return np.divide(1.0, np.sqrt(squares), out=np.zeros_like(squares), where=squares >= _TINY).astype(np.float32)
