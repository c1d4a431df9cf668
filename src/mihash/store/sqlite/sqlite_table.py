"""A hash table on SQLite: vectors on the disk, codes in memory, versions that are swapped as one.

What is added is on the disk before `add` returns. A new version is built beside the old one, which answers until
the last code is there; then one small transaction and one reference swap them. The codes on the disk are a cache:
those that are missing or damaged are made again from the vectors.
"""

import sqlite3
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, StoreError
from ...stopwatch import Stopwatch
from ..change import NumberedRows
from ..edition import CODE_ROWS, Edition, read_codes, write_codes
from ..filters import Condition
from ..generations import GenerationWatch, Moved, RowsElsewhere
from ..keys import Key
from ..question import Found, Item, Nearest, Question
from ..rescoring import nearest_rows
from ..table import Table
from .answers import Answers
from .code_versions import drop_mappings, mapping_of, mark_published
from .database import Database
from .field_index import enter, index_common_fields, leave
from .items import (
    describe_items,
    insert_items,
    list_items,
    lookup,
    remove_items,
    removed_items,
    stored_items,
    top_key,
)
from .segments import Segment, Segments
from .settings import new_settings, read_settings, with_factors, write_settings
from .verification import verify

_CODES_SAMPLED = 10_000


class SQLiteTable(Table):
    """Items on the disk, with their codes under one snapshot.

    Parameters
    ----------
    folder
        The folder of the table.
    read_only
        Whether this process only reads, and follows what another one writes.

    Examples
    --------
    >>> import tempfile, mihash
    >>> table = SQLiteTable.create(tempfile.mkdtemp())
    >>> table.rebuild(mihash.mapping.LinearMapping(np.eye(2)))
    >>> names, vectors = table.add([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]], keys=["a", "b", "c"])
    >>> hits = table.search([[2.0, 3.0]], k=2, rescore=0, margins=False)
    >>> hits.keys.tolist(), hits.distances.tolist()
    ([['a', 'b']], [[0, 1]])
    >>> table.close()
    """

    def __init__(self, folder: str | Path, read_only: bool = False) -> None:
        super().__init__(Database(Path(folder), read_only))
        self._edition: Edition | None = None
        self._followed: tuple[int, ...] | None = None
        self._following = threading.RLock()  # taken before the database's
        self._watch: GenerationWatch | None = None
        try:
            self._watch = GenerationWatch.of(self.database.folder) if read_only else None
            with self.database.read() as connection:
                settings = read_settings(connection)
                if settings.get("table") == "ray":
                    raise RowsElsewhere(
                        f"{folder} is an index on Ray: its rows are on its shards (docs/scale.md)."
                    )
                if settings.get("generation"):
                    raise Moved(settings["generation"])
                self.segments = Segments(self.database, settings["dtype"])
                self.answers = Answers(self.database, self.segments, settings["metric"])
            if not read_only:
                self._clean()
            self._load()
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls, folder: str | Path, *, dtype: str = "float32", metric: str = "euclidean", **settings: Any
    ) -> "SQLiteTable":
        """Make an empty table in a new or empty folder."""
        Database.create(Path(folder), new_settings(dtype, metric) | settings).close()
        return cls(folder)

    # What is known of the rows

    def __len__(self) -> int:
        """Return how many items are stored."""
        return self.answers.count(self.edition)

    def count(self, where: Condition) -> int:
        """Return how many items match a filter."""
        return self.answers.count(self.edition, where)

    @property
    def edition(self) -> Edition | None:
        """The version that answers now; None before the first."""
        self.database.check_open()
        if self.database.read_only:
            self._follow()
        return self._edition

    def has_moved(self) -> bool:
        """Tell whether another generation answers now, for a process that only reads."""
        if self._watch is not None:
            return self._watch.has_moved()
        if self.database.read_only:
            self._follow()
        return self.database.read_only and bool(self._settings.get("generation"))

    def close(self) -> None:
        """Close the files."""
        super().close()
        if self._watch is not None:
            self._watch.close()

    @property
    def _with_factors(self) -> bool:
        """Whether rows get two bytes more, where the mapping has them."""
        return with_factors(self._settings)

    # The write path

    def lookup(
        self, keys: list[Key], with_texts: bool, max_bytes: int | None = None
    ) -> tuple[list[int | None], list[str | None]]:
        """Return the sequence number of each key, None if it is not stored, and its metadata as text."""
        with self.database.read() as connection:
            return lookup(connection, keys, with_texts, max_bytes)

    def _check_new(self, keys: list[Key]) -> None:
        """Leave it to `insert_items`: the index of the keys finds them as it stores them."""

    def top_key(self) -> int:
        """Return the largest key that is a number, -1 if there is none."""
        with self.database.read() as connection:
            return top_key(connection)

    def _store(self, connection: sqlite3.Connection, rows: NumberedRows) -> Callable[[], None]:
        segment, edition, removed = rows.segment, self._edition, rows.removed
        n_tombstones, n_described = self._count("tombstones"), self._count("described")
        replaced = removed[: len(removed) - len(rows.expired)]
        if replaced or rows.described:
            leave(connection, [*replaced, *rows.described])
        if replaced:
            remove_items(connection, replaced, n_tombstones)
        if rows.described:
            describe_items(connection, rows.described, rows.texts or [None] * len(rows.described))
            enter(connection, rows.described)
        if len(segment):
            if rows.keys is None:  # numbers are never refused
                rows.admit()
            insert_items(connection, segment.ids, rows.names, rows.texts)
            if rows.keys is not None:
                rows.admit()
            if rows.texts is not None:
                enter(connection, segment.ids.tolist())
                n_items = self._count("rows") + self._count("purged") - n_tombstones
                index_common_fields(connection, n_items + len(segment))
            self.segments.append(connection, segment)
        if rows.expired:  # new rows may be among them
            leave(connection, rows.expired)
            remove_items(connection, rows.expired, n_tombstones + len(replaced))
        if edition is not None:  # made before the commit, so that a search waits for little after it
            edition = edition.encoded(segment.ids, segment.features) if len(segment) else edition
            edition = edition.without(removed, n_tombstones + len(removed)) if removed else edition
            if rows.described:
                edition = replace(edition, n_described=n_described + len(rows.described))
        return partial(setattr, self, "_edition", edition)

    # Versions

    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Make the codes of a version beside those that answer, then swap; return False if it was stopped."""
        watch = Stopwatch()
        staged = self.stage(number, stopped)
        if staged is None:
            return False
        self.publish(*staged, watch)
        return True

    def stage(self, number: int, stopped: Callable[[], bool] = lambda: False) -> tuple[Edition, int] | None:
        """Make the codes of a version; return them, and how many are on the disk, or None if it was stopped."""
        mapping = self.mapping_of(number)
        self.check_width(mapping)
        old = self._edition
        edition = Edition.empty(number, mapping, 0 if old is None else old.n + CODE_ROWS, self._with_factors)
        stored = 0
        with self.database.write() as connection:
            connection.execute("DELETE FROM code WHERE version = ?", (number,))
        for segment in self.segments.after(-1, None, mapping.n_features):
            if stopped():
                return None
            edition = edition.encoded(segment.ids, segment.features)
            if edition.n - stored >= CODE_ROWS:
                with self.database.write() as connection:
                    write_codes(connection, edition, stored)
                stored = edition.n
        return edition, stored

    def publish(self, edition: Edition, stored: int, watch: Stopwatch, **settings: Any) -> None:
        """Add the rows that came since to a staged version, and answer with it."""
        with self.database.lock, self.loaded_again():
            edition = self._caught_up(edition)
            _check_whole(edition, self._count("rows"))
            old = self._edition
            edition = self._with_deletions(edition) if old is None else edition.with_deletions_of(old)
            with self.database.write() as connection:
                write_codes(connection, edition, stored)
                version, previous = edition.version, self.setting("published")
                kept = (version, version if previous is None else previous)
                connection.execute("DELETE FROM code WHERE version NOT IN (?, ?)", kept)
                mark_published(connection, version, edition.mapping, edition.n, watch.seconds)
                write_settings(connection, published=edition.version, **settings)
            self.settled(published=edition.version, **settings)
            self._edition = edition

    def store_codes(self, connection: sqlite3.Connection) -> None:
        """Store the codes of rows that came after the last stored ones, inside a transaction."""
        edition = self._edition
        if edition is not None:
            query = "SELECT coalesce(max(last), -1) FROM code WHERE version = ?"
            (last,) = connection.execute(query, (edition.version,)).fetchone()
            write_codes(connection, edition, int(np.searchsorted(edition.ids, last, side="right")))

    # The search path

    @contextmanager
    def _moment(self) -> Iterator[Edition | None]:
        yield self.edition

    def _ask(self, moment: Edition | None, question: Question, with_keys: bool) -> Nearest | None:
        if moment is None:
            return question.nothing(measure=question.measure(self.metric, None))
        return self.answers.nearest(moment, question, with_keys and not self.setting("plain_keys"))

    @contextmanager
    def _unchanging(self) -> Iterator[None]:
        with self._following, self.database.lock, self.database.read():
            self._followed = None
            try:
                yield
            finally:
                self._followed = None

    def _items(self, keys: list[Key]) -> list[Item]:
        with self.database.read() as connection:
            return stored_items(connection, self.segments, keys, self._count("n_features"), self.label_kind)

    def listed(
        self, where: Condition | None = None, after: int = -1, limit: int | None = None
    ) -> tuple[list[int], list[Key]]:
        """Return sequence numbers and keys of items after a number, in order; at most ``limit``."""
        with self.database.read() as connection:
            return list_items(connection, where, after, limit)

    def unknown_fields(self, where: Condition) -> list[str]:
        """Return which fields of a filter no item has."""
        return self.answers.unknown_fields(where)

    def free_vectors(self) -> None:
        """Free vectors that are held in memory for exact answers."""
        self.answers.free()

    def live_ids(self) -> NDArray[np.int64]:
        """Return the sequence numbers of all items, in order."""
        edition = self.edition
        return np.empty(0, dtype=np.int64) if edition is None else edition.ids[~edition.dead]

    def fetch(self, ids: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Return the vectors of rows, None if one is gone."""
        return self.segments.fetch(ids, self._count("n_features"))

    def exact(self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int) -> Found:
        """Return ids and distances of the k nearest vectors to each query, without its own, by (distance, id)."""
        edition = self.edition
        dead = np.empty(0, dtype=np.int64) if edition is None else edition.ids[edition.dead]
        return nearest_rows(self.segments, queries, own, k, dead, self.metric)

    # Maintenance

    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number, with their labels; raise at the end where some are not found."""
        with self.database.read() as connection:
            left = int(np.count_nonzero(self.segments.ids(connection) > last))
        for segment in self.segments.after(last, self.label_kind, self._count("n_features")):
            left -= len(segment)
            yield segment
        if left > 0:
            raise CorruptStore(f"{left} rows after row {last} are not found. Run `verify`, or use a backup.")

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Put small pieces together and drop old mappings, inside a transaction."""
        self.merge(connection)
        drop_mappings(connection, self.setting("published"))

    def merge(self, connection: sqlite3.Connection, full: bool = False) -> None:
        """Put the small segments that came since the last time together, inside a transaction."""
        after = int(self._settings.get("merged", -1))
        merged = self.segments.merge(connection, self.label_kind, self._count("n_features"), after, full)
        write_settings(connection, merged=merged)
        self.settled(merged=merged)

    def _purge(self, connection: sqlite3.Connection) -> None:
        dead = np.array(sorted(self._deleted(connection)), dtype=np.int64)
        if len(dead):
            self.segments.purge(connection, dead, self.label_kind, self._count("n_features"))
        connection.execute("DELETE FROM tombstone")
        connection.execute("DELETE FROM code")
        self.settled(merged=-1)
        self.merge(connection, full=True)
        if self._edition is not None:
            write_codes(connection, self._edition.purged(), 0)

    def compacted(self, fresh: dict[str, int], vacuum: bool = True) -> None:
        """Take over what `compact` has committed, and give its space back to the disk if asked."""
        self.settled(**fresh)
        if self._edition is not None:
            self._edition = self._edition.purged()
        try:
            if vacuum:
                self.database.vacuum()
        except StoreError as error:
            raise StoreError(f"The deleted rows are removed, but the file is not smaller yet. {error}") from error

    def about(self) -> dict[str, Any]:
        """Return statistics of the codes on a sample of the rows: distinct codes and bit entropy."""
        edition = self.edition
        return {} if edition is None or not edition.n else edition.code_sample()

    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping; return how much.

        Raises `CorruptStore` with everything that was found.
        """
        edition, kind = self.edition, self.label_kind
        return verify(self.database, self.segments, edition, kind, self._count("n_features"), _CODES_SAMPLED)

    def backup(self, folder: Path) -> None:
        """Write a consistent copy to a new folder."""
        self.database.backup(folder)

    # Loading and following

    def _clean(self) -> None:
        """Remove the codes of an interrupted build; its version waits to be built again."""
        with self.database.write() as connection:
            connection.execute(
                "DELETE FROM code WHERE version NOT IN (SELECT number FROM version WHERE status = 'published')"
            )

    def _load(self) -> None:
        """Read the published version as it is, in one transaction, and encode the rows that have no code yet."""
        with self.database.read() as connection:
            before, self._settings = self._settings, read_settings(connection)
            try:
                self._edition = self._read(connection)
            except BaseException:
                self._settings = before
                raise

    def _read(self, connection: sqlite3.Connection) -> Edition | None:
        published = self._settings.get("published")
        ids = self.segments.ids(connection)
        if len(ids) != self._count("rows"):
            raise CorruptStore(f"There are {len(ids)} rows where {self._count('rows')} were stored. Use a backup.")
        if published is None:
            return None
        mapping = mapping_of(connection, published)
        empty = Edition.empty(published, mapping, len(ids), self._with_factors)
        edition, damage = read_codes(connection, empty, ids)
        if damage is not None:
            warnings.warn(f"{damage} They are made again from the vectors.", RuntimeWarning, stacklevel=2)
            if not self.database.read_only:
                with self.database.write() as writing:
                    writing.execute("DELETE FROM code WHERE version = ?", (published,))
            edition = empty
        edition = self._caught_up(edition)
        _check_whole(edition, self._count("rows"))
        return self._with_deletions(edition)

    def _caught_up(self, edition: Edition) -> Edition:
        """Return an edition with the rows that are stored and not in it."""
        for segment in self.segments.after(edition.last, None, edition.mapping.n_features):
            edition = edition.encoded(segment.ids, segment.features)
        return edition

    def _with_deletions(self, edition: Edition) -> Edition:
        with self.database.read() as connection:
            gone = self._deleted(connection)
        edition = edition.without(gone, self._count("tombstones"))
        return replace(edition, n_purges=self._count("compactions"), n_described=self._count("described"))

    def _deleted(self, connection: sqlite3.Connection) -> list[int]:
        """Return the ids of deleted rows that were not purged."""
        return removed_items(connection, self._count("purged"), self._count("tombstones"))

    def _follow(self) -> None:
        """Take over what another process has committed since the last call."""
        with self._following:
            seen = self.database.data_version()
            if seen == self._followed:
                return
            with self.database.read() as connection:
                settings, edition = read_settings(connection), self._edition
                if settings.get("generation"):  # what is here answers no more, and may be removed
                    self._settings["generation"] = settings["generation"]
                    return
                same = ("published", "compactions")
                if edition is None or any(settings.get(name) != self._settings.get(name) for name in same):
                    self._load()
                else:
                    edition, n_tombstones = self._caught_up(edition), settings.get("tombstones", 0)
                    _check_whole(edition, settings.get("rows", 0))
                    gone = removed_items(connection, edition.n_tombstones, n_tombstones)
                    self._settings = settings
                    edition = replace(edition, n_described=settings.get("described", 0))
                    self._edition = edition.without(gone, n_tombstones) if gone else edition
            self._followed = seen


def _check_whole(edition: Edition, n: int) -> None:
    """Raise if the table of segments has passed over rows."""
    if edition.n != n:
        raise CorruptStore(f"{edition.n} rows are found where {n} were stored. Run `verify`, or use a backup.")
