"""Searches so short that the event loop runs them itself.

A search in a worker thread costs two wake-ups and cold caches, which is as much as the search of a small index. So
the event loop runs a search itself if these conditions hold: the search needs only codes in memory; the index is
not storing, learning or building; and earlier searches of this kind were short. Other requests then wait about
`MOST_S` at most.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

Result = TypeVar("Result")

Codes = tuple[int, int]
"""The version of codes in memory, and how many items they are of."""

MOST_S = 0.002
"""How long the searches of all requests that are being answered may hold up the event loop."""

MOST_K = 100
"""The most results of such a search."""

_KEPT = 0.8  # of what the longest of the last searches took


class _Measured(NamedTuple):
    """What searches of one kind took lately, in CPU seconds, with which codes."""

    seconds: float
    codes: Codes


class InlineSearches:
    """Tells which searches are short, from what those before took.

    A kind of searches is measured in a worker first, and again after the index has a new version.

    Examples
    --------
    >>> short, codes = InlineSearches(), (0, 1000)
    >>> short.are_short(codes, margins=None, n_requests=1)
    False
    >>> short.timed(lambda: "answer", codes, margins=None)
    'answer'
    >>> short.are_short(codes, margins=None, n_requests=1), short.are_short((1, 1000), margins=None, n_requests=1)
    (True, False)
    """

    def __init__(self) -> None:
        self._measured: dict[bool | None, _Measured] = {}

    def are_short(self, codes: Codes, margins: bool | None, n_requests: int) -> bool:
        """Tell whether as many searches as there are requests are short, by Hamming distance or by margins."""
        known = self._measured.get(margins)
        if known is None or known.codes[0] != codes[0]:
            return False
        growth = max(1.0, codes[1] / max(known.codes[1], 1))
        return known.seconds * growth * n_requests <= MOST_S

    def timed(self, search: Callable[[], Result], codes: Codes, margins: bool | None) -> Result:
        """Make a search, and measure it."""
        begin = time.thread_time()
        result = search()
        seconds = time.thread_time() - begin
        known = self._measured.get(margins)
        if known is not None and known.codes[0] == codes[0]:
            seconds = max(seconds, _KEPT * known.seconds)
        self._measured[margins] = _Measured(seconds, codes)
        return result
