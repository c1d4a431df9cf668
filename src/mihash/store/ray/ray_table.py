"""RayTable: the hash table on a Ray cluster. This process coordinates; the shards store, encode and search.

A change is committed to this process's SQLite log, and reaches the shards by its number. It is acknowledged once
one shard has it, or a note of it, on its disk. A query carries the number and the version of the moment that it
asks about, so all shards answer for the same one. A shard follows one coordinator: the last that has claimed it.
"""

import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ... import state as saved
from ... import validation
from ...errors import CorruptStore, DuplicateKey, InvalidInput, MIHashError, NotReady
from ...mapping import HashMapping
from ..filters import decode_metadata
from ..keys import Key, as_keys
from ..question import Hits, PartialHits, Question
from ..sqlite.database import Database
from ..sqlite.items import Metadata, as_metadata
from ..sqlite.positions import Reading, write_reading
from ..sqlite.segments import Segment, Segments, rows_at_most
from ..sqlite.settings import read_settings, write_settings
from ..sqlite.sqlite_table import all_found, label_kind
from ..sqlite.versions import drop_mappings, mark_published, propose
from ..table import DurableTable, Item
from .cluster import Nodes, connect, find_actor, leave, place_shards, ray_module, start_actor, wait_free
from .log import Log, Place, View
from .merge import Merged, as_hits, nearest_of
from .partition import deletions, rows_by_shard
from .ray_search import found_at
from .routing import shards_of
from .shard_clients import Members, missed

_RETRIES = 8
_PATIENCE_S = 10.0
_TRIM_ENTRIES = 256
_KEPT_CHECKPOINTS = 2

Found = tuple[list[Merged], int | None, tuple[int, ...]]


@dataclass(frozen=True)
class Published:
    """The version that answers, in numbers."""

    version: int
    mapping: HashMapping
    n_items: int
    n_dead: int


class RayTable(DurableTable):
    """Items on the nodes of a Ray cluster, with their codes under one snapshot.

    Parameters
    ----------
    folder
        The folder of the coordinator, on this machine.
    read_only
        Whether this process only asks the shards that another one has started.
    address
        The Ray cluster, as `ray.init` takes it; not needed where this process has joined one.
    timeout_s
        How long a shard may be silent, while Ray starts it again, before it is missed.
    allow_partial
        Whether a search may answer without shards that are missed; such an answer names them in `missing`.
    """

    def __init__(
        self,
        folder: str | Path,
        read_only: bool = False,
        *,
        address: str | None = None,
        timeout_s: float = 30.0,
        allow_partial: bool = False,
    ) -> None:
        timeout_s, allow_partial = _as_timeout(timeout_s), _as_allowed(allow_partial)
        super().__init__(Database(Path(folder), read_only))
        self._asked: Counter[int] = Counter()  # moments that searches are about
        self._asking = threading.Lock()
        self._members: Members | None = None
        self._allow_partial = allow_partial
        self._mapping: tuple[int, HashMapping] | None = None
        self._joined = False
        self._entries_since = 0
        try:
            self._load()
            if self.setting("table") != "ray":
                raise InvalidInput(f"{folder} does not hold a table on Ray.")
            self._log = Log(self.database)
            self._view = self._seen()
            self._segments = Segments(self.database, self.setting("dtype"))  # for its casts; it has no rows here
            self._joined = connect(address)
            log, name, places = None if read_only else self._log, str(self.setting("cluster")), self._log.places()
            about = {"dtype": self.setting("dtype"), "metric": self.setting("metric")}
            session = uuid.uuid4().hex

            def start(place: Place) -> Any:
                if read_only:
                    return find_actor(place, name)
                return start_actor(place, name, about, session, self._log.epoch)

            def following() -> str:
                return self._seen().session if read_only else session

            if not read_only:
                wait_free(places, name)
            self._members = Members(
                places, start, log, self._log.applied(), self._oldest, following, timeout_s, allow_partial
            )
            self._members.wake(self._view.lasts)
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(
        cls,
        folder: str | Path,
        shards: int = 2,
        *,
        nodes: Nodes = None,
        address: str | None = None,
        timeout_s: float = 30.0,
        allow_partial: bool = False,
        dtype: str = "float32",
        metric: str = "euclidean",
        **settings: Any,
    ) -> "RayTable":
        """Make an empty table.

        Parameters
        ----------
        folder
            A new or empty folder on this machine, for the coordinator.
        shards
            Over how many shards the rows are spread; that does not change later.
        nodes
            Where the shards go, in turn: addresses of nodes, or names of resources that Ray nodes were started
            with; as a dictionary, with a folder on each. By default all nodes, and the same folder on each.
        address, timeout_s, allow_partial
            As in the class.
        dtype, metric
            As in `SQLiteTable`.
        settings
            Further settings to store with it.
        """
        shards = validation.integer("shards", shards, minimum=1, maximum=4096)
        validation.choice("dtype", dtype, ("float32", "float16"))
        validation.choice("metric", metric, ("euclidean", "cosine"))
        timeout_s = _as_timeout(timeout_s)
        allow_partial = _as_allowed(allow_partial)
        joined = connect(address)  # for as long as this takes; the table joins on its own account
        try:
            places = place_shards(Path(folder), shards, nodes)
            about = {
                "table": "ray",
                "cluster": uuid.uuid4().hex,
                "dtype": dtype,
                "metric": metric,
                "plain_keys": 1,
            }
            with (
                closing(Database.create(Path(folder), about | settings)) as database,
                database.write() as connection,
            ):
                Log.create(connection, places)
            return cls(folder, timeout_s=timeout_s, allow_partial=allow_partial)
        finally:
            if joined:
                leave()

    # What is known of the rows

    @property
    def members(self) -> Members:
        """The shards."""
        self.database.check_open()
        if self._members is None:
            raise NotReady("The index is closed.")
        return self._members

    def __len__(self) -> int:
        """Return how many items are stored."""
        self._follow()
        return self._count("rows") - self._n_dead()

    def _n_dead(self) -> int:
        return self._count("tombstones") - self._count("purged")

    @property
    def edition(self) -> Published | None:
        """The version that answers now; None before the first."""
        self.database.check_open()
        self._follow()
        version = self._view.version  # what the next search asks for
        if version is None:
            return None
        return Published(version, self.mapping_of(version), len(self), self._n_dead())

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        found = super().n_features
        if found is None and (edition := self.edition) is not None:
            return edition.mapping.n_features
        return found

    @property
    def metric(self) -> str:
        """How vectors are compared: ``"euclidean"`` or ``"cosine"``."""
        return str(self.setting("metric"))

    @property
    def purged(self) -> bool:
        """Whether rows that were learned from are not in the log any more."""
        return bool(self.setting("trimmed")) or super().purged

    def about(self) -> dict[str, Any]:
        """Return how each shard is: where, since when it lags, and how often it was started again."""
        lasts = self._seen().lasts
        members, sizes = self.members, self._sizes()
        shards = [
            {
                "shard": member.place.number,
                "node": member.place.node.removeprefix("node:"),
                "path": member.place.path,
                "state": member.state,
                "version": member.about.get("version"),
                "items": member.about.get("items"),
                "lag": self._log.waiting(member.place.number, member.applied) if member.applied < last else 0,
                "restarts": member.about.get("restarts", 0),
                "bytes_on_disk": sizes.get(member.place.number),
            }
            for member, last in zip(members.all, lasts, strict=True)
        ]
        own = sum(file.stat().st_size for file in self.database.folder.iterdir() if file.is_file())
        return {"bytes_on_disk": own + sum(sizes.values()), "shards": shards}

    def _sizes(self) -> dict[int, int]:
        up = [member.place.number for member in self.members.all if member.state == "up"]
        return self.members.ask("care", "disk_bytes", dict.fromkeys(up, ()))[0]

    # Changing what is stored

    def add(
        self,
        X: ArrayLike,
        keys: ArrayLike | None = None,
        labels: NDArray[Any] | None = None,
        metadata: Metadata = None,
        source: tuple[str, int] | Reading | None = None,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Store items under unique keys; they are in the log, and found, when this returns.

        The parameters are those of `SQLiteTable.add`. Keys of one's own are looked for on their shards first, so
        these must be there; running numbers are given without asking.
        """
        vectors = validation.features("X", X, self.n_features, allow_empty=True)
        chosen = None if keys is None else as_keys(keys, len(vectors))
        return self._store(vectors, chosen, labels, as_metadata(metadata, len(vectors)), source, None)

    def update(
        self, keys: ArrayLike, X: ArrayLike, labels: NDArray[Any] | None = None, metadata: Metadata = None
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Give stored keys new vectors; without ``metadata`` they keep theirs."""
        vectors = validation.features("X", X, self.n_features, allow_empty=True)
        chosen = as_keys(keys if not isinstance(keys, str | int) else [keys], len(vectors))
        if len(set(chosen)) != len(chosen):
            raise InvalidInput("`keys` must be different keys; one is given twice.")
        texts = as_metadata(metadata, len(vectors))
        self._check_writable()
        with self.database.lock:
            ids, known = self._lookup(chosen, metadata is None)
            gone = all_found(chosen, ids)
            return self._store(vectors, chosen, labels, known if metadata is None else texts, None, gone)

    def _store(
        self,
        vectors: NDArray[np.float32],
        keys: list[Key] | None,
        labels: NDArray[Any] | None,
        texts: list[str | None],
        source: tuple[str, int] | Reading | None,
        gone: list[int] | None,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        n = len(vectors)
        small = self._segments.cast(vectors)
        self._check_writable()
        fresh: dict[str, Any] = {}
        if labels is not None and self.label_kind is None:
            fresh["labels"] = label_kind(labels)
        with self.database.lock, self.loaded_again():
            if keys is not None and gone is None:
                self._check_new(keys)
            first = self._next(keys is None)
            ids = np.arange(first, first + n)
            names: list[Key] = list(ids.tolist()) if keys is None else keys
            with self.database.write() as connection:
                if n:
                    fresh |= {
                        "last": first + n - 1,
                        "rows": self._count("rows") + n,
                        "n_features": vectors.shape[1],
                    }
                if keys is not None:
                    fresh["plain_keys"] = 0
                if gone:
                    fresh["tombstones"] = self._count("tombstones") + len(gone)
                write_reading(connection, source, names)
                rows = Segment(ids, small, labels)
                size = rows_at_most(small[:1].nbytes)
                for start in range(0, n, size):
                    part = slice(start, start + size)
                    own = rows_by_shard(
                        rows.part(part), keys and keys[part], texts[part], gone and gone[part], len(self.members)
                    )
                    self._log.append(connection, own)
                write_settings(connection, **fresh)
            self._committed(fresh)
        return names, small.astype(np.float32, copy=False)

    def delete(self, keys: ArrayLike | Key) -> int:
        """Remove items; a key that is not stored raises `UnknownName`, and nothing is removed."""
        chosen = list(dict.fromkeys(as_keys(keys)))
        self._check_writable()
        if not chosen:
            return 0
        with self.database.lock, self.loaded_again():
            gone = all_found(chosen, self._lookup(chosen, False)[0])
            empty = np.empty((0, self.n_features or 0), dtype=self.setting("dtype"))
            parts = deletions(chosen, gone, empty, len(self.members))
            fresh = {"tombstones": self._count("tombstones") + len(gone)}
            with self.database.write() as connection:
                self._log.append(connection, parts)
                write_settings(connection, **fresh)
            self._committed(fresh)
        return len(gone)

    def _lookup(
        self, keys: list[Key], with_texts: bool, max_bytes: int | None = None
    ) -> tuple[list[int | None], list[str | None]]:
        """Return the ids of keys, None where one is not stored, and their metadata as texts.

        No shard gives more than ``max_bytes`` of them.
        """
        shards = shards_of(keys, len(self.members))
        ids: list[int | None] = [None] * len(keys)
        texts: list[str | None] = [None] * len(keys)
        places = {shard: np.flatnonzero(shards == shard).tolist() for shard in np.unique(shards).tolist()}
        lost = self.members.reach(self._seen().lasts, places)
        if lost:
            raise missed(lost)
        asked = {shard: ([keys[place] for place in own], with_texts, max_bytes) for shard, own in places.items()}
        answers, lost = self.members.ask("ask", "lookup", asked)
        if lost:
            raise missed(lost)
        for shard, own in places.items():
            for place, number, text in zip(own, *answers[shard], strict=True):
                ids[place], texts[place] = number, text
        return ids, texts

    def _check_new(self, keys: list[Key]) -> None:
        """Raise where a key is given twice or stored already."""
        seen: set[Key] = set()
        for key in keys:
            if key in seen:
                raise DuplicateKey(f"The key {key!r} is given twice. Nothing was stored.")
            seen.add(key)
        for key, number in zip(keys, self._lookup(keys, False)[0], strict=True):
            if number is not None:
                raise DuplicateKey(
                    f"The key {key!r} is stored already; nothing was stored. For a new vector delete it first, or "
                    "use `OnlineIndex.update`."
                )

    def _next(self, named: bool) -> int:
        """Return the next sequence number; where it is to be a key as well, one above the keys that are taken."""
        if not named or self.setting("plain_keys"):
            return self.last + 1
        lost = self.members.reach(self._view.lasts)
        if lost:
            raise missed(lost)
        return int(max(self.last, *self.members.ask_all("top_key"))) + 1

    def _check_writable(self) -> None:
        if self.database.read_only:
            raise NotReady("This index was opened with read_only=True: it cannot be changed from here.")
        self.members.check_complete()

    def _committed(self, fresh: dict[str, Any]) -> None:
        """Take over what was written to the log, have it brought to the shards, and wait until one has it."""
        self.settled(**fresh)
        view = self._seen()
        with self._asking:
            self._view = view
        self.members.wake(view.lasts)
        self.members.confirm(view.number, view.lasts)
        self._entries_since += 1
        if self._entries_since >= _TRIM_ENTRIES and self.setting("options") is None:  # no learner needs the rows
            with self.database.write() as connection:
                self._trim(connection, self.last)

    def _trim(self, connection: sqlite3.Connection, through: int) -> None:
        self._entries_since = 0
        self._log.trim(connection, through, [max(member.applied, 0) for member in self.members.all])

    # Versions

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot, and answer with it."""
        self.check_width(mapping)
        with self.database.write() as connection:
            (number,) = connection.execute("SELECT coalesce(max(number) + 1, 0) FROM version").fetchone()
            propose(connection, number, mapping)
        self.build(number)

    def mapping_of(self, number: int) -> HashMapping:
        """Return the mapping of a version."""
        held = self._mapping  # that of a number never changes
        if held is None or held[0] != number:
            held = self._mapping = number, super().mapping_of(number)
        return held[1]

    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Have every shard make the codes of a version beside those that answer; publish when all are ready."""
        begin = time.perf_counter()
        mapping = super().mapping_of(number)
        self.check_width(mapping)
        members = self.members
        lost = members.reach(self._view.lasts)
        if lost:
            raise missed(lost)
        sent = ray_module().put(saved.dump(mapping.state()))  # once; every node fetches it from the object store
        attempt = uuid.uuid4().hex
        refs = {
            member.call("build", "stage", number, sent, attempt): member.place.number for member in members.all
        }
        answers, lost = members.gather(refs, stopped)
        ready = len(answers) == len(members) and all(n is not None for n in answers.values())
        if not ready:
            for member in members.all:
                member.call("care", "abandon", number, attempt)
            if lost:
                raise missed(lost)
            return False
        with self.database.lock, self.loaded_again():
            fresh = {"published": number}
            with self.database.write() as connection:
                self._log.append(connection, {shard: {"publish": number} for shard in range(len(members))})
                mark_published(connection, number, mapping, self._count("rows"), time.perf_counter() - begin)
                write_settings(connection, **fresh)
            self._committed(fresh)
        return True

    def store_codes(self, connection: sqlite3.Connection) -> None:
        """Do nothing: the shards keep their codes."""

    # Searching

    @contextmanager
    def _moment(self) -> Iterator[View]:
        """Give the newest moment, and keep the shards from forgetting it meanwhile."""
        self._follow()
        with self._asking:
            view = self._view
            self._asked[view.number] += 1
        try:
            yield view
        finally:
            with self._asking:
                self._asked[view.number] -= 1
                if not self._asked[view.number]:
                    del self._asked[view.number]

    def _oldest(self) -> int:
        """Return the oldest moment that a search is about, or that the next one will be."""
        with self._asking:
            return min([self._view.number, *self._asked])

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

        The parameters are those of `SQLiteTable.search`, and so is the answer. Where shards are missed that is a
        `PartialFailure`, or, if that was allowed, a `PartialHits` that names them.
        """
        options = (k, where, rescore, radius, method, n_threads)
        question = Question.checked(Q, self.n_features, *options)
        found, version, lost = self._steady(question)
        if version is None or not self._count("rows"):
            return question.nothing(-1 if version is None else version)
        hits = as_hits(found, question, version)
        return PartialHits(*hits, lost) if lost else hits

    def search_ids(self, queries: NDArray[np.float32], k: int, rescore: int = 0) -> list[NDArray[np.int64]]:
        """Return the sequence numbers of the nearest rows to each query, for a table that has rows."""
        return [each.ids for each in self._steady(Question(queries, k, None, rescore))[0]]

    def _steady(self, question: Question) -> Found:
        """Ask about the newest moment; where rows of it went away meanwhile, ask again, at last while none can."""
        until = time.monotonic() + _PATIENCE_S
        for attempt in count(1):
            with self._moment() as view:
                found = self._found(view, question)
            if found is not None:
                return found
            if self.database.read_only and time.monotonic() > until:  # nobody waits for a reader
                raise NotReady("The index changes faster than it can be asked from this process: ask again.")
            if not self.database.read_only and attempt == _RETRIES:
                break
        with self.database.lock, self._moment() as view:
            found = self._found(view, question)
        if found is None:
            raise CorruptStore("A shard does not have what the log has given it. Run `verify`, or use a backup.")
        return found

    def _found(self, view: View, question: Question) -> Found | None:
        return found_at(view, question, self.members, not self.setting("plain_keys"), self._allow_partial)

    def sample(self, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and vectors of some items, drawn from a seed, in the order of addition."""
        self._reach()
        live = np.sort(np.concatenate(self.members.ask_all("live_ids")))
        chosen = np.sort(np.random.default_rng(seed).permutation(live)[:n])
        vectors = np.empty((len(chosen), self.n_features or 0), dtype=np.float32)
        for ids, rows in self.members.ask_all("fetch", chosen):
            if len(ids):
                vectors[np.searchsorted(chosen, ids)] = rows
        return chosen, vectors

    def nearest_vectors(
        self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int
    ) -> list[NDArray[np.int64]]:
        """Return the rows whose vectors are the k nearest to each query, without its own, by (distance, id)."""
        return nearest_of(self.members.ask_all("exact", queries, own, k), k)

    def _reach(self) -> None:
        lost = self.members.reach(self._seen().lasts)
        if lost:
            raise missed(lost)

    def get(self, key: Key) -> Item:
        """Return a stored item."""
        wanted = as_keys(key)
        if len(wanted) != 1:
            raise InvalidInput(f"`get` takes one key; got {len(wanted)}.")
        (shard,) = shards_of(wanted, len(self.members)).tolist()
        lost = self.members.reach(self._seen().lasts, [shard])
        answers, gone = ({}, lost) if lost else self.members.ask("ask", "get", {shard: (wanted[0],)})
        if gone:
            raise missed(gone)
        item: Item = answers[shard]
        return item

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Tell of each key whether it is stored."""
        chosen = as_keys(keys)
        ids = self._lookup(chosen, False)[0] if chosen else []
        return np.array([number is not None for number in ids], dtype=np.bool_)

    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of items, None for those that have none or are not stored."""
        chosen = as_keys(keys)
        texts = self._lookup(chosen, True, max_bytes)[1] if chosen else []
        return [decode_metadata(text) for text in texts]

    # Care

    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows of the log after a sequence number."""
        return self._log.rows_after(last)

    def tidy(self, connection: sqlite3.Connection) -> None:
        """Drop what all shards have of the log, but for the rows after the older of two checkpoints."""
        throughs = [row[0] for row in connection.execute("SELECT through FROM checkpoint ORDER BY through")]
        if len(throughs) >= _KEPT_CHECKPOINTS:
            self._trim(connection, throughs[0])
            write_settings(connection, trimmed=1)
            self.settled(trimmed=1)
        drop_mappings(connection, self.setting("published"))

    def compact(self, connection: sqlite3.Connection) -> dict[str, int]:
        """Have every shard remove the vectors of deleted rows, by an entry of the log."""
        self._check_writable()
        self._log.append(connection, {shard: {"compact": True} for shard in range(len(self.members))})
        fresh = {
            "rows": self._count("rows") - self._n_dead(),
            "purged": self._count("tombstones"),
            "compactions": self._count("compactions") + 1,
        }
        write_settings(connection, **fresh)
        return fresh

    def compacted(self, fresh: dict[str, int]) -> None:
        """Wait until the shards have done it."""
        self._committed(fresh)
        self._reach()

    def verify(self) -> dict[str, int]:
        """Check the log and, on every shard, every checksum and a sample of the codes; return how much."""
        self._reach()
        total: Counter[str] = Counter()
        for found in self.members.ask_all("verify"):
            total.update(found)
        return dict(total) | {"log_parts": self._log.verify()}

    def backup(self, folder: Path) -> None:
        """Write a copy of one moment: the coordinator's here, each shard's into the same folder on its node."""
        self._check_writable()
        with self.database.lock:
            self._reach()
            self.database.backup(folder)
            name = uuid.uuid4().hex
            places = [
                place._replace(path=str(folder.absolute() / "shards" / str(place.number)))
                for place in self._log.places()
            ]
            copies = {place.number: (place.path, f"{name} {place.number}") for place in places}
            lost = self.members.ask("ask", "backup", copies)[1]
            if lost:
                raise missed(lost)
            with closing(Database(folder, read_only=False)) as copy, copy.write() as connection:
                write_settings(connection, cluster=name)
                connection.executemany(
                    "UPDATE shard SET path = ? WHERE number = ?", [(place.path, place.number) for place in places]
                )

    def close(self) -> None:
        """Stop the shards, and close the files."""
        if self._members is not None:
            if not self.database.read_only:
                with suppress(MIHashError), self.database.write() as connection:
                    self._trim(connection, -1)  # notes how far each shard is
            members, self._members = self._members, None
            members.close()
        self.database.close()
        if self._joined:
            self._joined = False
            leave()

    # Loading and following

    def _load(self) -> None:
        with self.database.read() as connection:
            self._settings = read_settings(connection)
        if self._members is not None:
            with self._asking:
                self._view = self._seen()
            self._members.wake(self._view.lasts)

    def _seen(self) -> View:
        """Return the moment that the database shows."""
        with self.database.read() as connection:
            return self._log.view(connection)

    def _follow(self) -> None:
        """Take over what the process that writes has committed."""
        if self.database.read_only:
            with self.database.read() as connection:
                settings, view = read_settings(connection), self._log.view(connection)
            with self._asking:
                self._settings, self._view = settings, view


def _as_timeout(timeout_s: float) -> float:
    return validation.number("timeout_s", timeout_s, above=0)


def _as_allowed(allow_partial: bool) -> bool:
    if not isinstance(allow_partial, bool):
        raise InvalidInput(f"`allow_partial` must be True or False; got {allow_partial!r:.80}.")
    return allow_partial
