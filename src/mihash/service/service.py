"""The service behind the addresses: one index, the threads that work on it, its life from opening to closing."""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..index.online_index import OnlineIndex
from ..store.keys import Key
from ..store.sqlite.database import DATABASE
from .cors import Cors
from .events import Feed
from .limits import Limits
from .metrics import Metrics
from .problems import Problem, busy
from .request_bodies import Bodies, Body
from .workers import Room

Result = TypeVar("Result")
Work = Callable[[OnlineIndex], Result]

_log = logging.getLogger("mihash.service")
_WAITING_LOOKS = 64
_ERRORS = ("rehash_error", "learning_error", "write_error")
_SMALL = 32_768  # bytes of a body that are read at once; a hundredth of a second at worst


class Background(Protocol):
    """Something that works on the index beside the requests, such as the stream of the demo."""

    note: str | None
    """What people who look at the page should know of it."""

    def start(self, service: "Service") -> None:
        """Begin, once the index is open."""

    def stop(self) -> None:
        """End, and return when it has."""


class Service:
    """One index, served.

    Parameters
    ----------
    opening
        Opens the index, or makes it; called once, in a thread.
    limits
        How much is taken at a time.
    token
        What clients must show; None where everybody may.
    background
        What works on the index beside the requests.
    cors_origins
        The sites whose pages may use the service.
    """

    def __init__(
        self,
        opening: Callable[[], OnlineIndex],
        limits: Limits | None = None,
        token: str | None = None,
        background: Background | None = None,
        cors_origins: Sequence[str] = (),
    ) -> None:
        self._opening, self._background = opening, background
        self.limits = limits = limits or Limits()
        self.token, self.cors = token, Cors(cors_origins)
        if self.cors.allows_all and token is None:
            raise InvalidInput(
                "Pages of all sites may use a service only with a token: give it one, or name them."
            )
        self.bodies, self.metrics, self.feed = Bodies(limits), Metrics(), Feed(self)
        self.writing = Room("change", 1, limits.waiting_writes, changes=True, between=self._learn)
        self.searching = Room("search", limits.searchers, limits.waiting_searches, stops=True)
        # a filter may look at the metadata of every item: searches without one do not wait for those with one
        self.filtering = Room("search with a filter", limits.searchers, limits.waiting_searches, stops=True)
        self.looking = Room("look", 2, _WAITING_LOOKS)
        self.measuring = Room("measurement", 1, _WAITING_LOOKS)
        self.reading = Room("body to be read", 1, _WAITING_LOOKS)
        self._rooms = (
            self.writing,
            self.searching,
            self.filtering,
            self.looking,
            self.measuring,
            self.reading,
        )
        self._row_s = 0.0  # that learning from a row took, the last time
        self._index: OnlineIndex | None = None
        self._state = "opening"
        self._tasks: list[asyncio.Task[None]] = []
        self.error: Exception | None = None
        self.failed: Callable[[], None] = lambda: None

    @property
    def state(self) -> str:
        """``"opening"``, ``"ready"``, ``"closing"``, ``"closed"``, or ``"failed"``."""
        return self._state

    @property
    def index(self) -> OnlineIndex:
        """The index, once it is open."""
        if self._index is None:
            raise self._not_there()
        return self._index

    def check_ready(self) -> None:
        """Tell a client to come again, while the index cannot answer."""
        if self._state != "ready":
            raise self._not_there()

    def _not_there(self) -> Problem:
        return busy(f"The index is {self._state}; try again soon.")

    async def change(self, work: Work[Result], body: Body | None = None) -> Result:
        """Have the index changed, one change after the other."""
        return await self._run(self.writing, work, body)

    async def search(self, work: Work[Result], body: Body | None = None, filtered: bool = False) -> Result:
        """Have the index searched."""
        return await self._run(self.filtering if filtered else self.searching, work, body)

    async def read(self, work: Work[Result], body: Body) -> Result:
        """Have a body read: a small one here, a large one in a thread, so that nothing else waits for it."""
        if len(body.data) <= _SMALL:
            return work(self.index)
        return await self._run(self.reading, work, body)

    async def look(self, work: Work[Result]) -> Result:
        """Have something read that takes no time to speak of."""
        return await self._run(self.looking, work)

    async def measure(self, work: Work[Result]) -> Result:
        """Have something measured, which may wait for the learner."""
        return await self._run(self.measuring, work)

    async def _run(self, room: Room, work: Work[Result], body: Body | None = None) -> Result:
        """Have work done; what was accepted before the service closes is still done."""
        index = self.index
        return await room.run(lambda: work(index), self.limits.timeout_s, body)

    def add(self, index: OnlineIndex, vectors: NDArray[np.float32], **more: Any) -> list[Key]:
        """Add rows, as a change: all are stored, a piece of them is learned from, the rest when its turn comes."""
        n, behind = len(vectors), index.behind
        if behind and behind + n > self.limits.rows:
            message = f"{behind:,} rows wait to be learned from; nothing was done with these {n:,}."
            raise busy(message, self._row_s * (behind + n - self.limits.rows))
        # where rows wait already, a piece of these is next: whoever adds a few need not wait for it
        keys = index.add(vectors, at_once=1 if behind else self.limits.piece, **more)
        self.metrics.rows.add(n)
        return keys

    def _learn(self) -> bool:
        """Learn from a piece of what was stored; return whether more is left."""
        index, begin = self._index, time.perf_counter()
        if index is None or not index.behind:
            return False
        n = min(self.limits.piece, index.behind)
        left = index.catch_up(n)
        self._row_s = (time.perf_counter() - begin) / n
        return left > 0

    def stats(self, index: OnlineIndex) -> dict[str, Any]:
        """Return the state of index and service in numbers."""
        found = dict(index.stats())
        for name in _ERRORS:
            if found[name] is not None:
                found[name] = self.without_paths(found[name])
        return found | {
            "seen": index.seen or 0,
            "behind": index.behind,
            "uptime_s": round(self.metrics.uptime_s, 3),
            "rates": self.metrics.rates(),
            "options": asdict(index.options),
            "note": None if self._background is None else self._background.note,
        }

    def without_paths(self, message: str) -> str:
        """Return a message without the folder that the index is in, which is no business of a client."""
        if self._index is None:
            return message
        folder = self._index.folder
        return message.replace(str(folder / DATABASE), "the index").replace(str(folder), "the index")

    def waiting(self) -> dict[str, int]:
        """Return how many requests are in each room."""
        return {room.name: room.inside for room in self._rooms}

    # From opening to closing

    async def start(self) -> None:
        """Open the index in the background; until it is there, requests are told to come again."""
        self._tasks = [asyncio.create_task(self._open())]

    async def _open(self) -> None:
        try:
            self._index = await asyncio.to_thread(self._opened)
        except Exception as error:
            self._state, self.error = "failed", error
            self.failed()
            return
        if self._state == "opening":
            self._state = "ready"
            self._tasks.append(asyncio.create_task(self.feed.run()))
            if self._background is not None:
                self._background.start(self)

    def _opened(self) -> OnlineIndex:
        """Open, learn again what a crash has lost, and have compiled what a search needs."""
        begin = time.perf_counter()
        index = self._opening()
        try:
            index.catch_up()
            if index.n_features is not None:
                index.search(np.zeros((1, index.n_features), dtype=np.float32), k=1)
        except BaseException:
            index.close()
            raise
        _log.info("opened %s in %.2f s", index.folder, time.perf_counter() - begin)
        return index

    def begin_closing(self) -> None:
        """Take no new requests, and end what would never end: streams of events."""
        if self._state in ("opening", "ready"):
            self._state = "closing"
        self.feed.close()

    async def stop(self) -> None:
        """Finish the changes that were accepted, abandon reads that nobody waits for, close the index."""
        self.begin_closing()
        opening, *others = self._tasks
        await asyncio.wait([opening])
        for task in others:
            await task
        await asyncio.to_thread(self._close)
        if self._state == "closing":
            self._state = "closed"

    def _close(self) -> None:
        if self._background is not None:
            self._background.stop()
        for room in self._rooms:
            room.close()
        if self._index is not None:
            self._index.close()
