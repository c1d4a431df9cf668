"""Kill a process that works on an index, again and again, and check after each kill that nothing is lost.

A child process adds, updates, deletes, rehashes, pauses, rolls back, compacts, backs up and reopens, and writes a
line to a journal before and after each. It is killed with SIGKILL in the middle of an operation of a chosen kind
or of a rehash in the background; one time in four exactly between two transactions of an operation. A copy of what
it left is opened and compared with a plain dictionary and with a stream that was never interrupted. Then a new
child goes on with the same index; every 25 kills begin another one.

The operations depend on the seed and the lap alone, the moments of the kills on the machine. What a failure leaves
is kept, and `--again FOLDER` checks it once more.
"""

import argparse
import json
import multiprocessing
import shutil
import tempfile
import time
import traceback
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from .checks import check_backup, check_index, outcome
from .child import model_apply, work
from .configurations import CONFIGURATIONS, shrink
from .journal import Entry, Journal
from .model import Model, Twin
from .operations import NAMES, Operation, operation
from .report import Failure, console, show_load

__all__ = ["add_arguments", "run"]

BUILD, BETWEEN = "build", "between two"
AIMS = ("add", "add", *NAMES, "open", *[BUILD] * 5)
TRAPS = ("open", "add", "upsert", "update", "rehash", "resume", "rollback", "compact", "reopen")
STUCK_S = 120.0

Message = tuple[str, str, float]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=300, help="how many kills (300)")
    parser.add_argument("--seed", type=int, default=0, help="what everything is drawn from (0)")
    parser.add_argument("--each", type=int, default=25, help="how many kills before another index is begun (25)")
    parser.add_argument("--folder", type=Path, help="where to work; a temporary folder by default")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="stop after so long")
    parser.add_argument("--lap", type=int, default=0, help="begin with the index of this number (0)")
    parser.add_argument("--again", type=Path, metavar="FOLDER", help="check once more what a failure has left")


def run(arguments: argparse.Namespace) -> bool:
    shrink()
    if arguments.again is not None:
        return _check_again(arguments.again)
    base = Path(tempfile.mkdtemp(prefix="mihash-crash-", dir=arguments.folder))
    tally = Tally()
    began = time.perf_counter()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("kills", total=arguments.kills)
        lap = arguments.lap
        while tally.kills < arguments.kills and time.perf_counter() - began < 60 * arguments.minutes:
            folder = base / f"lap-{lap}"
            folder.mkdir()
            life = Life(folder, lap, arguments.seed, tally)
            for _ in range(min(arguments.each, arguments.kills - tally.kills)):
                try:
                    life.kill_and_check()
                except Exception as error:
                    progress.stop()
                    _report_failure(error, life)
                    tally.show(time.perf_counter() - began)
                    return False
                progress.update(task, completed=tally.kills, description=f"{life.configuration.name:<36}")
                if time.perf_counter() - began > 60 * arguments.minutes:
                    break
            shutil.rmtree(folder)
            lap += 1
    shutil.rmtree(base)
    tally.show(time.perf_counter() - began)
    return True


@dataclass
class Tally:
    """What was done and found.

    Attributes
    ----------
    landed, kept, building
        By operation: how many kills met it, after how many of them it was there, and how many met a build too.
    trapped
        How many kills stood exactly between two transactions.
    operations, comparisons, backups, check_s
        How much was acknowledged, how much was compared, how many backups, and how long that took.
    """

    landed: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    building: Counter[str] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    trapped: int = 0
    comparisons: int = 0
    backups: int = 0
    check_s: float = 0.0

    @property
    def kills(self) -> int:
        """How many kills there were."""
        return self.landed.total()

    def show(self, seconds: float) -> None:
        """Print a table."""
        table = Table(title="Kills by operation", title_justify="left", title_style="bold")
        for column in ("operation", "acknowledged", "kills", "of them kept", "amid a rehash"):
            table.add_column(column, justify="left" if column == "operation" else "right")
        for name in ("open", *NAMES, BETWEEN):
            numbers = (counter[name] for counter in (self.operations, self.landed, self.kept, self.building))
            table.add_row(name, *(f"{number:,}" if number else "" for number in numbers))
        table.add_section()
        totals = (self.operations, self.landed, self.kept, self.building)
        table.add_row("all", *(f"{counter.total():,}" for counter in totals))
        console.print(table)
        console.print(
            f"{self.trapped} kills exactly between two transactions; {self.comparisons:,} comparisons, "
            f"{self.backups} backups opened; {seconds:.0f} s in all, {self.check_s:.0f} s of it checking."
        )
        show_load()


class Life:
    """One index, through several kills.

    Parameters
    ----------
    folder
        Where it, its journal and its backups are.
    lap, seed
        What its configuration and its operations are drawn from.
    tally
        Where to count.
    again
        Whether it is looked at once more; then backups that were in order are gone.
    """

    def __init__(self, folder: Path, lap: int, seed: int, tally: Tally, again: bool = False) -> None:
        self.folder, self.lap, self.seed, self.tally, self.again = folder, lap, seed, tally, again
        self.configuration = CONFIGURATIONS[lap % len(CONFIGURATIONS)]
        self.journal = Journal(folder / "journal")
        self.model, self.twin = Model(self.configuration), Twin(self.configuration)
        self.rng = np.random.default_rng([seed, lap])
        self.followed = 0
        self.step = -1
        self._durations: dict[str, deque[float]] = defaultdict(lambda: deque([0.005], maxlen=15))
        (folder / "case.json").write_text(json.dumps({"lap": lap, "seed": seed}))

    def kill_and_check(self) -> None:
        """Let a child work, kill it, and check what it has left."""
        trap = None
        if self.rng.random() < 0.25:
            trap = (TRAPS[int(self.rng.integers(len(TRAPS)))], int(self.rng.integers(1, 5)))
        building = self._work_and_kill(trap)
        began = time.perf_counter()
        where = self.check()
        self.tally.check_s += time.perf_counter() - began
        self.tally.landed[where] += 1
        self.tally.building[where] += building

    def check(self) -> str:
        """Compare what is there with what should be; return which operation was interrupted."""
        ended, begun = self.journal.read()
        for entry in ended[self.followed :]:
            self._follow(entry)
        self.followed = len(ended)
        if not ended:  # killed while the index was made
            return "open"
        copy = self.folder / "copy"
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(self.folder / "index", copy)
        if begun is not None and begun.number >= 0:
            what = self._operation(begun)
            kept, paused = outcome(copy, self.model, self.twin, what)
            entry = Entry(begun.number, begun.name, "kept" if kept else "lost", paused)
            if what.name == "backup":
                self._check_backup(what, finished=False)
            self._follow(entry)
            self.tally.kept[begun.name] += kept
        self.tally.comparisons += check_index(copy, self.model, self.twin, self.rng)
        if begun is not None and begun.number >= 0:
            self.journal.write(entry)
            self.followed += 1
        shutil.rmtree(copy)
        return BETWEEN if begun is None else begun.name

    def _operation(self, entry: Entry) -> Operation:
        self.step = entry.number
        return operation(self.configuration, [self.seed, self.lap], entry.number, self.model)

    def _follow(self, entry: Entry) -> None:
        """Do to the model what was acknowledged, or found to be there."""
        if entry.outcome == "done":
            self.tally.operations[entry.name] += 1
        if entry.number < 0:
            return
        what = self._operation(entry)
        if entry.outcome != "lost":
            self.twin.apply(what)
        model_apply(self.model, what, entry)
        if not self.model.paused or (what.name == "rollback" and entry.outcome == "lost"):
            self.twin.pinned = None
        if what.name == "backup" and entry.outcome == "done":
            self._check_backup(what, finished=True)

    def _check_backup(self, what: Operation, finished: bool) -> None:
        folder = self.folder / f"backup-{what.number}"
        if folder.exists() or (finished and not self.again):
            self.tally.comparisons += check_backup(folder, self.model, self.twin, finished, self.rng)
            self.tally.backups += 1
            shutil.rmtree(folder)

    def _work_and_kill(self, trap: tuple[str, int] | None) -> bool:
        """Start a child and kill it in an operation of a chosen kind; return whether a version was being built."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(["soak.warm", "soak.child"])
        receiver, sender = context.Pipe(duplex=False)
        arguments = (str(self.folder), self.lap, [self.seed, self.lap], trap, sender)
        child = context.Process(target=work, args=arguments, daemon=True)
        child.start()
        sender.close()
        messages: list[Message] = []
        try:
            if self._watch(receiver, messages, trap):
                self.tally.trapped += 1
        finally:
            child.kill()
            child.join()
        while True:
            try:
                messages.append(receiver.recv())
            except EOFError:
                break
        self._learn_durations(messages)
        _raise_failure(messages)
        builds = [what for what, name, _ in messages if name == BUILD]
        return bool(builds) and builds[-1] == "begins"

    def _watch(self, receiver: Any, messages: list[Message], trap: tuple[str, int] | None) -> bool:
        """Return when the moment of the kill has come: True where a trap was faster."""
        aim = "" if trap is not None else AIMS[int(self.rng.integers(len(AIMS)))]
        skipped = 0 if aim == "open" else int(self.rng.integers(1, 15))
        patience = skipped + 60
        while patience:
            if not receiver.poll(STUCK_S):
                raise Failure(f"The child did nothing for {STUCK_S:.0f} s; its last words: {messages[-3:]}.")
            try:
                messages.append(receiver.recv())
            except EOFError:
                if trap is not None:
                    return True
                raise Failure(f"The child ended by itself; its last words: {messages[-3:]}.") from None
            _raise_failure(messages)
            what, name, _ = messages[-1]
            if what == "begins":
                patience -= name != BUILD
                skipped -= 1
                if skipped < 0 and name == aim:
                    break
        time.sleep(self.rng.uniform(0, 1.2) * float(np.median(self._durations[aim])))
        return False

    def _learn_durations(self, messages: list[Message]) -> None:
        begun: dict[str, float] = {}
        for what, name, at in messages:
            if what == "begins":
                begun[name] = at
            elif name in begun:
                self._durations[name].append(at - begun[name])


def _raise_failure(messages: list[Message]) -> None:
    for what, text, _ in messages[-3:]:
        if what == "failed":
            raise Failure(f"The child failed:\n{text}")


def _report_failure(error: Exception, life: Life) -> None:
    text = str(error) if isinstance(error, Failure) else traceback.format_exc()
    console.print(f"[red]Failed[/red] at step {life.step}, seed {life.seed}, lap {life.lap} ", end="")
    console.print(f"({life.configuration.name}), kill {life.tally.kills + 1}:")
    console.print(text, markup=False)
    console.print(f"Kept in {life.folder}. Check it again with", soft_wrap=True)
    console.print(f"  python -m soak crash --again {life.folder}", soft_wrap=True)


def _check_again(folder: Path) -> bool:
    case = json.loads((folder / "case.json").read_text())
    work_on = Path(tempfile.mkdtemp(prefix="mihash-crash-"))
    shutil.copytree(folder, work_on, dirs_exist_ok=True)
    life = Life(work_on, case["lap"], case["seed"], Tally(), again=True)
    try:
        where = life.check()
    except Exception as error:
        _report_failure(error, life)
        return False
    console.print(f"Killed in {where}; everything is as it should be.")
    shutil.rmtree(work_on)
    return True
