"""Threads that work on the index, with a waiting room in front of them that is never larger than was said."""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
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

    Examples
    --------
    >>> room = Room("search", n_threads=1, n_waiting=1)
    >>> room.enter(lambda: 2 + 3).result()
    5
    >>> room.close()
    """

    def __init__(self, name: str, n_threads: int, n_waiting: int) -> None:
        self.name, self._n_threads, self._most = name, n_threads, n_threads + n_waiting
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix=f"mihash-{name}")
        self._lock = threading.Lock()
        self._inside = 0
        self._mean_s = 0.0

    @property
    def inside(self) -> int:
        """How many jobs run or wait."""
        return self._inside

    def enter(self, work: Callable[[], Result]) -> "Future[Result]":
        """Have a job done in its turn, or raise where too many wait."""
        with self._lock:
            if self._inside >= self._most:
                wait_s = self._mean_s * self._inside / self._n_threads
                raise busy(f"Too many requests wait for a {self.name}; nothing was done with this one.", wait_s)
            self._inside += 1
        try:
            future = self._threads.submit(self._timed, work)
        except RuntimeError as error:  # the threads have ended
            self._left(None)
            raise busy("The service is closing.") from error
        future.add_done_callback(self._left)
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
        raise Problem(504, "timeout", f"The {self.name} took more than {timeout_s:g} s. A change is still made.")

    def close(self) -> None:
        """Finish what has entered, and end the threads."""
        self._threads.shutdown(wait=True)

    def _timed(self, work: Callable[[], Result]) -> Result:
        begin = time.perf_counter()
        try:
            return work()
        finally:
            seconds = time.perf_counter() - begin
            self._mean_s += (seconds - self._mean_s) * (_MEMORY if self._mean_s else 1.0)

    def _left(self, _: "Future[Any] | None") -> None:
        with self._lock:
            self._inside -= 1


def _looked_at(future: "asyncio.Future[Any]") -> None:
    """Say that an error was seen, also where nobody waits for it any more."""
    if not future.cancelled():
        future.exception()
