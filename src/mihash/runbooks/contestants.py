"""The systems that run a runbook: an index under each rule for rehashing, and peers that can insert and delete."""

import tempfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..errors import UnknownName
from ..extras import load_extra
from ..index.online_index import OnlineIndex
from ..trigger import FixedRate, PriceUpdate, Trigger, TriggerUpdate

Rows = NDArray[np.float32]
Tags = NDArray[np.int64]

_PROBES = 8  # lists of an inverted file that are searched


class Work(NamedTuple):
    """Recomputation done by a system because its codes or lists had changed.

    Attributes
    ----------
    rehashes
        How often all codes were computed again.
    encoded
        How many items were computed again in all.
    hindsight
        Its cost against the best schedule in hindsight, where a rehash is worth 20 queries; None where unknown.
    best_rehashes
        How often that schedule rehashes.
    """

    rehashes: int = 0
    encoded: int = 0
    hindsight: float | None = None
    best_rehashes: int | None = None


class Contestant(ABC):
    """Stores vectors under tags, and finds the nearest."""

    def __init__(self) -> None:
        self._stack = ExitStack()

    @abstractmethod
    def insert(self, tags: Tags, X: Rows) -> None:
        """Store vectors under new tags."""

    @abstractmethod
    def delete(self, tags: Tags) -> None:
        """Remove tags."""

    def replace(self, tags: Tags, X: Rows) -> None:
        """Store other vectors under stored tags."""
        self.delete(tags)
        self.insert(tags, X)

    @abstractmethod
    def search(self, queries: Rows, k: int) -> Tags:
        """Return the tags of the k nearest of each query."""

    def search_codes(self, queries: Rows, k: int) -> Tags | None:  # noqa: ARG002 -- for those with codes
        """Return the same by codes alone; None for one that has no codes."""
        return None

    def settle(self) -> None:
        """Wait until nothing runs in the background."""
        return

    def work(self) -> Work:
        """Return what was computed again."""
        return Work()

    def __enter__(self) -> Self:
        """Return the contestant."""
        return self

    def __exit__(self, *_: object) -> None:
        """Free what it holds."""
        self._stack.close()


class Index(Contestant):
    """An index of this package in a temporary folder, with the learner momenthash and a trigger."""

    def __init__(self, trigger: Trigger, seed: int = 0) -> None:
        super().__init__()
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mihash-runbook-"))
        self._index = self._stack.enter_context(
            OnlineIndex.create(Path(folder) / "index", learner="momenthash", trigger=trigger, seed=seed)
        )

    def insert(self, tags: Tags, X: Rows) -> None:
        """Store, and learn from the rows."""
        self._index.add(X, keys=tags.tolist())

    def delete(self, tags: Tags) -> None:
        """Remove tags."""
        self._index.delete(tags.tolist())

    def replace(self, tags: Tags, X: Rows) -> None:
        """Store other vectors in one change."""
        self._index.upsert(X, tags.tolist())

    def search(self, queries: Rows, k: int) -> Tags:
        """Search as by default: by codes, then by the vectors of the nearest codes."""
        return np.asarray(self._index.search(queries, k).keys, dtype=np.int64)

    def search_codes(self, queries: Rows, k: int) -> Tags | None:
        """Search by codes and margins alone."""
        return np.asarray(self._index.search(queries, k, rescore=0).keys, dtype=np.int64)

    def settle(self) -> None:
        """Wait for a version that is being built."""
        self._index.wait()

    def work(self) -> Work:
        """Count the versions after the first, and the rows of each."""
        made = self._index.versions()[1:]
        found = self._index.hindsight(PriceUpdate().price)
        ratio, best = (None, None) if found is None else (found.ratio, found.best_rehashes)
        return Work(len(made), sum(version.items or 0 for version in made), ratio, best)


class Faiss(Contestant):
    """An index of FAISS: flat, or an inverted file that is trained on the first rows and never again."""

    def __init__(self, inverted: bool) -> None:
        super().__init__()
        self._faiss = load_extra("faiss", "faiss is not installed", "faiss")
        self._faiss.omp_set_num_threads(1)
        self._inverted = inverted
        self._index: Any = None

    def insert(self, tags: Tags, X: Rows) -> None:
        """Add rows; the first ones train the lists."""
        if self._index is None:
            kind = f"IVF{max(1, round(2 * len(X) ** 0.5))},Flat" if self._inverted else "IDMap2,Flat"
            index = self._faiss.index_factory(X.shape[1], kind)
            if self._inverted:
                index.train(X)
                index.nprobe = _PROBES
            self._index = index
        self._index.add_with_ids(X, tags)

    def delete(self, tags: Tags) -> None:
        """Remove ids."""
        assert self._index is not None
        self._index.remove_ids(tags)

    def search(self, queries: Rows, k: int) -> Tags:
        """Search."""
        assert self._index is not None
        return np.asarray(self._index.search(queries, k)[1], dtype=np.int64)


class Lance(Contestant):
    """A table of LanceDB without an index, which scans its vectors."""

    def __init__(self) -> None:
        super().__init__()
        load_extra("lance", "pyarrow is not installed", "pyarrow")
        lancedb = load_extra("lance", "lancedb is not installed", "lancedb")
        folder = self._stack.enter_context(tempfile.TemporaryDirectory(prefix="mihash-runbook-"))
        self._database, self._table = lancedb.connect(folder), None

    def insert(self, tags: Tags, X: Rows) -> None:
        """Append rows."""
        import pyarrow as pa

        vectors = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), X.shape[1])
        rows = pa.table({"tag": pa.array(tags), "vector": vectors})
        if self._table is None:
            self._table = self._database.create_table("runbook", rows)
        else:
            self._table.add(rows)

    def delete(self, tags: Tags) -> None:
        """Delete by condition."""
        assert self._table is not None
        if (np.diff(tags) == 1).all():
            self._table.delete(f"tag >= {tags[0]} AND tag <= {tags[-1]}")
        else:
            self._table.delete(f"tag IN ({', '.join(map(str, tags.tolist()))})")

    def search(self, queries: Rows, k: int) -> Tags:
        """Search one query after the other."""
        assert self._table is not None
        found = np.full((len(queries), k), -1, dtype=np.int64)
        for place, query in enumerate(queries):
            tags = self._table.search(query).select(["tag", "_distance"]).limit(k).to_arrow()["tag"].to_numpy()
            found[place, : len(tags)] = tags
        return found


CONTESTANTS: dict[str, Callable[[], Contestant]] = {
    "PriceUpdate": lambda: Index(PriceUpdate(20)),
    "TriggerUpdate": lambda: Index(TriggerUpdate(0.02, relative=True)),
    "FixedRate 1000": lambda: Index(FixedRate(1000)),
    "FixedRate 100": lambda: Index(FixedRate(100)),
    "no rehash": lambda: Index(TriggerUpdate(float("inf"))),
    "FAISS flat": lambda: Faiss(inverted=False),
    "FAISS IVF": lambda: Faiss(inverted=True),
    "LanceDB": Lance,
}
"""The systems, by name."""


def contestant(name: str) -> Contestant:
    """Return a contestant; raise `NotReady` where its library is not installed."""
    if name not in CONTESTANTS:
        raise UnknownName(f"There is no system {name!r}; known: {', '.join(CONTESTANTS)}.")
    return CONTESTANTS[name]()
