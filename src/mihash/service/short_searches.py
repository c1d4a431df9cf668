"""Searches so short that the event loop makes them itself.

A search in a worker thread costs two wake-ups and cold caches, which is as much as the search of a small index. So
the event loop makes a search where nothing speaks against it: the codes in memory are enough, nothing is stored,
learned from or built meanwhile, and such searches were measured to be short. Requests wait for it no longer than
`MOST_S`, as far as that can be known.
"""

import time
from collections.abc import Callable
from typing import NamedTuple, TypeVar

from ..index.online_index import OnlineIndex

Result = TypeVar("Result")

MOST_S = 0.002
"""How long the searches of all requests that are being answered may hold up the event loop."""

MOST_K = 100
"""The most results of such a search."""

_KEPT = 0.8  # of what the longest of the last searches took


class _Measured(NamedTuple):
    """What searches of one kind took lately: CPU seconds, of which version, with how many items."""

    seconds: float
    version: int | None
    n_items: int


class ShortSearches:
    """Tells which searches are short, from what those before took.

    A kind of searches is measured in a worker first, and again after the index has a new version.

    Examples
    --------
    >>> import tempfile, mihash, numpy as np
    >>> folder, short = tempfile.TemporaryDirectory(), ShortSearches()
    >>> def search(index):
    ...     return index.search(np.eye(4)[2], k=1, rescore=0).keys.tolist()
    >>> with mihash.open(folder.name, n_bits=64) as index:
    ...     keys = index.add(np.eye(4))
    ...     short.are_short(index, None, 1), short.timed(search, index, None)  # nothing is known before
    (False, [2])
    >>> folder.cleanup()
    """

    def __init__(self) -> None:
        self._measured: dict[bool | None, _Measured] = {}

    def are_short(self, index: OnlineIndex, margins: bool | None, n_requests: int) -> bool:
        """Tell whether as many searches as there are requests are short, by Hamming distance or by margins."""
        known = self._measured.get(margins)
        if known is None or known.version != index.version:
            return False
        growth = max(1.0, len(index) / max(known.n_items, 1))
        return known.seconds * growth * n_requests <= MOST_S

    def timed(self, search: Callable[[OnlineIndex], Result], index: OnlineIndex, margins: bool | None) -> Result:
        """Make a search, and measure it."""
        version, n_items, begin = index.version, len(index), time.thread_time()
        result = search(index)
        seconds = time.thread_time() - begin
        known = self._measured.get(margins)
        if known is not None and known.version == version:
            seconds = max(seconds, _KEPT * known.seconds)
        self._measured[margins] = _Measured(seconds, version, n_items)
        return result
