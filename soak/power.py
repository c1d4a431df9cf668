"""Cut the power of a process that works on an index, at any of its writes, and check what is left on the disk.

A process adds, updates, deletes, rehashes, compacts, backs up, closes and reopens while a small C library, loaded
before the system's (shim.c), logs each call that changes a file or a name of its folder, with the bytes. The log
is cut at random places, with an equal chance for each kind of operation. For each cut a state of the disk is made
that a power loss may leave: of everything that was not synced, nothing, all, a beginning, or any part of it, down
to single sectors, lengths and names. It is opened, verified and compared with a plain dictionary and with a stream
that was never interrupted: every acknowledged change is there, the one that was under way is there as a whole or
not at all, and answers, codes and decisions are right.

Everything depends on the seed but for the moments at which versions are built. What a failure leaves is kept.
Without a C compiler nothing is tested, which is said.
"""

import argparse
import copy
import json
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from mihash import OnlineIndex
from mihash.errors import StoreError

from . import shim
from .checks import check_backup, check_index, outcome
from .child import model_apply
from .configurations import CONFIGURATIONS, shrink
from .journal import Entry, Journal
from .model import Model, Twin
from .operations import FAULTY_WEIGHTS, NAMES, Operation, operation
from .power_states import STYLES, Disk
from .report import Failure, add_lap_arguments, console, show_counts, show_load

__all__ = ["add_arguments", "run"]

PLACES = ("create", *NAMES, "close", "between two")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--states", type=int, default=300, help="how many states of the disk (300)")
    parser.add_argument("--operations", type=int, default=25, help="how many operations in one recording (25)")
    add_lap_arguments(parser, 50, "states")


def run(arguments: argparse.Namespace) -> bool:
    reason = shim.unavailable()
    if reason is not None:
        console.print(f"Skipped: {reason}.")
        return True
    shrink()
    base = Path(tempfile.mkdtemp(prefix="mihash-power-", dir=arguments.folder)).resolve()
    library = shim.compiled(base)
    tally, began, lap = Tally(), time.perf_counter(), arguments.lap
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("states", total=arguments.states)
        while tally.states < arguments.states:
            recording = Recording(base / f"lap-{lap}", lap, arguments.seed, tally)
            recording.record(library, arguments.operations)
            for _ in recording.states(min(arguments.each, arguments.states - tally.states)):
                progress.update(task, completed=tally.states, description=f"{recording.configuration.name:<36}")
            if not recording.failed:
                shutil.rmtree(recording.folder)
            lap += 1
    if not tally.failures:
        shutil.rmtree(base)
    tally.show(time.perf_counter() - began)
    return not tally.failures


@dataclass
class Tally:
    """What was done and found.

    Attributes
    ----------
    landed, kept, failures
        By operation: how many states were cut in it, in how many of them it was there, and how many were wrong.
    styles
        How many states of each style there were.
    calls, comparisons, backups
        How many calls were logged, how much was compared, and how many backups were opened.
    """

    landed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    styles: Counter[str] = field(default_factory=Counter)
    calls: int = 0
    comparisons: int = 0
    backups: int = 0

    @property
    def states(self) -> int:
        """How many states there were."""
        return self.landed.total()

    def show(self, seconds: float) -> None:
        """Print a table."""
        counters = {"states": self.landed, "of them kept": self.kept, "failed": self.failures}
        show_counts("Power losses by operation", PLACES, counters)
        styles = ", ".join(f"{name} {n}" for name, n in sorted(self.styles.items()))
        console.print(f"Un-synced writes: {styles}.", soft_wrap=True)
        console.print(
            f"{self.states} states of {self.calls:,} calls, {self.failures.total()} failures; "
            f"{self.comparisons:,} comparisons, {self.backups} backups opened; {seconds:.0f} s.",
            soft_wrap=True,
        )
        show_load()


class Recording:
    """One run of operations on an index, and the states that a power loss in it may leave.

    Parameters
    ----------
    folder
        Where to work.
    lap, seed
        What the configuration, the operations and the states are drawn from.
    tally
        Where to count.
    """

    def __init__(self, folder: Path, lap: int, seed: int, tally: Tally) -> None:
        self.folder, self.lap, self.seed, self.tally = folder, lap, seed, tally
        self.configuration = CONFIGURATIONS[lap % len(CONFIGURATIONS)]
        self.rng = np.random.default_rng([seed, lap])
        self.model, self.twin = Model(self.configuration), Twin(self.configuration)  # of what was acknowledged
        self.followed = 0
        self.failed = False
        self.calls: list[shim.Record] = []

    def record(self, library: Path, n_operations: int) -> None:
        """Let a process work, and log its calls."""
        work, log = self.folder / "work", self.folder / "log"
        work.mkdir(parents=True)
        command = [sys.executable, "-m", "soak.recorded", work, self.lap, self.seed, n_operations]
        done = subprocess.run(
            [str(each) for each in command],
            env=shim.environment(library, work, log),
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise Failure(f"The process that is recorded failed:\n{done.stderr}")
        self.calls = list(shim.read_log(log))
        self.tally.calls += len(self.calls)
        self._check_log(work)

    def _check_log(self, work: Path) -> None:
        """Raise where the calls that were logged do not give the files that are there: one was not caught."""
        disk = Disk(work)
        for call in self.calls:
            disk.do(call)
        for path in work.rglob("*"):
            if path.is_file() and disk.live(str(path.relative_to(work))) != path.read_bytes():
                raise Failure(f"The log does not explain {path}: a call was not caught.")

    def states(self, n: int) -> Iterator[None]:
        """Make states and check each; those that are wrong are kept, and counted."""
        disk, at = Disk(self.folder / "work"), 0
        for number, cut in enumerate(self._cuts(n)):
            for call in self.calls[at:cut]:
                disk.do(call)
            at = cut
            style = STYLES[int(self.rng.integers(len(STYLES)))]
            state = self.folder / f"state-{number}"
            disk.write(state, self.rng, style)
            (state / "journal").write_bytes(disk.live("journal"))
            ended, begun = Journal(state / "journal").read()
            where = "between two" if begun is None else begun.name
            self.tally.landed[where] += 1
            self.tally.styles[style] += 1
            try:
                self._check(state, ended, begun)
                shutil.rmtree(state)
            except Exception as error:
                self.failed = True
                self.tally.failures[where] += 1
                self._report(error, state, style, where, cut)
            yield

    def _cuts(self, n: int) -> list[int]:
        """Return places in the log, in order: a kind of operation, one such, a place in it or right after it."""
        spans: dict[str, list[tuple[int, int]]] = {}
        path = f"{self.folder / 'work' / 'journal'}".encode()
        journal = {call.handle for call in self.calls if call.kind == "o" and call.data == path}
        begin = 0
        for at, call in enumerate(self.calls, 1):
            if call.kind == "w" and call.handle in journal:
                entry = Entry(**json.loads(call.data))
                if entry.outcome == "begun":
                    begin = at
                else:
                    spans.setdefault(entry.name, []).append((begin, at))
        kinds = sorted(spans)
        cuts = []
        for _ in range(n):
            those = spans[kinds[int(self.rng.integers(len(kinds)))]]
            begin, end = those[int(self.rng.integers(len(those)))]
            cuts.append(end if self.rng.random() < 0.25 else int(self.rng.integers(begin, end + 1)))
        return sorted(cuts)

    def _check(self, state: Path, ended: list[Entry], begun: Entry | None) -> None:
        for entry in ended[self.followed :]:
            self._follow(entry, state)
        self.followed = len(ended)
        if not ended:
            self._check_unfinished(state / "index")
            return
        model, twin = copy.deepcopy((self.model, self.twin))
        if begun is not None and begun.number >= 0:
            what = self._operation(begun)
            kept, paused = outcome(state / "index", model, twin, what)
            if what.name == "backup":
                self._check_backup(state, what, finished=False)
            if kept:
                twin.apply(what)
            model_apply(model, what, Entry(begun.number, begun.name, "kept" if kept else "lost", paused))
            if not model.paused or (what.name == "rollback" and not kept):
                twin.pinned = None
            self.tally.kept[begun.name] += kept
        self.tally.comparisons += check_index(state / "index", model, twin, self.rng)

    def _operation(self, entry: Entry) -> Operation:
        return operation(self.configuration, [self.seed, self.lap], entry.number, self.model, FAULTY_WEIGHTS)

    def _follow(self, entry: Entry, state: Path) -> None:
        """Do to the model what was acknowledged."""
        if entry.number < 0:
            return
        what = self._operation(entry)
        self.twin.apply(what)
        self.model.apply(what)
        if what.name == "backup":
            self._check_backup(state, what, finished=True)

    def _check_backup(self, state: Path, what: Operation, finished: bool) -> None:
        folder = state / f"backup-{what.number}"
        if folder.exists() or finished:
            self.tally.comparisons += check_backup(folder, self.model, self.twin, finished, self.rng)
            self.tally.backups += 1

    def _check_unfinished(self, folder: Path) -> None:
        """Raise where an index whose making was not acknowledged has items, or another cannot be made there."""
        try:
            with OnlineIndex.open(folder) as index:
                if len(index):
                    raise Failure("An index that was not made yet has items.")
        except StoreError:
            shutil.rmtree(folder, ignore_errors=True)
            self.configuration.create(folder).close()
        self.tally.comparisons += check_index(
            folder, Model(self.configuration), Twin(self.configuration), self.rng
        )

    def _report(self, error: Exception, state: Path, style: str, where: str, cut: int) -> None:
        text = str(error) if isinstance(error, Failure) else traceback.format_exc()
        console.print(f"[red]Failed[/red] at call {cut} in {where}, seed {self.seed}, lap {self.lap} ", end="")
        console.print(f"({self.configuration.name}), un-synced writes {style}:")
        console.print(text, markup=False)
        console.print(f"Kept in {state}.", soft_wrap=True)
