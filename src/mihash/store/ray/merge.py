"""One answer from those of all shards, ranked by (distance, age) as a table on one machine does."""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ..keys import key_array
from ..question import Found, Nearest, Question
from .log import View
from .shard_clients import Members, missed


def found_at(
    view: View, question: Question, members: Members, with_keys: bool, allow_partial: bool
) -> Nearest | None:
    """Ask all shards about one moment; return the nearest of all, None where a shard can no longer tell.

    With ``rescore`` the candidates are the nearest codes of all shards. Each shard ranks its own again.
    """
    if view.version is None:
        return question.nothing()
    lost = members.reach(view.lasts)
    alive = [shard for shard in range(len(members)) if members.all[shard] not in lost]
    most = None if question.radius is not None else max(question.k, question.rescore)
    wide = replace(question, k=most or question.k, rescore=0)
    keys_now = with_keys and not question.rescore
    asked = {shard: (view.number, view.lasts[shard], view.version, wide, keys_now) for shard in alive}
    answers, gone = members.ask("ask", "search", asked)
    if None in answers.values():
        return None
    found = merged(answers, question, most)
    while question.rescore and answers:
        chosen = {shard: _of_shard(found, answers[shard].found) for shard in answers}
        again = {shard: (question, lists, with_keys) for shard, lists in chosen.items() if any(map(len, lists))}
        rescored, late = members.ask("ask", "rescore", again)
        if None in rescored.values():
            return None
        if late:  # then from the others, as if these had been away before
            gone += late
            answers = {shard: each for shard, each in answers.items() if members.all[shard] not in late}
            found = merged(answers, question, most)
            continue
        found = merged(rescored, question, None if question.radius is not None else question.k)
        break
    missing = tuple(sorted({member.place.number for member in [*lost, *gone]}))
    if missing and (not allow_partial or not answers):
        raise missed([members.all[number] for number in missing])
    return found._replace(version=view.version, missing=missing)


def merged(answers: dict[int, Nearest], question: Question, most: int | None) -> Nearest:
    """Return for each query what all shards have found, the first ``most`` of it."""
    if not answers:
        return question.nothing()
    parts = list(answers.values())
    found, keys = nearest_of([part.found for part in parts], most)
    if all(part.keys is None for part in parts):
        return Nearest(found)
    named = [part.keys or [ids for ids, _ in part.found] for part in parts]
    ranked = []
    for query, order in enumerate(keys):
        names = [key for part in named for key in part[query].tolist()]
        ranked.append(key_array([names[place] for place in order.tolist()]))
    return Nearest(found, ranked)


def nearest_of(parts: list[Found], most: int | None) -> tuple[Found, list[NDArray[np.int64]]]:
    """Return for each query the nearest of all shards, and in which order they stand in the parts."""
    found, orders = [], []
    for lists in zip(*parts, strict=True):
        ids, distances = (np.concatenate(each) for each in zip(*lists, strict=True))
        order = np.lexsort((ids, distances))[:most]
        found.append((ids[order], distances[order]))
        orders.append(order)
    return found, orders


def _of_shard(found: Nearest, own: Found) -> list[NDArray[np.int64]]:
    """Return of each query's ids those that a shard has found."""
    return [ids[np.isin(ids, mine)] for (ids, _), (mine, _) in zip(found.found, own, strict=True)]
