"""The loop of an index on the disk, with its decisions and its checkpoints.

The rows are the truth; the state of the loop is a function of them. A checkpoint only shortens the replay:
the newest one is read, and the rows after it are learned from once more.
"""

import json
import sqlite3
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import starmap
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import state as saved
from ..errors import CorruptStore, MIHashError
from ..loop.decisions import Check
from ..loop.learning_loop import Loop
from ..mapping import HashMapping
from ..online import MomentHash
from ..store.sqlite.checksums import check_seals, seal_rows
from ..store.sqlite.code_versions import kept_mappings, mapping_of, now, propose
from ..store.table import Table
from .bulk_learning import BulkLearning
from .options import Options
from .stored_past import StoredPast

CHECKPOINT_ROWS = 16_384
_WIDE_ROWS, _WIDE_VALUES = 4096, 1 << 22  # wide rows: a checkpoint after these values, but at least these rows
_REPLAYED_ROWS = 1024  # a replay of as many ends with a checkpoint, so that short processes make progress
_KEPT = 2
_ASKED = ("request", "price")
_STORED = ("number", "kind", "seen", "accepted", "gain", "current", "snapshot", "reason")


class DurableLoop:
    """The loop of an index, with its decisions and checkpoints on the disk.

    Parameters
    ----------
    table
        The hash table whose rows are the stream.
    options
        The options of the index.
    learn_only
        Whether the loop has no trigger: a mapping is accepted on request only.

    Attributes
    ----------
    seen
        How many examples were learned from when the last call ended; None while the loop was not read.
    behind
        How many rows were left for later then.
    """

    def __init__(self, table: Table, options: Options, learn_only: bool = False) -> None:
        self._table, self._options, self._learn_only = table, options, learn_only
        self._lock = table.database.lock  # one lock for all writes, so there is no order to get wrong
        self._loop: Loop | None = None
        self._pending: list[tuple[Check, HashMapping | None]] = []  # checks that are not stored yet
        self._checkpointed = -1  # the last row before the newest checkpoint
        self.seen: int | None = None
        self.behind = 0

    @property
    def known(self) -> Loop | None:
        """The loop, None while it was not read."""
        return self._loop

    @property
    def loop(self) -> Loop:
        """The loop after every stored row that was not left for later; the first call reads it from the disk."""
        with self._lock:
            if self._loop is None:
                self._pending.clear()
                loop = self._restored()
                self._replay(loop)
                self._loop = loop
                self._count()
                self.flush()
                self._checkpoint_after(_REPLAYED_ROWS)
            return self._loop

    @property
    def _through(self) -> int:
        """The last row that no replay has to learn."""
        assert self._loop is not None
        return self._loop.queue.through if self._loop.queue.later else self._table.last

    def _count(self) -> None:
        assert self._loop is not None
        self.seen, self.behind = self._loop.seen, self._loop.queue.later

    def put(self, vectors: NDArray[np.float32], labels: NDArray[Any] | None) -> None:
        """Queue the newest stored rows for `learn`; in an index with labels, rows without are not learned from.

        Where the loop was not read, it reads them from the disk.
        """
        if self._loop is not None and (labels is not None or self._table.label_kind is None):
            self._loop.put(vectors, labels, self._table.last)
            self.behind = self._loop.queue.later

    @contextmanager
    def beside(self, labels: NDArray[Any] | None, possible: bool) -> Iterator[BulkLearning]:
        """Yield a `BulkLearning`: for many rows it learns in a second thread while they are stored.

        A learner that draws from the stored rows learns after the change is stored. If storing fails, the loop is
        dropped.
        """
        loop = self.loop
        draws = isinstance(loop.learner, MomentHash) and loop.learner.past is not None
        learned = labels is not None or self._table.label_kind is None
        with BulkLearning(loop, labels, possible and learned and not draws) as beside:
            try:
                yield beside
            except BaseException:
                if beside.begun:
                    self.forget()
                raise

    def learn(
        self,
        n: int | None = None,
        accepted: Callable[[], None] = lambda: None,
        beside: BulkLearning | None = None,
    ) -> None:
        """Learn from the next n rows of the queue, by default from all; call ``accepted`` for each new version.

        Where rows are learned from ``beside``, this waits for that, and stores the decisions that were made there.
        """
        loop = self.loop
        healthy = loop.failure is None if beside is None else beside.healthy

        def write(check: Check, mapping: HashMapping | None, branch: int = 0) -> None:
            self._note(check, mapping, branch)
            if mapping is not None:
                self.flush()
                accepted()

        if beside is None or not beside.begun:
            loop.learn(n, write)
        else:
            for made in beside.checks():
                write(*made)
        self._count()
        if healthy and loop.failure is not None:
            reason = f"The rows are stored, but learning has stopped: {loop.failure}"
            warnings.warn(reason, RuntimeWarning, stacklevel=4)
        wide = max(_WIDE_ROWS, _WIDE_VALUES // (self._table.n_features or 1))
        self._checkpoint_after(min(CHECKPOINT_ROWS, wide))

    def _checkpoint_after(self, n_rows: int) -> None:
        """Store a checkpoint if the last one is at least ``n_rows`` rows ago."""
        if self._through - self._checkpointed >= n_rows and not self._table.database.read_only:
            with self._table.database.write() as connection:
                self.checkpoint(connection)

    def _note(self, check: Check, mapping: HashMapping | None, _branch: int) -> None:
        self._pending.append((check, mapping))
        if check.kind == "alarm":
            self._table.target.expire()  # the next queries may be like the new rows

    def begin(self, mapping: HashMapping) -> None:
        """Let an empty index begin with a mapping that was learned elsewhere, and store that."""
        self.loop.learner.give(mapping)
        with self._table.database.write() as connection:
            self.checkpoint(connection)

    def offer(self, connection: sqlite3.Connection, mapping: HashMapping, force: bool) -> Check:
        """Decide on a mapping that was learned elsewhere; store the decision, and a checkpoint after it."""
        check = self.loop.offer(mapping, force, self._note)
        self.checkpoint(connection)
        return check

    def restart(self, connection: sqlite3.Connection) -> None:
        """Start a new learner, which learns from later rows, where learning has stopped; store a checkpoint."""
        fresh = self._new_loop()
        fresh.succeed(self.loop)
        self._loop = fresh
        self.checkpoint(connection)

    def set_price(self, price: float, reason: str) -> None:
        """Set the price of a rehash, in queries, and store it."""
        self.loop.set_price(price, reason, self._note)
        self.flush()

    def request(self) -> None:
        """Accept the current mapping, and store that."""
        self.loop.request(notify=self._note)
        self.flush()

    def flush(self) -> None:
        """Store decisions that are only in memory; after a crash before that, a replay makes them again."""
        with self._lock:
            if self._pending:
                with self._table.database.write() as connection:
                    n = self._write(connection)
                del self._pending[:n]

    def checkpoint(self, connection: sqlite3.Connection, kept: int = _KEPT) -> None:
        """Store the state of the loop inside a transaction, so that a replay begins here; keep the newest ones."""
        self._table.target.store(connection)
        if self._loop is None:
            return
        del self._pending[: self._write(connection)]
        self._table.store_codes(connection)
        through = self._through
        if through >= 0 or self._loop.learner.n_features is not None:
            state = saved.dump(self._loop.state() | {"through": through})
            connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?)", (through, state))
            connection.execute(
                "DELETE FROM checkpoint WHERE through NOT IN "
                "(SELECT through FROM checkpoint ORDER BY through DESC LIMIT ?)",
                (kept,),
            )
            self._table.tidy(connection)
        self._checkpointed = through

    def forget(self) -> None:
        """Discard the loop; the next use reads it, and the waiting rows, from the disk.

        Decisions that were not stored are lost: a replay makes them again, except those of the call that failed.
        """
        with self._lock:
            self._loop = self.seen = None
            self._pending.clear()
            self.behind = 0

    @contextmanager
    def consistent(self, *refusals: type[MIHashError]) -> Iterator[None]:
        """Forget the loop in memory if a change is interrupted; the next change reads it from the disk.

        An error among ``refusals`` is raised before anything is stored, so nothing has changed.
        """
        try:
            yield
        except refusals:
            raise
        except BaseException:
            self.forget()
            raise

    def checks(self, after: int | None = None, limit: int | None = None) -> list[Check]:
        """Return stored decisions in order, with the status of their versions.

        Those that follow number ``after``, at most ``limit``; without ``after``, the newest.
        """
        with self._table.database.read() as connection:
            found = _read(connection, -1 if after is None else after, limit, newest=after is None)
            if found:
                check_seals(connection, "version", found[0].number, found[-1].number)
        return found

    def verify(self) -> int:
        """Return how many checkpoints there are, or raise if one is damaged."""
        with self._table.database.read() as connection:
            states = connection.execute("SELECT through, state FROM checkpoint").fetchall()
            for through, state in states:
                try:
                    saved.load(state)
                except MIHashError as error:
                    raise CorruptStore(f"The checkpoint at row {through} is damaged: {error}") from error
        return len(states)

    def _write(self, connection: sqlite3.Connection) -> int:
        """Write the pending decisions that are not stored, and return how many were pending."""
        (known,) = connection.execute("SELECT coalesce(max(number), -1) FROM decision").fetchone()
        pending = list(self._pending)  # others may come meanwhile
        for check, mapping in pending:
            if check.number <= known:
                continue
            values = [getattr(check, name) for name in _STORED]
            connection.execute(f"INSERT INTO decision VALUES ({'?, ' * len(values)}?)", (*values, now()))
            seal_rows(connection, "decision", [check.number])
            if mapping is not None:
                propose(connection, check.number, mapping)
        return len(pending)

    def _restored(self) -> Loop:
        """Return the loop of the newest checkpoint that can be read; without one it begins at the first row."""
        with self._table.database.read() as connection:
            rows = connection.execute("SELECT through, state FROM checkpoint ORDER BY through DESC").fetchall()
        for through, state in rows:
            loop = self._new_loop()
            try:
                found = saved.load(state)
                if found.pop("through", through) != through:
                    raise CorruptStore("it was taken at another row")
                loop.restore(found)
            except MIHashError as error:
                warnings.warn(f"The checkpoint at row {through} is skipped: {error}", RuntimeWarning, stacklevel=4)
                continue
            loop.queue.through = self._checkpointed = through
            return loop
        if rows and self._table.purged:
            raise CorruptStore("No checkpoint can be read, and rows before it were purged. Use a backup.")
        self._checkpointed = -1
        return self._new_loop()

    def _new_loop(self) -> Loop:
        """Return a loop that has seen nothing; where its learner draws from the past, that is the stored rows."""
        loop = self._options.make_loop(self._learn_only)
        loop.arrivals.class_names = lambda: json.loads(self._table.setting("label_names") or "[]")
        if isinstance(loop.learner, MomentHash) and loop.learner.replay:
            loop.learner.past = StoredPast(self._table, loop)
        return loop

    def _replay(self, loop: Loop) -> None:
        """Learn from the rows after the checkpoint; stored decisions are read, not made again."""
        log = self._log(loop.n_checks)
        loop.follow((check, mapping) for check, mapping in log if mapping is not None or not check.accepted)
        asked = [check for check, _ in log if check.kind in _ASKED]
        for segment in self._table.rows_after(self._checkpointed):
            if segment.labels is None and self._table.label_kind is not None:
                continue
            loop.put(segment.features, segment.labels, int(segment.ids[-1]))
            while asked and asked[0].seen <= loop.seen + loop.queue.later:
                loop.learn(asked[0].seen - loop.seen, self._note)
                self._ask_again(loop, asked.pop(0))
            loop.learn(notify=self._note)
        for check in asked:
            self._ask_again(loop, check)

    def _ask_again(self, loop: Loop, check: Check) -> None:
        """Repeat what a caller requested during the replayed rows: a rehash, or another price."""
        if check.kind == "price" and check.current is not None:
            loop.set_price(check.current, check.reason, self._note)
        else:
            loop.request(notify=self._note)

    def _log(self, first: int) -> list[tuple[Check, HashMapping | None]]:
        """Return the decisions from number ``first`` on, each with the mapping of its version.

        Mappings before the oldest checkpoint may be dropped. Where no checkpoint can be read, these decisions are
        made again.
        """
        with self._table.database.read() as connection:
            check_seals(connection, "decision", first)
            kept = kept_mappings(connection)
            return [
                (check, mapping_of(connection, check.number) if check.number in kept else None)
                for check in _read(connection, first - 1)
            ]


def _read(
    connection: sqlite3.Connection, after: int, limit: int | None = None, newest: bool = False
) -> list[Check]:
    """Return stored decisions after a number, in order: at most ``limit``, the first or the newest ones."""
    query = (
        f"SELECT {', '.join('d.' + name for name in _STORED)}, d.at, v.status, v.items, v.seconds "
        "FROM decision d LEFT JOIN version v USING (number) "
        f"WHERE d.number > ? ORDER BY d.number {'DESC' if newest else 'ASC'} LIMIT ?"
    )
    rows = connection.execute(query, (after, -1 if limit is None else limit)).fetchall()
    checks = [
        replace(check, accepted=bool(check.accepted)) for check in starmap(Check, rows[::-1] if newest else rows)
    ]
    if checks:
        check_seals(connection, "decision", checks[0].number, checks[-1].number)
    return checks
