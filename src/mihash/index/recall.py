"""How many of the true nearest items a search finds: recall on a sample of the stored items."""

from dataclasses import dataclass, replace

import numpy as np

from .. import validation
from ..errors import NotReady
from ..records import Record
from ..store.held_vectors import EVERY
from ..store.question import Question
from ..store.recall_target import MOST_TIED
from ..store.table import Table


@dataclass(frozen=True)
class Recall(Record):
    """The share of the true k nearest items among the k that a search finds.

    Attributes
    ----------
    recall
        By codes, and margins where the mapping has them.
    rescored
        With rescoring.
    candidates
        Among the candidates that are rescored: the most that rescoring can reach.
    k, rescore, n_queries
        The options of the searches, and how many there were.
    """

    recall: float
    rescored: float
    candidates: float
    k: int
    rescore: int
    n_queries: int


def evaluate(table: Table, k: int, n_queries: int, rescore: int | None, seed: int) -> Recall:
    """Take some items as queries, find their nearest others exactly, and count how many of them a search finds."""
    k = validation.integer("k", k, minimum=1)
    n_queries = validation.integer("n_queries", n_queries, minimum=1)
    seed = validation.integer("seed", seed, minimum=0)
    if rescore is not None:
        rescore = validation.integer("rescore", rescore, minimum=1)
    edition = table.edition
    if edition is None or edition.n_items < 2:
        raise NotReady("Recall needs at least 2 items.")
    k = min(k, edition.n_items - 1)
    n_ranked, most_tied, every = None, 0, False
    if rescore is None:
        choice, most_tied = table.target.choice(k, wait=True), MOST_TIED
        rescore, n_ranked, every = choice.rescore, choice.n_ranked, choice.rescore == EVERY
    rescore = min(rescore, edition.n_items - 1)
    chosen, queries = table.sample(n_queries, seed)
    truth = [ids for ids, _ in table.exact(queries, chosen, k)]

    def share(k_asked: int, rescored: int = 0, most: int | None = k) -> float:
        tied = most_tied if rescored else 0
        question = Question(queries, k_asked, rescore=rescored, n_ranked=n_ranked, most_tied=tied)
        question = replace(question, compares_all=every and rescored > 0)
        found = table.nearest(question, with_keys=False).found
        others = [ids[ids != own][:most] for (ids, _), own in zip(found, chosen, strict=True)]
        hits = [len(np.intersect1d(each, true)) for each, true in zip(others, truth, strict=True)]
        return float(np.mean(np.array(hits) / k))

    # One more than is wanted: each query finds itself.
    candidates = 1.0 if every else share(max(k, rescore) + 1, most=None)
    return Recall(share(k + 1), share(k + 1, rescore + 1), candidates, k, rescore, len(chosen))
