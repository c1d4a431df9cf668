"""Runbooks that are made from any vectors: a sliding window, items that expire, clusters one after the other."""

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput, UnknownName
from .runbook import DELETE, INSERT, SEARCH, Runbook, Step

_CLUSTERS = 16
_SHARES = (10, 2, 1)  # of the items that expire after a tenth of the steps, after half of them, and never


class Workload(NamedTuple):
    """A runbook with its data.

    Attributes
    ----------
    runbook
        The steps.
    X
        The rows that the steps name.
    queries
        What each search asks for; no row of ``X``.
    """

    runbook: Runbook
    X: NDArray[np.float32]
    queries: NDArray[np.float32]


def made(
    kind: str, X: ArrayLike, n_steps: int = 40, n_queries: int = 100, seed: int = 0, name: str = "data"
) -> Workload:
    """Return a runbook of a kind, from vectors.

    Parameters
    ----------
    kind
        ``"sliding-window"``: each step inserts the next rows, in their order, and from half-way on deletes as many
        of the oldest. ``"expiration"``: each step inserts the next rows; 10 in 13 of them are deleted after a
        tenth of the steps, 2 after half of them, and 1 never. ``"clustered"``: the rows come cluster after
        cluster, by k-means with 16 centres, and from half-way on the oldest cluster is deleted as a new one comes.
    X
        The vectors; some of them, taken out evenly, are the queries.
    n_steps
        How many parts the rows are inserted in; each is followed by a search.
    n_queries
        How many queries each search asks.
    seed
        Seeds k-means.
    name
        The name of the data.

    Examples
    --------
    >>> workload = made("sliding-window", np.random.default_rng(0).random((1000, 4)), n_steps=10, n_queries=100)
    >>> workload.runbook.shown()
    'data: 900 inserts, 450 deletes, 10 searches, at most 540 items'
    """
    if kind not in KINDS:
        raise UnknownName(f"There is no kind of runbook {kind!r}; known: {', '.join(KINDS)}.")
    vectors = validation.features("X", X)
    validation.integer("n_steps", n_steps, minimum=2)
    validation.integer("n_queries", n_queries, minimum=1)
    if len(vectors) < n_queries + 2 * n_steps:
        raise InvalidInput(f"{len(vectors)} vectors are too few for {n_queries} queries and {n_steps} steps.")
    asked = np.linspace(0, len(vectors) - 1, n_queries).round().astype(np.int64)
    queries, rest = vectors[asked], np.delete(vectors, asked, axis=0)
    order, steps = KINDS[kind](rest, n_steps, seed)
    return Workload(Runbook.of_steps(name, steps), rest[order], queries)


_Made = tuple[NDArray[np.int64], list[Step]]


def _sliding_window(X: NDArray[np.float32], n_steps: int, seed: int) -> _Made:  # noqa: ARG001 -- nothing is drawn
    edges = np.linspace(0, len(X), n_steps + 1).round().astype(np.int64).tolist()
    steps = list[Step]()
    for at in range(n_steps):
        part = range(edges[at], edges[at + 1])
        steps.append(Step(INSERT, part, part))
        if at >= n_steps // 2:
            steps += [Step(SEARCH), Step(DELETE, range(edges[at - n_steps // 2], edges[at - n_steps // 2 + 1]))]
        else:
            steps.append(Step(SEARCH))
    return np.arange(len(X)), steps


def _expiration(X: NDArray[np.float32], n_steps: int, seed: int) -> _Made:  # noqa: ARG001 -- nothing is drawn
    edges = np.linspace(0, len(X), n_steps + 1).round().astype(np.int64).tolist()
    cuts = np.cumsum(_SHARES) / sum(_SHARES)
    ends: dict[int, list[range]] = {}
    steps = list[Step]()
    for at in range(n_steps):
        begin, end = edges[at], edges[at + 1]
        steps += [Step(DELETE, part) for part in ends.pop(at, [])]
        steps += [Step(INSERT, range(begin, end), range(begin, end)), Step(SEARCH)]
        short, long = (begin + round(cut * (end - begin)) for cut in cuts[:2].tolist())
        for lasts, part in ((max(1, n_steps // 10), range(begin, short)), (n_steps // 2, range(short, long))):
            if len(part):
                ends.setdefault(at + lasts, []).append(part)
    return np.arange(len(X)), steps


def _clustered(X: NDArray[np.float32], n_steps: int, seed: int) -> _Made:
    from sklearn.cluster import KMeans

    n_clusters = min(_CLUSTERS, n_steps)
    cluster = KMeans(n_clusters, n_init=1, random_state=seed).fit(X[:: max(1, len(X) // 4000)]).predict(X)
    order = np.argsort(cluster, kind="stable")
    edges = np.searchsorted(cluster[order], np.arange(n_clusters + 1)).tolist()
    steps, each = list[Step](), max(1, n_steps // n_clusters)
    for at in range(n_clusters):
        parts = np.linspace(edges[at], edges[at + 1], each + 1).round().astype(np.int64).tolist()
        for begin, end in pairwise(parts):
            if end > begin:
                steps += [Step(INSERT, range(begin, end), range(begin, end)), Step(SEARCH)]
        oldest = at - n_clusters // 2
        if oldest >= 0 and edges[oldest + 1] > edges[oldest]:
            steps.append(Step(DELETE, range(edges[oldest], edges[oldest + 1])))
    return order, steps


KINDS: dict[str, Callable[[NDArray[np.float32], int, int], _Made]] = {
    "sliding-window": _sliding_window,
    "expiration": _expiration,
    "clustered": _clustered,
}
