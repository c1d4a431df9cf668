"""A question to all shards: the nearest codes of each, merged, and rescored where their vectors are."""

from dataclasses import replace

import numpy as np

from ..question import Question
from .log import View
from .merge import Merged, by_shard, merged
from .shard_clients import Members, missed


def found_at(
    view: View, question: Question, members: Members, named: bool, allow_partial: bool
) -> tuple[list[Merged], int | None, tuple[int, ...]] | None:
    """Return what all shards find for each query at one moment, its version, and the shards that are missing.

    None where a shard cannot tell any more. ``named`` says whether items have keys other than their numbers.
    """
    if view.version is None:
        return [], None, ()
    n = len(question.queries)
    lost = members.reach(view.lasts)
    alive = [shard for shard in range(len(members)) if members.all[shard] not in lost]
    most = None if question.radius is not None else max(question.k, question.rescore)
    wide = replace(question, k=most or question.k, rescore=0)
    with_keys = named and not question.rescore
    asked = {shard: (view.number, view.lasts[shard], view.version, wide, with_keys) for shard in alive}
    answers, gone = members.ask("ask", "search", asked)
    if None in answers.values():
        return None
    found = merged(answers, n, most) if answers else []
    while question.rescore and answers:
        chosen = {shard: by_shard(found, shard) for shard in answers}
        again = {
            shard: (question.queries, lists, named) for shard, lists in chosen.items() if any(map(len, lists))
        }
        rescored, late = members.ask("ask", "rescore", again)
        if None in rescored.values():
            return None
        if late:  # then from the others, as if these had been away before
            gone += late
            answers = {shard: each for shard, each in answers.items() if members.all[shard] not in late}
            found = merged(answers, n, most) if answers else []
            continue
        nothing = (np.empty(0, dtype=np.int64), np.empty(0, dtype=np.float32))
        rescored = rescored or {alive[0]: ([nothing] * n, None)}
        found = merged(rescored, n, None if question.radius is not None else question.k)
        break
    numbers = tuple(sorted({member.place.number for member in [*lost, *gone]}))
    if numbers and (not allow_partial or not answers):
        raise missed([members.all[number] for number in numbers])
    return found, view.version, numbers
