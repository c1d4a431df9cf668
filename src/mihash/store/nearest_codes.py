"""The nearest codes to each query in one edition, ranked by margins: the search path of every table.

A table in memory and one on SQLite rank them where they are. On Ray each shard returns what it has `reached`, and
the coordinator ranks the codes of all shards together.
"""

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..mapping.factors import estimates
from ..search import Bitmap, as_columns, first_by, margin_sums, reach
from .edition import Edition
from .question import Found, Question

_REACHED = 1 << 22  # codes that are ranked at a time


class Reached(NamedTuple):
    """The nearest codes to each query, with the sums of margins that rank them, or None if nothing does.

    ``most`` is how many codes were asked for; None for all within a radius.
    """

    by_codes: Found
    sums: list[NDArray[np.float32]] | None = None
    most: int | None = None


def candidates(edition: Edition, question: Question, live: Bitmap | None, by_product: bool = False) -> Found:
    """Return the rows and distances of the nearest codes to each query: k, or as many as are rescored.

    ``live`` is which rows may be found, None for all. With ``by_product``, items are compared by inner products.
    """
    found: Found = []
    for part in _parts(edition, question, by_product):
        some = reached(edition, part, live, by_product)
        found += some.by_codes if some.sums is None else by_margins(some, part.n_wanted, part.most_tied)
    return found


def _parts(edition: Edition, question: Question, by_product: bool) -> list[Question]:
    """Return the question in parts, if its queries rank so many codes together that memory matters."""
    if question.radius is not None:
        return [question]
    size = max(1, _REACHED // max(_n_ranked(edition, question, by_product), 1))
    starts = range(0, max(len(question.queries), 1), size)
    return [replace(question, queries=question.queries[start : start + size]) for start in starts]


def _n_ranked(edition: Edition, question: Question, by_product: bool) -> int:
    """Return how many of the nearest codes to a query are ranked, or returned where nothing ranks them."""
    if not question.by_margins(edition.mapping):
        return question.n_wanted
    with_factors = edition.has_factors and bool(question.factors)
    least = reach(
        0 if question.n_ranked else question.n_wanted,
        with_factors,
        edition.n if by_product and with_factors else 0,
    )
    return max(question.n_wanted, least, question.n_ranked or 0, question.most_tied)


def reached(edition: Edition, question: Question, live: Bitmap | None, by_product: bool = False) -> Reached:
    """Return the rows of the nearest codes to each query, with sums of margins where these rank them."""
    ranked = question.by_margins(edition.mapping)
    is_plain = question.radius is not None or (question.rescore == 0 and not ranked)
    by_product = by_product and not is_plain  # Hamming distances are those of the codes that `encode` returns
    mapping = edition.mapping.for_products if by_product else edition.mapping
    queries = as_columns(mapping.encode_rows(question.queries))
    how = live, question.method, question.n_threads
    if question.radius is not None:
        return Reached(edition.searcher.within(queries, edition.columns, question.radius, *how))
    k = _n_ranked(edition, question, by_product)
    rows, distances = edition.searcher.nearest(queries, edition.columns, k, *how)
    found: Found = list(zip(rows, distances, strict=True))
    if not ranked:
        return Reached(found, None, k)
    margins = mapping.margins(question.queries)
    sums = margin_sums(queries, edition.columns, rows, margins, question.n_threads)
    if edition.has_factors and question.factors:
        sums = estimates(sums, margins, edition.factors, rows, edition.mapping.n_features, by_product)
    return Reached(found, list(sums), k)


def by_margins(near: Reached, most: int | None, tied: int = 0) -> Found:
    """Return of each query's codes the first ``most`` by (sum of margins, age), and more that tie with the last.

    Behind them come the other codes that equal the query's, whatever the two bytes say of them. Otherwise an item
    is not always found by its own vector. There are at most ``tied`` codes together with these.

    Examples
    --------
    >>> ids, distances = np.arange(5), np.array([0, 1, 0, 0, 0])
    >>> near = Reached([(ids, distances)], [np.array([0, 0.5, 0, 0, 0], dtype=np.float32)])
    >>> [by_margins(near, 2, tied)[0][0].tolist() for tied in (0, 3, 9)]
    [[0, 2], [0, 2, 3], [0, 2, 3, 4]]
    """
    found: Found = []
    for (ids, distances), sums in zip(near.by_codes, near.sums or (), strict=True):
        order = first_by(sums, ids, most)
        if most is not None and len(order) == most < tied:
            order = first_by(sums, ids, min(int((sums <= sums[order[-1]]).sum()), tied))
            own = np.setdiff1d(np.flatnonzero(distances == 0), order)
            order = np.concatenate([order, own[first_by(sums[own], ids[own], tied - len(order))]])
        found.append((ids[order], sums[order]))
    return found
