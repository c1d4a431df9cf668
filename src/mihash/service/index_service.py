"""The service behind the routes: one index, the worker pools that use it, and its life from opening to closing."""

import asyncio
import json
import logging
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

import numpy as np
from fastapi import Request

from ..errors import InvalidInput, ReadOnly
from ..index.online_index import OnlineIndex
from ..stopwatch import Stopwatch
from ..store.sqlite.database import DATABASE
from .body_receiver import BodyReceiver
from .cors import Cors
from .events import EventFeed
from .inline_searches import InlineSearches
from .limits import Limits
from .metrics import Metrics
from .problems import Problem, busy
from .thread_pools import ThreadPool

Result = TypeVar("Result")
Work = Callable[[OnlineIndex], Result]

_log = logging.getLogger("mihash.service")
_READ_ONLY = "This service only reads the index: send changes to the service that writes."
_ERRORS = ("rehash_error", "learning_error", "write_error")


class Background(Protocol):
    """A thread that uses the index beside the requests, such as the stream of the demo."""

    note: str | None
    """A note that the page shows."""

    def start(self, service: "Service") -> None:
        """Start, once the index is open."""

    def stop(self) -> None:
        """Stop, and return when the thread has ended."""


class Service:
    """Serves one index.

    Parameters
    ----------
    opening
        Opens or creates the index; called once, in a thread.
    limits
        The limits of requests; those of `Limits` by default.
    token
        The bearer token that clients must send; None for no token.
    background
        A thread that uses the index beside the requests.
    cors_origins
        Origins of web pages that may use the service.
    worker
        The number of this process among several that serve the index; None for the only one.
    """

    def __init__(
        self,
        opening: Callable[[], OnlineIndex],
        limits: Limits | None = None,
        token: str | None = None,
        background: Background | None = None,
        cors_origins: Sequence[str] = (),
        worker: int | None = None,
    ) -> None:
        self._opening, self._background, self._worker = opening, background, worker
        self.limits = limits = limits or Limits()
        token = None if token is None else check_token(token, "`token`")
        self.token, self.cors = token, Cors(cors_origins)
        if self.cors.allows_all and token is None:
            raise InvalidInput("`cors_origins` may be '*' only with a token: give `token`, or name the origins.")
        self.bodies, self.metrics, self.feed = BodyReceiver(limits), Metrics(worker), EventFeed(self)
        self.writes = ThreadPool("write", 1, limits.waiting_writes, writes=True, idle_work=self._learn)
        self.reads = ThreadPool("read", limits.searchers, limits.waiting_searches)
        # a filter may scan the metadata of all items, and a measurement waits for the learner: other reads do not
        self.slow_reads = ThreadPool("slow read", limits.searchers, limits.waiting_searches)
        self._pools = (self.writes, self.reads, self.slow_reads)
        self.inline_searches = InlineSearches()
        self._row_s = 0.0  # seconds to learn from a row, the last time
        self._index: OnlineIndex | None = None
        self._state = "opening"
        self._tasks: list[asyncio.Task[None]] = []
        self.n_requests = 0
        """How many requests are being answered, those without a limit not counted."""
        self.error: Exception | None = None
        self.on_failure: Callable[[], None] = lambda: None

    @property
    def state(self) -> str:
        """``"opening"``, ``"ready"``, ``"closing"``, ``"closed"``, or ``"failed"``."""
        return self._state

    @property
    def index(self) -> OnlineIndex:
        """The index, once it is open."""
        if self._index is None:
            raise self._unavailable()
        return self._index

    def check_ready(self) -> None:
        """Raise `busy` while the index cannot be used."""
        if self._state != "ready":
            raise self._unavailable()

    def _unavailable(self) -> Problem:
        return busy(f"The index is {self._state}; try again soon.")

    async def write(self, work: Work[Result]) -> Result:
        """Run a change of the index; changes run one after the other. A service that only reads makes none."""
        if self.index.read_only:
            raise ReadOnly(_READ_ONLY)
        return await self._run(self.writes, work)

    async def read(self, work: Work[Result], slow: bool = False) -> Result:
        """Run a read of the index; one that may take long is ``slow``, and does not hold up the others."""
        return await self._run(self.slow_reads if slow else self.reads, work)

    async def read_from_memory(self, search: Work[Result], margins: bool | None) -> Result:
        """Make a search that needs no vectors and no metadata.

        Run it in the event loop if such searches are short, else in a worker.
        """
        index, short = self.index, self.inline_searches
        codes = None if self._state != "ready" or self.writes.n_jobs else index.codes_in_memory(margins)
        if codes is None:
            return await self.read(search)
        if short.are_short(codes, margins, self.n_requests):
            return short.timed(lambda: search(index), codes, margins)
        return await self.read(lambda index: short.timed(lambda: search(index), codes, margins))

    async def _run(self, pool: ThreadPool, work: Work[Result]) -> Result:
        index = self.index
        return await pool.run(lambda: work(index), self.limits.timeout_s)

    def store(self, index: OnlineIndex, n: int, change: Callable[[int], Result]) -> Result:
        """Store n rows as a write, and learn from a piece of them; the others are learned from between writes.

        ``change`` is called with the number of rows to learn from at once.
        """
        behind = index.behind
        if behind and behind + n > self.limits.rows:
            message = f"{behind:,} rows already wait to be learned from; these {n:,} were not stored."
            raise busy(message, self._row_s * (behind + n - self.limits.rows))
        # older rows are learned from first: while some wait, a small add should not wait for a whole piece of them
        result = change(1 if behind else self.limits.piece)
        self.metrics.rows.add(n)
        return result

    def _learn(self) -> bool:
        """Learn from a piece of the stored rows; return whether more are left."""
        index, watch = self._index, Stopwatch()
        if index is None or not index.behind:
            return False
        n = min(self.limits.piece, index.behind)
        left = index.catch_up(n)
        self._row_s = watch.seconds / n
        return left > 0

    def stats(self, index: OnlineIndex) -> dict[str, Any]:
        """Return the state of the index and of the service."""
        found = dict(index.stats())
        for name in _ERRORS:
            if found[name] is not None:
                found[name] = self.without_paths(found[name])
        return found | {
            "seen": index.seen or 0,
            "behind": index.behind,
            "read_only": index.read_only,
            "worker": self._worker,
            "uptime_s": round(self.metrics.uptime_s, 3),
            "rates": self.metrics.rates(),
            "options": json.loads(index.options.to_text()),
            "note": None if self._background is None else self._background.note,
        }

    def without_paths(self, message: str) -> str:
        """Return a message without the folder of the index: clients need not know it."""
        if self._index is None:
            return message
        folder = self._index.folder
        return message.replace(str(folder / DATABASE), "the index").replace(str(folder), "the index")

    def queue_lengths(self) -> dict[str, int]:
        """Return how many jobs run or wait in each pool."""
        return {pool.name: pool.n_jobs for pool in self._pools}

    # From opening to closing

    async def start(self) -> None:
        """Open the index in the background; until it is open, requests get 503.

        One of several processes returns when it is open: until then, the others answer.
        """
        self._tasks = [asyncio.create_task(self._open())]
        if self._worker is not None:
            await asyncio.wait(self._tasks)

    async def _open(self) -> None:
        try:
            self._index = await asyncio.to_thread(self._open_index)
        except Exception as error:
            self._state, self.error = "failed", error
            self.on_failure()
            return
        if self._state == "opening":
            self._state = "ready"
            self._tasks.append(asyncio.create_task(self.feed.run()))
            if self._background is not None:
                self._background.start(self)

    def _open_index(self) -> OnlineIndex:
        """Open the index, replay what a crash lost, and compile what a search needs."""
        watch = Stopwatch()
        index = self._opening()
        try:
            if not index.read_only:
                index.catch_up()
            if index.n_features is not None:
                index.search(np.zeros((1, index.n_features), dtype=np.float32), k=1)
        except BaseException:
            index.close()
            raise
        _log.info("opened %s in %.2f s", index.folder, watch.seconds)
        return index

    def begin_closing(self) -> None:
        """Accept no new requests, and end the event streams, which never end by themselves."""
        if self._state in ("opening", "ready"):
            self._state = "closing"
        self.feed.close()

    async def stop(self) -> None:
        """Finish accepted writes, abandon reads that are still running, close the index."""
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
        for pool in self._pools:
            pool.close()
        if self._index is not None:
            self._index.close()


def check_token(token: str, place: str) -> str:
    """Return a token that can stand in a header."""
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{place} must hold a token of printable ASCII characters, such as openssl rand -hex 32 prints."
        )
    return token


def service_of(request: Request) -> Service:
    """Return the service of a request; raise `busy` while the index cannot be used."""
    service: Service = request.app.state.service
    service.check_ready()
    return service
