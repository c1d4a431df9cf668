"""Worker threads with a bounded queue: every request that needs the index runs in one."""

import asyncio
import logging
import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from ..stopwatch import Stopwatch
from ..store.sqlite.deadline import deadline
from .problems import Problem, busy

Result = TypeVar("Result")

_SMOOTHING = 0.2  # weight of the last job in the running mean of job times

_log = logging.getLogger("mihash.service")


class _Job:
    """A function to call; it is released as soon as the job is done or cancelled, with all that it refers to.

    Parameters
    ----------
    function
        What to call.
    stop_at
        When its reads are stopped, by `time.monotonic`; None for never.
    on_done
        Called with the job in the thread that has ended it.
    """

    __slots__ = ("error", "function", "has_begun", "is_cancelled", "on_done", "result", "stop_at")

    def __init__(
        self, function: Callable[[], Any], stop_at: float | None, on_done: "Callable[[_Job], None]"
    ) -> None:
        self.function: Callable[[], Any] | None = function
        self.stop_at, self.on_done = stop_at, on_done
        self.has_begun = self.is_cancelled = False
        self.result: Any = None
        self.error: BaseException | None = None


class _PoolThread(threading.Thread):
    """A thread of a pool; an idle one waits for a job, or None to end, in a queue of its own."""

    def __init__(self, work: "Callable[[_PoolThread], None]", name: str) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()

    def run(self) -> None:
        """Work until the pool is closed."""
        self._work(self)


class ThreadPool:
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
    >>> pool = ThreadPool("read", n_threads=1, n_waiting=1)
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
        self._waiting: deque[_Job] = deque()
        self._threads: list[_PoolThread] = []  # no executor: Python waits for its threads at exit
        self._idle: list[_PoolThread] = []  # the last one works next: what it needs is still in the cache
        self._lock = threading.Lock()
        self.n_jobs = 0
        """How many jobs run or wait."""
        self._mean_s = 0.0

    def submit(self, function: Callable[[], Result], timeout_s: float | None = None) -> "Future[Result]":
        """Queue a job; raise `busy` where the queue is full."""
        future: Future[Result] = Future()

        def on_done(job: _Job) -> None:
            if job.is_cancelled:
                future.cancel()
            elif job.error is not None:
                future.set_exception(job.error)
            else:
                future.set_result(job.result)

        self._queue(function, timeout_s, on_done)
        return future

    async def run(self, function: Callable[[], Result], timeout_s: float) -> Result:
        """Run a job and wait for it; one that has not begun in time is cancelled."""
        loop = asyncio.get_running_loop()
        over: asyncio.Future[None] = loop.create_future()

        def end() -> None:
            if not over.done():
                over.set_result(None)

        def on_done(_: _Job) -> None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(end)

        job, timer = self._queue(function, timeout_s, on_done), loop.call_later(timeout_s, end)
        try:
            await over
        finally:
            timer.cancel()
        if job.function is None and not job.is_cancelled:
            if job.error is not None:
                raise job.error
            result: Result = job.result
            return result
        if job.is_cancelled:
            raise busy("The service is closing.")
        if self._cancel(job):
            message = f"The request waited more than {timeout_s:g} s and was not processed."
        elif self._writes:
            message = f"The request took more than {timeout_s:g} s. The change will still be made."
        else:
            message = (
                f"The request took more than {timeout_s:g} s. The result was discarded; request less at a time."
            )
        raise Problem(504, "timeout", message)

    def close(self) -> None:
        """Accept no more jobs; finish writes, abandon everything else."""
        with self._lock:
            self.closed = True
            abandoned = [] if self._writes else list(self._waiting)
        for job in abandoned:
            self._cancel(job)
        with self._lock:
            for thread in self._idle:
                thread.jobs.put(None)
            self._idle.clear()
        if self._writes:
            for thread in self._threads:
                thread.join()

    def _queue(
        self, function: Callable[[], Any], timeout_s: float | None, on_done: Callable[[_Job], None]
    ) -> _Job:
        """Give a job to an idle thread, or to a new one, or let it wait; raise `busy` where too many do."""
        job = _Job(function, None if self._writes or timeout_s is None else time.monotonic() + timeout_s, on_done)
        with self._lock:
            if self.closed:
                raise busy("The service is closing.")
            if self.n_jobs >= self._capacity:
                wait_s = self._mean_s * self.n_jobs / self._n_threads
                raise busy(f"The queue of {self.name}s is full; this request was not processed.", wait_s)
            self.n_jobs += 1
            if self._idle:
                self._idle.pop().jobs.put(job)
                return job
            self._waiting.append(job)
            if len(self._threads) < self._n_threads:
                self._threads.append(_PoolThread(self._work, f"mihash-{self.name}-{len(self._threads)}"))
                self._threads[-1].start()
        return job

    def _cancel(self, job: _Job) -> bool:
        """Cancel a job that has not begun; return whether it had not."""
        with self._lock:
            if job.has_begun or job.function is None:
                return False
            job.is_cancelled, job.function = True, None
            self.n_jobs -= 1
            with suppress(ValueError):  # a worker has taken it from there
                self._waiting.remove(job)
        job.on_done(job)
        return True

    def _work(self, worker: _PoolThread) -> None:
        more = False
        while True:
            job = self._next(worker, more)
            if job is not None:
                self._run(job)
                del job  # or its result would be kept until the next one comes
            elif not more:
                return
            more = not self.closed and self._work_while_idle()

    def _next(self, worker: _PoolThread, more: bool) -> _Job | None:
        """Return a job, or None: at once if there is ``more`` work to do while idle, else when the pool closes."""
        with self._lock:
            if self._waiting:
                return self._waiting.popleft()
            if self.closed or more:
                return None
            self._idle.append(worker)
        return worker.jobs.get()

    def _run(self, job: _Job) -> None:
        with self._lock:
            function = job.function
            job.has_begun = True
        if function is None:  # cancelled
            return
        watch = Stopwatch()
        try:
            with deadline(job.stop_at):
                job.result = function()
        except BaseException as error:  # raised where the result is read, as executors do
            job.error = error
        seconds = watch.seconds
        self._mean_s += (seconds - self._mean_s) * (_SMOOTHING if self._mean_s else 1.0)
        with self._lock:
            self.n_jobs -= 1
        job.function = function = None
        job.on_done(job)

    def _work_while_idle(self) -> bool:
        try:
            return self._idle_work()
        except Exception:
            _log.exception("background learning failed")
            return False
