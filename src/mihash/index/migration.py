"""Migration: the vectors of an index are replaced by those of another embedding model, while it answers.

The new vectors are an index of their own beside the old one, of any dimension, filled by key. The old vectors
answer until the cut-over, which is one transaction, and stay on the disk until `finish`, so that it can be undone.
A crash at any point leaves the one or the other, and no new vector is lost that was acknowledged.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from .. import validation
from ..errors import InvalidInput, NotReady
from ..records import Record
from ..state import sync_folder
from ..store.backends import holds_table
from ..store.change import Change
from ..store.generations import as_generation, generation_folder, generation_of, root_of
from ..store.keys import Key, as_keys
from ..store.metadata import Metadata
from ..store.question import Hits, Item
from ..store.sqlite.database import Database
from ..store.sqlite.settings import read_settings, write_settings

if TYPE_CHECKING:
    from .online_index import OnlineIndex

_BATCH = "rows of the migration from "
_CHUNK = 1000
_CONTENTS = (
    "segment", "item", "tombstone", "decision", "version", "code", "checkpoint", "source", "reading", "seal"
)  # fmt: skip


@dataclass(frozen=True)
class Progress(Record):
    """The progress of a migration.

    Attributes
    ----------
    state
        ``"filling"`` while new vectors come in, ``"cut over"`` when they answer and the old ones are kept.
    items
        Stored items.
    migrated
        Items that have a new vector.
    missing
        Items that have none yet, or whose old vector was replaced after the new one came.
    n_features
        The dimension of the new vectors; None before the first.
    advice
        One sentence on what to do next.
    """

    state: Literal["filling", "cut over"]
    items: int
    migrated: int
    missing: int
    n_features: int | None
    advice: str


@dataclass(frozen=True)
class GenerationComparison(Record):
    """The old and the new vectors, measured on a sample of the items that have both.

    Attributes
    ----------
    agreement
        The share of the k nearest items by the old vectors that are among the k nearest by the new ones.
    old_recall, new_recall
        The share of the true k nearest items that a search of each finds with its defaults.
    old_precision, new_precision
        The share of the k nearest items that have the label of the query; None without labels.
    k, n_queries
        How many items were looked at, and for how many queries.
    """

    agreement: float
    old_recall: float
    new_recall: float
    old_precision: float | None
    new_precision: float | None
    k: int
    n_queries: int


class Migration:
    """New vectors beside the old ones; `OnlineIndex.migrate` begins it, `OnlineIndex.migration` returns it.

    Examples
    --------
    >>> import tempfile, mihash
    >>> folder, rng = tempfile.TemporaryDirectory(), np.random.default_rng(0)
    >>> old, new = rng.standard_normal((500, 16)), rng.standard_normal((500, 24))
    >>> index = mihash.open(folder.name, n_bits=32)
    >>> keys = index.add(old)
    >>> migration = index.migrate()
    >>> migration.add(new[:300], keys[:300])
    300
    >>> print(migration.progress().advice)
    300 of 500 items have new vectors. Add the others; the old vectors answer meanwhile.
    >>> migration.add(new[300:], keys[300:])
    200
    >>> migration.cut_over()
    >>> index.n_features, index.search(new[7], k=1).keys.tolist()
    (24, [7])
    >>> index.close()
    >>> folder.cleanup()
    """

    def __init__(self, index: OnlineIndex, beside: OnlineIndex | None) -> None:
        self._index, self._beside = index, beside

    @property
    def state(self) -> Literal["filling", "cut over"]:
        """``"filling"`` while new vectors come in, ``"cut over"`` when they answer and the old ones are kept."""
        return "cut over" if self._beside is None else "filling"

    @property
    def _new(self) -> OnlineIndex:
        if self._beside is None or self._beside._closed:
            raise NotReady("This migration has ended. Start another one with `migrate`.")
        return self._beside

    # While new vectors come in

    def add(
        self, X: ArrayLike, keys: ArrayLike | Key, y: ArrayLike | None = None, metadata: Metadata = None
    ) -> int:
        """Store the new vectors of stored items, and return how many; a second vector replaces the first.

        Parameters
        ----------
        X
            Vectors (n, d) of the new model, or one vector (d,).
        keys
            The key of each; an unknown key raises `UnknownName`, and nothing is stored.
        y, metadata
            Other labels or metadata; by default an item keeps those that it has.
        """
        vectors, y = validation.as_rows("X", X, y)
        names = as_keys(keys)
        given: Any = [metadata] if isinstance(metadata, Mapping) else metadata
        if len(vectors) != len(names) or (given is not None and len(given) != len(names)):
            raise InvalidInput(f"`keys` and `metadata` must have one entry for each of {len(vectors)} rows.")
        with self._index._writing:
            items = self._index.get(names)
            assert isinstance(items, list)
            through = self._index._table.last + 1
            for part in [range(len(items))] if y is not None else _by_label(items):
                labels = y if y is not None else [items[i].label for i in part]
                texts = [items[i].metadata if given is None else given[i] for i in part]
                change = Change.upsert(vectors[list(part)], [names[i] for i in part], None, texts)
                source = (f"{_BATCH}{self._new._table.last + 1}", through)
                unlabelled = y is None and items[part[0]].label is None
                self._new._write(replace(change, source=source), None if unlabelled else labels)
        return len(items)

    def missing(self, limit: int | None = None) -> list[Key]:
        """Return the keys of items that have no new vector yet, the oldest first.

        An item counts as missing, too, if its old vector was replaced after the new one came.
        """
        most = None if limit is None else validation.integer("limit", limit, minimum=0)
        return [key for key, _ in self._pending()[0][:most]]

    def progress(self) -> Progress:
        """Return how far the migration is, and what to do next."""
        if self._beside is None:
            items = len(self._index)
            advice = (
                "The new vectors answer. Use `finish` to remove the old ones from the disk, or `roll_back` to "
                "return to them."
            )
            return Progress("cut over", items, items, 0, self._index.n_features, advice)
        new, items = self._new, len(self._index)
        missing = len(self._pending()[0])
        done = items - missing
        advice = f"{done:,} of {items:,} items have new vectors. "
        if missing:
            advice += "Add the others; the old vectors answer meanwhile."
        elif new.stats().rehashing:
            advice += "Their codes are being built: wait, then cut over."
        else:
            advice += "Cut over when your queries come from the new model."
        return Progress("filling", items, done, missing, new.n_features, advice)

    def search(self, X: ArrayLike, k: int = 10, **options: Any) -> Hits:
        """Search the new vectors, with the options of `OnlineIndex.search`; queries are of the new model."""
        return self._new.search(X, k, **options)

    def evaluate(self, k: int = 10, n_queries: int = 100, seed: int = 0) -> GenerationComparison:
        """Compare the old and the new vectors on a sample of the items that have both."""
        k = validation.integer("k", k, minimum=1)
        n_queries = validation.integer("n_queries", n_queries, minimum=1)
        old, new = self._index, self._new
        keys = list(new)
        if len(keys) < 2:
            raise NotReady("A comparison needs at least 2 items with new vectors.")
        order = np.random.default_rng(seed).permutation(len(keys))
        chosen = [key for key in (keys[i] for i in order) if key in old][:n_queries]
        near = [
            [each.search(key=key, k=k, rescore=max(10 * k, 200)).keys.tolist() for key in chosen]
            for each in (old, new)
        ]
        agreement = [len(set(a) & set(b)) / max(1, len(a)) for a, b in zip(*near, strict=True)]
        return GenerationComparison(
            agreement=float(np.mean(agreement)),
            old_recall=old.evaluate(k, n_queries, seed=seed).rescored,
            new_recall=new.evaluate(k, n_queries, seed=seed).rescored,
            old_precision=_precision(old, chosen, near[0]),
            new_precision=_precision(old, chosen, near[1]),
            k=k,
            n_queries=len(chosen),
        )

    def cut_over(self, force: bool = False) -> None:
        """Answer with the new vectors from now on.

        Deletions and changes of metadata since the migration began are applied to the new vectors first. Queries
        that are running are answered by the old vectors, and later ones by the new vectors.

        Parameters
        ----------
        force
            Cut over even if items lack a new vector. Searches no longer find those, until `roll_back`.
        """
        index, new = self._index, self._new
        with index._writing:
            missing, gone = self._pending()
            if missing and not force:
                raise NotReady(
                    f"{len(missing):,} items have no new vector yet, such as {missing[0][0]!r}. Add them, delete "
                    "them, or cut over with force=True."
                )
            if len(new) == 0:
                raise NotReady("There are no new vectors to cut over to.")
            stale = {key for key, is_stale in missing if is_stale}
            for start in range(0, len(gone := [*gone, *stale]), _CHUNK):
                new.delete(gone[start : start + _CHUNK])
            self._copy_metadata()
            new.wait(recall=False)  # measured later: other writers wait for this
            folder = new.folder
            with root_database(index) as database, database.write() as connection:
                write_settings(connection, generation=generation_of(folder), former=generation_of(index.folder))
            index._become(new)
            self._beside = index._beside = None

    def cancel(self) -> None:
        """Remove the new vectors; the old ones continue to answer."""
        new = self._new
        folder = new.folder
        new.close()
        gone = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(gone, ignore_errors=True)
        folder.rename(gone)
        shutil.rmtree(gone)
        self._index._beside = None

    # After the cut-over

    def roll_back(self) -> None:
        """Answer with the old vectors again, as they were at the cut-over.

        The new vectors stay on the disk: `OnlineIndex.migration` returns the migration, which can be filled
        further, cut over again or cancelled. Items that were added after the cut-over have no
        old vectors: searches do not find them, and the next cut-over removes them. Add them again before it.
        """
        self._check_cut_over()
        index = self._index
        with index._writing:
            root, former = root_of(index.folder), self._former()
            if not holds_table(generation_folder(root, former)):
                raise NotReady("The old vectors were removed: use `finish`.")
            with root_database(index) as database, database.write() as connection:
                write_settings(connection, generation=former, former=None)
            index._close_retired()
            index._become(type(index).open(generation_folder(root, former)))

    def finish(self) -> None:
        """Remove the old vectors from the disk; after that the cut-over cannot be undone."""
        self._check_cut_over()
        index = self._index
        with index._writing:
            root, former = root_of(index.folder), self._former()
            if former:
                with root_database(index) as database, database.write() as connection:
                    write_settings(connection, former=None)  # first: nobody returns to what is half removed
                shutil.rmtree(generation_folder(root, former), ignore_errors=True)
                return
            with root_database(index) as database:
                with database.write() as connection:
                    for relation in _CONTENTS:
                        connection.execute(f"DELETE FROM {relation}")
                    write_settings(connection, former=None)
                database.vacuum()

    # How both are read

    def _pending(self) -> tuple[list[tuple[Key, bool]], list[Key]]:
        """Return what is not the same in both.

        First the items without a valid new vector, each with whether it has an outdated one; then the keys that
        were deleted, and have a new vector.
        """
        with self._index._table.database.read() as connection:
            old: dict[Key, int] = dict(connection.execute("SELECT key, id FROM item ORDER BY id"))
        with self._new._table.database.read() as connection:
            new: dict[Key, int] = dict(connection.execute("SELECT key, id FROM item"))
            batches = connection.execute(
                "SELECT name, position FROM source WHERE name GLOB ?", (f"{_BATCH}*",)
            ).fetchall()
        known = sorted((int(name.removeprefix(_BATCH)), position) for name, position in batches)
        firsts = np.array([first for first, _ in known], dtype=np.int64)
        limits = [position for _, position in known]
        missing: list[tuple[Key, bool]] = []
        for key, number in old.items():
            id_new = new.get(key)
            if id_new is None:
                missing.append((key, False))
            elif number >= limits[int(np.searchsorted(firsts, id_new, side="right")) - 1]:
                missing.append((key, True))
        return missing, [key for key in new if key not in old]

    def _copy_metadata(self) -> None:
        """Give the new items the metadata that the old ones have now."""
        with self._index._table.database.read() as connection:
            old = dict(connection.execute("SELECT key, metadata FROM item"))
        with self._new._table.database.read() as connection:
            changed = [
                key for key, text in connection.execute("SELECT key, metadata FROM item") if old.get(key) != text
            ]
        for start in range(0, len(changed), _CHUNK):
            part = changed[start : start + _CHUNK]
            self._new.update(part, metadata=[each or {} for each in self._index.metadata(part)])

    def _check_cut_over(self) -> None:
        if self._beside is not None:
            raise NotReady("This migration has not cut over yet. Call `cut_over` first.")

    def _former(self) -> int:
        """Return the generation that answered before."""
        found = kept_generation(self._index)
        if found is None:
            raise NotReady("The old vectors were removed by `finish`.")
        return found


@contextmanager
def root_database(index: OnlineIndex) -> Iterator[Database]:
    """Yield the database of the outer folder; if it is not open, open it for this block."""
    root = root_of(index.folder)
    for table in (index._table, index._retired):
        if table is not None and table.database.folder == root:
            yield table.database
            return
    database = Database(root, read_only=False)
    try:
        yield database
    finally:
        database.close()


def kept_generation(index: OnlineIndex) -> int | None:
    """Return the generation that answered before the last cut-over; None if there is none to return to."""
    root = root_of(index.folder)
    if root == index.folder:
        return None
    with root_database(index) as database, database.read() as connection:
        former = read_settings(connection).get("former")
    return None if former is None else as_generation(former)


def next_folder(index: OnlineIndex) -> Path:
    """Return the folder of the generation after the one that answers."""
    return generation_folder(root_of(index.folder), generation_of(index.folder) + 1)


def begin_beside(index: OnlineIndex, **options: Any) -> OnlineIndex:
    """Make the index of the new vectors; a kill leaves all of it or none, as its folder gets its name last."""
    folder = next_folder(index)
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    _remove_former_folders(index)
    type(index).create(part, **options).close()
    part.rename(folder)
    sync_folder(folder.parent)
    return type(index).open(folder)


def reclaim(index: OnlineIndex) -> None:
    """Give the space of earlier generations back to the disk, where a kill came before `Migration.finish` did."""
    if root_of(index.folder) != index.folder and kept_generation(index) is None:
        _remove_former_folders(index)
        with root_database(index) as database:
            database.vacuum()


def _remove_former_folders(index: OnlineIndex) -> None:
    for number in range(1, generation_of(index.folder)):
        shutil.rmtree(generation_folder(root_of(index.folder), number), ignore_errors=True)


def is_filling(index: OnlineIndex) -> bool:
    """Tell whether there are new vectors beside those that answer."""
    return holds_table(next_folder(index))


def _by_label(items: list[Item]) -> list[list[int]]:
    """Return the positions of the items with a label, and of those without: each is one change."""
    labelled = [i for i, item in enumerate(items) if item.label is not None]
    others = [i for i, item in enumerate(items) if item.label is None]
    return [part for part in (labelled, others) if part]


def _precision(index: OnlineIndex, keys: list[Key], found: list[list[Key]]) -> float | None:
    """Return the share of the items found that have the label of the query; None without labels."""
    if not index.stats().labels:
        return None
    shares = []
    for key, near in zip(keys, found, strict=True):
        own = index.get(key).label
        others = [each for each in near if each in index]
        if own is not None and others:
            shares.append(np.mean([_share_class(index.get(each).label, own) for each in others]))
    return float(np.mean(shares)) if shares else None


def _share_class(label: Any, other: Any) -> bool:
    return bool(np.any(np.asarray(label) & other)) if np.ndim(other) else bool(label == other)
