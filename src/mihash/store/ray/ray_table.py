"""RayTable: the hash table on a Ray cluster. This process coordinates; the shards store, encode and search.

A change is committed to this process's SQLite log as a numbered entry, and sent to the shards. It is acknowledged
once one shard has it, or a note of it, on its disk. A query carries the number and the version of the moment that
it asks about, so all shards answer for the same one. A shard follows one coordinator: the last that claimed it.
"""

import sqlite3
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import state as saved
from ... import validation
from ...errors import InvalidInput, MIHashError, NotReady
from ...mapping import HashMapping
from ...stopwatch import Stopwatch
from ..change import NumberedRows
from ..edition import Published
from ..filters import Condition
from ..keys import Key
from ..question import Found, Item, Nearest, Question
from ..sqlite.code_versions import drop_mappings, mark_published
from ..sqlite.database import Database
from ..sqlite.items import stored_already
from ..sqlite.segments import Segment, Segments
from ..sqlite.settings import new_settings, read_settings, with_factors, write_settings
from ..table import Table
from .cluster import Nodes, connect, find_actor, leave, place_shards, ray_module, start_actor, wait_free
from .log import Log, Place, View
from .members import Members, missed
from .merge import found_at, nearest_of
from .routing import parts_of
from .shard_items import items, largest_of, listed, lookup, top_key

_RETRIES = 8
_PATIENCE_S = 10.0
_TRIM_ENTRIES = 256
_ENTRY_ROWS, _ENTRY_BYTES = 4096, 64 << 20  # of a log entry: SQLite takes 10^9 bytes in one row
_KEPT_CHECKPOINTS = 2


class RayTable(Table):
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
            self.segments = Segments(self.database, self.setting("dtype"))  # for its casts; it has no rows here
            self._joined = connect(address)
            name, session = str(self.setting("cluster")), uuid.uuid4().hex
            about = {name: self.setting(name) for name in ("dtype", "metric")}
            about["factors"] = self.setting("factors") or 0

            def start(place: Place) -> Any:
                if read_only:
                    return find_actor(place, name)
                return start_actor(place, name, about, session, self._log.epoch)

            def following() -> str:
                return self._seen().session if read_only else session

            if not read_only:
                wait_free(self._log.places(), name)
            self._members = Members(
                self._log, not read_only, start, self._oldest, following, float(timeout_s), allow_partial
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
        about = new_settings(dtype, metric) | {"table": "ray", "cluster": uuid.uuid4().hex, "largest_key_ever": -1}
        about |= settings
        joined = connect(address)  # for as long as this takes; the table joins on its own account
        try:
            places = place_shards(Path(folder), shards, nodes)
            with closing(Database.create(Path(folder), about)) as database, database.write() as connection:
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
        mapping = self.mapping_of(version)
        has_factors = mapping.has_factors and with_factors(self._settings)
        return Published(version, mapping, len(self), self._n_dead(), has_factors)

    @property
    def purged(self) -> bool:
        """Whether rows that were learned from are no longer in the log."""
        return bool(self.setting("trimmed")) or super().purged

    def about(self) -> dict[str, Any]:
        """Return how each shard is: where, since when it lags, and how often it was started again."""
        shards = self.members.about(self._seen().lasts)
        n_bytes = self.disk_bytes() + sum(each["bytes_on_disk"] or 0 for each in shards)
        return {"bytes_on_disk": n_bytes, "shards": shards}

    # The write path

    def _check_writable(self) -> None:
        super()._check_writable()
        self.members.check_complete()

    def _check_new(self, keys: list[Key]) -> None:
        for key, number in zip(keys, self.lookup(keys, False)[0], strict=True):
            if number is not None:
                raise stored_already(key)

    def lookup(
        self, keys: list[Key], with_texts: bool, max_bytes: int | None = None
    ) -> tuple[list[int | None], list[str | None]]:
        """Ask the shards of the keys; each gives at most ``max_bytes`` of texts."""
        return lookup(self.members, self._seen().lasts, keys, with_texts, max_bytes)

    def top_key(self) -> int:
        """Return the largest key that is a number, -1 if there is none; with shards away, that ever was."""
        return top_key(self.members, self._view.lasts, self.setting("largest_key_ever"))

    def _changed_settings(self, rows: NumberedRows) -> dict[str, Any]:
        most = self.setting("largest_key_ever")  # None in files that were made before it was kept
        known = {} if most is None or rows.keys is None else {"largest_key_ever": largest_of(rows.keys, most)}
        return super()._changed_settings(rows) | known

    def _store(self, connection: sqlite3.Connection, rows: NumberedRows) -> Callable[[], None]:
        size = max(1, min(_ENTRY_ROWS, _ENTRY_BYTES // max(1, rows.segment.vectors[:1].nbytes)))
        for start in range(0, len(rows), size):
            part = rows.part(list(range(start, min(start + size, len(rows)))))
            self._log.append(connection, parts_of(part, len(self.members)))
        return self._bring

    def _bring(self) -> None:
        """Have what was written to the log brought to the shards, and wait until one has it."""
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

    def mapping_of(self, number: int) -> HashMapping:
        """Return the mapping of a version."""
        held = self._mapping  # that of a number never changes
        if held is None or held[0] != number:
            held = self._mapping = number, super().mapping_of(number)
        return held[1]

    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Have every shard make the codes of a version beside those that answer; publish when all are ready."""
        watch = Stopwatch()
        mapping = super().mapping_of(number)
        self.check_width(mapping)
        members = self.members
        members.require(self._view.lasts)
        sent = ray_module().put(saved.dump(mapping.state()))  # once; every node fetches it from the object store
        attempt = uuid.uuid4().hex
        refs = {
            member.call("build", "stage", number, sent, attempt): member.place.number for member in members.all
        }
        answers, lost = members.gather(refs, stopped)
        ready = len(answers) == len(members) and all(n is not None for n in answers.values())
        if not ready:
            for member in members.all:
                member.call("maintenance", "abandon", number, attempt)
            if lost:
                raise missed(lost)
            return False
        with self.database.lock, self.loaded_again():
            with self.database.write() as connection:
                self._log.append(connection, {shard: {"publish": number} for shard in range(len(members))})
                mark_published(connection, number, mapping, self._count("rows"), watch.seconds)
                write_settings(connection, published=number)
            self.settled(published=number)
            self._bring()
        return True

    def store_codes(self, connection: sqlite3.Connection) -> None:
        """Do nothing: the shards keep their codes."""

    # The search path

    @contextmanager
    def _moment(self) -> Iterator[View]:
        """Give the newest moment, and keep the shards from dropping it during a search."""
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

    def _ask(self, moment: View, question: Question, with_keys: bool) -> Nearest | None:
        named = with_keys and not self.setting("plain_keys")
        mapping = None if moment.version is None else self.mapping_of(moment.version)
        measure = question.measure(self.metric, mapping)
        return found_at(moment, question, self.members, named, self._allow_partial, measure)

    def _attempts(self) -> Iterator[int]:
        until = time.monotonic() + _PATIENCE_S
        for attempt in count():
            if time.monotonic() > until if self.database.read_only else attempt == _RETRIES:
                return
            yield attempt

    @contextmanager
    def _unchanging(self) -> Iterator[None]:
        if self.database.read_only:  # a reader cannot stop the writer
            raise NotReady("The index changes faster than this process can search it: try again.")
        with self.database.lock:
            yield

    def live_ids(self) -> NDArray[np.int64]:
        """Return the sequence numbers of all items, in order."""
        self.members.require(self._seen().lasts)
        return np.sort(np.concatenate(self.members.ask_all("live_ids")))

    def fetch(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors of rows (sorted)."""
        vectors = np.empty((len(ids), self.n_features or 0), dtype=np.float32)
        for own, rows in self.members.ask_all("fetch", ids):
            if len(own):
                vectors[np.searchsorted(ids, own)] = rows
        return vectors

    def exact(self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int) -> Found:
        """Return ids and distances of the k nearest vectors to each query, without its own, by (distance, id)."""
        return nearest_of(self.members.ask_all("exact", queries, own, k), k)[0]

    def _items(self, keys: list[Key]) -> list[Item]:
        return items(self.members, self._seen().lasts, keys)

    def listed(
        self, where: Condition | None = None, after: int = -1, limit: int | None = None
    ) -> tuple[list[int], list[Key]]:
        """Return sequence numbers and keys of items after a number, in order; at most ``limit``."""
        return listed(self.members, self._seen().lasts, where, after, limit)

    def unknown_fields(self, where: Condition) -> list[str]:
        """Return which fields of a filter no item has, on any shard."""
        found = self.members.ask_all("unknown_fields", where)
        return [name for name in where.fields if all(name in each for each in found)]

    # Maintenance

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

    def _purge(self, connection: sqlite3.Connection) -> None:
        """Have every shard do it, by an entry of the log."""
        self._check_writable()
        self._log.append(connection, {shard: {"compact": True} for shard in range(len(self.members))})

    def compacted(self, fresh: dict[str, int], vacuum: bool = True) -> None:  # noqa: ARG002 -- shards always do
        """Wait until the shards have done it."""
        self.settled(**fresh)
        self._bring()
        self.members.require(self._seen().lasts)

    def verify(self) -> dict[str, int]:
        """Check the log and, on every shard, every checksum and a sample of the codes; return how much."""
        self.members.require(self._seen().lasts)
        total: Counter[str] = Counter()
        for found in self.members.ask_all("verify"):
            total.update(found)
        return dict(total) | {"log_parts": self._log.verify()}

    def backup(self, folder: Path) -> None:
        """Write a consistent copy: the coordinator's here, each shard's into the same folder on its node."""
        self._check_writable()
        with self.database.lock:
            self.members.require(self._seen().lasts)
            self.database.backup(folder)
            name = uuid.uuid4().hex
            shards = folder.absolute() / "shards"
            paths = {number: str(shards / str(number)) for number in range(len(self.members))}
            self.members.answers("backup", {shard: (path, f"{name} {shard}") for shard, path in paths.items()})
            with closing(Database(folder, read_only=False)) as copy, copy.write() as connection:
                write_settings(connection, cluster=name)
                moved = [(path, shard) for shard, path in paths.items()]
                connection.executemany("UPDATE shard SET path = ? WHERE number = ?", moved)

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
