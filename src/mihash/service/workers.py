"""Threads that work on the index, with a waiting room in front of them that is never larger than was said."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from ..store.sqlite.deadline import deadline
from .problems import Problem, busy
from .request_bodies import Body

Result = TypeVar("Result")

_LOST = "Its result is lost; ask for less at a time."
_MEMORY = 0.2  # how much the last job counts in the mean of their seconds

_log = logging.getLogger("mihash.service")


class _Job:
    """Something to do; what it holds is let go as soon as it is done or given up."""

    def __init__(self, work: Callable[[], Any], until: float | None) -> None:
        self.future: Future[Any] = Future()
        self.work: Callable[[], Any] | None = work
        self.until = until
        self.future.add_done_callback(self._let_go)

    def _let_go(self, _: "Future[Any]") -> None:
        self.work = None


class Room:
    """A few threads, and a limit on how much waits for them.

    Parameters
    ----------
    name
        What is waited for, as a client reads it.
    n_threads
        How many jobs run at a time.
    n_waiting
        How many wait; one more is refused as busy.
    changes
        Whether jobs change something: they are waited for at the end, where others are abandoned.
    stops
        Whether a job that takes too long is stopped; only those that just read may be.
    between
        A piece of long work, done after each job and while there is none; returns whether more of it is left. It
        ends when the room is closed.

    Examples
    --------
    >>> room = Room("search", n_threads=1, n_waiting=1)
    >>> room.enter(lambda: 2 + 3).result()
    5
    >>> room.close()
    """

    def __init__(
        self,
        name: str,
        n_threads: int,
        n_waiting: int,
        changes: bool = False,
        stops: bool = False,
        between: Callable[[], bool] = lambda: False,
    ) -> None:
        self._between = between
        self.name, self._n_threads, self._most = name, n_threads, n_threads + n_waiting
        self._changes, self._stops, self._closed = changes, stops, False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []  # of no executor: Python would wait for those when it exits
        self._lock = threading.Lock()
        self._inside = 0
        self._mean_s = 0.0

    @property
    def inside(self) -> int:
        """How many jobs run or wait."""
        return self._inside

    def enter(self, work: Callable[[], Result], timeout_s: float | None = None) -> "Future[Result]":
        """Have a job done in its turn, or raise where too many wait."""
        job = _Job(work, time.monotonic() + timeout_s if self._stops and timeout_s is not None else None)
        with self._lock:
            if self._closed:
                raise busy("The service is closing.")
            if self._inside >= self._most:
                wait_s = self._mean_s * self._inside / self._n_threads
                raise busy(f"Too many requests wait for a {self.name}; nothing was done with this one.", wait_s)
            self._inside += 1
            job.future.add_done_callback(self._left)
            self._jobs.put(job)
            if len(self._threads) < min(self._inside, self._n_threads):
                name = f"mihash-{self.name}_{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()
        return job.future

    async def run(self, work: Callable[[], Result], timeout_s: float, body: Body | None = None) -> Result:
        """Have a job done, and wait for it; one that has not begun in time is not done.

        The body that it works on counts as held for as long as it does, even where nobody waits any more.
        """
        future = self.enter(work, timeout_s)
        if body is not None:
            body.needed_until(future)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(_looked_at)
        done, _ = await asyncio.wait([waiting], timeout=timeout_s)
        if done:
            return waiting.result()
        if future.cancel():
            raise Problem(
                504, "timeout", f"The {self.name} did not begin within {timeout_s:g} s: nothing was done."
            )
        still = "It is still made." if self._changes else _LOST
        raise Problem(504, "timeout", f"The {self.name} took more than {timeout_s:g} s. {still}")

    def close(self) -> None:
        """Take nothing more; finish changes that have entered, and abandon everything else."""
        with self._lock:
            self._closed = True
        if not self._changes:
            while not self._jobs.empty():
                try:
                    job = self._jobs.get_nowait()
                except queue.Empty:
                    break
                if job is not None:
                    job.future.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        if self._changes:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        more = False
        while True:
            try:
                job = self._jobs.get(block=not more)
            except queue.Empty:
                pass
            else:
                if job is None:
                    return
                self._do(job)
                del job  # its result is not kept while the next one is waited for
            more = not self._closed and self._went_on()

    def _do(self, job: _Job) -> None:
        work = job.work
        if work is None or not job.future.set_running_or_notify_cancel():
            return
        try:
            with deadline(job.until):
                result = self._timed(work)
        except BaseException as error:  # as executors do: it is raised where the result is asked for
            job.future.set_exception(error)
        else:
            job.future.set_result(result)

    def _went_on(self) -> bool:
        try:
            return self._between()
        except Exception:
            _log.exception("what is done between two jobs has failed")
            return False

    def _timed(self, work: Callable[[], Result]) -> Result:
        begin = time.perf_counter()
        try:
            return work()
        finally:
            seconds = time.perf_counter() - begin
            self._mean_s += (seconds - self._mean_s) * (_MEMORY if self._mean_s else 1.0)

    def _left(self, _: "Future[Any]") -> None:
        with self._lock:
            self._inside -= 1


def _looked_at(future: "asyncio.Future[Any]") -> None:
    """Say that an error was seen, also where nobody waits for it any more."""
    if not future.cancelled():
        future.exception()
