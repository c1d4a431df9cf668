"""Pages of keys, and their cursors, which stay valid if the last item is replaced or deleted."""

import re
import threading
from collections import OrderedDict
from typing import NamedTuple

from ..errors import InvalidInput, NotReady
from ..store.generations import generation_of
from ..store.keys import Key
from ..store.table import Table

_PLACE = re.compile(r"next:(\d{1,9}):(\d{1,18})")
_MOST_ENDS = 10_000


class Page(NamedTuple):
    """Keys of items, oldest first, and where the next page begins: `next`, for `OnlineIndex.page`, or None."""

    keys: list[Key]
    next: str | None


def is_place(text: str) -> bool:
    """Tell whether a text is `next` of a page.

    Examples
    --------
    >>> is_place("next:0:17"), is_place("17")
    (True, False)
    """
    return _PLACE.fullmatch(text) is not None


def place(table: Table, number: int) -> str:
    """Return the place after the item with a sequence number."""
    return f"next:{generation_of(table.database.folder)}:{number}"


def number_of(table: Table, after: object) -> int:
    """Return the sequence number that a place comes after."""
    parts = _PLACE.fullmatch(after) if isinstance(after, str) else None
    if parts is None:
        raise InvalidInput(f"`after` must be the `next` value of an earlier page; got {after!r:.80}.")
    if int(parts[1]) != generation_of(table.database.folder):
        raise NotReady("A migration has replaced the vectors since this page was read: list from the start.")
    return int(parts[2])


class PageEnds:
    """The last keys of pages that were read, with the sequence numbers that they had then; the newest are kept.

    Examples
    --------
    >>> ends = PageEnds()
    >>> ends.keep(0, "a", 17)
    >>> ends.get(0, "a"), ends.get(1, "a"), ends.get(0, "b")
    (17, None, None)
    """

    def __init__(self) -> None:
        self._numbers: OrderedDict[tuple[int, Key], int] = OrderedDict()
        self._lock = threading.Lock()

    def keep(self, generation: int, key: Key, number: int) -> None:
        """Remember a page of a generation that ended with a key."""
        with self._lock:
            self._numbers[generation, key] = number
            self._numbers.move_to_end((generation, key))
            if len(self._numbers) > _MOST_ENDS:
                self._numbers.popitem(last=False)

    def get(self, generation: int, key: Key) -> int | None:
        """Return the number that a key had at the end of a page, None if no page ended with it."""
        with self._lock:
            return self._numbers.get((generation, key))
