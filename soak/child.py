"""The process that works on an index until it is killed."""

import os
import signal
import sqlite3
import threading
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from mihash import OnlineIndex
from mihash.errors import InvalidInput
from mihash.store.sqlite.database import Database
from mihash.store.sqlite.sqlite_table import SQLiteTable

from .configurations import CONFIGURATIONS, Configuration, shrink
from .journal import Entry, Journal
from .model import Model
from .operations import operation, run

__all__ = ["work"]

MOST_OPERATIONS = 2000  # in one life; should nobody kill it, it ends by itself


def work(
    folder: str, lap: int, seed: list[int], trap: tuple[str, int] | None, messages: "Connection[Any, Any]"
) -> None:
    """Go on with the operations of an index, and say what begins and ends.

    With a trap of a kind of operation and a number, such an operation is killed after so many transactions.
    """
    warnings.simplefilter("error")
    shrink()
    say = _Voice(messages)
    try:
        _announce_builds(say)
        _work(Path(folder), lap, seed, say, _Trap(*(trap or ("", 0))))
    except BaseException:
        say("failed", traceback.format_exc())


def _work(folder: Path, lap: int, seed: list[int], say: "_Voice", trap: "_Trap") -> None:
    configuration, journal = CONFIGURATIONS[lap % len(CONFIGURATIONS)], Journal(folder / "journal")
    model = Model(configuration)
    ended, _ = journal.read()
    number = 0
    for entry in ended:
        if entry.number >= 0:
            model_apply(model, operation(configuration, seed, entry.number, model), entry)
            number = entry.number + 1
    journal.write(Entry(-1, "open", "begun"))
    say("begins", "open")
    target = folder / "index"
    with trap.set_for("open"):
        index = OnlineIndex.open(target) if ended else _created(configuration, target)
    journal.write(Entry(-1, "open", "done"))
    say("ended", "open")
    for at in range(number, number + MOST_OPERATIONS):
        what = operation(configuration, seed, at, model)
        journal.write(Entry(at, what.name, "begun"))
        say("begins", what.name)
        with trap.set_for(what.name):
            index = run(what, index, target)
        journal.write(Entry(at, what.name, "done"))
        say("ended", what.name)
        model.apply(what)


def _created(configuration: Configuration, target: Path) -> OnlineIndex:
    """Make the index, or open the one that was made in the moment of a kill."""
    try:
        return configuration.create(target)
    except InvalidInput:
        return OnlineIndex.open(target)


def model_apply(model: Model, what: Any, entry: Entry) -> None:
    """Let a model follow what became of an operation."""
    if entry.outcome != "lost":
        model.apply(what)
    if entry.paused is not None:
        model.paused = entry.paused


class _Voice:
    """Tells the parent what happens, from any thread."""

    def __init__(self, messages: "Connection[Any, Any]") -> None:
        self._messages, self._lock = messages, threading.Lock()

    def __call__(self, what: str, name: str) -> None:
        with self._lock:
            self._messages.send((what, name, time.perf_counter()))


class _Trap:
    """Kills this process after the n-th transaction of an operation of some kind: between it and the next one."""

    def __init__(self, name: str, n: int) -> None:
        self._name, self._n, self._left = name, n, 0
        if name:
            self._spring()

    @contextmanager
    def set_for(self, name: str) -> Iterator[None]:
        """Be ready during an operation."""
        self._left = self._n if name == self._name else 0
        yield
        self._left = 0

    def _spring(self) -> None:
        write = Database.write

        @contextmanager
        def counted(database: Database) -> Iterator[sqlite3.Connection]:
            with write(database) as connection:
                yield connection
            if self._left and not connection.in_transaction:
                self._left -= 1
                if not self._left:
                    os.kill(os.getpid(), signal.SIGKILL)

        Database.write = counted  # type: ignore[method-assign, assignment]


def _announce_builds(say: _Voice) -> None:
    build = SQLiteTable.build

    def announced(self: SQLiteTable, *arguments: Any) -> bool:
        say("begins", "build")
        try:
            return build(self, *arguments)
        finally:
            say("ended", "build")

    SQLiteTable.build = announced  # type: ignore[method-assign, assignment]
