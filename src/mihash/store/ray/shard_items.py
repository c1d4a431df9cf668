"""Items of all shards, asked for by key or in the order of their age."""

from collections.abc import Sequence
from operator import itemgetter

from ...errors import PartialFailure
from ..filters import Condition
from ..keys import Key
from ..question import Item
from ..sqlite.items import COUNTED
from .members import Members
from .routing import places_by_shard


def lookup(
    members: Members, lasts: Sequence[int], keys: list[Key], with_texts: bool, max_bytes: int | None
) -> tuple[list[int | None], list[str | None]]:
    """Return the sequence number of each key, None if it is not stored, and its metadata as text.

    Each shard gives at most ``max_bytes`` of texts.
    """
    places = _places(members, lasts, keys)
    ids: list[int | None] = [None] * len(keys)
    texts: list[str | None] = [None] * len(keys)
    asked = {shard: ([keys[place] for place in own], with_texts, max_bytes) for shard, own in places.items()}
    for shard, answer in members.answers("lookup", asked).items():
        for place, number, text in zip(places[shard], *answer, strict=True):
            ids[place], texts[place] = number, text
    return ids, texts


def items(members: Members, lasts: Sequence[int], keys: list[Key]) -> list[Item]:
    """Return stored items; an unknown key is an error."""
    places = _places(members, lasts, keys)
    found: dict[int, Item] = {}
    asked = {shard: ([keys[place] for place in own],) for shard, own in places.items()}
    for shard, answer in members.answers("get", asked).items():
        found |= dict(zip(places[shard], answer, strict=True))
    return [found[place] for place in range(len(keys))]


def listed(
    members: Members, lasts: Sequence[int], where: Condition | None, after: int, limit: int | None
) -> tuple[list[int], list[Key]]:
    """Return sequence numbers and keys of items after a number, in order; at most ``limit``."""
    members.require(lasts)
    answers = members.ask_all("listed", where, after, limit)
    pairs = sorted((pair for found in answers for pair in zip(*found, strict=True)), key=itemgetter(0))
    return [number for number, _ in pairs[:limit]], [key for _, key in pairs[:limit]]


def top_key(members: Members, lasts: Sequence[int], most: int | None) -> int:
    """Return the largest key that is a number, -1 if there is none.

    While shards are away it is ``most``, the largest number that ever was a key, unless that is not known.
    """
    if most is None or all(member.state == "up" for member in members.all):
        try:
            members.require(lasts)
            return int(max(members.ask_all("top_key")))
        except PartialFailure:
            if most is None:
                raise
    return most


def largest_of(keys: list[Key], most: int) -> int:
    """Return the largest number among keys, or ``most``.

    Examples
    --------
    >>> largest_of([3, "a", 7, 2**62], 5)
    7
    """
    return max([most, *(key for key in keys if isinstance(key, int) and key < COUNTED)])


def _places(members: Members, lasts: Sequence[int], keys: list[Key]) -> dict[int, list[int]]:
    """Return for each shard where its keys stand, once it has its newest entries."""
    places = places_by_shard(keys, len(members)) if keys else {}
    members.require(lasts, places)
    return places
