"""Kill the processes of shards while an index on Ray is filled, rehashed and searched, and check every answer.

A small cluster is started on this machine, with an index in shards on its nodes. One thread adds, updates and
deletes rows and has the index rehashed; others search; one kills a shard's process with SIGKILL at moments drawn
from the seed, in turn amid a change, amid a rehash and amid searches, and measures how long it takes until the
shard is back with everything that it has to have. Afterwards each answer is compared with the exact one of its
version at every state between its question and its answer: one that fits none would mix versions or lack rows.
At the end every acknowledged row must be there, and everything that was deleted must not.

Then two coordinators of one index meet (`coordinators`): the second has a copy of the first one's folder.
"""

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import mihash
from mihash.errors import PartialFailure

from .concurrency import POOL, Searcher, Shared, Writer, check, filled, learned_from
from .coordinators import soak_coordinators
from .exact import Ledger
from .nodes import joined, local_nodes
from .report import Failure, console, show_load

__all__ = ["add_arguments", "run"]

AIMS = ("change", "rehash", "search")
STUCK_S = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=30, help="how many kills (30)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--items", type=int, default=20_000, help="how many rows there are at first (20000)")
    parser.add_argument("--shards", type=int, default=2, help="how many shards (2)")
    parser.add_argument("--threads", type=int, default=2, help="how many threads search (2)")
    parser.add_argument("--rivals", type=int, default=12, help="how often two coordinators meet (12)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument("--address", help="a cluster that runs already; one is started by default")
    parser.add_argument("--nodes", nargs="+", help="with --address, resources of the nodes that get shards")


def run(arguments: argparse.Namespace) -> bool:
    began = time.perf_counter()
    with ExitStack() as stack:
        if arguments.address is None:
            address, nodes = stack.enter_context(local_nodes(2))
        else:
            address, nodes = arguments.address, arguments.nodes
        stack.enter_context(joined(address))
        base = stack.enter_context(tempfile.TemporaryDirectory(prefix="mihash-cluster-", dir=arguments.folder))
        tally = _soak(Path(base), nodes, arguments)
        tally.show(time.perf_counter() - began)
        rivalry = soak_coordinators(Path(base), address, nodes, arguments.rivals, arguments.seed)
        rivalry.show()
    return not tally.wrong and not rivalry.lost


@dataclass
class Kill:
    """One kill: what it was aimed at, what it met, and how long the shard took to be back."""

    aim: str
    shard: int
    met: tuple[str, ...]
    back_s: float = float("nan")


@dataclass
class Tally:
    """What was done and found."""

    kills: list[Kill] = field(default_factory=list)
    n_queries: int = 0
    refused: int = 0
    changes: int = 0
    rehashes: int = 0
    items: int = 0
    slowest_s: float = 0.0
    wrong: int = 0

    def show(self, seconds: float) -> None:
        """Print it."""
        table = Table(title="Kills of a shard's process", title_justify="left", title_style="bold")
        for name in ("aimed at", "kills", "amid a change", "amid a rehash", "back after, median s", "longest s"):
            table.add_column(name, justify="left" if name == "aimed at" else "right")
        for aim in (*AIMS, "all"):
            chosen = [kill for kill in self.kills if aim in (kill.aim, "all")]
            if chosen:
                back = [kill.back_s for kill in chosen]
                met = (sum(what in kill.met for kill in chosen) for what in ("change", "rehash"))
                times = (f"{statistics.median(back):.2f}", f"{max(back):.2f}")
                table.add_row(aim, str(len(chosen)), *map(str, met), *times)
        console.print(table)
        console.print(
            f"{len(self.kills)} kills; {self.n_queries:,} queries answered, the slowest in "
            f"{self.slowest_s:.2f} s, {self.refused} refused; {self.changes:,} changes, {self.rehashes} rehashes; "
            f"{self.items:,} items, all there; {seconds:.0f} s in all."
        )
        show_load()
        console.print(f"Answers that mix versions or lack rows: {self.wrong}")


def _soak(base: Path, nodes: list[str], arguments: argparse.Namespace) -> Tally:
    ledger, tally = Ledger(), Tally()
    rng = np.random.default_rng([arguments.seed, 7])
    queries, _ = learned_from(rng, POOL)
    places = {name: str(base / name) for name in nodes}
    cluster = mihash.Cluster(arguments.shards, places, timeout_s=STUCK_S)
    with filled(str(base / "index"), rng, arguments.items, ledger, named=True, cluster=cluster) as index:
        shared = Shared(index, queries, "busy")
        shared.note_mappings()
        searchers = [_Patient(shared, [arguments.seed, number]) for number in range(arguments.threads)]
        writer = _Watched(shared, ledger, rng)
        killer = _Killer(shared, writer, arguments.kills, arguments.seed)
        for thread in (*searchers, killer):
            thread.start()
        try:
            while killer.is_alive() and not any(thread.error for thread in searchers):
                writer.turn()
        finally:
            shared.stop.set()
            for thread in (*searchers, killer):
                thread.join()
        errors = [thread.error for thread in (*searchers, killer) if thread.error]
        tally.kills, tally.rehashes, tally.changes = killer.kills, writer.n_rehashes, shared.ended
        tally.refused = sum(thread.refused for thread in searchers)
        tally.slowest_s = max(thread.slowest_s for thread in searchers)
        tally.items = _check_rows(index, ledger)
        answers = [answer for thread in searchers for answer in thread.answers]
        versions = sorted({answer.version for answer in answers})
        mappings = {version: shared.mappings[version] for version in versions}
    tally.n_queries = sum(len(answer.queries) for answer in answers)
    tally.wrong = check(answers, ledger, mappings, queries)[0] + len(errors)
    for error in errors:
        console.print(error, markup=False)
    return tally


def _check_rows(index: Any, ledger: Ledger) -> int:
    """Compare what is stored with what was acknowledged; return how many items there are."""
    alive = list(ledger.alive)
    dead = sorted({key for key in ledger.keys if key not in ledger.alive})  # type: ignore[type-var]
    if not index.contains(alive).all() or index.contains(dead).any() or len(index) != len(alive):
        raise Failure(f"{len(index)} items are there where {len(alive)} were acknowledged, or they are others.")
    checked = index.verify()
    if checked["items"] != len(alive):
        raise Failure(f"The shards hold {checked['items']} items where {len(alive)} were acknowledged.")
    last = {key: row for row, key in enumerate(ledger.keys)}
    vectors = np.concatenate(ledger.vectors)
    for key in alive[:: max(1, len(alive) // 200)]:
        if not np.array_equal(index.get(key).vector, vectors[last[key]]):
            raise Failure(f"The vector of {key!r} is not the one that was acknowledged.")
    return len(alive)


class _Watched(Writer):
    """A writer that says what goes on."""

    def turn(self) -> None:
        """Make a few changes, and rest a little."""
        super().turn()
        time.sleep(0.02)  # so that there are not many more versions than kills

    @property
    def doing(self) -> tuple[str, ...]:
        """What goes on now."""
        shared = self._shared
        change = shared.begun > shared.ended
        return ("change",) * change + ("rehash",) * bool(shared.index._builder.busy) + ("search",)


class _Patient(Searcher):
    """A searcher for which a clear refusal is an answer, and which notes the slowest."""

    refused = 0
    slowest_s = 0.0

    def _search(self) -> None:
        begin = time.perf_counter()
        try:
            super()._search()
        except PartialFailure:
            self.refused += 1
        self.slowest_s = max(self.slowest_s, time.perf_counter() - begin)
        time.sleep(0.005)


class _Killer(threading.Thread):
    """Kills shards at moments that are drawn from the seed, one at a time."""

    def __init__(self, shared: Shared, writer: _Watched, n_kills: int, seed: int) -> None:
        super().__init__(daemon=True)
        self._shared, self._writer, self._n_kills = shared, writer, n_kills
        self._rng = np.random.default_rng([seed, 11])
        self.kills: list[Kill] = []
        self.error: str | None = None

    def run(self) -> None:
        """Kill."""
        try:
            while not self._shared.stop.is_set():
                self._kill(AIMS[len(self.kills) % len(AIMS)])
                if len(self.kills) == self._n_kills:
                    break
                time.sleep(float(self._rng.uniform(0.2, 1.2)))
        except Exception as error:
            self.error = repr(error)

    def _kill(self, aim: str) -> None:
        table: Any = self._shared.index._table
        member = table.members.all[int(self._rng.integers(len(table.members)))]
        delay = float(self._rng.uniform(0, 0.03))
        pid = member.about["pid"]
        until = time.perf_counter() + STUCK_S
        while aim not in self._writer.doing and time.perf_counter() < until:
            time.sleep(0.002)
        time.sleep(delay)
        kill = Kill(aim, member.place.number, self._writer.doing)
        target = table._view.lasts[member.place.number]
        begin = time.perf_counter()
        os.kill(pid, signal.SIGKILL)
        while member.about["pid"] == pid or member.applied < target:
            if time.perf_counter() - begin > STUCK_S:
                raise Failure(f"Shard {kill.shard} was not back after {STUCK_S:.0f} s.")
            time.sleep(0.005)
        kill.back_s = time.perf_counter() - begin
        self.kills.append(kill)
