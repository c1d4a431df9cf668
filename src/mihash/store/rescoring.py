"""Ranks the nearest codes again by the distances of their vectors."""

import numpy as np
from numpy.typing import NDArray

from .question import Found
from .sqlite.segments import Segments


def rescored(
    segments: Segments, queries: NDArray[np.float32], lists: Found, k: int | None, metric: str
) -> Found | None:
    """Return for each query the first k ids by (distance of the vectors, id); None if a row is gone."""
    wanted = np.unique(np.concatenate([ids for ids, _ in lists])) if lists else np.empty(0, dtype=np.int64)
    if not len(wanted):
        return [(ids, np.empty(0, dtype=np.float32)) for ids, _ in lists]
    vectors = segments.fetch(wanted, queries.shape[1])
    if vectors is None:
        return None
    out: Found = []
    for query, (ids, _) in zip(queries, lists, strict=True):
        distances = distances_to(query, vectors[np.searchsorted(wanted, ids)], metric)
        order = np.lexsort((ids, distances))[:k]
        out.append((ids[order], distances[order]))
    return out


def distances_to(query: NDArray[np.float32], vectors: NDArray[np.float32], metric: str) -> NDArray[np.float32]:
    """Return the Euclidean distances, or 1 - cosine, of a query to vectors (n, d).

    Examples
    --------
    >>> X = np.array([[3.0, 4.0], [2.0, 0.0]], dtype=np.float32)
    >>> distances_to(np.array([1.0, 0.0], dtype=np.float32), X, "euclidean").tolist()
    [4.472..., 1.0]
    >>> distances_to(np.array([1.0, 0.0], dtype=np.float32), X, "cosine").tolist()
    [0.400..., 0.0]
    """
    wide, point = vectors.astype(np.float64), query.astype(np.float64)
    if metric == "euclidean":
        lengths: NDArray[np.float64] = np.sqrt(((wide - point) ** 2).sum(axis=1))
        return lengths.astype(np.float32)
    products: NDArray[np.float64] = np.sqrt((wide**2).sum(axis=1)) * np.sqrt((point**2).sum())
    inner: NDArray[np.float64] = (wide * point).sum(axis=1)  # BLAS would give other last bits for other rows
    cosines = np.divide(inner, products, out=np.zeros(len(wide)), where=products > 0)
    return np.maximum(1.0 - cosines, 0).astype(np.float32)


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
    best: Found = [(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32)) for _ in queries]
    for segment in segments.after(-1, None, queries.shape[1]):
        keep = ~np.isin(segment.ids, dead)
        ids, X = segment.ids[keep], segment.features[keep]
        for place, (query, mine) in enumerate(zip(queries, own, strict=True)):
            others = ids != mine
            distances = distances_to(query, X[others], metric)
            ids_both = np.concatenate([best[place][0], ids[others]])
            both = np.concatenate([best[place][1], distances])
            order = np.lexsort((ids_both, both))[:k]
            best[place] = (ids_both[order], both[order])
    return best
