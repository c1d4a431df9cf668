"""A shard: a SQLite table on its node's disk that follows the coordinator's log, and answers from recent states.

It does not import Ray, which runs it as an actor and starts it again when its process has died. Every call can be
repeated: entries have numbers, and those that the shard has are skipped.

A search names the last entry that it wants to see, and the version that was published there. The shard keeps the
editions of recent states for as long as a search may ask for them, so all shards answer from the same state.

A process serves the coordinator that has started it, and only once that one has claimed the shard under an epoch
above all before. The claim is on the disk, so a coordinator that was superseded is refused by every later process.
"""

import os
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import state as saved
from ...errors import CorruptStore, InvalidInput, StoreLocked, Superseded
from ...mapping import mapping_from_state
from ...stopwatch import Stopwatch
from ..edition import Edition
from ..keys import Key
from ..nearest_codes import Reached
from ..question import Found, Nearest, Question
from ..sqlite.code_versions import drop_mappings, propose
from ..sqlite.database import DATABASE
from ..sqlite.items import largest_key
from ..sqlite.settings import write_settings
from ..sqlite.sqlite_table import SQLiteTable
from .routing import rows_of
from .shard_editions import RecentEditions

SUPERSEDED = (
    "Another coordinator has taken over this index: open it again, or, if this folder is a copy, delete it."
)

_LOCKED_S = 30.0
_TIDY_ROWS = 8192

Part = tuple[int, bytes]


class Shard:
    """One shard of a table.

    Parameters
    ----------
    folder
        Where its SQLite table is; made where it is not there.
    name
        Of which table it is which shard, so that no folder is taken for another one.
    settings
        How vectors are stored and compared.
    session
        The coordinator that starts it: a name for as long as that one has the table open.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.TemporaryDirectory()
    >>> shard = Shard(folder.name, "example 0", {"dtype": "float32", "metric": "euclidean"})
    >>> shard.hello()["applied"]
    0
    >>> shard.close()
    >>> folder.cleanup()
    """

    def __init__(self, folder: str, name: str, settings: dict[str, str], session: str = "") -> None:
        self.table = _opened(Path(folder), name, settings)
        self.session = session
        self.restarts = 0
        self._beats = 0  # of its coordinator, by which others see that it is alive
        if self._is_claimed():
            self.restarts = int(self.table.setting("restarts") or 0) + 1
            self.table.store_settings(restarts=self.restarts)
        self._applying = threading.Lock()  # held for long
        self._lock = threading.Lock()  # of what is below, for a moment
        self._staged: dict[int, tuple[Edition, int, Stopwatch]] = {}
        self._building: int | None = None
        self._abandoned: set[str] = set()
        self._purges = 0
        self._untidy = 0
        self._moments = RecentEditions(self.applied, self.table.edition)

    @property
    def applied(self) -> int:
        """The number of the last entry that is on this shard's disk."""
        return int(self.table.setting("applied") or 0)

    @property
    def epoch(self) -> int:
        """The number of the last claim; 0 before the first."""
        return int(self.table.setting("epoch") or 0)

    def hello(self) -> dict[str, Any]:
        """Return its process, the coordinator that it follows, and up to which entry it is."""
        self._moments.forget()
        edition = self.table.edition
        newest, author = self._newest()
        return {
            "pid": os.getpid(),
            "applied": self._moments.last,  # what can be asked for: a moment later than what is on the disk
            "version": None if edition is None else edition.version,
            "items": len(self.table),
            "building": self._building,
            "restarts": self.restarts,
            "epoch": self.epoch,
            "session": self.table.setting("session"),
            "newest": newest,
            "author": author,
            "beats": self._beats,
            "cpu_s": time.process_time(),
        }

    # Whom it follows

    def claim(self, epoch: int) -> dict[str, Any]:
        """Follow the coordinator that has started this process, unless another one has come with a later epoch."""
        with self._applying:
            if epoch < self.epoch or (epoch == self.epoch and not self._is_claimed()):
                raise Superseded(SUPERSEDED)
            self.table.store_settings(epoch=epoch, session=self.session, restarts=self.restarts)
        return self.hello()

    def call(self, session: str, method: str, *arguments: Any) -> Any:
        """Call a method of the shard, or of its table, for the coordinator of a session and readers of its log."""
        if session != self.session or not self._is_claimed():
            raise Superseded(SUPERSEDED)
        self._beats += method == "hello"
        return getattr(self if hasattr(self, method) else self.table, method)(*arguments)

    def note(self, number: int, author: str | None) -> None:
        """Store that an entry of other shards exists: no log without it may be followed."""
        with self.table.database.lock:
            if number > self._newest()[0]:
                self.table.store_settings(noted=number, noted_author=author)

    def _newest(self) -> tuple[int, str | None]:
        """Return the newest entry that is known here, and the session of the coordinator that wrote it."""
        noted = int(self.table.setting("noted") or 0)
        if noted > self.applied:
            return noted, self.table.setting("noted_author")
        return self.applied, self.table.setting("author")

    def _is_claimed(self) -> bool:
        return bool(self.table.setting("session") == self.session)

    # Following the log

    def apply(self, parts: list[Part], oldest: int) -> dict[str, Any]:
        """Apply entries in order, each in one transaction with its number; skip those that were applied.

        No search will ask for a moment before entry ``oldest``.
        """
        with self._applying:
            self._moments.add(self.applied, self.table.edition)  # of one that was interrupted after its commit
            for number, data in parts:
                part = saved.load(data)
                if number <= self.applied:
                    continue
                if part["after"] != self.applied:
                    break  # a gap; the answer tells the coordinator how far this shard is
                self._apply(number, part)
                self._moments.add(number, self.table.edition)
            self._moments.forget(oldest)
        return self.hello()

    def _apply(self, number: int, part: dict[str, Any]) -> None:
        at: dict[str, Any] = {"applied": number, "author": part.get("author")}
        if "publish" in part:
            self._publish(part["publish"], at)
        elif "compact" in part:
            with self.table.database.lock, self.table.loaded_again():
                with self.table.database.write() as connection:
                    fresh = self.table.compact(connection)
                    write_settings(connection, **at)
                with self._lock:  # what is staged has rows that are gone
                    self._staged.clear()
                    self._purges += 1
                self.table.settled(**at)
                self.table.compacted(fresh)
        else:
            self.table.apply(rows_of(part), **at)
            self._untidy += len(part["ids"])
            if self._untidy >= _TIDY_ROWS and self._building is None:
                with self.table.database.write() as connection:
                    self.table.store_codes(connection)
                    self.table.merge(connection, full=True)
                    drop_mappings(connection, self.table.setting("published"), first=2**62)  # it replays nothing
                self._untidy = 0

    # Versions

    def stage(self, number: int, mapping: bytes, attempt: str = "") -> int | None:
        """Make the codes of a version beside those that answer; return how many, None if it was abandoned.

        The call of an ``attempt`` may arrive after the call that abandons it.
        """
        with self._lock:
            if attempt in self._abandoned:
                return None
            if number in self._staged:
                return self._staged[number][0].n
            self._building, purges = number, self._purges
        try:
            with self.table.database.write() as connection:
                propose(connection, number, mapping_from_state(saved.load(mapping)))
            watch = Stopwatch()
            staged = self.table.stage(number, lambda: attempt in self._abandoned)
        finally:
            self._building = None
        if staged is None:
            return None
        with self._lock:
            if attempt in self._abandoned or purges != self._purges:
                return None
            self._staged = {number: (*staged, watch)}
        return staged[0].n

    def abandon(self, number: int, attempt: str = "") -> None:
        """Stop making the codes of a version, and forget those that were made."""
        with self._lock:
            self._abandoned.add(attempt)
            self._staged.pop(number, None)

    def _publish(self, version: int, at: dict[str, Any]) -> None:
        with self._lock:
            staged = self._staged.pop(version, None)
        if staged is None:  # this process is not the one that had made them
            watch = Stopwatch()
            made = self.table.stage(version)
            if made is None:
                raise CorruptStore(f"Version {version} could not be made.")
            staged = (*made, watch)
        self.table.publish(*staged, **at)

    # Answering

    def reach(self, number: int, last: int, version: int, question: Question) -> Reached | None:
        """Return the nearest codes to each query as they were after entry ``number``.

        The shard must have applied ``last``, its own newest entry up to there. None if it cannot answer for
        that moment: then ask for a newer one.
        """
        edition = self._moments.at(number, last, version)
        return None if edition is None else self.table.answers.reached(edition, question)

    def name(self, lists: Found, measure: str) -> Nearest | None:
        """Return ids and distances as they are, with keys; None if a row is gone."""
        return self.table.answers.named(lists, True, -1, measure)

    def largest_key(self) -> list[Key]:
        """Return the largest key in a list; a string where there is one."""
        with self.table.database.read() as connection:
            return largest_key(connection)

    def rescore(self, question: Question, lists: Found, with_keys: bool) -> Nearest | None:
        """Return for each query its ids ranked by the distance of their vectors; None if a row is gone."""
        return self.table.answers.rescored(question, lists, with_keys)

    def fetch(self, ids: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return those of some rows that are on this shard, with their vectors."""
        own = np.intersect1d(ids, self.table.live_ids())
        vectors = self.table.fetch(own) if len(own) else None
        return own, np.empty((0, 0), dtype=np.float32) if vectors is None else vectors

    # Maintenance

    def backup(self, folder: str, name: str) -> None:
        """Write a copy to a new folder, as a shard of another name."""
        self.table.backup(Path(folder))
        with closing(SQLiteTable(folder)) as copy, copy.database.write() as connection:
            write_settings(connection, shard=name)

    def close(self) -> None:
        """Close the files."""
        self.table.close()


def _opened(folder: Path, name: str, settings: dict[str, str]) -> SQLiteTable:
    """Open the table of a shard, or make it; wait for a process before this one that is about to end."""
    until = time.monotonic() + _LOCKED_S
    while True:
        try:
            if _is_new(folder):
                return SQLiteTable.create(folder, shard=name, **settings)
            table = SQLiteTable(folder)
        except StoreLocked:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)
            continue
        if table.setting("shard") != name:
            table.close()
            raise InvalidInput(f"{folder} does not hold shard {name}: another index or table is there.")
        return table


def _is_new(folder: Path) -> bool:
    """Tell whether no table was made yet, or was begun and not finished."""
    path = folder / DATABASE
    if not path.is_file():
        return True
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT 1 FROM sqlite_master").fetchone() is None
