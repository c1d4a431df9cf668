"""Worker threads with a bounded queue: every request that needs the index runs in one."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ..store.sqlite.deadline import deadline
from .problems import Problem, busy

Result = TypeVar("Result")

_SMOOTHING = 0.2  # weight of the last job in the running mean of job times

_log = logging.getLogger("mihash.service")


class _Job:
    """A function to call; it is released as soon as the job is done or cancelled, with all that it refers to."""

    def __init__(self, function: Callable[[], Any], stop_at: float | None) -> None:
        self.future: Future[Any] = Future()
        self.function: Callable[[], Any] | None = function
        self.stop_at = stop_at
        self.future.add_done_callback(self._release)

    def _release(self, _: "Future[Any]") -> None:
        self.function = None


class WorkerPool:
    """A few threads and a queue of limited length.

    Parameters
    ----------
    name
        What a job is called in messages and metrics, such as ``"write"``.
    n_threads
        How many jobs run at a time.
    n_waiting
        How many jobs may wait; one more is refused as busy.
    writes
        Whether jobs change the index. `close` waits for them; other jobs are stopped at their deadline, and
        abandoned by `close`.
    idle_work
        Called after each job and while there is none; returns whether to call it again at once.

    Examples
    --------
    >>> pool = WorkerPool("read", n_threads=1, n_waiting=1)
    >>> pool.submit(lambda: 2 + 3).result()
    5
    >>> pool.close()
    """

    def __init__(
        self,
        name: str,
        n_threads: int,
        n_waiting: int,
        writes: bool = False,
        idle_work: Callable[[], bool] = lambda: False,
    ) -> None:
        self.name, self._n_threads, self._capacity = name, n_threads, n_threads + n_waiting
        self._writes, self._idle_work, self.closed = writes, idle_work, False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []  # no executor: Python waits for its threads at exit
        self._lock = threading.Lock()
        self.n_jobs = 0
        """How many jobs run or wait."""
        self._mean_s = 0.0

    def submit(self, function: Callable[[], Result], timeout_s: float | None = None) -> "Future[Result]":
        """Queue a job; raise `busy` where the queue is full."""
        job = _Job(function, None if self._writes or timeout_s is None else time.monotonic() + timeout_s)
        with self._lock:
            if self.closed:
                raise busy("The service is closing.")
            if self.n_jobs >= self._capacity:
                wait_s = self._mean_s * self.n_jobs / self._n_threads
                raise busy(f"The queue of {self.name}s is full; nothing was done with this request.", wait_s)
            self.n_jobs += 1
            job.future.add_done_callback(self._count_down)
            self._jobs.put(job)
            if len(self._threads) < min(self.n_jobs, self._n_threads):
                name = f"mihash-{self.name}-{len(self._threads)}"
                self._threads.append(threading.Thread(target=self._work, name=name, daemon=True))
                self._threads[-1].start()
        return job.future

    async def run(self, function: Callable[[], Result], timeout_s: float) -> Result:
        """Run a job and wait for it; one that has not begun in time is cancelled."""
        future = self.submit(function, timeout_s)
        if await _is_done(future, timeout_s):
            if future.cancelled():
                raise busy("The service is closing.")
            return future.result()
        if future.cancel():
            message = f"The request waited more than {timeout_s:g} s: nothing was done."
        elif self._writes:
            message = f"The request took more than {timeout_s:g} s. Its change is still made."
        else:
            message = f"The request took more than {timeout_s:g} s. Its result is lost; ask for less at a time."
        raise Problem(504, "timeout", message)

    def close(self) -> None:
        """Accept no more jobs; finish writes, abandon everything else."""
        with self._lock:
            self.closed = True
        while not self._writes:
            try:
                job = self._jobs.get_nowait()
            except queue.Empty:
                break
            if job is not None:
                job.future.cancel()
        for _ in self._threads:
            self._jobs.put(None)
        if self._writes:
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
                self._run(job)
                del job  # or its result would be kept until the next one comes
            more = not self.closed and self._work_while_idle()

    def _run(self, job: _Job) -> None:
        function = job.function
        if function is None or not job.future.set_running_or_notify_cancel():
            return
        begin = time.perf_counter()
        try:
            with deadline(job.stop_at):
                result = function()
        except BaseException as error:  # raised where the result is read, as executors do
            job.future.set_exception(error)
        else:
            job.future.set_result(result)
        seconds = time.perf_counter() - begin
        self._mean_s += (seconds - self._mean_s) * (_SMOOTHING if self._mean_s else 1.0)

    def _work_while_idle(self) -> bool:
        try:
            return self._idle_work()
        except Exception:
            _log.exception("the work between two jobs failed")
            return False

    def _count_down(self, _: "Future[Any]") -> None:
        with self._lock:
            self.n_jobs -= 1


async def _is_done(future: "Future[Any]", timeout_s: float) -> bool:
    """Wait for the result of another thread; return whether it came in time.

    `asyncio.wait` of `asyncio.wrap_future` does the same with three more futures, in twice the time.
    """
    loop = asyncio.get_running_loop()
    over: asyncio.Future[bool] = loop.create_future()

    def end(_: Any = None) -> None:
        if not over.done():
            over.set_result(future.done())

    def wake(_: "Future[Any]") -> None:
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(end)

    future.add_done_callback(wake)
    timer = loop.call_later(timeout_s, end)
    try:
        return await over
    finally:
        timer.cancel()
