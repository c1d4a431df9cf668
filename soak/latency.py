"""Time one paced client of an index, while nothing happens and while a new version is built.

The client sends a query at a time, at so slow a rate that it alone is busy for no more than a share of the time.
Idle and rehashing stretches take turns, so that both meet the same machine; a query counts as one during a rehash
if it overlaps with the building of a version. Learning and adding, which lie between, are left out.
"""

import argparse
import tempfile
import threading
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

import mihash

from .concurrency import filled, learned_from
from .exact import Ledger
from .report import console, show_load

__all__ = ["add_arguments", "run"]

K, POOL = 10, 200
MOST_P50, MOST_P99, ENOUGH_MS = 1.3, 3.0, 10.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--items", type=int, default=200_000, help="how many rows there are (200000)")
    parser.add_argument("--samples", type=int, default=3000, help="at least so many queries of each kind (3000)")
    parser.add_argument(
        "--load", type=float, default=0.3, help="the share of the time that the client is busy (0.3)"
    )
    parser.add_argument("--rescore", type=int, default=0, help="how many candidates are rescored (0)")
    parser.add_argument("--minutes", type=float, default=10, help="stop after so long (10)")


def run(arguments: argparse.Namespace) -> bool:
    rng = np.random.default_rng(0)
    queries, _ = learned_from(rng, POOL)
    with (
        tempfile.TemporaryDirectory(prefix="mihash-soak-") as folder,
        filled(folder, rng, arguments.items, Ledger()) as index,
    ):
        alone = _alone(index, queries, arguments.rescore)
        client = Client(index, queries, alone / arguments.load, arguments.rescore)
        stretches = Stretches(index)
        client.start()
        until = time.perf_counter() + 60 * arguments.minutes
        builds, others = stretches.builds, stretches.others
        while time.perf_counter() < until:
            stretches.make_one(rng)
            idle, during = split(client.times(), builds, others)
            if min(len(idle), len(during)) >= arguments.samples:
                break
        client.stop()
    _show(arguments, alone, idle, during, builds)
    return True


def _alone(index: mihash.OnlineIndex, queries: NDArray[np.float32], rescore: int) -> float:
    """Return the mean seconds of a search when one follows the other."""
    for at in range(20):
        index.search(queries[at : at + 1], K, rescore=rescore)
    began = time.perf_counter()
    for at in range(POOL):
        index.search(queries[at : at + 1], K, rescore=rescore)
    return (time.perf_counter() - began) / POOL


class Client(threading.Thread):
    """Sends a query at every tick; one that is late sends the next at the next tick.

    Parameters
    ----------
    index, queries
        Whom to ask, and what.
    period
        The seconds between two ticks.
    rescore
        How many candidates are rescored.
    """

    def __init__(
        self, index: mihash.OnlineIndex, queries: NDArray[np.float32], period: float, rescore: int
    ) -> None:
        super().__init__(daemon=True)
        self._index, self._queries, self.period, self._rescore = index, queries, period, rescore
        self._times: list[tuple[float, float]] = []
        self._stopped = False

    def run(self) -> None:
        """Ask until `stop`."""
        due, at = time.perf_counter(), 0
        while not self._stopped:
            due = max(due + self.period, time.perf_counter())
            time.sleep(max(0.0, due - time.perf_counter()))
            began = time.perf_counter()
            self._index.search(self._queries[at : at + 1], K, rescore=self._rescore)
            self._times.append((began, time.perf_counter()))
            at = (at + 1) % len(self._queries)

    def stop(self) -> None:
        """End, after the query that runs."""
        self._stopped = True
        self.join()

    def times(self) -> NDArray[np.float64]:
        """Return when each query began and ended (n, 2)."""
        return np.array(self._times).reshape(-1, 2)


class Stretches:
    """Makes idle and rehashing stretches by turns, and writes down when each was.

    Parameters
    ----------
    index
        What is rehashed.
    """

    def __init__(self, index: mihash.OnlineIndex) -> None:
        self._index = index
        self.builds: list[tuple[float, float]] = []
        self.others: list[tuple[float, float]] = []
        build = index._table.build

        def noted(*arguments: Any) -> bool:
            began = time.perf_counter()
            try:
                return build(*arguments)
            finally:
                self.builds.append((began, time.perf_counter()))

        index._table.build = noted  # type: ignore[method-assign, assignment]

    def make_one(self, rng: np.random.Generator) -> None:
        """Learn a little, rehash, then rest for as long as that took."""
        began = time.perf_counter()
        self._index.add(*learned_from(rng, 100))
        self.others.append((began, time.perf_counter()))
        self._index.rehash()
        self._index.wait()
        self.others.append((self.builds[-1][1], time.perf_counter()))
        time.sleep(max(0.0, 1.2 * (self.builds[-1][1] - self.builds[-1][0])))  # clocks may differ


def split(
    times: NDArray[np.float64], builds: list[tuple[float, float]], others: list[tuple[float, float]]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the seconds of queries amid nothing, and of those that overlap with a build.

    >>> times = np.array([[0.0, 1.0], [2.0, 4.0], [5.0, 8.0]])
    >>> [part.tolist() for part in split(times, [(3.0, 4.5)], [(7.0, 9.0)])]
    [[1.0], [2.0]]
    """

    def overlapping(stretches: list[tuple[float, float]]) -> NDArray[np.bool_]:
        hit = np.zeros(len(times), dtype=np.bool_)
        for begin, end in stretches:
            hit |= (times[:, 0] < end) & (times[:, 1] > begin)
        return hit

    building, busy = overlapping(builds), overlapping(others)
    seconds = times[:, 1] - times[:, 0]
    return seconds[~building & ~busy], seconds[building & ~busy]


def _show(
    arguments: argparse.Namespace,
    alone: float,
    idle: NDArray[np.float64],
    during: NDArray[np.float64],
    builds: list[tuple[float, float]],
) -> None:
    title = f"One client at {arguments.load:.0%} load, {arguments.items:,} x 64 bits"
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in ("", "queries", "p50 ms", "p99 ms", "most ms"):
        table.add_column(name, justify="left" if not name else "right")
    figures = {}
    for name, seconds in (("idle", idle), ("during a rehash", during)):
        p50, p99 = (float(np.percentile(seconds, at)) * 1e3 for at in (50, 99))
        figures[name] = p50, p99
        table.add_row(name, f"{len(seconds):,}", f"{p50:.3f}", f"{p99:.3f}", f"{seconds.max() * 1e3:.1f}")
    (idle_p50, idle_p99), (p50, p99) = figures.values()
    table.add_section()
    table.add_row("ratio", "", f"{p50 / idle_p50:.2f}x", f"{p99 / idle_p99:.2f}x", "")
    console.print(table)
    bound = max(MOST_P99 * idle_p99, ENOUGH_MS)
    verdicts = ("[red]not held[/red]", "[green]held[/green]")
    console.print(f"p50 at most {MOST_P50}x idle: {verdicts[p50 <= MOST_P50 * idle_p50]}")
    console.print(f"p99 at most {bound:.1f} ms: {verdicts[p99 <= bound]}")
    length = float(np.mean([end - begin for begin, end in builds]))
    console.print(
        f"{len(builds)} rehashes of {length:.2f} s; one search after the other: {alone * 1e3:.3f} ms each."
    )
    show_load()
