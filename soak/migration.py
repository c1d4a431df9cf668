"""Kill a process that migrates an index to another embedding model, while others search; lose and mix nothing.

A child process gives items new vectors, of another dimension, while it adds, deletes and replaces items and
changes metadata. Then it cuts over, rolls back, cuts over again, rehashes and finishes. It writes a line to a
journal before and after each step. It is killed with SIGKILL in the middle of a chosen step, or after a chosen
number of new vectors, and the index is opened: it must hold exactly what was acknowledged. A second process, and a
thread in the first one, search all the time: every answer must come from one generation of vectors, and from the
one that was acknowledged last. Recall is measured against the true neighbours by the vectors that answer.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

import mihash

from .acknowledged import Acknowledged, write
from .embeddings import Embeddings
from .migration_child import END, work
from .migration_load import follow, truth_file
from .report import Failure, console, show_load

__all__ = ["add_arguments", "run"]

_SHARES = {"begin": 0.02, "cut over": 0.16, "roll back": 0.1, "rehash": 0.08, "finish": 0.04}  # of the kills
_RUNS, _RUN, _STUCK_S = 8, 250, 1800.0
_PHASES = ("before", "filling", "cut over", "rolled back", "after")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=50, help="how many kills (50)")
    parser.add_argument("--items", type=int, default=2000, help="how many items the index has (2,000)")
    parser.add_argument("--dims", type=int, nargs=2, default=(24, 48), help="the dimensions in turn (24 48)")
    parser.add_argument("--migrations", type=int, default=1, help="how many migrations, one after the other (1)")
    parser.add_argument("--batch", type=int, default=100, help="how many new vectors at a time (100)")
    parser.add_argument("--calm", type=int, default=200, help="answers before the first and after the last (200)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")


def run(arguments: argparse.Namespace) -> bool:
    base = Path(tempfile.mkdtemp(prefix="mihash-migration-", dir=arguments.folder))
    try:
        _Soak(base, arguments).run()
    except Failure as failure:
        console.print(f"[red]{failure}[/] Left in {base}")
        return False
    show_load()
    shutil.rmtree(base)
    return True


def plan(kills: int, migrations: int, n_items: int, rng: np.random.Generator) -> list[tuple[str, int]]:
    """Return what each child is killed in, in order, and after how many new vectors."""
    found: list[tuple[str, int]] = []
    for lap in range(migrations):
        own = kills // migrations + (lap < kills % migrations)
        counts = {what: round(share * own) or int(own >= len(_SHARES)) for what, share in _SHARES.items()}
        staged = np.sort(rng.integers(1, n_items, size=own - sum(counts.values()))).tolist()
        middle = [what for what in ("cut over", "roll back", "rehash") for _ in range(counts[what])]
        found += [("begin", 0)] * counts["begin"] + [("migrate", each) for each in staged]
        found += [(each, 0) for each in rng.permutation(middle).tolist()] + [("finish", 0)] * counts["finish"]
    return found


class _Soak:
    """The parent: it starts children, kills them, and checks what is left."""

    def __init__(self, base: Path, arguments: argparse.Namespace) -> None:
        self.base, self.arguments = base, arguments
        self.embeddings = Embeddings(tuple(arguments.dims), arguments.seed)
        self.known = Acknowledged(base / "journal")
        self.rng = np.random.default_rng(arguments.seed)
        self.context = multiprocessing.get_context("forkserver")
        self.context.set_forkserver_preload(["soak.warm", "soak.migration_child"])
        self.killed, self.opened_s = Counter[str](), list[float]()
        self.compared = self.rehashing = self.n_kills = 0
        self.disk: dict[str, float] = {}

    def run(self) -> None:
        began, arguments = time.perf_counter(), self.arguments
        self._fill()
        for generation in range(arguments.migrations + 1):
            keys, squares = self.embeddings.nearest(arguments.items, generation, 60)
            np.savez(truth_file(self.base, generation), keys=keys, squares=squares)
        settings = (str(self.base), tuple(arguments.dims), arguments.seed, arguments.items)
        reader = self.context.Process(target=follow, args=(*settings, 0.05))
        reader.start()
        try:
            self._wait_for_answers(reader)
            for what, rows in plan(arguments.kills, arguments.migrations, arguments.items, self.rng):
                self._kill(settings, what, rows)
                self._check(every=arguments.items <= 20_000)
            child = self._start(settings, END)
            child.join()
            if child.exitcode:
                raise Failure(f"The last child has ended with {child.exitcode}.")
            self._check(every=True)
            self._wait_for_answers(reader)
        finally:
            (self.base / "stop").touch()
            reader.join()
        self._report(time.perf_counter() - began)

    def _fill(self) -> None:
        """Store the items as the first model sees them."""
        n = self.arguments.items
        with (
            mihash.open(self.base / "index", learner="momenthash") as index,
            (self.base / "journal").open("a") as journal,
        ):
            for first in range(0, n, 2000):
                keys = list(range(first, min(first + 2000, n)))
                index.add(self.embeddings.vectors(keys, 0, 0), keys=keys, metadata=[{"note": 0}] * len(keys))
                write(journal, "add", True, keys=keys)
            index.wait()
        self.known.read()
        self._measure("before")

    def _start(self, settings: tuple[Any, ...], what: str) -> BaseProcess:
        numbers = (self.arguments.batch, self.arguments.seed + self.n_kills)
        child = self.context.Process(target=work, args=(*settings, what, *numbers))
        child.start()
        return child

    def _kill(self, settings: tuple[Any, ...], what: str, rows: int) -> None:
        """Run a child until it is in a step, and kill it there."""
        before, until, known = self.known.begun[what], time.monotonic() + _STUCK_S, self.known
        child = self._start(settings, what)
        while True:
            known.read()
            staged = len(known.items) - len(known.missing)
            if what == "migrate" and known.state == "filling":
                if staged >= rows or not known.missing:
                    break
            elif known.begun[what] > before:
                break
            if not child.is_alive() or time.monotonic() > until:
                child.kill()
                raise Failure(f"The child for kill {self.n_kills} has not come to {what} {rows:,}.")
            time.sleep(0.002)
        time.sleep(float(self.rng.uniform(0, 1.1 * known.seconds.get(what, 0.1))))
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
        child.join()
        self.n_kills += 1
        known.read()
        self.killed[known.pending["what"] if known.pending else "between steps"] += 1

    def _check(self, every: bool) -> None:
        """Compare the index with what was acknowledged; of a step that was under way, the index says whether."""
        known, began, arguments = self.known, time.perf_counter(), self.arguments
        pending = "nothing" if known.pending is None else known.pending["what"]
        where = f"after kill {self.n_kills}, which has met {pending}"
        with mihash.open(self.base / "index") as index:
            found = index.migration
            self.opened_s.append(time.perf_counter() - began)
            known.settle(known.pending is not None and _was_done(index, known, self.embeddings))
            state = "none" if found is None else found.state
            if state != known.state:
                raise Failure(f"The state is {state}, not {known.state}, {where}.")
            if set(index) != set(known.items):
                raise Failure(f"Other items are stored, {where}.")
            if index.n_features != self.embeddings.dim(known.generation):
                raise Failure(f"The vectors have {index.n_features} features, {where}.")
            keys = np.array(sorted(known.items))
            if not every:  # some runs of keys
                starts = self.rng.integers(len(keys), size=_RUNS)
                keys = np.unique(np.concatenate([keys[start : start + _RUN] for start in starts]))
            for start in range(0, len(keys), 2048):
                part = keys[start : start + 2048].tolist()
                wanted = self.embeddings.vectors(part, [known.items[key] for key in part], known.generation)
                for item, vector in zip(index.get(part), wanted, strict=True):
                    if not np.array_equal(item.vector, vector):
                        raise Failure(f"{item.key} has another vector, {where}.")
                    if item.metadata != {"note": known.notes.get(int(item.key), 0)}:
                        raise Failure(f"{item.key} has other metadata, {where}.")
            self.compared += len(known.items) + 2 * len(keys)
            if found is not None and state == "filling":
                if set(found.missing()) != known.missing:
                    raise Failure(f"Other items have no new vector, {where}.")
                self.compared += len(known.items)
                self.rehashing += found._new.stats().rehashing
            if every:
                index.verify()
        failures = [line["failure"] for line in self._lines() if "failure" in line]
        if failures:
            raise Failure(f"{len(failures)} wrong answers, such as: {failures[0]}")
        self._measure(known.phase)
        if arguments.items > 20_000:
            staged = len(known.items) - len(known.missing)
            console.print(f"[dim]kill {self.n_kills}: {pending}; {known.phase}, {staged:,} staged, opened in "
                          f"{self.opened_s[-1]:.1f} s[/dim]")  # fmt: skip

    def _lines(self) -> list[dict[str, Any]]:
        """Return what both that search have written, with who."""
        found = []
        for file in self.base.glob("answers-*"):
            for line in file.read_text().splitlines():
                try:
                    found.append({"who": file.name.removeprefix("answers-"), **json.loads(line)})
                except ValueError:
                    continue  # cut by a kill
        return found

    def _wait_for_answers(self, reader: BaseProcess) -> None:
        """Wait until the reader has answered some more queries in this calm."""
        phase = self.known.phase
        while sum(line.get("answers", 0) for line in self._lines() if line.get("phase") == phase) < (
            self.arguments.calm
        ):
            if not reader.is_alive():
                raise Failure("The process that reads has ended.")
            time.sleep(0.2)

    def _measure(self, phase: str) -> None:
        files = [file for file in (self.base / "index").rglob("*") if file.is_file()]
        size = sum(file.stat().st_size for file in files) / 1e6
        self.disk[phase] = max(self.disk.get(phase, 0), size) if phase != "after" else size

    def _report(self, seconds: float) -> None:
        lines = self._lines()
        failures = [line["failure"] for line in lines if "failure" in line]
        if failures:
            raise Failure(f"{len(failures)} wrong answers, such as: {failures[0]}")
        table = Table(title="Searches meanwhile", title_justify="left", title_style="bold")
        for column in ("phase", "reader", "in the writer", "recall@10", "p50, ms", "p99, ms", "disk, MB"):
            table.add_column(column, justify="left" if column == "phase" else "right")
        for phase in _PHASES:
            own = [line for line in lines if line["phase"] == phase]
            answers = Counter[str]()
            for line in own:
                answers[line["who"]] += line["answers"]
            recalls = [line["recall"] for line in own if line["recall"] is not None]
            times = [line["ms"] for line in own if line["ms"] is not None and line["who"] == "reader"]
            numbers = (f"{np.mean(recalls):.3f}", *(f"{each:.0f}" for each in np.quantile(times, (0.5, 0.99))))
            table.add_row(
                phase,
                f"{answers['reader']:,}",
                f"{answers['writer']:,}",
                *numbers,
                f"{self.disk.get(phase, 0):,.0f}",
            )
        console.print(table)
        total = sum(line["answers"] for line in lines)
        met = ", ".join(f"{n} in {what}" for what, n in self.killed.most_common())
        counts = ", ".join(f"{n:,} {what}" for what, n in sorted(self.known.counts.items()))
        console.print(
            f"{self.n_kills} kills ({met}), {self.rehashing} found new vectors being rehashed; "
            f"{self.compared:,} comparisons, 0 lost; {total:,} answers, 0 mixed, 0 of a generation that did not "
            f"answer any more; opening after a kill took {np.median(self.opened_s):.1f} s, at most "
            f"{max(self.opened_s):.1f} s; {counts}; {seconds:.0f} s."
        )


def _was_done(index: mihash.OnlineIndex, known: Acknowledged, embeddings: Embeddings) -> bool:
    """Tell whether a step that was begun was done before the kill; a change is one transaction."""
    assert known.pending is not None
    what, keys = known.pending["what"], known.pending.get("keys", [])
    found = index.migration
    if what == "replace":
        fresh = embeddings.vectors(keys[:1], known.items[keys[0]] + 1, known.generation)[0]
        return bool(np.array_equal(index.get(keys[0]).vector, fresh))
    done: dict[str, Callable[[], bool]] = {
        "add": lambda: keys[0] in index,
        "delete": lambda: keys[0] not in index,
        "note": lambda: index.get(keys[0]).metadata == {"note": known.pending and known.pending["value"]},
        "begin": lambda: found is not None,
        "migrate": lambda: found is not None and keys[0] not in set(found.missing()),
        "finish": lambda: found is None,
        "cut over": lambda: found is not None and found.state == "cut over",
        "roll back": lambda: found is not None and found.state == "filling",
        "rehash": lambda: False,
    }
    return done[what]()
