"""Load a service on loopback from several clients while rows are added and versions are built.

The service is a process of its own, as `mihash serve` starts it; clients are threads of further processes. Each
client sends a search with one vector, waits for the answer and pauses. A search counts as one during a rehash if
it overlaps with the building of a version, which the service tells by its versions. No answer may be an error, and
the memory of the service may not grow.
"""

import argparse
import multiprocessing
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from multiprocessing.connection import Connection
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from mihash.errors import MIHashError
from mihash.service.client import Client

from .concurrency import filled, learned_from
from .exact import Ledger
from .latency import split
from .report import console, show_load

__all__ = ["add_arguments", "run"]

K, POOL, THREADS = 10, 200, 4
ADDED, LOOK_S = 50, 1.0
MOST_GROWTH = 1.1


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=200_000, help="how many rows there are (200000)")
    parser.add_argument("--seconds", type=float, default=60, help="how long the load lasts (60)")
    parser.add_argument("--clients", type=int, default=16, help="how many clients search (16)")
    parser.add_argument(
        "--pause", type=float, default=0.05, help="seconds between an answer and the next search (0.05)"
    )
    parser.add_argument("--rows", type=float, default=200, help="rows that are added each second (200)")
    parser.add_argument("--every", type=float, default=6, help="seconds between two rehashes (6)")


def run(arguments: argparse.Namespace) -> bool:
    rng = np.random.default_rng(0)
    queries, _ = learned_from(rng, POOL)
    with tempfile.TemporaryDirectory(prefix="mihash-soak-") as folder:
        console.print(f"Filling an index with {arguments.items:,} rows ...")
        filled(folder, rng, arguments.items, Ledger()).close()
        with served(folder) as url, clients(url, queries, arguments) as answers:
            watch = Watch(url)
            watch.start()
            writer = Writer(url, rng, arguments.rows, arguments.every)
            writer.start()
            time.sleep(arguments.seconds)
            writer.stop()
            times, errors = answers()
            watch.stop()
            with Client(url) as client:
                stats = client.stats()
            builds = [_span(each) for each in _published(url)]
    begun = float(times[:, 0].min()) if len(times) else 0.0
    builds = [span for span in builds if span[1] > begun]
    errors += writer.errors
    return _show(arguments, Shown(times, builds, errors, watch.bytes_, stats, writer.n_rows))


class Shown(NamedTuple):
    """What a run has shown."""

    times: NDArray[np.float64]
    builds: list[tuple[float, float]]
    errors: list[str]
    resident: list[int]
    stats: dict[str, Any]
    n_rows: int


@contextmanager
def served(folder: str, *options: str) -> Iterator[str]:
    """Serve an index from a process of its own, and give the address."""
    words = [sys.executable, "-m", "mihash", "serve", folder, "--port", "0", *options]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield next(word for word in line.split() if word.startswith("http"))
        finally:
            process.terminate()
            process.wait(120)
        if process.returncode:
            raise RuntimeError(f"The service has ended with {process.returncode}.")


@contextmanager
def clients(url: str, queries: NDArray[np.float32], arguments: argparse.Namespace) -> Iterator[Any]:
    """Search from several processes; give what ends them and returns the times and errors of their searches."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    with Client(url, retries=60) as client:
        client.search(queries[:1], K)  # until the service is ready
    for first in range(0, arguments.clients, THREADS):
        ours, theirs = context.Pipe()
        n = min(THREADS, arguments.clients - first)
        process = context.Process(target=_ask, args=(url, queries, n, arguments.pause, first, theirs))
        process.start()
        pipes.append(ours)
        processes.append(process)
    for pipe in pipes:
        pipe.recv()

    def answers() -> tuple[NDArray[np.float64], list[str]]:
        for pipe in pipes:
            pipe.send("stop")
        parts = [pipe.recv() for pipe in pipes]
        times = np.concatenate([np.array(part[0]).reshape(-1, 2) for part in parts])
        return times, [error for part in parts for error in part[1]]

    try:
        yield answers
    finally:
        for process in processes:
            process.join(10)
            process.kill()


def _ask(
    url: str, queries: NDArray[np.float32], n: int, pause: float, first: int, pipe: "Connection[Any, Any]"
) -> None:
    """Search from a few threads until told to stop, and send when each search began and ended."""
    times: list[tuple[float, float]] = []
    errors: list[str] = []
    stopped = threading.Event()

    def work(at: int) -> None:
        with Client(url, retries=0) as client:
            while not stopped.wait(pause):
                at = (at + 1) % len(queries)
                begin = time.time()
                try:
                    found = client.search(queries[at : at + 1], K)
                except MIHashError as error:
                    errors.append(str(error))
                    continue
                times.append((begin, time.time()))
                if len(found[0].keys) != K:
                    errors.append(f"{len(found[0].keys)} items in an answer")

    threads = [threading.Thread(target=work, args=(7 * (first + number),)) for number in range(n)]
    for thread in threads:
        thread.start()
    pipe.send("ready")
    pipe.recv()
    stopped.set()
    for thread in threads:
        thread.join()
    pipe.send((times, errors))


class Writer(threading.Thread):
    """Adds rows at a rate, and has the index rehashed now and then."""

    def __init__(self, url: str, rng: np.random.Generator, rate: float, every: float) -> None:
        super().__init__(daemon=True)
        self._client, self._rng = Client(url, retries=0), rng
        self._rate, self._every = rate, every
        self._stopped = threading.Event()
        self.errors: list[str] = []
        self.n_rows = 0

    def run(self) -> None:
        """Add and rehash."""
        due = rehash_due = time.monotonic()
        while not self._stopped.wait(max(0.0, due - time.monotonic())):
            due += ADDED / self._rate
            X, y = learned_from(self._rng, ADDED)
            try:
                self._client.add(X, labels=y.tolist())
                self.n_rows += len(X)
                if time.monotonic() >= rehash_due:
                    rehash_due += self._every
                    self._client.rehash()
            except MIHashError as error:
                self.errors.append(str(error))

    def stop(self) -> None:
        """End, after the request that runs."""
        self._stopped.set()
        self.join()
        self._client.close()


class Watch(threading.Thread):
    """Notes how much memory the service has, once a second."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self._url, self._stopped = url, threading.Event()
        self.bytes_: list[int] = []

    def run(self) -> None:
        """Look."""
        while not self._stopped.wait(LOOK_S):
            with urllib.request.urlopen(f"{self._url}/metrics") as response:
                lines = response.read().decode().splitlines()
            named = next(line for line in lines if line.startswith("process_resident_memory_bytes "))
            self.bytes_.append(int(float(named.split()[1])))

    def stop(self) -> None:
        """End."""
        self._stopped.set()
        self.join()


def _published(url: str) -> list[dict[str, Any]]:
    with Client(url) as client:
        return client._call("GET", "/v1/versions", read=lambda answer: list(answer["versions"]))


def _span(version: dict[str, Any]) -> tuple[float, float]:
    """Return when a version was built."""
    end = datetime.fromisoformat(version["at"]).timestamp()
    return end - version["seconds"], end


def _show(arguments: argparse.Namespace, shown: Shown) -> bool:
    idle, during = split(shown.times, shown.builds, [])
    title = (
        f"{arguments.clients} clients for {arguments.seconds:.0f} s, {arguments.items:,} x 64 bits, rows coming in"
    )
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("", "searches", "p50 ms", "p99 ms", "most ms"):
        table.add_column(name, justify="left" if not name else "right")
    for name, seconds in (
        ("no rehash", idle),
        ("during a rehash", during),
        ("all", np.concatenate([idle, during])),
    ):
        if len(seconds):
            p50, p99 = (float(np.percentile(seconds, at)) * 1e3 for at in (50, 99))
            table.add_row(name, f"{len(seconds):,}", f"{p50:.2f}", f"{p99:.2f}", f"{seconds.max() * 1e3:.1f}")
    console.print(table)
    n_rehashes = len(shown.builds)
    length = float(np.mean([end - begin for begin, end in shown.builds])) if shown.builds else 0.0
    rate = len(shown.times) / arguments.seconds
    console.print(
        f"{rate:,.0f} searches a second; {shown.n_rows:,} rows added, {shown.stats['items']:,} items; "
        f"{n_rehashes} rehashes of {length:.2f} s."
    )
    resident = np.array(shown.resident[len(shown.resident) // 6 :]) / 1e6  # after it has warmed up
    thirds = [float(np.median(part)) for part in np.array_split(resident, 3) if len(part)]
    told = ", ".join(f"{each:.0f}" for each in thirds)
    is_flat = bool(thirds) and thirds[-1] <= MOST_GROWTH * thirds[0]
    console.print(
        f"Resident MB, the median of each third: {told} ({'flat' if is_flat else '[red]it grows[/red]'})."
    )
    console.print(f"Errors: {len(shown.errors)}")
    for error in shown.errors[:5]:
        console.print(f"  {error}", markup=False)
    show_load()
    return not shown.errors and n_rehashes >= 3 and is_flat
