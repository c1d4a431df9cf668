"""One answer from those of all shards, ranked by (distance, age) as a table on one machine does."""

import numpy as np
from numpy.typing import NDArray

from ..keys import key_array, key_dtype
from ..nearest_codes import Reached, by_margins
from ..question import Found, Nearest, Question
from .log import View
from .members import Members, missed


def found_at(
    view: View, question: Question, members: Members, with_keys: bool, allow_partial: bool, measure: str
) -> Nearest | None:
    """Ask all shards about the same state; return the nearest of all, None if a shard no longer has that state.

    The candidates are the nearest codes of all shards, ranked by margins here. With ``rescore`` each shard ranks
    its own again. ``measure`` is what the distances of the answer are.
    """
    if view.version is None:
        return question.nothing(measure=measure)
    lost = members.reach(view.lasts)
    alive = [shard for shard in range(len(members)) if members.all[shard] not in lost]
    asked = {shard: (view.number, view.lasts[shard], view.version, question) for shard in alive}
    answers, gone = members.ask("ask", "reach", asked)
    if None in answers.values():
        return None
    while True:
        found = Nearest(candidates(answers, question), measure=measure)
        if not answers or not (question.rescore or with_keys):
            break
        own = {shard: _of_shard(found.found, answers[shard].by_codes) for shard in answers}
        some = {shard: lists for shard, lists in own.items() if any(len(ids) for ids, _ in lists)}
        if question.rescore:
            again = {shard: (question, lists, with_keys) for shard, lists in some.items()}
            ranked, late = members.ask("ask", "rescore", again)
        else:
            ranked, late = members.ask("ask", "name", {shard: (lists, measure) for shard, lists in some.items()})
        if None in ranked.values():
            return None
        if not late:
            found = merged(ranked, question, measure)
            break
        gone += late  # then from the others, as if these had been away before
        answers = {shard: each for shard, each in answers.items() if members.all[shard] not in late}
    missing = tuple(sorted({member.place.number for member in [*lost, *gone]}))
    if missing and (not allow_partial or not answers):
        raise missed([members.all[number] for number in missing])
    if with_keys and answers and not any(len(ids) for ids, _ in found.found):
        keys, _ = members.ask("ask", "largest_key", dict.fromkeys(answers, ()))
        none = key_array([], key_dtype(key for some in keys.values() for key in some))
        found = found._replace(keys=[none] * len(found.found))
    return found._replace(version=view.version, missing=missing)


def candidates(answers: dict[int, Reached], question: Question) -> Found:
    """Return for each query the nearest codes of all shards: k, or as many as are rescored."""
    parts = list(answers.values())
    if not parts:
        return question.nothing().found
    ranked = all(part.sums is not None for part in parts)
    found, orders = nearest_of([part.by_codes for part in parts], parts[0].most)
    if not ranked:
        return found
    together = [np.concatenate(sums) for sums in zip(*(part.sums or () for part in parts), strict=True)]
    sums = [each[order] for each, order in zip(together, orders, strict=True)]
    return by_margins(Reached(found, sums), question.n_wanted, question.most_tied)


def merged(answers: dict[int, Nearest], question: Question, measure: str) -> Nearest:
    """Return for each query what all shards have found, the first k of it."""
    if not answers:
        return question.nothing(measure=measure)
    parts = list(answers.values())
    most = None if question.radius is not None else question.k
    found, keys = nearest_of([part.found for part in parts], most)
    if all(part.keys is None for part in parts):
        return Nearest(found, measure=measure)
    named = [part.keys or [ids for ids, _ in part.found] for part in parts]
    ranked = []
    for query, order in enumerate(keys):
        names = [key for part in named for key in part[query].tolist()]
        ranked.append([names[place] for place in order.tolist()])
    dtype = key_dtype(key for each in ranked for key in each)
    return Nearest(found, [key_array(each, dtype) for each in ranked], measure=measure)


def nearest_of(parts: list[Found], most: int | None) -> tuple[Found, list[NDArray[np.int64]]]:
    """Return for each query the nearest of all shards, and in which order they stand in the parts."""
    found, orders = [], []
    for lists in zip(*parts, strict=True):
        ids, distances = (np.concatenate(each) for each in zip(*lists, strict=True))
        order = np.lexsort((ids, distances))[:most]
        found.append((ids[order], distances[order]))
        orders.append(order)
    return found, orders


def _of_shard(found: Found, own: Found) -> Found:
    """Return of each query's items those that a shard has found."""
    lists = []
    for (ids, distances), (mine, _) in zip(found, own, strict=True):
        kept = np.isin(ids, mine)
        lists.append((ids[kept], distances[kept]))
    return lists
