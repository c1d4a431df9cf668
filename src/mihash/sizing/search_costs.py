"""What a search takes on this machine apart from the scan, and how many vectors it looks up, by a small index."""

import time
from collections.abc import Callable
from math import log
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..index.online_index import OnlineIndex
from ..mapping import HashMapping
from ..search import as_columns, nearest, reach
from ..store.question import Question

K = 10
"""How many items a search returns."""

QUERIES, ROUNDS = 64, 3
"""Queries in a round, and rounds of which the best counts."""

_PARTS = 4  # ratio of the two numbers of rows at which candidates are counted


class Searched(NamedTuple):
    """What a query took apart from the scan; and the vectors that were looked up, which grow as n^growth."""

    query_s: float
    lookup_s: float
    candidates: int
    growth: float
    n_ranked: int
    """How many of the nearest codes are ranked again by margins; K where none are."""
    ranking_s: float
    """What it takes to rank more of them, for each row of the index: where the index measured that it must."""


def search_costs(
    path: Path, X: NDArray[np.float32], y: NDArray[Any] | None, mapping: HashMapping, dtype: str
) -> Searched:
    """Make an index of the examples with the mapping that was learned from them, and search it.

    It is searched by candidates, as a larger index is. How many vectors a search without options looks up is what
    the index has measured to reach its recall, with a quarter of the examples and with all.
    """
    part, found = len(X) // _PARTS, []
    with OnlineIndex.create(path, learner=mapping, dtype=dtype, drift=False) as index:
        for rows in (slice(0, part), slice(part, None)):
            index.add(X[rows], None if y is None else y[rows])
            index.wait()
            index._table.target.holds = False
            choice = index._table.target.choice(K, wait=True)
            found.append(choice.rescore)
        asked = X[:QUERIES]
        table, wider = index._table, [Question(q[None], K, rescore=0, n_ranked=choice.n_ranked) for q in asked]
        few = best(lambda: [index.search(q, K, rescore=0) for q in asked])
        ranked = max(best(lambda: [each.hits(table.nearest(each)) for each in wider]), few)
        many = best(lambda: [index.search(q, K) for q in asked])
        n_ranked = _n_ranked(index, asked)
        scan = _scan(index, asked, n_ranked)
    return Searched(
        query_s=max(few - scan, 0.0),
        lookup_s=max(many - ranked, 0.0) / found[-1],
        candidates=found[-1],
        growth=max(log(found[-1] / found[0]) / log(_PARTS), 0.0),
        n_ranked=n_ranked,
        ranking_s=(ranked - few) / len(X) if (choice.n_ranked or 0) > n_ranked else 0.0,
    )


def best(work: Callable[[], list[Any]]) -> float:
    """Return the seconds of one piece of work, the best of some rounds after one that compiles."""
    work()
    times = []
    for _ in range(ROUNDS):
        begin = time.process_time()
        n = len(work())
        times.append((time.process_time() - begin) / n)
    return min(times)


def _n_ranked(index: OnlineIndex, queries: NDArray[np.float32]) -> int:
    question = Question(queries[:1], K)
    edition = index._table.edition
    assert edition is not None
    if not question.by_margins(edition.mapping):
        return K
    return reach(K, with_factors=index._table.target.factors_pay(question))


def _scan(index: OnlineIndex, queries: NDArray[np.float32], k: int) -> float:
    edition: Any = index._table.edition
    codes = [as_columns(edition.mapping.encode_rows(query[None])) for query in queries]
    return best(lambda: [nearest(code, edition.columns, k) for code in codes])
