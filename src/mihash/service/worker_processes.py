"""Several processes that serve an index for reading: one supervises, workers answer.

The supervisor binds the port and starts the workers, which accept connections from the same listening socket. So a
waiting connection is not lost when a worker ends. Each worker opens the index for reading, and follows the process
that writes to it; it accepts connections once that is done.
"""

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.context import SpawnProcess
from socket import socket
from typing import Any

from .. import validation
from ..errors import MIHashError, StoreError
from ..index.online_index import OnlineIndex
from .index_service import Service
from .limits import Limits
from .server import SIGNALS, Server, bind

_BACKLOG = 2048
_FIRST_DELAY_S, _LONGEST_DELAY_S = 0.1, 30.0  # before a worker that has failed is started again
_READY, _FAILED = b"ready ", b"failed "


class Worker:
    """A process that serves the index, and what the supervisor knows of it.

    Parameters
    ----------
    number
        Its number, from 0; it stays the same when the process is replaced.
    start
        Starts the process, and returns it with a connection to it.
    """

    def __init__(self, number: int, start: Callable[[int], "tuple[SpawnProcess, Connection]"]) -> None:
        self.number, self._start = number, start
        self.is_ready, self.error, self._n_failures = False, "", 0
        self.process, self.connection = start(number)
        self.begin_at: float | None = None  # when to start again, on the monotonic clock

    def receive(self) -> bytes:
        """Return what the process has sent, empty if it has ended."""
        try:
            message = self.connection.recv_bytes()
        except (EOFError, OSError):
            return b""
        self.is_ready = self.is_ready or message.startswith(_READY)
        if message.startswith(_FAILED):
            self.error = message[len(_FAILED) :].decode()
        return message

    def note_end(self, now: float) -> str:
        """Note that the process has ended, and return how. It restarts at once, or after a delay if it fails."""
        self.process.join()
        self.connection.close()
        self._n_failures = 0 if self.is_ready else self._n_failures + 1
        delay = min(_LONGEST_DELAY_S, _FIRST_DELAY_S * 2**self._n_failures) if self._n_failures else 0.0
        self.begin_at = now + delay
        code = self.process.exitcode or 0
        how = f"was ended by signal {-code}" if code < 0 else f"ended with status {code}"
        return f"Worker {self.number} (process {self.process.pid}) {how}{f': {self.error}' if self.error else ''}"

    def begin(self) -> None:
        """Start another process in the place of one that has ended."""
        self.is_ready, self.error, self.begin_at = False, "", None
        self.process, self.connection = self._start(self.number)


def serve_readers(
    opening: Callable[[], OnlineIndex],
    n_workers: int,
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    cors_origins: Sequence[str] = (),
    announce: Callable[[str], None] = lambda _: None,
    report: Callable[[str], None] = lambda _: None,
) -> None:
    """Serve an index for reading from several processes, until SIGINT or SIGTERM.

    Parameters
    ----------
    opening
        Opens the index for reading; it is called in each process, so it must be a function that can be imported.
    n_workers
        How many processes answer.
    host, port, limits, token, cors_origins, announce
        As for `serve`.
    report
        Called with a sentence when a worker has ended and is started again.
    """
    validation.integer("n_workers", n_workers, minimum=1, maximum=1000)
    options: dict[str, Any] = {"limits": limits or Limits(), "token": token, "cors_origins": tuple(cors_origins)}
    Service(opening, **options)  # refuses bad options before anything listens
    bound = bind(host, port, token)
    context = multiprocessing.get_context("spawn")

    def start(number: int) -> "tuple[SpawnProcess, Connection]":
        ours, theirs = context.Pipe()
        process = context.Process(
            target=_work, args=(number, opening, options, bound, theirs), name=f"mihash-worker-{number}"
        )
        process.start()
        theirs.close()
        return process, ours

    grace_s = options["limits"].body_s + options["limits"].timeout_s + 5
    with bound, _signals() as signalled:
        bound.listen(_BACKLOG)
        workers: list[Worker] = []
        try:
            workers += [Worker(number, start) for number in range(n_workers)]
            _supervise(workers, signalled, announce, report)
        finally:
            _stop(workers, grace_s, signalled)


def _supervise(
    workers: list[Worker], signalled: int, announce: Callable[[str], None], report: Callable[[str], None]
) -> None:
    """Replace workers that end, until a signal comes; raise if the first ones cannot open the index."""
    announced = False
    while True:
        now = time.monotonic()
        for worker in workers:
            if worker.begin_at is not None and worker.begin_at <= now:
                worker.begin()
        waits = [worker.begin_at - now for worker in workers if worker.begin_at is not None]
        alive = {worker.connection: worker for worker in workers if worker.begin_at is None}
        for event in wait([signalled, *alive], min(waits, default=None)):
            if event == signalled:
                return
            assert isinstance(event, Connection)
            worker, message = alive[event], alive[event].receive()
            if message.startswith(_READY) and not announced:
                announced = True
                announce(message[len(_READY) :].decode())
            elif not message:
                ended = worker.note_end(time.monotonic())
                if worker.error and not announced:
                    raise StoreError(worker.error)
                report(f"{ended}. It is started again.")


def _stop(workers: list[Worker], grace_s: float, signalled: int) -> None:
    """Let all workers answer what they have accepted and end; kill those that do not, or all at another signal."""
    for worker in workers:
        if worker.begin_at is None:
            worker.process.terminate()
    until = time.monotonic() + grace_s
    with suppress(BlockingIOError):
        os.read(signalled, 64)
    left = [worker.process for worker in workers if worker.begin_at is None]
    while left and time.monotonic() < until:
        sentinels = [process.sentinel for process in left]
        if signalled in wait([signalled, *sentinels], max(0.0, until - time.monotonic())):
            break
        left = [process for process in left if process.is_alive()]
    for process in left:
        process.kill()
    for worker in workers:
        worker.process.join()
        worker.connection.close()


@contextmanager
def _signals() -> Iterator[int]:
    """Give a file descriptor that can be read once a signal to stop has come."""
    reading, writing = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)

    def note(*_: Any) -> None:
        with suppress(BlockingIOError):
            os.write(writing, b"x")

    with ExitStack() as stack:
        stack.callback(os.close, reading)
        stack.callback(os.close, writing)
        for each in SIGNALS:
            stack.callback(signal.signal, each, signal.signal(each, note))
        yield reading


def _work(
    number: int, opening: Callable[[], OnlineIndex], options: dict[str, Any], bound: socket, supervisor: Connection
) -> None:
    """Serve the index from this process, until a signal comes or the supervisor is gone."""
    service = Service(opening, **options, worker=number)
    server = Server(service, bound, lambda url: supervisor.send_bytes(_READY + url.encode()))
    threading.Thread(target=_stop_without, args=(supervisor, server.stop), daemon=True).start()
    try:
        server.run_until_stopped()
    except (MIHashError, OSError) as error:
        with suppress(OSError):
            supervisor.send_bytes(_FAILED + " ".join(str(error).split()).encode())
        raise SystemExit(1) from None


def _stop_without(supervisor: Connection, stop: Callable[[], None]) -> None:
    """Wait until the supervisor has ended, then stop."""
    with suppress(EOFError, OSError):
        supervisor.recv_bytes()
    stop()
