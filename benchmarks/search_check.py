"""Whether all search alike: ours by scan, by multi-index hashing and by choice, and FAISS."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.search import Searcher, as_columns

from .report import show_grid
from .search_codes import LENGTHS, CodeSet, clustered, random
from .search_peers import Faiss, as_lists

Found = tuple[NDArray[Any], NDArray[Any]]

N_QUERIES = 10_000
_N_WITHIN = 1_000
_K, _FEW, _RADIUS = 100, 10, 2


def same_neighbors(ours: Found, theirs: Found, who: str) -> int:
    """Return how many ids were compared: all but those in the last level, whose ties others break as they like.

    Raises where a distance or one of these ids differs.
    """
    ids, distances = ours
    if not np.array_equal(distances, theirs[1].astype(distances.dtype)):
        raise AssertionError(f"Distances differ from those of {who}.")
    ranks = [_ranks(found, distances.astype(np.int64)) for found in (ids, theirs[0])]
    if not np.array_equal(*ranks):
        raise AssertionError(f"Ids before the last level differ from those of {who}.")
    return int((ranks[0] != _LAST).sum())


_LAST = np.iinfo(np.int64).max


def _ranks(ids: NDArray[Any], distances: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return numbers that sort as (distance, id), sorted, with one number for all in the last level."""
    ranks = np.where(distances < distances[:, -1:], distances << 40 | ids.astype(np.int64), _LAST)
    return np.sort(ranks, axis=1)


def same_lists(ours: Sequence[Found], theirs: Sequence[Found], who: str) -> int:
    """Return how many ids all lists have together; raises where an id or a distance differs."""
    for mine, other in zip(ours, theirs, strict=True):
        if not all(np.array_equal(a, b) for a, b in zip(mine, other, strict=True)):
            raise AssertionError(f"What is within a radius differs from {who}.")
    return sum(len(ids) for ids, _ in ours)


def check_all(n: int) -> list[dict[str, Any]]:
    """Compare answers on n codes of each length, half random and half clustered; raises where they differ."""
    records = [_check(_mixed(n, n_bits)) for n_bits in LENGTHS]
    title = (
        f"Identical neighbours: {N_QUERIES:,} queries, {n:,} codes, half random and half clustered, k = {_K} "
        f"and {_FEW}; {_N_WITHIN:,} queries within {_RADIUS}; nothing differs from FAISS, nor between our own ways"
    )
    header = ("bits", "distances, equal", "ids before the last level, equal", f"ids within {_RADIUS}, equal")
    show_grid(title, header, [[f"{value:,}" for value in record.values()] for record in records])
    return records


def _mixed(n: int, n_bits: int) -> CodeSet:
    parts = [make(n // 2, n_bits, N_QUERIES // 2) for make in (random, clustered)]
    codes, queries = (np.concatenate([getattr(part, what) for part in parts]) for what in ("codes", "queries"))
    order = np.random.default_rng(0).permutation(len(codes))
    return CodeSet("random and clustered", n_bits, codes[order], queries)


def _check(given: CodeSet) -> dict[str, Any]:
    columns, queries = as_columns(given.codes), as_columns(given.queries)
    peer, searcher = Faiss(given.codes), Searcher(given.n_bits)
    ids, distances = searcher.nearest(queries, columns, _K, method="scan")
    n_ids = same_neighbors((ids, distances), peer.nearest(given.queries, _K), "FAISS")
    for start in range(0, N_QUERIES, 1000):
        rows = slice(start, start + 1000)
        found = np.broadcast_to(given.queries[rows, None], (1000, _K, given.queries.shape[1]))
        apart = np.bitwise_count(found ^ given.codes[ids[rows]]).sum(axis=2)
        if not np.array_equal(apart, distances[rows]):
            raise AssertionError("An id does not have its distance.")
    some = slice(0, N_QUERIES, N_QUERIES // _N_WITHIN)
    lists = searcher.within(queries[some], columns, _RADIUS, method="scan")
    n_within = same_lists(lists, as_lists(peer.within(given.queries[some], _RADIUS)), "FAISS")
    few = ids[some, :_FEW], distances[some, :_FEW]
    same_answers(searcher.nearest(queries[some], columns, _FEW, method="scan"), few, "scan")
    for method in ("multi-index", "auto"):
        same_answers(searcher.nearest(queries, columns, _K, method=method), (ids, distances), method)
        same_answers(searcher.nearest(queries[some], columns, _FEW, method=method), few, method)
        same_lists(searcher.within(queries[some], columns, _RADIUS, method=method), lists, f"the scan: {method}")
    table = mihash.MemoryTable.from_codes(given.codes, given.n_bits)
    same_answers(table.search_codes(given.queries[some], _FEW), few, "MemoryTable")
    return {"bits": given.n_bits, "distances": distances.size, "ids": n_ids, "within": n_within}


def same_answers(found: Found, wanted: Found, what: str) -> None:
    """Raise where our answers by one way are not those of the scan, to the last id."""
    if not all(np.array_equal(a, b) for a, b in zip(found, wanted, strict=True)):
        raise AssertionError(f"The answers by {what} are not those of the scan.")
