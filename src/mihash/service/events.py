"""Server-sent events: stats each second, decisions and versions when they happen.

A listener has no queue that could grow. It has a cursor in the history of decisions, which is on disk: a slow
listener reads on from its cursor, and gets only the newest stats.
"""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, NamedTuple

from ..index.online_index import OnlineIndex
from ..store.sqlite.code_versions import Version
from .problems import Problem, busy
from .responses import to_json

if TYPE_CHECKING:
    from .index_service import Service

_TICK_S, _TICKS_PER_STATS = 0.25, 4
_PAGE = 200  # decisions that are read at a time
_MAX_MISSED = 1000  # versions that a returning listener is sent
_RETRY_MS = 2000

_log = logging.getLogger("mihash.service")

VersionId = tuple[int, str]


class _Cursor(NamedTuple):
    """What a listener has received: decisions up to a number, and versions.

    Versions are told apart by number and time. Time alone does not order them: a clock can be set back.
    """

    decision: int
    versions: frozenset[VersionId]


class EventFeed:
    """Polls the index for changes while there are listeners, and sends the changes to all of them.

    Parameters
    ----------
    service
        The service whose index is polled.
    """

    def __init__(self, service: "Service") -> None:
        self._service = service
        self._closed = False
        self.n_listeners = 0
        self._changed = asyncio.Event()
        self._decision = -1  # the newest decision
        self._version: int | None = None  # the newest version
        self._versions: list[Version] = []
        self._stats, self._n_stats = b"", 0

    def close(self) -> None:
        """End every stream."""
        self._closed = True
        self._changed.set()

    async def run(self) -> None:
        """Poll four times a second while there are listeners, until `close`."""
        n_ticks = 0
        while not self._closed:
            await asyncio.sleep(_TICK_S)
            if self._closed or not self.n_listeners:
                continue
            n_ticks += 1
            try:
                await self._poll(with_stats=n_ticks % _TICKS_PER_STATS == 0)
            except Problem as problem:  # busy: the next tick comes soon
                _log.debug("no events: %s", problem.message)
            except Exception:
                _log.exception("polling the index for events failed")

    async def _poll(self, with_stats: bool) -> None:
        known = self._version

        def poll(index: OnlineIndex) -> tuple[int, int | None, list[Any] | None, bytes | None]:
            number = index.version
            versions = index.versions() if number != known else None
            return _newest(index), number, versions, self._stats_event(index) if with_stats else None

        before = self._decision
        self._decision, self._version, versions, stats = await self._service.read(poll)
        if versions is not None:
            self._versions = versions
        if stats is not None:
            self._stats, self._n_stats = stats, self._n_stats + 1
        if self._decision > before or versions is not None or stats is not None:
            changed, self._changed = self._changed, asyncio.Event()
            changed.set()

    def _stats_event(self, index: OnlineIndex) -> bytes:
        return _event("stats", self._service.stats(index))

    async def listen(self, after: int | None) -> AsyncIterator[bytes]:
        """Return events from now on; with ``after``, first the decisions and versions that followed this one."""
        stream = self._listen(after)
        await anext(stream)  # raises here if it is refused
        return stream

    async def _listen(self, after: int | None) -> AsyncIterator[bytes]:
        """Yield nothing once the listener is counted, then events."""
        if self.n_listeners >= self._service.limits.listeners:
            raise busy(f"{self.n_listeners} clients listen to events already, which is the limit.", 10)
        self.n_listeners += 1
        try:
            begin, cursor, newest = await self._service.read(lambda index: self._begin(index, after))
            self._decision = max(self._decision, newest)
            yield b""
            yield begin
            async for events in self._follow(cursor):
                yield events
        finally:
            self.n_listeners -= 1

    def _begin(self, index: OnlineIndex, after: int | None) -> tuple[bytes, _Cursor, int]:
        """Return the first events of a stream, where it goes on, and the newest decision."""
        begin = f"retry: {_RETRY_MS}\n\n".encode() + self._stats_event(index)
        published, current = index.versions(), index.version
        cursor = _Cursor(newest := _newest(index), frozenset(map(_id, published)))
        if after is None or after >= newest:
            return begin, cursor, newest
        last = index.history(after=after - 1, limit=1) if after >= 0 else []
        since = last[0]["at"] if last else ""
        missed = [each for each in published if each.number >= after or each.at >= since or each.number == current]
        versions = b"".join(_event("version", each) for each in missed[-_MAX_MISSED:])
        return begin + versions, cursor._replace(decision=after), newest

    async def _follow(self, cursor: _Cursor) -> AsyncIterator[bytes]:
        number, seen = cursor
        n_stats = self._n_stats
        try:
            while not self._closed:
                changed = self._changed
                while number < self._decision and (decisions := await self._decisions_after(number)):
                    yield b"".join(_event("decision", each, each["number"]) for each in decisions)
                    number = decisions[-1]["number"]
                versions = [each for each in self._versions if _id(each) not in seen]
                if versions:
                    yield b"".join(_event("version", each) for each in versions)
                    seen = seen.union(map(_id, versions))
                if self._n_stats > n_stats:
                    n_stats = self._n_stats
                    yield self._stats
                if changed is self._changed:
                    await changed.wait()
        except Problem:  # the index is closing, or busy: the client comes back
            return

    async def _decisions_after(self, number: int) -> list[Any]:
        return await self._service.read(lambda index: index.history(after=number, limit=_PAGE))


def _newest(index: OnlineIndex) -> int:
    """Return the number of the newest decision, -1 if there is none."""
    newest = index.history(limit=1)
    return newest[-1]["number"] if newest else -1


def _id(version: Version) -> VersionId:
    """Return what identifies a version; one that is published again has another time."""
    return version.number, version.at


def _event(name: str, value: Any, number: int | None = None) -> bytes:
    head = b"" if number is None else b"id: %d\n" % number
    return head + b"event: " + name.encode() + b"\ndata: " + to_json(value) + b"\n\n"
