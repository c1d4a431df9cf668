"""What the parts of an index share: table, durable loop and builder; storing a change and learning from it."""

from __future__ import annotations

import json
import threading
import warnings
from contextlib import suppress
from dataclasses import replace
from typing import Any

from numpy.typing import NDArray

from .. import validation
from ..errors import CorruptStore, InvalidInput, NotReady, StoreError, UnknownName
from ..label_names import LabelNames
from ..loop.learning_loop import Loop
from ..store.backends import open_table
from ..store.change import Change
from ..store.generations import root_of
from ..store.keys import Key
from ..store.table import Table
from .background_rehash import Builder
from .bulk_learning import BulkLearning
from .defaults import with_choices
from .durable_loop import DurableLoop
from .options import Options
from .page import PageEnds

_EXPIRED = 4096  # expired rows that may stay on the disk
STORED = "The rows are stored; what was learned from them was not, and will be learned again"


class IndexState:
    """The loop over a durable table: it learns in the order of the rows, and has accepted mappings built.

    Parameters
    ----------
    table
        The table, with the options of the index in its settings.
    """

    def __init__(self, table: Table) -> None:
        self._opened = table
        self._retired: Table | None = None  # of the generation before, for queries that run during a cut-over
        self._writing = threading.RLock()
        self._closed = False
        self._page_ends = PageEnds()
        self._unwritten: StoreError | None = None  # why decisions are only in memory
        try:
            if (text := table.setting("options")) is None:
                raise StoreError(f"{table.database.folder} holds a hash table, not an index.")
            self._options = Options.from_text(text)
            self._durable = DurableLoop(table, self._options)
            self._builder = Builder(table, bool(table.setting("paused")))
            if not self.read_only:
                if table.last >= 0 and table.edition is None:
                    self._build_first()
                elif table.waiting() is not None:
                    self._builder.notice()
        except BaseException:
            table.close()
            raise

    @property
    def _table(self) -> Table:
        """The table of the generation that answers; a process that only reads follows a cut-over."""
        if not self._closed and self._opened.has_moved():
            with self._writing:
                table = self._opened
                if table.has_moved():
                    self._become(type(self)(open_table(root_of(table.database.folder), read_only=True)))
        return self._opened

    def _become(self, other: IndexState) -> None:
        """Take over another generation; the table of this one stays open for queries that run."""
        before = self._opened
        self._builder.stop()
        if not self.read_only:
            with suppress(StoreError), before.database.write() as connection:
                self._durable.checkpoint(connection)
        self._options, self._durable, self._builder = other._options, other._durable, other._builder
        self._opened, other._closed = other._opened, True
        self._close_retired()
        self._retired = before

    def _close_retired(self) -> None:
        """Close the table of the generation before, which frees its folder."""
        if self._retired is not None:
            self._retired.close()
            self._retired = None

    @property
    def read_only(self) -> bool:
        """Whether this process only reads."""
        return self._opened.database.read_only

    @property
    def behind(self) -> int:
        """How many rows are stored and not learned from yet."""
        return self._durable.behind

    @property
    def version(self) -> int | None:
        """The version that answers queries; None before anything was added."""
        edition = self._table.edition
        return None if edition is None else edition.version

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors; None before anything was added."""
        return self._table.n_features

    def _purge_expired(self) -> None:
        """Remove expired rows from the disk where they are many, so that it does not grow; not during a build."""
        table = self._table
        if table.window is None:
            return
        if self._options.parameters.get("replay"):
            self._builder.wait()  # it draws from what is stored: rows must leave at the same example in every run
        edition = table.edition
        if edition is None or edition.n_dead <= max(_EXPIRED, edition.n_items // 4):
            return
        if self._builder.building.acquire(blocking=False):
            try:
                self._purge(vacuum=False)
            finally:
                self._builder.building.release()

    def _purge(self, vacuum: bool) -> None:
        """Remove the vectors of deleted items; SQLite uses their space again, and ``vacuum`` gives it back."""
        self._ready()
        with self._durable.consistent(), self._table.database.lock, self._table.loaded_again():
            self._learn()  # from the rows to be purged, too
            with self._table.database.write() as connection:
                self._durable.checkpoint(connection, kept=1)  # older ones would need the purged rows
                fresh = self._table.compact(connection)
            self._table.compacted(fresh, vacuum)

    def _ready(self) -> Loop:
        """Return the learner's state after the newest row; raise in a read-only process, which has none."""
        if self._closed:
            raise NotReady("The index is closed.")
        self._table.database.check_writable()
        fresh = self._durable.known is None
        loop = self._durable.loop
        if fresh and self._table.edition is not None and self._table.waiting() is not None:
            self._builder.notice()
        return loop

    def _write(self, change: Change, y: validation.GivenLabels | None, n: int | None = None) -> list[Key]:
        """Store the rows of a change with their labels, and learn from n rows, by default from all that wait."""
        with self._writing:
            if first := self._opened.last < 0:
                chosen = with_choices(self._opened, self._options, change, y is not None)
                if chosen != self._options:
                    self._options, self._durable = chosen, DurableLoop(self._opened, chosen)
            loop = self._ready()
            if first and len(change.vectors):  # later rows have the width of those that are stored
                validation.width("X", change.vectors, loop.learner.n_features)
            labels, settings = self._checked_labels(loop, len(change.vectors), y)
            durable, possible = self._durable, n is None and not settings  # an alarm may name a new class
            with durable.consistent(InvalidInput, UnknownName), durable.beside(labels, possible) as beside:
                change = replace(change, labels=labels, admitted=beside.begin)
                keys, stored = self._table.write(change, **settings)
                if not beside.begun:
                    durable.put(stored, labels)
                self._learn(n, beside)
            self._write_decisions()
            self._purge_expired()
            return keys

    def _checked_labels(
        self, loop: Loop, n: int, y: validation.GivenLabels | None
    ) -> tuple[NDArray[Any] | None, dict[str, Any]]:
        """Return the labels of n rows as numbers, and new class names as a setting; nothing changes."""
        table = self._table
        begun, kind = table.last >= 0, table.label_kind
        if not n or (begun and (y is None or (kind is None and validation.without_missing("y", y, n)[1].all()))):
            return None, {}
        if begun and kind is None:
            raise InvalidInput(
                "This index began without labels, so items with near vectors are neighbours. Leave labels out, or "
                "make an index whose first rows have labels."
            )
        names = self._class_names()
        known = len(names.names)
        labels = names.checked(y, n, None if kind is None else (kind[1],) if kind[1] else ())
        loop.check_labels(labels)
        names.keep()
        return labels, {"label_names": json.dumps(names.names)} if len(names.names) > known else {}

    def _class_names(self) -> LabelNames:
        """Return the class names of an index whose labels are strings; none of others."""
        text, found, begun = self._table.setting("label_names"), LabelNames(), self._table.label_kind is not None
        found.restore({"names": json.loads(text or "[]"), "are_names": bool(text) if begun else None})
        return found

    def _learn(self, n: int | None = None, beside: BulkLearning | None = None) -> None:
        """Learn from rows that are stored, and have each accepted mapping built."""
        try:
            self._durable.learn(n, self._build, beside)
        except StoreError as error:
            self._durable.forget()
            warnings.warn(f"{STORED}: {error}", RuntimeWarning, stacklevel=3)

    def _build(self) -> None:
        """Build the accepted mapping: the first at once, others in the background."""
        if self._table.edition is None:
            self._build_first()
        else:
            self._builder.notice()

    def _build_first(self) -> None:
        """Build the first version at once: queries must not wait for it."""
        self._ready()
        if (number := self._table.waiting()) is not None:
            self._table.build(number)

    def _write_decisions(self) -> None:
        """Write decisions that are only in memory; while the disk is full, readers see the earlier ones."""
        if self.read_only:
            return
        try:
            self._durable.flush()
            self._unwritten = None
        except CorruptStore:
            raise
        except StoreError as error:
            self._unwritten = error
