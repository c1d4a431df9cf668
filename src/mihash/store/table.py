"""The hash table on a disk: one write path and one search path, over a few hooks (Sec. 3.1).

A durable table has one SQLite database for its settings, decisions, versions and checkpoints. Vectors and codes
are in that database (`SQLiteTable`) or on other machines (`RayTable`). Both fill in the hooks of `Table`.
"""

from __future__ import annotations

import json
import sqlite3
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import CorruptStore, InvalidInput, MIHashError, NotReady, UnknownName
from ..mapping import HashMapping
from .change import Change, NumberedRows, Source
from .edition import Edition, Published
from .expiry import Expiry
from .item_reads import ItemReads
from .keys import Key
from .metadata import Metadata
from .question import Found, Hits, Nearest, Question
from .recall_target import RecallTarget
from .sqlite.code_versions import Version, mapping_of, propose, published_versions, waiting_version
from .sqlite.database import Database
from .sqlite.items import all_found
from .sqlite.positions import write_position
from .sqlite.segments import LabelKind, Segment, Segments, kind_of
from .sqlite.settings import read_settings, write_settings
from .window import Window


class Table(ItemReads):
    """A hash table that an index is built on.

    Parameters
    ----------
    database
        The database of its settings.
    """

    segments: Segments

    def __init__(self, database: Database) -> None:
        self.database = database
        self.target = RecallTarget(self)
        self._settings: dict[str, Any] = {}
        self._expiry = Expiry(self)

    def has_moved(self) -> bool:
        """Tell whether another generation answers now, for a process that only reads."""
        return False

    # Settings

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to."""
        edition = self.edition
        return None if edition is None else edition.mapping

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        found = self.setting("n_features")
        if found is not None:
            return int(found)
        mapping = self.mapping
        return None if mapping is None else mapping.n_features

    @property
    def metric(self) -> str:
        """How vectors are compared: ``"euclidean"``, ``"cosine"`` or ``"ip"``."""
        return str(self.setting("metric"))

    @property
    def label_kind(self) -> LabelKind | None:
        """How labels are stored: a type, and the number of classes of a 0/1 matrix or 0; None without labels."""
        text = self.setting("labels")
        if text is None:
            return None
        kind, n_classes = json.loads(text)
        return kind, n_classes

    @property
    def last(self) -> int:
        """The sequence number of the newest row, -1 before the first."""
        found = self.setting("last")
        return -1 if found is None else int(found)

    @property
    def purged(self) -> bool:
        """Whether rows that were learned from are no longer stored."""
        return bool(self.setting("compactions"))

    def setting(self, name: str) -> Any:
        """Return a setting, None if there is none."""
        if self.database.read_only and name not in self._settings:
            with self.database.read() as connection:
                return read_settings(connection).get(name)
        return self._settings.get(name)

    def settled(self, **values: Any) -> None:
        """Take over settings that were committed."""
        self._settings |= values

    def store_settings(self, **values: Any) -> None:
        """Commit settings, and take them over."""
        with self.database.write() as connection:
            write_settings(connection, **values)
        self.settled(**values)

    def _count(self, name: str) -> int:
        return int(self.setting(name) or 0)

    def free_vectors(self) -> None:
        """Free vectors that are held in memory for exact answers."""

    def disk_bytes(self) -> int:
        """Return the size of the files in its folder."""
        return sum(file.stat().st_size for file in self.database.folder.iterdir() if file.is_file())

    def about(self) -> dict[str, Any]:
        """Return what this kind of table adds to the statistics of an index."""
        return {}

    # The write path

    def add(
        self,
        X: ArrayLike,
        keys: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        metadata: Metadata = None,
        source: Source = None,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Store items under unique keys: `write` of `Change.add`."""
        return self.write(Change.add(X, keys, labels, metadata, source))

    def delete(self, keys: ArrayLike | Key | None = None, where: Mapping[str, Any] | None = None) -> int:
        """Remove items, by key or by a filter, and return how many: `write` of `Change.delete`."""
        return len(self.write(Change.delete(keys, where))[0])

    def write(self, change: Change, **settings: Any) -> tuple[list[Key], NDArray[np.float32]]:
        """Commit a change, with settings: all of it is on the disk, and found, when this returns, or nothing is.

        Returns the keys, and the vectors as they were stored. Raises `DuplicateKey` where a key to add is stored,
        and `UnknownName` where a key to update or delete is not.
        """
        self._check_writable()
        X = change.vectors
        if len(X):
            validation.width("X", X, self.n_features)
        if change.labels is not None and self.label_kind not in (None, kind_of(change.labels)):
            raise InvalidInput("`y` must be labels of the kind that is stored: a class each, or a 0/1 matrix.")
        vectors = self.segments.cast(X)
        with self.database.lock:
            rows = self._numbered(change, vectors)
            self.apply(rows, change.source, **settings)
        return rows.names, vectors.astype(np.float32, copy=False)

    def _numbered(self, change: Change, vectors: NDArray[Any]) -> NumberedRows:
        """Return a change with the sequence numbers of its rows, and of those that it replaces or removes."""
        keys, texts, gone, described = change.keys, change.texts, list[int](), list[int]()
        if change.where is not None:
            gone, keys = self.listed(change.where)
        elif keys is not None and change.kind == "add":
            self._check_new(keys)
        elif keys is not None:
            keeps_metadata = change.kind in ("update", "upsert") and texts is None
            ids, known = self.lookup(keys, with_texts=keeps_metadata)
            if keeps_metadata:
                texts = known if any(text is not None for text in known) else None
            if change.kind == "upsert":
                replaced = [-1 if each is None else each for each in ids]
                gone = replaced if any(each >= 0 for each in replaced) else []
            elif change.kind == "describe":
                described = all_found(keys, ids)
            else:
                gone = all_found(keys, ids)
        first = self.last + 1
        if keys is None and not self.setting("plain_keys"):
            first = max(self.last, self.top_key()) + 1  # the number is to be a key as well
        segment = Segment(np.arange(first, first + len(vectors)), vectors, change.labels)
        rows = NumberedRows(segment, keys, texts, gone, described, admitted=change.admitted)
        window = self.window
        return rows if window is None else replace(rows, expired=self._expiry.expired(rows, window))

    @property
    def window(self) -> Window | None:
        """Which items are kept; None for all."""
        text = self.setting("keep")
        return None if text is None else Window.of(json.loads(text))

    def apply(self, rows: NumberedRows, source: Source = None, **settings: Any) -> None:
        """Commit a numbered change, with settings, in one transaction.

        The sequence numbers increase and are above all that are stored. A shard calls this with what the
        coordinator has numbered.
        """
        with self.database.lock, self.loaded_again():
            fresh = settings | self._changed_settings(rows)
            with self.database.write() as connection:
                if source is not None:
                    write_position(connection, source, rows.names)
                finish = self._store(connection, rows)
                write_settings(connection, **fresh)
            self.settled(**fresh)
            finish()
            if self._expiry.ages is not None:
                self._expiry.commit(rows)

    def _changed_settings(self, rows: NumberedRows) -> dict[str, Any]:
        segment = rows.segment
        fresh: dict[str, Any] = {}
        if removed := rows.removed:
            fresh["tombstones"] = self._count("tombstones") + len(removed)
        if rows.described:
            fresh["described"] = self._count("described") + len(rows.described)
        if len(segment):
            fresh |= {"last": int(segment.ids[-1]), "rows": self._count("rows") + len(segment)}
            fresh["n_features"] = segment.vectors.shape[1]
            if rows.keys is not None:
                fresh["plain_keys"] = 0
            if segment.labels is not None:
                fresh["labels"] = json.dumps(kind_of(segment.labels))
        return fresh

    @contextmanager
    def loaded_again(self) -> Iterator[None]:
        """Read the disk again after a change is interrupted, which may have happened after its commit."""
        try:
            yield
        except (InvalidInput, UnknownName):  # refused: nothing was changed
            raise
        except BaseException:
            self._expiry.forget()
            with suppress(MIHashError):
                self._load()
            raise

    def compact(self, connection: sqlite3.Connection) -> dict[str, int]:
        """Remove the vectors of deleted rows, in a transaction without a build; return what `compacted` takes."""
        purged = self._count("tombstones")
        self._purge(connection)
        fresh = {
            "rows": self._count("rows") - (purged - self._count("purged")),
            "purged": purged,
            "compactions": self._count("compactions") + 1,
        }
        write_settings(connection, **fresh)
        return fresh

    # Versions

    def versions(self) -> list[Version]:
        """Return the versions that have answered queries, in order."""
        with self.database.read() as connection:
            return published_versions(connection)

    def waiting(self) -> int | None:
        """Return the number of the version that is to be built next, None if there is none."""
        with self.database.read() as connection:
            return waiting_version(connection)

    def mapping_of(self, number: int) -> HashMapping:
        """Return the mapping of a version."""
        with self.database.read() as connection:
            return mapping_of(connection, number)

    def check_width(self, mapping: HashMapping) -> None:
        """Raise if a mapping does not fit the stored vectors."""
        if self.n_features is not None and mapping.n_features != self.n_features:
            raise InvalidInput(
                f"The table holds {self.n_features} features; the mapping takes {mapping.n_features}."
            )

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot, and answer with it."""
        self.check_width(mapping)
        with self.database.write() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number) + 1, 0) FROM version").fetchone()
            propose(connection, number, mapping)
        self.build(number)

    # The search path

    def search(self, Q: ArrayLike, k: int = 10, **options: Any) -> Hits:
        """Return the nearest items to each query, nearest first, ties in the order of addition.

        The options are those of `Question`. Where shards are missing this is a `PartialFailure`, or, if that was
        allowed, a `PartialHits` that names them.
        """
        question = self.target.chosen(Question.of(Q, self.n_features, k=k, **options))
        return question.hits(self.nearest(question))

    def nearest(self, question: Question, with_keys: bool = True) -> Nearest:
        """Return what one version of the table finds for each query.

        If rows of that version were purged meanwhile, it asks the next version; after some attempts it blocks
        writes and asks again.
        """
        if question.factors is None:
            question = replace(question, factors=self.target.factors_pay(question))
        for _ in self._attempts():
            with self._moment() as moment:
                found = self._ask(moment, question, with_keys)
            if found is not None:
                return found
        with self._unchanging(), self._moment() as moment:
            found = self._ask(moment, question, with_keys)
        if found is None:
            raise CorruptStore("Rows of the hash table have no keys or vectors. Run `verify`, or use a backup.")
        return found

    def sample(self, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and vectors of some items, drawn from a seed, in the order of addition."""
        chosen = np.sort(np.random.default_rng(seed).permutation(self.live_ids())[:n])
        vectors = self.fetch(chosen)
        if vectors is None:
            raise NotReady("Items were purged meanwhile: try again.")
        return chosen, vectors

    def close(self) -> None:
        """Close the files."""
        self.target.stop()
        self.database.close()

    # Hooks of the write path

    def _check_writable(self) -> None:
        """Raise if nothing can be written."""
        self.database.check_writable()

    @abstractmethod
    def _check_new(self, keys: list[Key]) -> None:
        """Raise `DuplicateKey` where a key is stored, unless `_store` does that."""

    @abstractmethod
    def top_key(self) -> int:
        """Return the largest key that is a number, -1 if there is none."""

    @abstractmethod
    def _store(self, connection: sqlite3.Connection, rows: NumberedRows) -> Callable[[], None]:
        """Store a numbered change inside a transaction; return what makes it visible after the commit."""

    @abstractmethod
    def _purge(self, connection: sqlite3.Connection) -> None:
        """Remove the vectors of deleted rows inside a transaction."""

    @abstractmethod
    def compacted(self, fresh: dict[str, int], vacuum: bool = True) -> None:
        """Take over what `compact` has committed; with ``vacuum``, give its space back to the disk."""

    @abstractmethod
    def _load(self) -> None:
        """Read what is on the disk."""

    # Hooks of the search path

    @abstractmethod
    def __len__(self) -> int:
        """Return how many items are stored."""

    @property
    @abstractmethod
    def edition(self) -> Edition | Published | None:
        """The version that answers now; None before the first."""

    @abstractmethod
    def _moment(self) -> AbstractContextManager[Any]:
        """Give the newest state of the table, a consistent one, to a search."""

    @abstractmethod
    def _ask(self, moment: Any, question: Question, with_keys: bool) -> Nearest | None:
        """Answer from one such state; None if rows of it were purged."""

    def _attempts(self) -> Iterable[Any]:
        """Yield as often as a search may be repeated because its rows were purged, before changes are stopped."""
        return range(3)

    @abstractmethod
    def _unchanging(self) -> AbstractContextManager[None]:
        """Stop changes."""

    @abstractmethod
    def live_ids(self) -> NDArray[np.int64]:
        """Return the sequence numbers of all items, in order."""

    @abstractmethod
    def fetch(self, ids: NDArray[np.int64]) -> NDArray[np.float32] | None:
        """Return the vectors of rows, None if one is gone."""

    @abstractmethod
    def exact(self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int) -> Found:
        """Return ids and distances of the k nearest vectors to each query, without its own, by (distance, id)."""

    # Hooks of an index

    @abstractmethod
    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Make the codes of a version beside those that answer, then swap; return False if it was stopped."""

    @abstractmethod
    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number that can still be learned from, with their labels."""

    @abstractmethod
    def store_codes(self, connection: sqlite3.Connection) -> None:
        """Store the codes of rows that came after the last stored ones, inside a transaction."""

    @abstractmethod
    def tidy(self, connection: sqlite3.Connection) -> None:
        """Remove, inside a transaction, what a checkpoint has made superfluous."""

    @abstractmethod
    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping; return how much."""

    @abstractmethod
    def backup(self, folder: Path) -> None:
        """Write a consistent copy to a new folder."""
