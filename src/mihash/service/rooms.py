"""Threads that work on the index, with a waiting room in front of them that is never larger than was said."""

import asyncio
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from .problems import Problem, busy

__all__ = ["Room"]

Result = TypeVar("Result")

_MEMORY = 0.2  # how much the last job counts in the mean of their seconds


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

    Examples
    --------
    >>> room = Room("search", n_threads=1, n_waiting=1)
    >>> room.enter(lambda: 2 + 3).result()
    5
    >>> room.close()
    """

    def __init__(self, name: str, n_threads: int, n_waiting: int, changes: bool = False) -> None:
        self.name, self._n_threads, self._most = name, n_threads, n_threads + n_waiting
        self._changes, self._closed = changes, False
        self._jobs: queue.SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []  # of no executor: Python would wait for those when it exits
        self._lock = threading.Lock()
        self._inside = 0
        self._mean_s = 0.0

    @property
    def inside(self) -> int:
        """How many jobs run or wait."""
        return self._inside

    def enter(self, work: Callable[[], Result]) -> "Future[Result]":
        """Have a job done in its turn, or raise where too many wait."""
        future: Future[Result] = Future()
        with self._lock:
            if self._closed:
                raise busy("The service is closing.")
            if self._inside >= self._most:
                wait_s = self._mean_s * self._inside / self._n_threads
                raise busy(f"Too many requests wait for a {self.name}; nothing was done with this one.", wait_s)
            self._inside += 1
            future.add_done_callback(self._left)
            self._jobs.put((future, work))
            if len(self._threads) < min(self._inside, self._n_threads):
                name = f"mihash-{self.name}_{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()
        return future

    async def run(self, work: Callable[[], Result], timeout_s: float) -> Result:
        """Have a job done, and wait for it; one that has not begun in time is not done."""
        future = self.enter(work)
        waiting = asyncio.wrap_future(future)
        waiting.add_done_callback(_looked_at)
        done, _ = await asyncio.wait([waiting], timeout=timeout_s)
        if done:
            return waiting.result()
        if future.cancel():
            raise Problem(
                504, "timeout", f"The {self.name} did not begin within {timeout_s:g} s: nothing was done."
            )
        still = "It is still made." if self._changes else "Its result is lost; ask for less at a time."
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
                    job[0].cancel()
        for _ in self._threads:
            self._jobs.put(None)
        if self._changes:
            for thread in self._threads:
                thread.join()

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            self._do(*job)
            del job  # its result is not kept while the next one is waited for

    def _do(self, future: "Future[Result]", work: Callable[[], Result]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = self._timed(work)
        except BaseException as error:  # as executors do: it is raised where the result is asked for
            future.set_exception(error)
        else:
            future.set_result(result)

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
