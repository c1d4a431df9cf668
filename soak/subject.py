"""An index that is worked on while something is wrong with its disk, through several such troubles."""

import copy
import shutil
import traceback
import warnings
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np

from mihash import OnlineIndex
from mihash.errors import InvalidInput, MIHashError

from .checks import check_backup, check_index, check_live, outcome
from .configurations import CONFIGURATIONS
from .model import Model, Twin
from .operations import WEIGHTS, Operation, operation, run
from .report import Failure, console, show_counts, show_load

__all__ = ["Subject", "Tally", "Trouble"]

CHOSEN = {"add": 5, "update": 2, "delete": 2, "rehash": 4, "compact": 5, "backup": 4, "reopen": 5, "search": 3}
NAMES = ("create", *CHOSEN)
N_FIRST = 6  # operations before the first trouble
MOST_UNMET = 40  # troubles in a row that no operation met
_ONLY_ADD = {name: int(name == "add") for name in WEIGHTS}
_WEIGHTS = dict.fromkeys(WEIGHTS, 0) | CHOSEN
_NOTHING = "nothing was changed"


class Trouble(Protocol):
    """Something that is wrong for a while.

    Attributes
    ----------
    kind
        What it is called in reports.
    spares_reads
        Whether what only reads must go on meanwhile.
    """

    kind: str
    spares_reads: bool

    def begin(self) -> None:
        """Let it be wrong from now on."""

    def is_met(self, error: MIHashError | None) -> bool:
        """Return whether a call has failed since, given what the operation has raised."""

    def end(self) -> None:
        """Let everything be well again; a second call does nothing."""


@dataclass
class Tally:
    """What was done and found.

    Attributes
    ----------
    what
        What the troubles are called.
    met, succeeded, kept, failures
        By operation: how many troubles it met, how often it succeeded all the same, how often it was there after
        an error, and how often something was wrong.
    kinds
        How many troubles of each kind there were.
    unmet, comparisons
        How many troubles no operation met, and how much was compared.
    """

    what: str
    met: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    kinds: Counter[str] = field(default_factory=Counter)
    unmet: int = 0
    comparisons: int = 0

    @property
    def n(self) -> int:
        """How many troubles there were."""
        return self.met.total()

    def show(self, seconds: float) -> None:
        """Print a table."""
        counters = {
            self.what: self.met,
            "succeeded": self.succeeded,
            "named error": self.met - self.succeeded,
            "and there all the same": self.kept,
            "failed": self.failures,
        }
        show_counts(f"{self.what.capitalize()} by operation", NAMES, counters)
        kinds = ", ".join(f"{name} {n}" for name, n in sorted(self.kinds.items()))
        console.print(f"{self.what.capitalize()}: {kinds}.", soft_wrap=True)
        console.print(
            f"{self.n} {self.what}, {self.failures.total()} failures; {self.unmet} more were not met; "
            f"{self.comparisons:,} comparisons; {seconds:.0f} s.",
            soft_wrap=True,
        )
        show_load()


class Subject:
    """One index, through several troubles.

    Parameters
    ----------
    folder
        Where the index and its backups are.
    spare
        A folder without troubles, for copies.
    lap, seed
        What the configuration and the operations are drawn from.
    tally
        Where to count.
    """

    def __init__(self, folder: Path, spare: Path, lap: int, seed: int, tally: Tally) -> None:
        self.folder, self.spare, self.lap, self.seed, self.tally = folder, spare, lap, seed, tally
        self.configuration = CONFIGURATIONS[lap % len(CONFIGURATIONS)]
        self.rng = np.random.default_rng([seed, lap, 1])
        self.model, self.twin = Model(self.configuration), Twin(self.configuration)
        self.target = folder / "index"
        self.index: OnlineIndex | None = self.configuration.create(self.target)
        self.number, self.unmet = 0, 0
        self.failed = False
        for _ in range(N_FIRST):
            self._store(self._next(_ONLY_ADD))

    def try_out(self, trouble: Trouble) -> None:
        """Draw an operation, do it amid a trouble, and check what comes of it."""
        what = None if self.rng.random() < 0.06 else self._next(_WEIGHTS)
        name = "create" if what is None else what.name
        try:
            met = self._create(trouble) if what is None else self._operate(what, trouble)
        except Exception as error:
            trouble.end()
            self.failed = met = True
            self.tally.failures[name] += 1
            self._report(error, name, trouble)
        self.unmet = 0 if met else self.unmet + 1
        self.tally.unmet += not met
        if met:
            self.tally.met[name] += 1
            self.tally.kinds[trouble.kind] += 1
        elif self.unmet > MOST_UNMET:
            raise Failure("No operation meets a trouble any more.")

    def end(self) -> None:
        """Close the index and compare everything, unless something was wrong before."""
        if self.index is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore" if self.failed else "error")
                self.index.close()
        if not self.failed:
            self.tally.comparisons += check_index(self.target, self.model, self.twin, self.rng)

    def _next(self, weights: dict[str, int]) -> Operation:
        self.number += 1
        return operation(self.configuration, [self.seed, self.lap], self.number, self.model, weights)

    def _create(self, trouble: Trouble) -> bool:
        """Make an index amid a trouble; after it, that one or another in its place must be empty and in order."""
        folder = self.folder / "created"
        self._settle()
        trouble.begin()
        error: MIHashError | None = None
        try:
            self.configuration.create(folder).close()
        except MIHashError as raised:
            error = raised
        finally:
            met = trouble.is_met(error)
            trouble.end()
        self.tally.succeeded["create"] += met and error is None
        try:
            self.configuration.create(folder).close()
        except InvalidInput:  # it is there
            OnlineIndex.open(folder).close()
        empty = Model(self.configuration), Twin(self.configuration)
        self.tally.comparisons += check_index(folder, *empty, self.rng)
        shutil.rmtree(folder)
        return met

    def _operate(self, what: Operation, trouble: Trouble) -> bool:
        """Do an operation amid a trouble, then check the process that goes on and what it has left."""
        self._settle()
        compactions = self._compactions()
        trouble.begin()
        try:
            error = self._attempt(what)
            met = trouble.is_met(error)
            if met and trouble.spares_reads and self.index is not None:
                self._check_reads(what)
        finally:
            trouble.end()
        if not met:
            if error is not None:
                raise Failure(f"Without any trouble: {error!r}")
            self._take_over(what)
            return False
        self._settle()
        kept, _ = outcome(self.target, self.model, self.twin, what)
        self._judge(what, error, kept, self._compactions() != compactions)
        if what.name == "backup":
            self._check_backup(what, error)
        self._check_as_killed(what, kept)
        if kept:
            self._take_over(what)
        self._check_process()
        return True

    def _judge(self, what: Operation, error: MIHashError | None, kept: bool, compacted: bool) -> None:
        """Compare what the caller was told with what is there."""
        if error is None:
            self.tally.succeeded[what.name] += 1
            if not kept and what.name in ("add", "update", "delete", "rehash"):
                raise Failure(f"The {what.name} was acknowledged and is not there.")
        elif _NOTHING in str(error) and (
            compacted or (kept and what.name != "rehash")
        ):  # of which a build may fail
            raise Failure(f"The {what.name} is there, and the error says that it is not: {error}")
        self.tally.kept[what.name] += kept and error is not None

    def _check_reads(self, what: Operation) -> None:
        """Read and ask for the statistics while the trouble lasts."""
        model, twin = self._after(what, outcome(self.target, self.model, self.twin, what)[0])
        self.tally.comparisons += check_live(self._opened(), model, twin, self.rng)

    def _after(self, what: Operation, kept: bool) -> tuple[Model, Twin]:
        """Return copies of model and twin, after an operation where it is there."""
        model, twin = copy.deepcopy((self.model, self.twin))
        if kept:
            twin.apply(what)
            model.apply(what)
        return model, twin

    def _attempt(self, what: Operation) -> MIHashError | None:
        """Do an operation and return the named error; another error is a failure, and so is a foreign warning."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                if what.name == "reopen":
                    index, self.index = self._opened(), None
                    index.close()
                    self.index = OnlineIndex.open(self.target)
                else:
                    self.index = run(what, self._opened(), self.target)
                if what.name == "rehash":
                    self._opened().wait(timeout=60)  # the codes are made in the background
                if what.name == "search":
                    self._opened().verify()
            except MIHashError as error:
                return error
        foreign = [each for each in caught if not issubclass(each.category, RuntimeWarning)]
        if foreign:
            raise Failure(f"A warning of another kind: {foreign[0].message!r}")
        return None

    def _opened(self) -> OnlineIndex:
        if self.index is None:
            self.index = OnlineIndex.open(self.target)
        return self.index

    def _settle(self) -> None:
        """Wait for a build that still runs; what one has failed with was said by `wait` or is said now."""
        try:
            if not self._opened().wait(timeout=60):
                raise Failure("A version was not built within a minute.")
        except MIHashError:
            pass

    def _compactions(self) -> int:
        return int(self._opened()._table.setting("compactions") or 0)

    def _take_over(self, what: Operation) -> None:
        self.twin.apply(what)
        self.model.apply(what)

    def _store(self, what: Operation) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            self.index = run(what, self._opened(), self.target)
        self._take_over(what)

    def _check_as_killed(self, what: Operation, kept: bool) -> None:
        """Open a copy of what is on the disk now; an operation that failed may be there, as a whole."""
        left = self.spare / "left"
        shutil.copytree(self.target, left)
        found, _ = outcome(left, self.model, self.twin, what)
        if kept and not found:
            raise Failure(f"The {what.name} is there for the process, and not for one that opens the index.")
        self.tally.comparisons += check_index(left, *self._after(what, found), self.rng)
        shutil.rmtree(left)

    def _check_process(self) -> None:
        """Read, write and, three times in ten, close and open, now that nothing is wrong."""
        self.tally.comparisons += check_live(self._opened(), self.model, self.twin, self.rng)
        self._store(self._next(_ONLY_ADD))
        self.tally.comparisons += check_live(self._opened(), self.model, self.twin, self.rng)
        if self.rng.random() < 0.3:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                self._opened().close()
            self.index = None
            self.tally.comparisons += check_index(self.target, self.model, self.twin, self.rng)

    def _check_backup(self, what: Operation, error: MIHashError | None) -> None:
        """Compare a backup; where it failed, it is not there, and the same call works now."""
        folder = self.folder / f"backup-{what.number}"
        if error is not None:
            if (folder / "index.db").exists():
                check_backup(folder, self.model, self.twin, False, self.rng)
                shutil.rmtree(folder)
            run(what, self._opened(), self.target)
        self.tally.comparisons += check_backup(folder, self.model, self.twin, True, self.rng)
        shutil.rmtree(folder)

    def _report(self, error: Exception, name: str, trouble: Trouble) -> None:
        text = str(error) if isinstance(error, Failure) else traceback.format_exc()
        console.print(f"[red]Failed[/red] in {name} {self.number}, seed {self.seed}, lap {self.lap} ", end="")
        console.print(f"({self.configuration.name}), with {trouble}:")
        console.print(text, markup=False)
