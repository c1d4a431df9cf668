"""What an index has learned, on the disk: decisions, checkpoints, and the stream that they lead to.

The rows are the truth; the learner's state is a function of them. So a checkpoint is only a place to begin from:
the newest one is read, and the rows after it are learned from once more.
"""

import sqlite3
import warnings
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import state as saved
from ..errors import CorruptStore, MIHashError
from ..loop.loop import Event, Stream
from ..mapping import HashMapping
from ..store.sqlite.seals import check_seals, seal_rows
from ..store.sqlite.versions import kept_mappings, mapping_of, now, propose
from ..store.table import DurableTable
from ..trigger import Decision
from .options import Options

CHECKPOINT_ROWS = 16_384
_KEPT = 2

Labels = NDArray[Any] | None


class _Rows(NamedTuple):
    """Rows that are stored and were not learned from yet, and the number of the last one."""

    vectors: NDArray[np.float32]
    labels: Labels
    last: int

    def split(self, n: int) -> "tuple[_Rows, _Rows | None]":
        """Return the first n rows, and the others if there are any."""
        left = len(self.vectors) - n
        if left <= 0:
            return self, None
        head, tail = (None, None) if self.labels is None else (self.labels[:n], self.labels[n:])
        return _Rows(self.vectors[:n], head, self.last - left), _Rows(self.vectors[n:], tail, self.last)


class Journal:
    """The stream of an index, with its decisions and checkpoints.

    Parameters
    ----------
    table
        The hash table whose rows are the stream.
    options
        What the index was made with.
    """

    def __init__(self, table: DurableTable, options: Options) -> None:
        self._table, self._options = table, options
        self._lock = table.database.lock  # one lock for all that is written: no order to get wrong
        self._stream: Stream | None = None
        self._pending: list[Event] = []
        self._learned = 0  # rows since the last checkpoint
        self._through = -1  # the last row that was learned from, or passed over
        self._seen = 0  # examples, up to the last call that has ended
        self._behind: deque[_Rows] = deque()
        self.n_behind = 0  # rows in it

    @property
    def known(self) -> Stream | None:
        """The stream, None while it was not read."""
        return self._stream

    @property
    def seen(self) -> int | None:
        """How many examples were learned from when the last call ended; None while that was not read."""
        return None if self._stream is None else self._seen

    @property
    def stream(self) -> Stream:
        """The stream after every row that is stored and not kept for later, read from the disk where need be."""
        with self._lock:
            if self._stream is None:
                self._pending.clear()
                stream = self._restored()
                self._replay(stream)
                self._stream, self._seen = stream, stream.seen
                self.flush()
            return self._stream

    def keep(self, vectors: NDArray[np.float32], labels: Labels) -> None:
        """Have the newest stored rows learned from, in their turn; a crash before is one before a checkpoint."""
        if len(vectors):
            self._behind.append(_Rows(vectors, labels, self._table.last))
            self.n_behind += len(vectors)

    def learn(self, n: int | None = None) -> Iterator[None]:
        """Learn from rows that were kept, the oldest first, pausing where a mapping was accepted and written down.

        From all of them, or from n.
        """
        stream = self.stream
        left = self.n_behind if n is None else min(n, self.n_behind)
        while left > 0 and self._behind:
            rows, rest = self._behind.popleft().split(left)
            if rest is not None:
                self._behind.appendleft(rest)
            left -= len(rows.vectors)
            yield from self._learn(stream, rows)
            self.n_behind -= len(rows.vectors)
        if self._learned >= CHECKPOINT_ROWS:
            with self._table.database.write() as connection:
                self.checkpoint(connection)

    def _learn(self, stream: Stream, rows: _Rows) -> Iterator[None]:
        self._through = rows.last
        if rows.labels is None and self._table.label_kind is not None:
            return
        healthy = stream.failure is None
        for event in stream.feed(rows.vectors, rows.labels):
            self._pending.append(event)
            if event.mapping is not None:
                self.flush()
                yield
        if healthy and stream.failure is not None:
            reason = f"The rows are stored, but learning has stopped: {stream.failure}"
            warnings.warn(reason, RuntimeWarning, stacklevel=5)
        self._learned += len(rows.vectors)
        self._seen = stream.seen

    def begin(self, mapping: HashMapping) -> None:
        """Have an empty index begin with a mapping from elsewhere, and write that down."""
        self.stream.begin(mapping)
        with self._table.database.write() as connection:
            self.checkpoint(connection)

    def offer(self, connection: sqlite3.Connection, mapping: HashMapping, force: bool) -> Event:
        """Have a mapping from elsewhere decided on; write down the decision and where a replay begins after it."""
        event = self.stream.offer(mapping, force)
        self._pending.append(event)
        self.checkpoint(connection)
        return event

    def restart(self, connection: sqlite3.Connection) -> None:
        """Begin learning anew where it has stopped, with the rows to come; a replay begins here."""
        fresh = self._options.make_stream()
        fresh.succeed(self.stream)
        self._stream = fresh
        self.checkpoint(connection)

    def request(self) -> None:
        """Accept the current mapping, and write that down."""
        self._pending.append(self.stream.request())
        self.flush()

    def flush(self) -> None:
        """Write decisions that are only in memory; a crash before would make them again in a replay."""
        with self._lock:
            written = list(self._pending)
            if written:
                with self._table.database.write() as connection:
                    self._write(connection, written)
                del self._pending[: len(written)]  # others may have come meanwhile

    def checkpoint(self, connection: sqlite3.Connection, kept: int = _KEPT) -> None:
        """Store the learner's state inside a transaction, so that a replay begins here; keep so many of them."""
        if self._stream is None:
            return
        written = list(self._pending)
        self._write(connection, written)
        del self._pending[: len(written)]
        self._table.store_codes(connection)
        if self._through >= 0 or self._stream.begun:
            state = saved.dump(self._stream.state() | {"through": self._through})
            connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?)", (self._through, state))
            connection.execute(
                "DELETE FROM checkpoint WHERE through NOT IN "
                "(SELECT through FROM checkpoint ORDER BY through DESC LIMIT ?)",
                (kept,),
            )
            self._table.tidy(connection)
        self._learned = 0

    def forget(self) -> None:
        """Have the stream read again from the disk at the next need, with the rows that were kept.

        Decisions that were not written go with it: a replay makes them again, but for those of a call that failed.
        """
        with self._lock:
            self._stream = None
            self._pending.clear()
            self._behind.clear()
            self.n_behind = 0

    @contextmanager
    def consistent(self, *refusals: type[MIHashError]) -> Iterator[None]:
        """Forget the stream in memory where a change is interrupted; the next one reads it from the disk.

        With one of ``refusals``, which come before anything is stored, nothing has changed.
        """
        try:
            yield
        except refusals:
            raise
        except BaseException:
            self.forget()
            raise

    def decisions(self, after: int | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return decisions that are written down, in order, with what became of their versions.

        Those that follow number ``after``, at most ``limit``; without ``after``, the newest.
        """
        order = "DESC" if after is None else "ASC"
        query = (
            "SELECT d.number, d.kind, d.seen, d.accepted, d.gain, d.current, d.snapshot, d.reason, d.at, "
            "v.status, v.items, v.seconds FROM decision d LEFT JOIN version v USING (number) "
            f"WHERE d.number > ? ORDER BY d.number {order} LIMIT ?"
        )
        with self._table.database.read() as connection:
            cursor = connection.execute(query, (-1 if after is None else after, -1 if limit is None else limit))
            names = [each[0] for each in cursor.description]
            rows = [dict(zip(names, row, strict=True)) for row in cursor]
            if rows:
                ends = sorted((rows[0]["number"], rows[-1]["number"]))
                check_seals(connection, "decision", *ends)
                check_seals(connection, "version", *ends)
        rows = rows[::-1] if after is None else rows
        return [row | {"accepted": bool(row["accepted"])} for row in rows]

    def verify(self) -> int:
        """Return how many checkpoints there are, or raise where one is damaged."""
        with self._table.database.read() as connection:
            states = connection.execute("SELECT through, state FROM checkpoint").fetchall()
            for through, state in states:
                try:
                    saved.load(state)
                except MIHashError as error:
                    raise CorruptStore(f"The checkpoint at row {through} is damaged: {error}") from error
        return len(states)

    def _write(self, connection: sqlite3.Connection, events: list[Event]) -> None:
        (known,) = connection.execute("SELECT coalesce(max(number), -1) FROM decision").fetchone()
        for event in events:
            if event.number <= known:
                continue
            decision, accepted = event.decision, event.mapping is not None
            about = (event.number, event.kind, event.seen, accepted)
            qualities = (decision.gain, decision.current, decision.snapshot)
            connection.execute(
                "INSERT INTO decision VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                (*about, *qualities, decision.reason, now()),
            )
            seal_rows(connection, "decision", [event.number])
            if event.mapping is not None:
                propose(connection, event.number, event.mapping)

    def _restored(self) -> Stream:
        """Return the stream of the newest checkpoint that can be read; without one it begins at the first row."""
        with self._table.database.read() as connection:
            rows = connection.execute("SELECT through, state FROM checkpoint ORDER BY through DESC").fetchall()
        for through, state in rows:
            stream = self._options.make_stream()
            try:
                found = saved.load(state)
                if found.pop("through", through) != through:
                    raise CorruptStore("It was taken at another row.")
                stream.restore(found)
            except MIHashError as error:
                warnings.warn(
                    f"The checkpoint at row {through} is passed over: {error}", RuntimeWarning, stacklevel=4
                )
                continue
            self._through, self._learned = through, 0
            return stream
        if rows and self._table.purged:
            raise CorruptStore("No checkpoint can be read, and rows before it were purged. Use a backup.")
        self._through, self._learned = -1, 0
        return self._options.make_stream()

    def _replay(self, stream: Stream) -> None:
        """Learn from the rows after the checkpoint; what was decided on them is read from the log."""
        kind = self._table.label_kind
        log = self._log(stream.n_events)
        stream.follow(event for event in log if event.mapping is not None or not event.decision.update)
        asked = [event.seen for event in log if event.kind == "request"]
        for segment in self._table.rows_after(self._through):
            self._through = int(segment.ids[-1])
            if kind is not None and segment.labels is None:
                continue
            X, y = segment.features, segment.labels
            while len(X):
                n = min(len(X), max(0, asked[0] - stream.seen)) if asked else len(X)
                if n:
                    self._pending.extend(stream.feed(X[:n], None if y is None else y[:n]))
                    X, y = X[n:], None if y is None else y[n:]
                else:
                    self._pending.append(stream.request())
                    asked.pop(0)
            self._learned += len(segment)
        self._pending.extend(stream.request() for _ in asked)

    def _log(self, first: int) -> list[Event]:
        """Return the decisions from number ``first`` on, each with the mapping of its version.

        Mappings before the oldest checkpoint may be dropped. Where no checkpoint can be read, these decisions are
        made again.
        """
        query = (
            "SELECT number, kind, seen, accepted, reason, gain, current, snapshot FROM decision "
            "WHERE number >= ? ORDER BY number"
        )
        events = []
        with self._table.database.read() as connection:
            check_seals(connection, "decision", first)
            kept = kept_mappings(connection)
            for number, kind, seen, accepted, reason, *qualities in connection.execute(query, (first,)).fetchall():
                gain, current, snapshot = (float("nan") if each is None else each for each in qualities)
                decision = Decision(bool(accepted), gain, reason, current, snapshot)
                mapping = mapping_of(connection, number) if number in kept else None
                events.append(Event(number, kind, seen, decision, mapping))
        return events
