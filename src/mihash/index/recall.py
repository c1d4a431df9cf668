"""How many of the true nearest items a search finds: recall on a sample of the stored items."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import NotReady
from ..store.table import DurableTable


class Recall(NamedTuple):
    """The share of the true k nearest items among the k that were found.

    Attributes
    ----------
    recall
        By codes alone.
    rescored
        With rescoring.
    candidates
        Among the candidates that are rescored: what rescoring cannot exceed.
    k, rescore, n_queries
        What was asked.
    """

    recall: float
    rescored: float
    candidates: float
    k: int
    rescore: int
    n_queries: int


def evaluate(table: DurableTable, k: int, n_queries: int, rescore: int, seed: int) -> Recall:
    """Take some items as queries, find their nearest others exactly, and see how many a search finds."""
    k = validation.integer("k", k, minimum=1)
    n_queries = validation.integer("n_queries", n_queries, minimum=1)
    rescore = validation.integer("rescore", rescore, minimum=1)
    edition = table.edition
    if edition is None or edition.n_items < 2:
        raise NotReady("Recall needs at least 2 items.")
    k = min(k, edition.n_items - 1)
    chosen, queries = table.sample(n_queries, seed)
    truth = table.nearest_vectors(queries, chosen, k)
    plain = _found(table, queries, chosen, k, 0)
    again = _found(table, queries, chosen, k, rescore)
    lists = table.search_ids(queries, max(k, rescore) + 1)  # as many as are rescored
    wide = [ids[ids != mine] for ids, mine in zip(lists, chosen, strict=True)]

    def share(found: list[NDArray[np.int64]]) -> float:
        return float(
            np.mean([len(np.intersect1d(mine, true)) / k for mine, true in zip(found, truth, strict=True)])
        )

    return Recall(share(plain), share(again), share(wide), k, rescore, len(chosen))


def _found(
    table: DurableTable, queries: NDArray[np.float32], own: NDArray[np.int64], k: int, rescore: int
) -> list[NDArray[np.int64]]:
    lists = table.search_ids(queries, k + 1, rescore + 1 if rescore else 0)
    return [ids[ids != mine][:k] for ids, mine in zip(lists, own, strict=True)]
