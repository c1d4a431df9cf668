"""A hash table on SQLite: vectors on the disk, codes in memory, versions that are swapped as one.

What is added is on the disk before `add` returns. A new version is built beside the old one, which goes on
answering until the last code is there; then one small transaction and one reference make the change. The codes on
the disk are a cache: those that are missing or damaged are made again from the vectors.
"""

import json
import sqlite3
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import validation
from ...codes import bit_entropy
from ...errors import CorruptStore, InvalidInput, NotReady, StoreError, UnknownName
from ...mapping import HashMapping
from ...search import as_codes
from ..edition import CODE_ROWS, Edition, read_codes, write_codes
from ..filters import decode_metadata
from ..keys import Key, as_keys
from ..question import Answers, Hits, Question
from ..rescoring import Found, nearest_rows
from ..table import DurableTable, Item
from .database import Database
from .items import (
    Metadata,
    as_metadata,
    ids_of,
    insert_items,
    metadata_of,
    remove_items,
    removed_items,
    texts_of,
    top_key,
)
from .positions import Reading, write_reading
from .segments import Segment, Segments
from .settings import read_settings, write_settings
from .verification import verify
from .versions import drop_mappings, mapping_of, mark_published, propose

_RETRIES = 3

Answer = TypeVar("Answer")
_CODES_SAMPLED = 10_000
_CODES_COUNTED = 2048


class RowsElsewhere(NotReady):
    """What is in the folder is the coordinator of a table whose rows are on other machines."""


class SQLiteTable(DurableTable):
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
    >>> folder = tempfile.TemporaryDirectory()
    >>> table = SQLiteTable.create(folder.name)
    >>> table.rebuild(mihash.mapping.LinearMapping(np.eye(2)))
    >>> names, vectors = table.add([[1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]], keys=["a", "b", "c"])
    >>> hits = table.search([[2.0, 3.0]], k=2)
    >>> hits.keys.tolist(), hits.distances.tolist()
    ([['a', 'b']], [[0, 1]])
    >>> table.close()
    >>> folder.cleanup()
    """

    def __init__(self, folder: str | Path, read_only: bool = False) -> None:
        super().__init__(Database(Path(folder), read_only))
        self._edition: Edition | None = None
        self._followed: tuple[int, ...] | None = None
        self._following = threading.RLock()  # taken before the database's
        try:
            with self.database.read() as connection:
                settings = read_settings(connection)
                if settings.get("table") == "ray":
                    raise RowsElsewhere(
                        f"{folder} is an index on Ray: its rows are on its shards (docs/scale.md)."
                    )
                self.segments = Segments(self.database, settings["dtype"])
                self._answers = Answers(self.database, self.segments, settings["metric"])
            if not read_only:
                self._clean()
            self._load()
        except BaseException:
            self.database.close()
            raise

    @classmethod
    def create(
        cls, folder: str | Path, *, dtype: str = "float32", metric: str = "euclidean", **settings: Any
    ) -> "SQLiteTable":
        """Make an empty table in a new or empty folder."""
        validation.choice("dtype", dtype, ("float32", "float16"))
        validation.choice("metric", metric, ("euclidean", "cosine"))
        Database.create(Path(folder), {"dtype": dtype, "metric": metric, "plain_keys": 1, **settings}).close()
        return cls(folder)

    # What is known of the rows

    def __len__(self) -> int:
        """Return how many items are stored."""
        edition = self.edition
        if edition is not None:
            return edition.n_items
        with self.database.read() as connection:
            return int(connection.execute("SELECT count(*) FROM item").fetchone()[0])

    @property
    def edition(self) -> Edition | None:
        """The version that answers now; None before the first."""
        self.database.check_open()
        if self.database.read_only:
            self._follow()
        return self._edition

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        found = super().n_features
        if found is None and self._edition is not None:
            return self._edition.mapping.n_features
        return found

    # Changing what is stored

    def add(
        self,
        X: ArrayLike,
        keys: ArrayLike | None = None,
        labels: NDArray[Any] | None = None,
        metadata: Metadata = None,
        source: tuple[str, int] | Reading | None = None,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Store items under unique keys; they are on the disk, and found, when this returns.

        Parameters
        ----------
        X
            Feature vectors (n, d).
        keys
            Strings or whole numbers; by default the running number of the row.
        labels
            Class labels (n,) or a 0/1 matrix, checked; None without.
        metadata
            A dictionary for each item, or None.
        source
            Where the rows came from and up to where it was read, stored with them.

        Returns
        -------
            The keys, and the vectors as they were stored.
        """
        vectors = validation.features("X", X, self.n_features, allow_empty=True)
        return self._store(
            vectors, None if keys is None else as_keys(keys, len(vectors)), labels, metadata, source
        )

    def update(
        self, keys: ArrayLike, X: ArrayLike, labels: NDArray[Any] | None = None, metadata: Metadata = None
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Give stored keys new vectors; without ``metadata`` they keep theirs."""
        vectors = validation.features("X", X, self.n_features, allow_empty=True)
        chosen = as_keys(keys if not isinstance(keys, str | int) else [keys], len(vectors))
        if len(set(chosen)) != len(chosen):
            raise InvalidInput("`keys` must be different keys; one is given twice.")
        return self._store(vectors, chosen, labels, metadata, None, renewed=True)

    def _store(
        self,
        vectors: NDArray[np.float32],
        keys: list[Key] | None,
        labels: NDArray[Any] | None,
        metadata: Metadata,
        source: tuple[str, int] | Reading | None,
        renewed: bool = False,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        n = len(vectors)
        small = self.segments.cast(vectors)
        texts = as_metadata(metadata, n)
        fresh: dict[str, Any] = {}
        if labels is not None and self.label_kind is None:
            fresh["labels"] = label_kind(labels)
        stored = small.astype(np.float32, copy=False)
        with self.database.lock, self.loaded_again():
            with self.database.write() as connection:
                first = self._next(connection, keys is None)
                ids = np.arange(first, first + n)
                names: list[Key] = list(ids.tolist()) if keys is None else keys
                if keys is not None:
                    fresh["plain_keys"] = 0
                gone: list[int] = []
                if renewed:
                    gone = all_found(names, ids_of(connection, names))
                    texts = texts_of(connection, gone) if metadata is None else texts
                write_reading(connection, source, names)
                edition = self._change(connection, gone, Segment(ids, small, labels), names, texts, fresh)
            self.settled(**fresh)
            self._edition = edition
        return names, stored

    def change(
        self,
        gone: list[int],
        rows: Segment,
        names: Sequence[Key],
        texts: Sequence[str | None],
        fresh: dict[str, Any],
    ) -> None:
        """Remove rows by their ids and store others under ids that were given elsewhere, with settings: at once.

        The ids increase, and are above all that are stored.
        """
        kind = rows.labels
        if kind is not None and self.label_kind is None:
            fresh["labels"] = label_kind(kind)
        with self.database.lock, self.loaded_again():
            with self.database.write() as connection:
                edition = self._change(connection, gone, rows, names, texts, fresh)
            self.settled(**fresh)
            self._edition = edition

    def _change(
        self,
        connection: sqlite3.Connection,
        gone: list[int],
        rows: Segment,
        names: Sequence[Key],
        texts: Sequence[str | None],
        fresh: dict[str, Any],
    ) -> Edition | None:
        """Remove rows and store others inside a transaction; return the edition that is the table's after it."""
        if gone:
            self._remove(connection, gone, fresh)
        if len(rows):
            fresh |= {"last": int(rows.ids[-1]), "rows": self._count("rows") + len(rows)}
            fresh["n_features"] = rows.vectors.shape[1]
            insert_items(connection, rows.ids, names, texts)
            self.segments.append(connection, rows)
        write_settings(connection, **fresh)
        edition = self._edition
        if edition is not None:  # made before the commit, so that a search waits for little after it
            edition = edition.encoded(rows.ids, rows.features) if len(rows) else edition
            edition = edition.without(gone, fresh["tombstones"]) if gone else edition
        return edition

    def delete(self, keys: ArrayLike | Key) -> int:
        """Remove items; a key that is not stored raises `UnknownName`, and nothing is removed."""
        chosen = list(dict.fromkeys(as_keys(keys)))
        if not chosen:
            return 0
        with self.database.lock, self.loaded_again():
            fresh: dict[str, Any] = {}
            with self.database.write() as connection:
                gone = all_found(chosen, ids_of(connection, chosen))
                self._remove(connection, gone, fresh)
                write_settings(connection, **fresh)
            self.settled(**fresh)
            if self._edition is not None:
                self._edition = self._edition.without(gone, self._count("tombstones"))
        return len(gone)

    def _next(self, connection: sqlite3.Connection, named: bool) -> int:
        """Return the next sequence number; where it is to be a key as well, one above the keys that are taken.

        Keys from 2^62 on do not count: above the largest there would be no number left.
        """
        if not named or self.setting("plain_keys"):
            return self.last + 1
        return max(self.last, top_key(connection)) + 1

    def _remove(self, connection: sqlite3.Connection, gone: list[int], fresh: dict[str, Any]) -> None:
        remove_items(connection, gone, self._count("tombstones"))
        fresh["tombstones"] = self._count("tombstones") + len(gone)

    # Versions

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot, and answer with it."""
        self.check_width(mapping)
        with self.database.write() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number) + 1, 0) FROM version").fetchone()
            propose(connection, number, mapping)
        self.build(number)

    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Make the codes of a version beside those that answer, then swap; return False where it was stopped."""
        begin = time.perf_counter()
        staged = self.stage(number, stopped)
        if staged is None:
            return False
        self.publish(*staged, begin)
        return True

    def stage(self, number: int, stopped: Callable[[], bool] = lambda: False) -> tuple[Edition, int] | None:
        """Make the codes of a version; return them, and how many are on the disk, or None where it was stopped."""
        mapping = self.mapping_of(number)
        self.check_width(mapping)
        old = self._edition
        edition = Edition.empty(number, mapping, 0 if old is None else old.n + CODE_ROWS)
        stored = 0
        with self.database.write() as connection:
            connection.execute("DELETE FROM code WHERE version = ?", (number,))
        if self.n_features is not None:
            for segment in self.segments.after(-1, None, self.n_features):
                if stopped():
                    return None
                edition = edition.encoded(segment.ids, segment.features)
                if edition.n - stored >= CODE_ROWS:
                    with self.database.write() as connection:
                        write_codes(connection, edition, stored)
                    stored = edition.n
        return edition, stored

    def publish(self, edition: Edition, stored: int, begin: float, **settings: Any) -> None:
        """Answer with a version that was staged, once the rows that came meanwhile are in it."""
        with self.database.lock, self.loaded_again():
            if self.n_features is not None:
                for segment in self.segments.after(edition.last, None, self.n_features):
                    edition = edition.encoded(segment.ids, segment.features)
            _check_whole(edition, self._count("rows"))
            old = self._edition
            edition = self._with_deletions(edition) if old is None else edition.with_deletions_of(old)
            with self.database.write() as connection:
                write_codes(connection, edition, stored)
                previous = self.setting("published")
                kept = (edition.version, edition.version if previous is None else previous)
                connection.execute("DELETE FROM code WHERE version NOT IN (?, ?)", kept)
                taken = time.perf_counter() - begin
                mark_published(connection, edition.version, edition.mapping, edition.n, taken)
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

    # Searching

    def search(
        self,
        Q: ArrayLike,
        k: int = 10,
        where: Mapping[str, Any] | None = None,
        rescore: int = 0,
        radius: int | None = None,
        *,
        method: str = "auto",
        n_threads: int = 1,
    ) -> Hits:
        """Return the nearest items to each query, nearest first, ties in the order of addition.

        Parameters
        ----------
        Q
            Queries (n_queries, d), as features.
        k
            How many items to return for each query.
        where
            Only items whose metadata matches (docs/index.md).
        rescore
            How many nearest codes are looked up and ordered anew by the distance of their vectors; 0 for none.
        radius
            In place of the k nearest, all items at most so many bits away.
        method
            ``"scan"``, ``"multi-index"``, or ``"auto"`` for the faster one; the answer is the same.
        n_threads
            How many threads share the work.
        """
        options = (k, where, rescore, radius, method, n_threads)
        question = Question.checked(Q, self.n_features, *options)
        hits = self._steady(lambda edition: self._hits(edition, question))
        if hits is None:
            raise CorruptStore("Rows of the hash table have no keys. Run `verify`, or use a backup.")
        return hits

    def _hits(self, edition: Edition | None, question: Question) -> Hits | None:
        if edition is None or not edition.n:
            return question.nothing(-1 if edition is None else edition.version)
        return self._answers.hits(edition, question, bool(self.setting("plain_keys")))

    def _steady(self, ask: Callable[[Edition | None], Answer | None]) -> Answer | None:
        """Ask an edition; where rows of it went away meanwhile, ask again, at last while nothing can change."""
        for _ in range(_RETRIES):
            found = ask(self.edition)
            if found is not None:
                return found
        with self._following, self.database.lock, self.database.read():
            self._followed = None
            found = ask(self.edition)
            self._followed = None
        return found

    def search_ids(self, queries: NDArray[np.float32], k: int, rescore: int = 0) -> list[NDArray[np.int64]]:
        """Return the sequence numbers of the nearest rows to each query, for a table that has rows."""
        question = Question(queries, k, None, rescore)
        found = self._steady(lambda edition: [] if edition is None else self._answers.nearest(edition, question))
        if found is None:
            raise CorruptStore("Rows of the hash table have no vectors. Run `verify`, or use a backup.")
        return [ids for ids, _ in found]

    @property
    def metric(self) -> str:
        """How vectors are compared: ``"euclidean"`` or ``"cosine"``."""
        return self._answers.metric

    def get(self, key: Key) -> Item:
        """Return a stored item."""
        wanted = as_keys(key)
        if len(wanted) != 1:
            raise InvalidInput(f"`get` takes one key; got {len(wanted)}.")
        chosen = wanted[0]
        with self.database.read() as connection:
            (number,) = all_found([chosen], ids_of(connection, [chosen]))
            vectors = self.segments.fetch(np.array([number]), self.n_features or 0)
            if vectors is None:
                raise CorruptStore(f"The vector of the key {chosen!r} is missing. Use a backup.")
            kind = self.label_kind
            label = None if kind is None else self.segments.label_of(number, kind)
            return Item(chosen, vectors[0], label, metadata_of(connection, number))

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Tell of each key whether it is stored."""
        with self.database.read() as connection:
            ids = ids_of(connection, as_keys(keys))
        return np.array([number is not None for number in ids], dtype=np.bool_)

    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of items, None for those that have none or are not stored."""
        with self.database.read() as connection:
            ids = ids_of(connection, as_keys(keys))
            known = [number for number in ids if number is not None]
            texts = dict(zip(known, texts_of(connection, known, max_bytes), strict=True))
        return [None if number is None else decode_metadata(texts[number]) for number in ids]

    def nearest(self, edition: Edition, question: Question) -> Found | None:
        """Return ids and distances for each query from one edition, None where rows of it are gone meanwhile."""
        return self._answers.nearest(edition, question)

    def keys(self, lists: list[NDArray[np.int64]]) -> list[NDArray[Any]] | None:
        """Return the keys of lists of ids, None where one is not stored any more."""
        return self._answers.keys(lists)

    def sample(self, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and vectors of some items, drawn from a seed, in the order of addition."""
        edition = self.edition
        live = np.empty(0, dtype=np.int64) if edition is None else edition.ids[~edition.dead]
        chosen = np.sort(np.random.default_rng(seed).permutation(live)[:n])
        vectors = self.segments.fetch(chosen, self.n_features or 0)
        if vectors is None:
            raise NotReady("Items were purged meanwhile: try again.")
        return chosen, vectors

    def nearest_vectors(
        self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int
    ) -> list[NDArray[np.int64]]:
        """Return the rows whose vectors are the k nearest to each query, without its own, by (distance, id)."""
        return [ids for ids, _ in self.exact(queries, own, k)]

    def exact(self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int) -> Found:
        """Return ids and distances of the k nearest vectors to each query, without its own, by (distance, id)."""
        edition = self.edition
        dead = np.empty(0, dtype=np.int64) if edition is None else edition.ids[edition.dead]
        return nearest_rows(self.segments, queries, own, k, dead, self.metric)

    # Care

    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number, with their labels; raise at the end where some are not found."""
        with self.database.read() as connection:
            left = int(np.count_nonzero(self.segments.ids(connection) > last))
        for segment in self.segments.after(last, self.label_kind, self.n_features or 0):
            left -= len(segment)
            yield segment
        if left > 0:
            raise CorruptStore(f"{left} rows after row {last} are not found. Run `verify`, or use a backup.")

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Put small pieces together and drop old mappings, inside a transaction."""
        self.segments.merge(connection, self.label_kind, self.n_features or 0)
        drop_mappings(connection, self.setting("published"))

    def compact(self, connection: sqlite3.Connection) -> dict[str, int]:
        """Remove the vectors of deleted rows, inside a transaction; nothing may be built meanwhile.

        Returns what `compacted` takes once that is committed.
        """
        dead = np.array(sorted(self._deleted(connection)), dtype=np.int64)
        if len(dead):
            self.segments.purge(connection, dead, self.label_kind, self.n_features or 0)
        connection.execute("DELETE FROM tombstone")
        connection.execute("DELETE FROM code")
        self.segments.merge(connection, self.label_kind, self.n_features or 0)
        if self._edition is not None:
            write_codes(connection, self._edition.purged(), 0)
        fresh = {
            "rows": self._count("rows") - len(dead),
            "purged": self._count("tombstones"),
            "compactions": self._count("compactions") + 1,
        }
        write_settings(connection, **fresh)
        return fresh

    def compacted(self, fresh: dict[str, int]) -> None:
        """Take over what `compact` has committed, and give its space back."""
        self.settled(**fresh)
        if self._edition is not None:
            self._edition = self._edition.purged()
        try:
            self.database.vacuum()
        except StoreError as error:
            raise StoreError(f"The deleted rows are removed, but the file is not smaller yet. {error}") from error

    def about(self) -> dict[str, Any]:
        """Return how much the codes tell, on a sample of the rows."""
        edition = self.edition
        if edition is None or not edition.n:
            return {}
        n_bits = edition.mapping.n_bits
        rows = np.linspace(0, edition.n - 1, min(edition.n, _CODES_COUNTED)).astype(np.int64)
        codes = as_codes(edition.columns[rows], n_bits)
        return {
            "codes_sampled": len(codes),
            "codes_distinct": len(np.unique(codes, axis=0)),
            "bit_entropy": bit_entropy(codes, n_bits),
        }

    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping; return how much.

        Raises `CorruptStore` with everything that was found.
        """
        edition, kind = self.edition, self.label_kind
        return verify(self.database, self.segments, edition, kind, self.n_features or 0, _CODES_SAMPLED)

    def backup(self, folder: Path) -> None:
        """Write a copy of one moment to a new folder."""
        self.database.backup(folder)

    def close(self) -> None:
        """Close the files."""
        self.database.close()

    # Loading and following

    def _clean(self) -> None:
        """Remove what an interrupted build left behind; what was to be built waits again."""
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
        edition, damage = read_codes(connection, Edition.empty(published, mapping, len(ids)), ids)
        if damage is not None:
            warnings.warn(f"{damage} They are made again from the vectors.", RuntimeWarning, stacklevel=2)
            if not self.database.read_only:
                self._drop_codes(published)
            edition = Edition.empty(published, mapping, len(ids))
        for segment in self.segments.after(edition.last, None, self.n_features or 0):
            edition = edition.encoded(segment.ids, segment.features)
        _check_whole(edition, self._count("rows"))
        return self._with_deletions(edition)

    def _with_deletions(self, edition: Edition) -> Edition:
        with self.database.read() as connection:
            gone = self._deleted(connection)
        return replace(edition.without(gone, self._count("tombstones")), n_purges=self._count("compactions"))

    def _deleted(self, connection: sqlite3.Connection) -> list[int]:
        """Return the ids of deleted rows that were not purged."""
        return removed_items(connection, self._count("purged"), self._count("tombstones"))

    def _drop_codes(self, number: int) -> None:
        with self.database.write() as connection:
            connection.execute("DELETE FROM code WHERE version = ?", (number,))

    def _follow(self) -> None:
        """Take over what another process has committed since the last look."""
        with self._following:
            seen = self.database.data_version()
            if seen == self._followed:
                return
            with self.database.read() as connection:
                settings, edition = read_settings(connection), self._edition
                same = ("published", "compactions")
                if edition is None or any(settings.get(name) != self._settings.get(name) for name in same):
                    self._load()
                else:
                    n_features, n_tombstones = settings.get("n_features", 0), settings.get("tombstones", 0)
                    for segment in self.segments.after(edition.last, None, n_features):
                        edition = edition.encoded(segment.ids, segment.features)
                    _check_whole(edition, settings.get("rows", 0))
                    gone = removed_items(connection, edition.n_tombstones, n_tombstones)
                    self._settings = settings
                    self._edition = edition.without(gone, n_tombstones) if gone else edition
            self._followed = seen


def _check_whole(edition: Edition, n: int) -> None:
    """Raise where the table of segments has passed over rows."""
    if edition.n != n:
        raise CorruptStore(f"{edition.n} rows are found where {n} were stored. Run `verify`, or use a backup.")


def label_kind(labels: NDArray[Any]) -> str:
    """Return how labels are stored, as text for the settings."""
    return json.dumps([labels.dtype.name, labels.shape[1] if labels.ndim == 2 else 0])


def all_found(keys: Sequence[Key], ids: Sequence[int | None]) -> list[int]:
    """Return ids, or raise where a key has none."""
    found = [number for number in ids if number is not None]
    if len(found) != len(keys):
        missing = next(key for key, number in zip(keys, ids, strict=True) if number is None)
        raise UnknownName(f"The key {missing!r} is not stored.")
    return found
