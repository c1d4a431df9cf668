"""OnlineIndex: the loop of Fig. 2 made durable and concurrent; what an application uses.

It keeps the vectors, learns its hash mapping from them as they arrive, recomputes the codes when the trigger says
so, answers queries all the while, and comes back after a crash exactly as acknowledged. docs/index.md says how.
"""

import os
import sqlite3
import threading
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import CorruptStore, InvalidInput, NotReady, StoreError, UnknownName
from ..loop.distances import Distances
from ..loop.loop import Stream
from ..mapping import HashMapping
from ..online import Given
from ..store.backends import TABLES, create_table, open_table
from ..store.keys import Key
from ..store.question import Hits
from ..store.sqlite.items import Metadata
from ..store.sqlite.positions import Reading
from ..store.sqlite.seals import check_seals
from ..store.sqlite.settings import read_position, write_settings
from ..store.sqlite.versions import now, propose_newest, published_versions
from ..store.table import DurableTable, Item
from ..trigger import Decision
from .builder import Rehashing
from .history import Journal
from .options import Options
from .recall import Recall, evaluate

_DEGENERATE = 0.1  # of the entropy that a bit may have
_FEW = 100  # rows that say nothing yet of the codes
_STORED = "The rows are stored; what was learned from them was not, and will be learned again"


class OnlineIndex:
    """A durable index of vectors whose binary codes are learned from what is added.

    Make one with `create`, come back to it with `open`. One process writes; any number of threads search, and
    other processes that open it with ``read_only=True`` follow.

    Examples
    --------
    >>> import tempfile, mihash
    >>> folder = tempfile.TemporaryDirectory()
    >>> X = np.random.default_rng(0).standard_normal((1000, 16))
    >>> with mihash.OnlineIndex.create(folder.name, n_bits=32) as index:
    ...     keys = index.add(X, keys=[f"item {i}" for i in range(1000)])
    ...     hits = index.search(X[:2], k=1, rescore=20)
    >>> hits.keys.tolist()
    [['item 0'], ['item 1']]
    >>> with mihash.OnlineIndex.open(folder.name) as index:
    ...     index.stats()["items"]
    1000
    >>> folder.cleanup()
    """

    def __init__(self, table: DurableTable) -> None:
        self._table = table
        self._writing = threading.RLock()
        self._closed = False
        self._unwritten: StoreError | None = None  # why decisions are only in memory
        try:
            text = table.setting("options")
            if text is None:
                raise StoreError(f"{table.database.folder} holds a hash table, not an index.")
            self._options = Options.from_text(text)
            self._journal = Journal(table, self._options)
            self._rehashing = Rehashing(table, bool(table.setting("paused")))
            if not self.read_only:
                if table.last >= 0 and table.edition is None:
                    self._build_first()
                elif table.waiting() is not None:
                    self._rehashing.notice()
        except BaseException:
            table.close()
            raise

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str],
        n_bits: int = 64,
        learner: str = "mihash",
        *,
        metric: str = "euclidean",
        normalize: bool = True,
        theta: float | None = None,
        interval: int = 100,
        reservoir_size: int = 2000,
        dtype: str = "float32",
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        mapping: HashMapping | None = None,
        table: str = "sqlite",
        shards: int | None = None,
        nodes: Sequence[str] | Mapping[str, str] | None = None,
        address: str | None = None,
        timeout_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> Self:
        """Make an empty index in a new or empty folder.

        Parameters
        ----------
        path
            The folder; it is made where it is not there.
        n_bits
            The code length.
        learner
            An online hashing method by name: mihash, hcoh, hmoh, osh, okh, adapthash, sketchhash or lsh; or refit,
            a batch method that is fitted now and then (docs/choosing.md).
        metric
            ``"euclidean"`` or ``"cosine"``: which vectors are near, for learning without labels and for rescoring.
        normalize
            Whether features are centred and scaled, by what the first 256 examples have; part of the mapping.
        theta
            The gain in quality, in bits of mutual information, that a rehash must bring. None asks for 2 % of the
            quality that the table has, measured to cost about 1 % of mAP for a tenth of the updates.
        interval
            How many examples pass between two decisions.
        reservoir_size
            How many examples are sampled to measure quality on.
        dtype
            How vectors are stored: ``"float32"``, or ``"float16"`` for half the space.
        seed
            Seeds everything random.
        parameters
            Arguments of the learner beyond these, such as ``{"learning_rate": 0.5}``.
        mapping
            A mapping that was learned elsewhere, by a method of `mihash.batch` or as a network of `mihash.deep`.
            The index then learns nothing; length and normalisation are the mapping's own, and `offer` gives it
            others.
        table
            Where vectors and codes are: ``"sqlite"`` for this folder, ``"ray"`` for the nodes of a Ray cluster,
            which takes the arguments that follow (docs/scale.md).
        shards
            Over how many shards the rows are spread, 2 by default; that does not change later.
        nodes
            The nodes of the shards, in turn: addresses or names of Ray resources; as a dictionary with a folder
            for each. All nodes by default, and this path on each.
        address
            The cluster, as `ray.init` takes it; not needed where this process has joined one.
        timeout_s
            How long a shard may be silent before it is missed, 30 by default.
        allow_partial
            Whether a search may answer without shards that are missed; ``hits.missing`` names them.
        """
        validation.choice("table", table, TABLES)
        cluster = {"shards": shards, "nodes": nodes, "address": address, "timeout_s": timeout_s}
        if mapping is not None:
            n_bits, learner, normalize = _of(mapping, parameters)
        elif learner == Given.name:
            raise InvalidInput(f"`learner` {learner!r} is that of an index with a mapping: give `mapping`.")
        options = Options(
            n_bits, learner, metric, normalize, theta, interval, reservoir_size, seed, parameters or {}
        )
        folder = Path(path)
        about = {"options": options.to_text(), "created": now(), "mihash": _version()}
        given = _given(**cluster, allow_partial=allow_partial)
        index = cls(create_table(folder, table, given, dtype=dtype, metric=metric, **about))
        if mapping is not None:
            index._journal.begin(mapping)
        return index

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        read_only: bool = False,
        *,
        address: str | None = None,
        timeout_s: float | None = None,
        allow_partial: bool | None = None,
    ) -> Self:
        """Open an index; with ``read_only=True`` next to a process that writes, whose changes are followed.

        The further arguments are those of `create`, for an index on a Ray cluster.
        """
        given = _given(address=address, timeout_s=timeout_s, allow_partial=allow_partial)
        return cls(open_table(Path(path), read_only, given))

    # What is stored

    def add(
        self,
        X: ArrayLike,
        y: ArrayLike | None = None,
        keys: ArrayLike | None = None,
        metadata: Metadata = None,
        *,
        source: tuple[str, int] | Reading | None = None,
        at_once: int | None = None,
    ) -> list[Key]:
        """Store vectors, learn from them, return their keys; they are on the disk, and found, when it returns.

        Parameters
        ----------
        X
            Feature vectors (n, d).
        y
            Class labels (n,) or a 0/1 matrix (n, classes). Whether the first examples have labels decides who is a
            neighbour in this index: those of one class, or those that are near. In an index with labels, rows
            without are stored and found, and not learned from.
        keys
            Strings or whole numbers, unique; by default the running number of the row, from 0.
        metadata
            A dictionary for each row, to filter by and to get back.
        source
            A name and a position up to which it was read, committed with the rows; see `position`. With a
            `Reading` more is remembered, as `mihash.io.ingest` does of files.
        at_once
            From how many rows to learn before it returns; call `learn` for the others. By default from all.
        """
        if at_once is not None:
            at_once = validation.integer("at_once", at_once, minimum=1)
        with self._writing:
            stream = self._ready()
            vectors = validation.features("X", X, self._table.n_features, allow_empty=True)
            labels = self._checked(stream, vectors, y)
            with self._journal.consistent(InvalidInput):
                names, stored = self._table.add(vectors, keys, labels, metadata, source)
                self._journal.keep(stored, labels)
                self._learn(at_once)
            return names

    def learn(self, n: int | None = None) -> int:
        """Learn from rows that `add` has left for later, the oldest first; return how many are left.

        Storing takes a fiftieth of the time of learning: whoever must not be held up long learns in pieces. Where
        the index is closed before, the rest is learned when it is opened.

        Parameters
        ----------
        n
            From how many; by default from all.

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> X = np.random.default_rng(0).standard_normal((1000, 16))
        >>> with mihash.OnlineIndex.create(folder.name, n_bits=32) as index:
        ...     keys = index.add(X, at_once=400)
        ...     print(len(index), index.seen, index.learn(400), index.learn(), index.seen)
        1000 400 200 0 1000
        >>> folder.cleanup()
        """
        n = None if n is None else validation.integer("n", n, minimum=0)
        with self._writing:
            self._ready()
            with self._journal.consistent():
                self._learn(n)
            return self._journal.n_behind

    @property
    def behind(self) -> int:
        """How many rows are stored and were not learned from yet."""
        return self._journal.n_behind

    def update(
        self, keys: ArrayLike | Key, X: ArrayLike, y: ArrayLike | None = None, metadata: Metadata = None
    ) -> None:
        """Give stored keys new vectors, and learn from these.

        Without ``metadata`` they keep theirs. A label belongs to a vector: without ``y`` the new ones have none,
        and in an index with labels they are not learned from.
        """
        with self._writing:
            stream = self._ready()
            vectors = validation.features("X", X, self._table.n_features, allow_empty=True)
            labels = self._checked(stream, vectors, y)
            with self._journal.consistent(InvalidInput, UnknownName):
                _, stored = self._table.update(
                    [keys] if isinstance(keys, int | str) else keys, vectors, labels, metadata
                )
                self._journal.keep(stored, labels)
                self._learn()

    def delete(self, keys: ArrayLike | Key) -> int:
        """Remove items by key and return how many; an unknown key raises `UnknownName`, and nothing is removed."""
        with self._writing:
            return self._table.delete(keys)

    def get(self, key: Key) -> Item:
        """Return a stored item: key, vector, label and metadata."""
        return self._table.get(key)

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Tell of each key whether it is stored."""
        return self._table.contains(keys)

    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of several items; None for those that have none or are not stored.

        Where it is more than ``max_bytes`` bytes of JSON in all, `InvalidInput` is raised and nothing decoded.
        """
        most = None if max_bytes is None else validation.integer("max_bytes", max_bytes, minimum=0)
        return self._table.metadata(keys, most)

    def position(self, source: str) -> int | None:
        """Return up to where a source was read, as the last `add` that named it said; None for an unknown one."""
        if not isinstance(source, str):
            raise InvalidInput(f"The name of a source must be a string; got {source!r:.80}.")
        with self._table.database.read() as connection:
            return read_position(connection, source)

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
        """Return the nearest items to each query as (keys, distances, version), nearest first, ties by age.

        Parameters
        ----------
        Q
            Queries (n_queries, d), as features.
        k
            How many items to return for each query; fewer where there are fewer.
        where
            Only items whose metadata matches, such as ``{"year": {"$gte": 2000}}`` (docs/index.md).
        rescore
            How many nearest codes are looked up and ordered anew by the distance of their vectors; 0 for none.
        radius
            In place of the k nearest, all items at most so many bits away: lists with one array for each query.
        method
            ``"scan"``, ``"multi-index"`` (multi-index hashing, which takes several times the memory of the codes;
            for up to 256 bits), or ``"auto"`` for the faster one; the answer is the same.
        n_threads
            How many threads share the work.
        """
        return self._table.search(Q, k, where, rescore, radius, method=method, n_threads=n_threads)

    # What was learned

    @property
    def read_only(self) -> bool:
        """Whether this process only reads."""
        return self._table.database.read_only

    @property
    def folder(self) -> Path:
        """The folder that it is in."""
        return self._table.database.folder

    @property
    def options(self) -> Options:
        """What it was made with."""
        return self._options

    @property
    def seen(self) -> int | None:
        """How many examples were learned from; None where this process has not learned."""
        return self._journal.seen

    @property
    def snapshot(self) -> HashMapping | None:
        """The mapping that queries are answered with; None before anything was added."""
        return self._table.mapping

    @property
    def version(self) -> int | None:
        """The version that queries are answered with; None before anything was added."""
        edition = self._table.edition
        return None if edition is None else edition.version

    @property
    def current(self) -> HashMapping:
        """The mapping after every example so far."""
        with self._writing:
            stream = self._ready()
            if not stream.started:
                raise NotReady("The dimension is not known yet: add vectors first.")
            return stream.current

    def __len__(self) -> int:
        """Return how many items are stored."""
        return len(self._table)

    def stats(self) -> dict[str, Any]:
        """Return the state of the index in numbers."""
        self._write_decisions()
        edition, stream = self._table.edition, self._journal.known
        with self._table.database.read() as connection:
            check_seals(connection, "version")
            (decisions,) = connection.execute("SELECT count(*) FROM decision").fetchone()
            (updates,) = connection.execute("SELECT count(*) FROM version WHERE items IS NOT NULL").fetchone()
        folder = self._table.database.folder
        options, about = self._options, self._table.about()
        return {
            "items": len(self._table),
            "deleted": 0 if edition is None else edition.n_dead,
            "n_features": self._table.n_features,
            "n_bits": options.n_bits,
            "learner": options.learner,
            "metric": options.metric,
            "dtype": self._table.setting("dtype"),
            "labels": self._table.label_kind is not None,
            "theta": options.theta,
            "interval": options.interval,
            "version": None if edition is None else edition.version,
            "decisions": decisions,
            "updates": updates,
            "rehashing": self._rehashing.busy,
            "paused": bool(self._table.setting("paused")),
            "rehash_error": None if self._rehashing.error is None else str(self._rehashing.error),
            "learning_error": None if stream is None else stream.trouble,
            "write_error": None if self._unwritten is None else str(self._unwritten),
            "bytes_on_disk": sum(file.stat().st_size for file in folder.iterdir() if file.is_file()),
            "sqlite": sqlite3.sqlite_version,
            "warning": _degenerate(**about) if "bit_entropy" in about else None,
        } | about

    def history(self, after: int | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return every decision, with its gain, and for those that led to a version what that cost.

        Each is a dictionary: ``number`` (also the version's), ``kind``, ``seen``, ``accepted``, ``gain``,
        ``current`` and ``snapshot`` (the qualities that were compared), ``reason``, ``at``; and ``status``,
        ``items``, ``seconds`` of the version, None where there is none.

        Parameters
        ----------
        after
            Only those that follow this number.
        limit
            At most so many: the first after ``after``, without one the newest.
        """
        if after is not None:
            after = validation.integer("after", after, minimum=-1, maximum=2**62)
        if limit is not None:
            limit = validation.integer("limit", limit, minimum=0, maximum=2**62)
        self._write_decisions(replay=True)
        return self._journal.decisions(after, limit)

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions that have answered queries, in order, and what each took to make.

        Each is a dictionary: ``number``, ``kind``, ``seen``, ``items``, ``seconds`` and ``at``.
        """
        with self._table.database.read() as connection:
            return published_versions(connection)

    def distances(self, version: int | None = None) -> Distances:
        """Return the distances to neighbours and to others on the reservoir of now, under a version's mapping.

        Without ``version``, under the current mapping. It needs the learner, so a reader cannot do it.
        """
        number = None if version is None else validation.integer("version", version, minimum=0, maximum=2**62)
        with self._writing:
            stream = self._ready()
            mapping = self.current if number is None else self._table.mapping_of(number)
            sampled = stream.sampled()
        return sampled(mapping)._replace(version=number)

    def evaluate(self, k: int = 10, n_queries: int = 100, rescore: int = 100, seed: int = 0) -> Recall:
        """Return the share of the true k nearest items that searches find, on a sample of the stored ones."""
        return evaluate(self._table, k, n_queries, rescore, seed)

    # Control

    def rehash(self) -> None:
        """Accept the current mapping now, whatever the trigger would say; its codes are made in the background."""
        with self._writing:
            stream = self._ready()
            if not stream.started:
                raise NotReady("There is nothing to rehash: add vectors first.")
            with self._table.database.lock, self._journal.consistent(), self._table.loaded_again():
                with self._table.database.write() as connection:
                    self._journal.request()
                    write_settings(connection, paused=0)
                self._settle(paused=False)
                self._rehashing.notice()

    def offer(self, mapping: HashMapping, *, force: bool = False) -> Decision:
        """Give an index that was made with ``mapping=`` another one, as a method or network learned it anew.

        The trigger compares both on the sample of the stream. Where it says yes, codes are made in the background;
        where it says no, the table stays, and the mapping is asked about again with the rows to come.

        Parameters
        ----------
        mapping
            Of the same length and the same number of features.
        force
            Whether to take it without asking.

        Examples
        --------
        >>> import tempfile, mihash
        >>> data, folder = mihash.datasets.digits(), tempfile.TemporaryDirectory()
        >>> first, better = (mihash.batch.MIHash(16, epochs=n).fit(data.X[:500], data.y[:500]) for n in (1, 20))
        >>> with mihash.OnlineIndex.create(folder.name, mapping=first) as index:
        ...     keys = index.add(data.X, data.y)
        ...     decisions = index.offer(better), index.offer(first)
        >>> [decision.update for decision in decisions]
        [True, False]
        >>> folder.cleanup()
        """
        with self._writing:
            self._ready()
            refusals = InvalidInput, NotReady
            with self._table.database.lock, self._journal.consistent(*refusals), self._table.loaded_again():
                with self._table.database.write() as connection:
                    event = self._journal.offer(connection, mapping, bool(force))
                if event.mapping is not None:
                    self._rehashing.notice()
            return event.decision

    def pause(self) -> None:
        """Build no new version until `resume`; learning and decisions go on. This is remembered on the disk."""
        with self._writing:
            self._ready()
            with self._table.loaded_again():
                with self._table.database.write() as connection:
                    write_settings(connection, paused=1)
                self._settle(paused=True)

    def resume(self) -> None:
        """Build the newest accepted version, where another one answers, and go on so.

        Where learning has stopped (``stats()["learning_error"]``), it begins anew with the rows to come; the
        published mapping answers until a better one is learned.
        """
        with self._writing:
            stopped = self._ready().failure is not None
            with self._journal.consistent(), self._table.loaded_again():
                with self._table.database.write() as connection:
                    if stopped:
                        self._journal.restart(connection)
                    write_settings(connection, paused=0)
                    propose_newest(connection, self._table.setting("published"))
                self._settle(paused=False)
            if self._table.waiting() is not None:
                self._rehashing.notice()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until no version is being built; return False where the time did not suffice."""
        return self._rehashing.wait(timeout)

    def rollback(self, version: int) -> None:
        """Answer with an earlier version from now on, and build no other until `resume` or `rehash`."""
        number = validation.integer("version", version, minimum=0)
        self._table.mapping_of(number)
        self.pause()
        with self._rehashing.building:
            if self.version != number:
                self._table.build(number)

    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping.

        Returns how much was checked; raises `CorruptStore` with everything that is wrong.
        """
        return self._table.verify() | {"checkpoints": self._journal.verify()}

    def compact(self) -> None:
        """Remove the vectors of deleted items from the disk, and put small pieces together."""
        with self._writing, self._rehashing.building:
            self._ready()
            with self._journal.consistent(), self._table.database.lock, self._table.loaded_again():
                self._learn()  # from the rows to be purged, too
                with self._table.database.write() as connection:
                    self._journal.checkpoint(connection, kept=1)  # older ones would need the purged rows
                    fresh = self._table.compact(connection)
                self._table.compacted(fresh)

    def backup(self, path: str | os.PathLike[str]) -> None:
        """Write a copy of the index to a new folder while it goes on; the copy opens as an index of its own."""
        self._journal.flush()
        self._table.backup(Path(path))

    def close(self) -> None:
        """Keep what was learned, stop a build that runs (it is resumed by `open`) and free the folder."""
        with self._writing:
            if self._closed:
                return
            self._closed = True
            try:
                self._rehashing.stop()
                if not self.read_only:
                    with self._table.database.write() as connection:
                        self._journal.checkpoint(connection)
            except StoreError as error:
                warnings.warn(f"{_STORED}: {error}", RuntimeWarning, stacklevel=2)
            finally:
                self._table.close()

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

    # Learning from what is stored

    def _checked(self, stream: Stream, vectors: NDArray[np.float32], y: ArrayLike | None) -> NDArray[Any] | None:
        """Return the labels, checked against those before; nothing changes."""
        if not len(vectors):
            return None
        begun, labelled = self._table.last >= 0, self._table.label_kind is not None
        if y is None:
            if not begun:
                stream.check(vectors, None)
            return None
        if begun and not labelled:
            raise InvalidInput(
                "This index began without labels: neighbours are those that are near. Leave labels out, or make "
                "an index whose first rows have labels."
            )
        labels: NDArray[Any] = validation.labels("y", y, len(vectors))
        return stream.check(vectors, labels)[1]

    def _learn(self, n: int | None = None) -> None:
        """Learn from rows that are stored, and have each accepted mapping built."""
        try:
            for _ in self._journal.learn(n):
                if self._table.edition is None:
                    self._build_first()
                else:
                    self._rehashing.notice()
        except StoreError as error:
            self._journal.forget()
            warnings.warn(f"{_STORED}: {error}", RuntimeWarning, stacklevel=3)

    def _write_decisions(self, replay: bool = False) -> None:
        """Write decisions that are only in memory; where the disk takes nothing, who reads sees those before."""
        if self.read_only:
            return
        try:
            if replay and self._journal.known is None:
                with self._writing:
                    self._ready()  # after a crash, decisions since the last acceptance are made again
            self._journal.flush()
            self._unwritten = None
        except CorruptStore:
            raise
        except StoreError as error:
            self._unwritten = error

    def _build_first(self) -> None:
        """Build the first version at once: queries must not wait for it."""
        self._ready()
        number = self._table.waiting()
        if number is not None:
            self._table.build(number)

    def _ready(self) -> Stream:
        """Return the learner's state after the newest row, where this process may write."""
        if self._closed:
            raise NotReady("The index is closed.")
        if self.read_only:
            raise NotReady("This index was opened with read_only=True: it cannot be changed from here.")
        fresh = self._journal.known is None
        stream = self._journal.stream
        if fresh and self._table.edition is not None and self._table.waiting() is not None:
            self._rehashing.notice()
        return stream

    def _settle(self, paused: bool) -> None:
        """Take over that building was stopped, or goes on, once that is committed."""
        self._table.settled(paused=int(paused))
        if paused:
            self._rehashing.pause()
        else:
            self._rehashing.resume()


def _degenerate(codes_sampled: int, codes_distinct: int, bit_entropy: float) -> str | None:
    """Return what to say of codes that tell items hardly apart; None of others."""
    if codes_sampled < _FEW or bit_entropy >= _DEGENERATE:
        return None
    return (
        f"The codes are degenerate: {codes_sampled} rows share {codes_distinct} code(s), and the mean entropy of "
        f"a bit is {bit_entropy:.2f} of 1. Look for outliers or constant features, then call rehash()."
    )


def _of(mapping: HashMapping, parameters: Mapping[str, Any] | None) -> tuple[int, str, bool]:
    """Return length, learner and normalisation of an index with a mapping from elsewhere."""
    if not isinstance(mapping, HashMapping):
        raise InvalidInput(f"`mapping` must be a hash mapping; got {mapping!r:.80}.")
    if parameters:
        raise InvalidInput("`parameters` are those of a learner, and an index with a `mapping` has none.")
    return mapping.n_bits, Given.name, False


def _given(**cluster: Any) -> dict[str, Any]:
    return {name: value for name, value in cluster.items() if value is not None}


def _version() -> str:
    from .. import __version__

    return __version__
