"""What happens in the index, as server-sent events: stats each second, decisions and versions as they come.

A listener has no queue that could grow. It has a place in the list of decisions, which lies on the disk, and it is
woken when there is more: a slow one reads on from its place, and of the stats gets only the newest.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..index.online_index import OnlineIndex
from .problems import Problem, busy
from .responses import to_json

if TYPE_CHECKING:
    from .service import Service

_TICK_S, _TICKS_OF_STATS = 0.25, 4
_AT_ONCE = 200
_RECENT = 1000
_RETRY_MS = 2000

_log = logging.getLogger("mihash.service")

Facts = dict[str, Any]


class _Place(NamedTuple):
    """How far a listener is: the number of a decision, and which versions it knows.

    A clock can be set back, so the time of a version does not say whether it is new.
    """

    decision: int
    versions: frozenset[tuple[int, str]]


class Feed:
    """Looks what is new while somebody listens, and tells everybody.

    Parameters
    ----------
    service
        Whose index is looked at.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._closed = False
        self.n_listeners = 0
        self._news = asyncio.Event()
        self._decisions: deque[Facts] = deque(maxlen=_RECENT)
        self._versions: deque[Facts] = deque(maxlen=_RECENT)
        self._known: frozenset[tuple[int, str]] = frozenset()  # versions that are, or were, in that list
        self._version: int | None = None  # the newest version that is known
        self._stats, self._n_stats = b"", 0

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self._news.set()

    async def run(self) -> None:
        """Look four times a second, where somebody listens, until it is closed."""
        n_ticks = 0
        while not self._closed:
            await asyncio.sleep(_TICK_S)
            if self._closed:
                return
            if not self.n_listeners:
                self._decisions.clear()
                self._version = None
                continue
            n_ticks += 1
            try:
                await self._look(with_stats=n_ticks % _TICKS_OF_STATS == 0)
            except Problem as problem:  # busy: the next tick comes soon
                _log.debug("no events: %s", problem.message)
            except Exception:
                _log.exception("cannot look what is new")

    async def _look(self, with_stats: bool) -> None:
        last, version = self._decisions[-1]["number"] if self._decisions else None, self._version

        def look(index: OnlineIndex) -> tuple[list[Facts], list[Facts] | None, int | None, bytes | None]:
            decisions = index.history(limit=1) if last is None else index.history(after=last, limit=_AT_ONCE)
            number = index.version
            versions = index.versions() if number != version else None
            return decisions, versions, number, self._told(index) if with_stats else None

        decisions, versions, self._version, stats = await self._service.look(look)
        self._decisions.extend(decisions)
        if versions is not None:
            new = [each for each in versions if _name(each) not in self._known]
            self._versions.extend(sorted(new, key=lambda each: str(each["at"])))
            self._known = frozenset(map(_name, versions))
        if stats is not None:
            self._stats, self._n_stats = stats, self._n_stats + 1
        if decisions or versions or stats is not None:
            news, self._news = self._news, asyncio.Event()
            news.set()

    def _told(self, index: OnlineIndex) -> bytes:
        return _message("stats", self._service.stats(index))

    async def listen(self, after: int | None) -> AsyncIterator[bytes]:
        """Return events from now on; with ``after``, first the decisions that followed this one, and versions."""
        stream = self._events(after)
        await anext(stream)  # it has begun, or is refused; what has begun also ends
        return stream

    def _begin(self, index: OnlineIndex, after: int | None) -> tuple[bytes, _Place]:
        """Return how a stream begins, and where."""
        begin = f"retry: {_RETRY_MS}\n\n".encode() + self._told(index)
        newest = index.history(limit=1)
        published, answers = index.versions(), index.version
        place = _Place(newest[-1]["number"] if newest else -1, frozenset(map(_name, published)))
        if after is None or after >= place.decision:
            return begin, place
        last = index.history(after=after - 1, limit=1) if after >= 0 else []
        since = last[0]["at"] if last else ""
        missed = [
            each
            for each in published
            if each["number"] >= after or each["at"] >= since or each["number"] == answers
        ]
        told = b"".join(_message("version", each) for each in missed[-_RECENT:])
        return begin + told, place._replace(decision=after)

    async def _events(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield nothing once there is a place, then events; the place is given back at the end."""
        if self.n_listeners >= self._service.limits.listeners:
            raise busy(f"{self.n_listeners} clients listen already; no more than that may.", 10)
        self.n_listeners += 1
        try:
            begin, place = await self._service.look(lambda index: self._begin(index, after))
            yield b""
            yield begin
            async for message in self._following(place):
                yield message
        finally:
            self.n_listeners -= 1

    async def _following(self, place: _Place) -> AsyncIterator[bytes]:
        n_stats = self._n_stats
        try:
            while not self._closed:
                news = self._news
                while decisions := await self._after(place.decision):
                    yield b"".join(_message("decision", each, each["number"]) for each in decisions)
                    place = place._replace(decision=decisions[-1]["number"])
                versions = [each for each in self._versions if _name(each) not in place.versions]
                if versions:
                    yield b"".join(_message("version", each) for each in versions)
                    place = place._replace(versions=place.versions.union(map(_name, versions)))
                if self._n_stats > n_stats:
                    n_stats = self._n_stats
                    yield self._stats
                if news is self._news:
                    await news.wait()
        except Problem:  # the index is closing
            return

    async def _after(self, number: int) -> list[Facts]:
        """Return the next decisions: from memory, or for who is far behind from the disk."""
        recent = list(self._decisions)
        if recent and recent[-1]["number"] <= number:
            return []
        if recent and recent[0]["number"] <= number + 1:
            return [each for each in recent if each["number"] > number][:_AT_ONCE]
        return await self._service.look(lambda index: index.history(after=number, limit=_AT_ONCE))


def _name(version: Facts) -> tuple[int, str]:
    """Return what tells a version from others; one that is published again has another time."""
    return version["number"], version["at"]


def _message(name: str, value: Facts, number: int | None = None) -> bytes:
    mark = b"" if number is None else b"id: %d\n" % number
    return mark + b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
