"""OnlineIndex: the loop of Fig. 2 over a durable store; what an application uses.

Here it is created, opened, measured, checked, migrated and closed. Its items, its searches and its versions are in
three parts (`index_items`, `index_search`, `index_versions`), which share their state (`index_state`).

It keeps the vectors, learns its hash mapping from them as they arrive, recomputes the codes when the trigger says
so, answers queries meanwhile, and has every acknowledged change after a crash. docs/index.md says how.
"""

from __future__ import annotations

import os
import sqlite3
import warnings
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self, Unpack

from .. import validation
from ..errors import InvalidInput, NotReady, ReadOnly, Renamed, StoreError
from ..loop.decisions import EVENTS
from ..mapping import HashMapping
from ..online import ExternalMapping, OnlineLearner
from ..store.backends import Cluster, create_table, holds_table, open_table
from ..store.held_vectors import EVERY
from ..store.recall_target import RECALL
from ..store.sqlite.checksums import check_seals
from ..store.sqlite.code_versions import now
from ..store.sqlite.settings import UNLESS_LABELLED
from ..store.window import Window
from ..trigger import Trigger
from .defaults import settle_factors, settled
from .durable_loop import DurableLoop
from .index_items import IndexItems
from .index_search import IndexSearch
from .index_state import STORED
from .index_versions import IndexVersions
from .migration import Migration, begin_beside, is_filling, kept_generation, next_folder, reclaim
from .options import Options, RareOptions, names_former
from .stats import Stats, degenerate_codes, low_recall


class OnlineIndex(IndexItems, IndexSearch, IndexVersions):
    """A durable index of vectors whose binary codes are learned from what is added.

    `mihash.open` opens one, or creates it. One process writes; any number of threads search, and other processes
    that open it with ``read_only=True`` follow its changes.

    Examples
    --------
    >>> import numpy as np
    >>> import tempfile, mihash
    >>> folder = tempfile.TemporaryDirectory()
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> with mihash.open(folder.name, n_bits=32) as index:
    ...     keys = index.add(X, keys=[f"item {i}" for i in range(1000)])
    ...     hits = index.search(X[:2], k=1, rescore=20)
    >>> hits.keys.tolist()
    [['item 0'], ['item 1']]
    >>> with mihash.open(folder.name) as index:
    ...     index.stats().items
    1000
    >>> folder.cleanup()
    """

    _beside: OnlineIndex | None = None  # the new vectors of a migration that is under way

    @classmethod
    @names_former
    def create(
        cls,
        path: str | os.PathLike[str],
        n_bits: int | None = None,
        learner: str | OnlineLearner | HashMapping | None = None,
        trigger: str | Trigger | None = None,
        *,
        metric: str = "euclidean",
        reservoir_size: int = 2000,
        dtype: str = "float32",
        seed: int = 0,
        cluster: Cluster | None = None,
        **rare: Unpack[RareOptions],
    ) -> Self:
        """Make an empty index in a new or empty folder.

        Parameters
        ----------
        path
            The folder; created if it does not exist.
        n_bits
            The code length; by default that of a learner that is given, else it is chosen at the first `add`: 64
            with labels or for up to 64 features, and more otherwise (docs/choosing.md).
        learner
            An online hashing method, as an object such as ``mihash.online.HMOH(64, lr=0.5)`` or by name:
            momenthash, mihash, hcoh, hmoh, osh, okh, adapthash, sketchhash, lsh, randomrotation; or refit, which
            fits a batch method at intervals (docs/choosing.md). By default momenthash; but if the first `add` has
            no labels and more than 64 features, and nothing else about learning was given, randomrotation, which
            has longer codes and needs no learning. A hash mapping that was learned elsewhere, by a method of
            `mihash.batch` or as a network of `mihash.deep`, is used unchanged: the index then learns nothing and
            does not normalise features; `offer` gives it other mappings.
        trigger
            When to rehash: a `PriceUpdate`, `TriggerUpdate` or `FixedRate`, or the name of one. By default
            ``PriceUpdate(20)``: a rehash costs as much as 20 perfectly answered queries are worth (docs/drift.md).
        metric
            ``"euclidean"`` or ``"cosine"``: which vectors are near, for learning without labels and for rescoring.
            ``"ip"``: items with large inner products with the query are near; codes are learned by Euclidean
            distance (docs/search.md).
        reservoir_size
            The size of the sample on which quality is measured.
        dtype
            How vectors are stored: ``"float32"``, or ``"float16"`` for half the space.
        seed
            Seeds everything random.
        cluster
            The options of an index on the nodes of a Ray cluster; None keeps everything in this folder.
        rare
            ``normalize`` (True): whether features are centred and scaled, by the first 256 examples; part of the
            mapping. ``drift`` (True): whether to detect changes of the stream, or a `DriftWatch`; at an alarm,
            which `history` lists, the sample and the learner follow the change. ``factors``: whether to store two
            bytes with each code, with which margins estimate distances (docs/search.md); by default yes, unless
            there are labels or the index is on Ray; only linear mappings of normalised features have them.
            ``keep``: which items stay, as `set_window` takes it; by default all.
        """
        unknown = sorted(set(rare) - RareOptions.__optional_keys__)
        if unknown:
            raise InvalidInput(f"`{unknown[0]}` is not an option of an index; see OnlineIndex.create.")
        factors, keep = rare.get("factors"), rare.get("keep")
        if keep is not None:
            Window.of(keep)  # a bad value is refused before anything is made
        options = Options.chosen(
            n_bits,
            learner,
            trigger,
            seed,
            drift=rare.get("drift", True),
            metric=metric,
            normalize=rare.get("normalize", True),
            reservoir_size=reservoir_size,
        )
        if cluster is not None and options.parameters.get("replay"):
            raise InvalidInput("`learner` cannot have `replay` on Ray: it draws from the rows of one file.")
        from .. import __version__

        about: dict[str, Any] = {"options": options.to_text(), "created": now(), "mihash": __version__}
        if not isinstance(factors, bool | None):
            raise InvalidInput(f"`factors` must be True, False or None; got {factors!r:.80}.")
        usual = UNLESS_LABELLED if cluster is None else 0
        about |= {"factors": usual if factors is None else int(factors)}
        if n_bits is None and isinstance(learner, str | None):
            given = (learner, trigger, cluster, factors, options.normalize, rare.get("drift", True))
            about |= {"choose_bits": 1, "choose_learner": int(given == (None, None, None, None, True, True))}
        index = cls(create_table(validation.path("path", path), cluster, dtype=dtype, metric=metric, **about))
        if isinstance(learner, HashMapping):
            index._durable.begin(learner)
        if keep is not None:
            index.set_window(keep)
        return index

    @classmethod
    @names_former
    def open(
        cls, path: str | os.PathLike[str], read_only: bool = False, *, cluster: Cluster | None = None
    ) -> Self:
        """Open an index; with ``read_only=True``, follow the changes of the process that writes to it.

        For an index on Ray, ``cluster`` gives the address, the timeout and whether answers may be partial.
        """
        return cls(open_table(validation.path("path", path), read_only, cluster))

    @classmethod
    def open_or_create(cls, path: str | os.PathLike[str], read_only: bool = False, **options: Any) -> Self:
        """Open an index, or create one where the folder is empty or not there.

        ``options`` are those of `create`. An existing index keeps the options that it was created with; an option
        that is given and differs is an error.
        """
        if not read_only and not holds_table(validation.path("path", path)):
            return cls.create(path, **options)
        index = cls.open(path, read_only, cluster=options.pop("cluster", None))
        factors, keep = options.pop("factors", None), options.pop("keep", None)
        try:
            window = index._table.window
            if keep is not None and Window.of(keep) != window:
                raise InvalidInput(
                    f"This index has another window, keep={None if window is None else window.text}: open it "
                    "without `keep`, then call `set_window`."
                )
            settle_factors(index._table, factors, read_only)
            if isinstance(mapping := options.get("learner"), HashMapping) and mapping != index._external_mapping():
                raise InvalidInput("This index has another mapping: open it without `learner`, then call `offer`.")
            if not read_only and not isinstance(mapping, HashMapping):
                asked = (options.get(name) for name in ("n_bits", "learner", "trigger"))
                if (chosen := settled(index._opened, index._options, *asked)) != index._options:
                    index._options, index._durable = chosen, DurableLoop(index._opened, chosen)
            index._options.check_same(dtype=(index._table.setting("dtype"), options.pop("dtype", None)), **options)
        except BaseException:
            index.close()
            raise
        return index

    @property
    def folder(self) -> Path:
        """The folder of the index."""
        return self._table.database.folder

    @property
    def options(self) -> Options:
        """The options: those given to `create`, and those chosen from the first rows."""
        if self.read_only and self._table.edition is not None:
            return Options.from_text(self._table.setting("options"))
        return self._options

    def stats(self) -> Stats:
        """Return the state of the index in numbers."""
        self._write_decisions()
        table, options, loop = self._table, self.options, self._durable.known
        edition = table.edition
        with table.database.read() as connection:
            check_seals(connection, "version")
            kinds = dict(connection.execute("SELECT kind, count(*) FROM decision GROUP BY kind").fetchall())
            (updates,) = connection.execute("SELECT count(*) FROM version WHERE items IS NOT NULL").fetchone()
        about, paused = table.about(), bool(table.setting("paused"))
        chosen = table.target.known()
        is_exact = chosen is not None and chosen.rescore == EVERY
        codes = {name: about[name] for name in ("codes_sampled", "codes_distinct", "bit_entropy") if name in about}
        return Stats(
            items=len(table),
            deleted=0 if edition is None else edition.n_dead,
            n_features=table.n_features,
            n_bits=options.n_bits,
            learner=options.learner,
            metric=options.metric,
            dtype=table.setting("dtype"),
            labels=table.label_kind is not None,
            theta=options.theta,
            interval=options.interval,
            version=None if edition is None else edition.version,
            decisions=sum(n for kind, n in kinds.items() if kind not in EVENTS),
            alarms=kinds.get("alarm", 0),
            updates=updates,
            rehashing=self._builder.busy or (self.read_only and not paused and table.waiting() is not None),
            paused=paused,
            rehash_error=None if self._builder.error is None else str(self._builder.error),
            learning_error=None if loop is None else loop.trouble,
            write_error=None if self._unwritten is None else str(self._unwritten),
            sqlite=sqlite3.sqlite_version,
            warning=(degenerate_codes(**codes, learner=options.learner, is_exact=is_exact) if codes else None)
            or low_recall(None if chosen is None else chosen.recall, RECALL),
            rescore=None if chosen is None else min(chosen.rescore, len(table)),
            recall=None if chosen is None else chosen.recall,
            **({"bytes_on_disk": table.disk_bytes()} | about),
        )

    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping.

        Returns how much was checked; raises `CorruptStore` with everything that is wrong.
        """
        return self._table.verify() | {"checkpoints": self._durable.verify()}

    def compact(self) -> None:
        """Remove the vectors of deleted items from the disk, and merge small segments."""
        with self._writing, self._builder.building:
            self._purge(vacuum=True)
            reclaim(self)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the index to a new folder while it stays in use; the copy is an index of its own."""
        self._durable.flush()
        self._table.backup(validation.path("path", path))

    def close(self) -> None:
        """Store what was learned, stop a running build (`open` resumes it), and release the folder."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            try:
                self._builder.stop()
                if not self.read_only:
                    with self._table.database.write() as connection:
                        self._durable.checkpoint(connection)
            except StoreError as error:
                warnings.warn(f"{STORED}: {error}", RuntimeWarning, stacklevel=2)
            finally:
                self._opened.close()
                self._close_retired()
                if self._beside is not None:
                    self._beside.close()

    # Another embedding model

    def migrate(
        self, n_bits: int | None = None, learner: Any = None, trigger: Any = None, **options: Any
    ) -> Migration:
        """Begin to replace the vectors by those of another embedding model, while the old ones answer.

        If a migration is in progress, it continues. Fill it with `Migration.add`, then call `Migration.cut_over`.

        Parameters
        ----------
        n_bits, learner, trigger, options
            The options of `create` for the new vectors; by default those of this index, except the dimension,
            which the first new vectors decide.
        """
        with self._writing:
            self._ready()
            if self._table.setting("table") == "ray":
                raise NotReady("An index on Ray cannot be migrated: make a new one, and export this one into it.")
            if self._table.last < 0:
                raise NotReady("The index has no vectors to replace: add those of the new model.")
            under_way = self.migration
            if under_way is not None and under_way.state == "cut over":
                raise NotReady("The last migration is not finished: call its `finish` or `roll_back` first.")
            given = {"n_bits": n_bits, "learner": learner, "trigger": trigger} | options
            if under_way is not None:
                if any(value is not None for value in given.values()):
                    raise InvalidInput("A migration with other options has begun: leave them out, or `cancel` it.")
                return under_way
            own = self._options
            if learner is None and own.learner == ExternalMapping.name:
                raise InvalidInput(
                    "This index has a mapping that was learned elsewhere: pass the new mapping as `learner`."
                )
            nothing = (n_bits, learner, trigger) == (None, None, None)
            is_open = nothing and bool(self._table.setting("choose_learner"))  # the new rows choose again
            if learner is None and not is_open:
                length = own.n_bits if n_bits is None else n_bits
                given["learner"] = replace(own, n_bits=length).make_learner()
            names = ["metric", "reservoir_size", "seed"]
            if not is_open:
                names += ["normalize", "trigger", "drift"]
                bytes_too = self._table.setting("factors")
                given.setdefault("factors", None if bytes_too == UNLESS_LABELLED else bool(bytes_too))
            defaults = {name: getattr(own, name) for name in names}
            chosen = {**defaults, "dtype": self._table.setting("dtype")} | {
                name: value for name, value in given.items() if value is not None
            }
            self._beside = begin_beside(self, **chosen)
            return Migration(self, self._beside)

    @property
    def migration(self) -> Migration | None:
        """The migration in progress, also after its cut-over until `finish`; None if there is none."""
        with self._writing:
            if self.read_only:
                raise ReadOnly("A read-only process cannot read a migration: use the process that writes.")
            if self._beside is None and is_filling(self):
                self._close_retired()
                self._beside = type(self).open(next_folder(self))
            if self._beside is not None:
                return Migration(self, self._beside)
            return None if kept_generation(self) is None else Migration(self, None)

    def __enter__(self) -> Self:
        """Return the index."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""
        self.close()

    def __repr__(self) -> str:
        """Show the size, the learner and the version."""
        if self._closed:
            return "OnlineIndex(closed)"
        return f"OnlineIndex({len(self)} items, {self._options.learner}, version {self.version})"

    def learn(self, *_: Any) -> int:
        """Raise an error that names `catch_up`."""
        raise Renamed("OnlineIndex.learn", "OnlineIndex.catch_up")
