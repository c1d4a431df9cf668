"""What an index needs of a hash table on the disk, and what all of them share: settings and versions.

A durable table has one SQLite database for its settings, decisions, versions and checkpoints. Where vectors and
codes are is its own affair: in that database (`SQLiteTable`), or on other machines (`RayTable`).
"""

import json
import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, MIHashError, UnknownName
from ..mapping import HashMapping
from .keys import Key
from .question import Hits
from .sqlite.database import Database
from .sqlite.items import Metadata
from .sqlite.positions import Reading
from .sqlite.segments import LabelKind, Segment
from .sqlite.settings import read_settings
from .sqlite.versions import mapping_of, waiting_version


class Item(NamedTuple):
    """A stored item: its key, vector, label (or None) and metadata (or None)."""

    key: Key
    vector: NDArray[np.float32]
    label: Any
    metadata: dict[str, Any] | None


class State(Protocol):
    """What a table says of the version that answers."""

    @property
    def version(self) -> int:
        """Its number."""
        ...

    @property
    def mapping(self) -> HashMapping:
        """What made the codes, and encodes queries."""
        ...

    @property
    def n_items(self) -> int:
        """How many rows were not deleted."""
        ...

    @property
    def n_dead(self) -> int:
        """How many rows were deleted and are still there."""
        ...


class DurableTable(ABC):
    """A hash table that an index can be made of.

    Parameters
    ----------
    database
        Where its settings are.
    """

    def __init__(self, database: Database) -> None:
        self.database = database
        self._settings: dict[str, Any] = {}

    # What is known of the rows

    @abstractmethod
    def __len__(self) -> int:
        """Return how many items are stored."""

    @property
    @abstractmethod
    def edition(self) -> State | None:
        """The version that answers now; None before the first."""

    @property
    @abstractmethod
    def metric(self) -> str:
        """How vectors are compared: ``"euclidean"`` or ``"cosine"``."""

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to."""
        edition = self.edition
        return None if edition is None else edition.mapping

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        found = self.setting("n_features")
        return None if found is None else int(found)

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
        """Whether rows that were learned from are not there any more."""
        return bool(self.setting("compactions"))

    def setting(self, name: str) -> Any:
        """Return a setting, None where there is none."""
        if self.database.read_only and name not in self._settings:
            with self.database.read() as connection:
                return read_settings(connection).get(name)
        return self._settings.get(name)

    def settled(self, **values: Any) -> None:
        """Take over settings that were committed."""
        self._settings |= values

    def _count(self, name: str) -> int:
        return int(self.setting(name) or 0)

    def about(self) -> dict[str, Any]:
        """Return what this kind of table has to say in the statistics of an index."""
        return {}

    # Changing what is stored

    @abstractmethod
    def add(
        self,
        X: ArrayLike,
        keys: ArrayLike | None = None,
        labels: NDArray[Any] | None = None,
        metadata: Metadata = None,
        source: tuple[str, int] | Reading | None = None,
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Store items under unique keys; return the keys, and the vectors as they were stored."""

    @abstractmethod
    def update(
        self, keys: ArrayLike, X: ArrayLike, labels: NDArray[Any] | None = None, metadata: Metadata = None
    ) -> tuple[list[Key], NDArray[np.float32]]:
        """Give stored keys new vectors; without ``metadata`` they keep theirs."""

    @abstractmethod
    def delete(self, keys: ArrayLike | Key) -> int:
        """Remove items; a key that is not stored raises `UnknownName`, and nothing is removed."""

    @contextmanager
    def loaded_again(self) -> Iterator[None]:
        """Where a change is interrupted, perhaps after it was committed, read anew what is on the disk."""
        try:
            yield
        except (InvalidInput, UnknownName):  # refused: nothing was changed
            raise
        except BaseException:
            with suppress(MIHashError):
                self._load()
            raise

    @abstractmethod
    def _load(self) -> None:
        """Read anew what is on the disk."""

    # Versions

    def waiting(self) -> int | None:
        """Return the number of the version that is to be built next, None where there is none."""
        with self.database.read() as connection:
            return waiting_version(connection)

    def mapping_of(self, number: int) -> HashMapping:
        """Return the mapping of a version."""
        with self.database.read() as connection:
            return mapping_of(connection, number)

    def check_width(self, mapping: HashMapping) -> None:
        """Raise where a mapping is not for the vectors that are stored."""
        if self.n_features is not None and mapping.n_features != self.n_features:
            raise InvalidInput(
                f"The table holds {self.n_features} features; the mapping takes {mapping.n_features}."
            )

    @abstractmethod
    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot, and answer with it."""

    @abstractmethod
    def build(self, number: int, stopped: Callable[[], bool] = lambda: False) -> bool:
        """Make the codes of a version beside those that answer, then swap; return False where it was stopped."""

    # Searching

    @abstractmethod
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
        """Return the nearest items to each query, nearest first, ties in the order of addition."""

    @abstractmethod
    def search_ids(self, queries: NDArray[np.float32], k: int, rescore: int = 0) -> list[NDArray[np.int64]]:
        """Return the sequence numbers of the nearest rows to each query, for a table that has rows."""

    @abstractmethod
    def sample(self, n: int, seed: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return sequence numbers and vectors of some items, drawn from a seed, in the order of addition."""

    @abstractmethod
    def nearest_vectors(
        self, queries: NDArray[np.float32], own: NDArray[np.int64], k: int
    ) -> list[NDArray[np.int64]]:
        """Return the rows whose vectors are the k nearest to each query, without its own, by (distance, id)."""

    @abstractmethod
    def get(self, key: Key) -> Item:
        """Return a stored item."""

    @abstractmethod
    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Tell of each key whether it is stored."""

    @abstractmethod
    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of items, None for those that have none or are not stored.

        Raises `InvalidInput` where it is more than ``max_bytes`` bytes of JSON in all.
        """

    # Care

    @abstractmethod
    def rows_after(self, last: int) -> Iterator[Segment]:
        """Yield the rows after a sequence number that can still be learned from, with their labels."""

    @abstractmethod
    def store_codes(self, connection: sqlite3.Connection) -> None:
        """Store the codes of rows that came after the last stored ones, inside a transaction."""

    @abstractmethod
    def tidy(self, connection: sqlite3.Connection) -> None:
        """Put in order, inside a transaction, what a checkpoint has made superfluous."""

    @abstractmethod
    def compact(self, connection: sqlite3.Connection) -> dict[str, int]:
        """Remove the vectors of deleted rows, inside a transaction; nothing may be built meanwhile.

        Returns what `compacted` takes once that is committed.
        """

    @abstractmethod
    def compacted(self, fresh: dict[str, int]) -> None:
        """Take over what `compact` has committed."""

    @abstractmethod
    def verify(self) -> dict[str, int]:
        """Check every checksum, and that a sample of the codes matches vectors and mapping; return how much."""

    @abstractmethod
    def backup(self, folder: Path) -> None:
        """Write a copy of one moment to a new folder."""

    @abstractmethod
    def close(self) -> None:
        """Close the files."""
