"""The coordinator's log: every change in order, split by shard, on the disk before it is acknowledged.

An entry has a number, and a part for each shard that it concerns: rows that come and rows that go, a version to
answer with, or the order to compact. A part also says which entry of its shard was the one before, so that a shard
notices a gap. A part is dropped when its shard has it on its own disk and no learner needs the rows.

An entry has an author, the session of the coordinator that wrote it. Two logs with an entry of the same number and
author have the same entries up to there. So the newest entry of a shard tells whether it belongs to a log.
"""

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from ... import state as saved
from ...errors import CorruptStore
from ..sqlite.database import Database
from ..sqlite.file_format import CLUSTER, EPOCHS
from ..sqlite.segments import Segment
from ..sqlite.settings import write_settings

_CALL_BYTES = 8 << 20


class Place(NamedTuple):
    """Where a shard is: its number, the Ray resource that only its node has, and its folder there."""

    number: int
    node: str
    path: str

    @property
    def node_name(self) -> str:
        """What its node is called: an address, or the name of the resource.

        Examples
        --------
        >>> Place(0, "node:10.0.0.11", "/data/mihash").node_name
        '10.0.0.11'
        """
        return self.node.removeprefix("node:")


class View(NamedTuple):
    """One moment of the table: the newest entry, the version that answers, the shards' newest, and the session."""

    number: int
    version: int | None
    lasts: tuple[int, ...]
    session: str


class Log:
    """The log of a coordinator.

    Parameters
    ----------
    database
        Where it is.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self.epoch: int | None = None  # None while nothing may be written

    @staticmethod
    def create(connection: sqlite3.Connection, places: list[Place]) -> None:
        """Make an empty log for some shards, inside a transaction."""
        for statement in CLUSTER.split(";")[:-1]:
            connection.execute(statement)
        connection.executemany("INSERT INTO shard VALUES (?, ?, ?, 0, 0)", places)
        write_settings(connection, entries=0)

    def begin(self, session: str, above: int) -> int:
        """Begin an epoch, in which a coordinator writes, above another one and all of this log; return it."""
        with self._database.write() as connection:
            connection.execute(EPOCHS)
            (last,) = connection.execute("SELECT coalesce(max(number), 0) FROM epoch").fetchone()
            epoch: int = max(last, above) + 1
            first = self.view(connection).number + 1
            connection.execute("INSERT OR REPLACE INTO epoch VALUES (?, ?, ?)", (first, epoch, session))
            write_settings(connection, session=session)
        self.epoch = epoch
        return epoch

    def author(self, number: int) -> str | None:
        """Return the session that an entry was written in; None if that was before there were any."""
        query = "SELECT session FROM epoch WHERE first <= ? ORDER BY first DESC LIMIT 1"
        with self._database.read() as connection:
            found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'epoch'").fetchone()
            row = connection.execute(query, (number,)).fetchone() if found else None
        return None if row is None else str(row[0])

    def has(self, number: int, author: str | None) -> bool:
        """Tell whether an entry is, or was, in this log as its author wrote it."""
        with self._database.read() as connection:
            return number <= self.view(connection).number and author == self.author(number)

    def places(self) -> list[Place]:
        """Return where the shards are."""
        with self._database.read() as connection:
            rows = connection.execute("SELECT number, node, path FROM shard ORDER BY number").fetchall()
        return [Place(*row) for row in rows]

    def applied(self) -> list[int]:
        """Return up to which entry each shard is known to have its parts."""
        with self._database.read() as connection:
            return [row[0] for row in connection.execute("SELECT applied FROM shard ORDER BY number")]

    def view(self, connection: sqlite3.Connection) -> View:
        """Return the moment that a transaction sees."""
        query = "SELECT name, value FROM setting WHERE name IN ('entries', 'published', 'session')"
        found = dict(connection.execute(query).fetchall())
        lasts = tuple(row[0] for row in connection.execute("SELECT last FROM shard ORDER BY number"))
        return View(found["entries"], found.get("published"), lasts, found.get("session", ""))

    def append(self, connection: sqlite3.Connection, parts: Mapping[int, dict[str, Any]]) -> None:
        """Write one entry inside a transaction: what each shard has to do."""
        before = self.view(connection)
        number = before.number + 1
        for shard, part in parts.items():
            ids = part.get("ids")
            last = -1 if ids is None or not len(ids) else int(ids[-1])
            entry = saved.dump({**part, "after": before.lasts[shard], "author": before.session})
            connection.execute("INSERT INTO log VALUES (?, ?, ?, ?)", (shard, number, last, entry))
            connection.execute("UPDATE shard SET last = ? WHERE number = ?", (number, shard))
        write_settings(connection, entries=number)

    def parts_after(self, shard: int, number: int) -> list[tuple[int, bytes]]:
        """Return the next parts of a shard after an entry, as many as one call takes."""
        query = "SELECT number, entry FROM log WHERE shard = ? AND number > ? ORDER BY number"
        found: list[tuple[int, bytes]] = []
        size = 0
        with self._database.read() as connection:
            for row in connection.execute(query, (shard, number)):
                found.append(row)
                size += len(row[1])
                if size >= _CALL_BYTES:
                    break
        return found

    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number in their order, one entry at a time."""
        with self._database.read() as connection:
            query = "SELECT DISTINCT number FROM log WHERE last > ? ORDER BY number"
            numbers = [row[0] for row in connection.execute(query, (last,))]
        for number in numbers:
            with self._database.read() as connection:
                query = "SELECT entry FROM log WHERE number = ? AND last >= 0 ORDER BY shard"
                parts = [saved.load(row[0]) for row in connection.execute(query, (number,))]
            rows = _joined(parts)
            yield rows if rows.ids[0] > last else rows.part(rows.ids > last)

    def trim(self, connection: sqlite3.Connection, through: int, applied: list[int]) -> None:
        """Drop the parts that every shard has, of rows up to a sequence number, inside a transaction."""
        for shard, number in enumerate(applied):
            connection.execute("UPDATE shard SET applied = max(applied, ?) WHERE number = ?", (number, shard))
        query = (
            "SELECT min(max(applied, (applied = last) * ?)) FROM shard"  # one that has all parts holds up nothing
        )
        (common,) = connection.execute(query, (2**62,)).fetchone()
        found = connection.execute("SELECT min(number) FROM log WHERE last > ?", (through,)).fetchone()[0]
        stop = common + 1 if found is None else min(common + 1, found)
        connection.execute("DELETE FROM log WHERE number < ?", (stop,))

    def waiting(self, shard: int, applied: int) -> int:
        """Return how many parts a shard has not got yet."""
        query = "SELECT count(*) FROM log WHERE shard = ? AND number > ?"
        with self._database.read() as connection:
            return int(connection.execute(query, (shard, applied)).fetchone()[0])

    def verify(self) -> int:
        """Return how many parts there are, or raise if one is damaged."""
        n = 0
        with self._database.read() as connection:
            for shard, number, entry in connection.execute("SELECT shard, number, entry FROM log"):
                try:
                    saved.load(entry)
                except CorruptStore as error:
                    raise CorruptStore(
                        f"Entry {number} of the log, of shard {shard}, is damaged: {error}"
                    ) from error
                n += 1
        return n


def _joined(parts: list[dict[str, Any]]) -> Segment:
    """Return the rows of an entry, which was split by shard, in their order."""
    ids = np.concatenate([part["ids"] for part in parts])
    order = np.argsort(ids)
    labels = [part["labels"] for part in parts if part["labels"] is not None]
    return Segment(
        ids[order],
        np.concatenate([part["vectors"] for part in parts])[order],
        np.concatenate(labels)[order] if labels else None,
    )
