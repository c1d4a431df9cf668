"""The process that migrates an index and is killed: it does one step after the other, and writes each down."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import mihash

from .acknowledged import Acknowledged, write
from .embeddings import Embeddings
from .migration_load import Load

__all__ = ["END", "work"]

END = "end"
_EDITED = 20


def work(base: str, dims: tuple[int, ...], seed: int, n_items: int, target: str, batch: int, number: int) -> None:
    """Migrate on the way to a step until killed; to the end, if that is the step."""
    folder = Path(base)
    with mihash.open(folder / "index") as index, (folder / "journal").open("a") as journal:
        Load(folder, dims, seed, n_items, "writer").start(index, 0.1)
        child = _Child(index, journal, Acknowledged(folder / "journal"), Embeddings(dims, seed), n_items)
        child.known.read()
        rng = np.random.default_rng([number, 7])
        while not (target == END and child.known.state == "none"):
            child.turn(target, batch, rng)
        index.compact()  # what a kill in the last `finish` may have left


class _Child:
    def __init__(
        self, index: mihash.OnlineIndex, journal: Any, known: Acknowledged, embeddings: Embeddings, n_items: int
    ) -> None:
        self.index, self.journal, self.known, self.embeddings = index, journal, known, embeddings
        self.n_items = n_items
        self.queue: list[int] = []

    def turn(self, target: str, batch: int, rng: np.random.Generator) -> None:
        """Do the next step on the way to a target, or change some items."""
        known, index = self.known, self.index
        filling = known.state == "filling" and known.missing
        finishing = known.state == "cut over" and target not in ("cut over", "roll back", "rehash")
        if (filling or finishing) and rng.random() < 0.15:
            return self._edit(rng)
        if known.state == "none":
            return self._step("begin", index.migrate)
        migration = index.migration
        assert migration is not None
        if filling:
            keys = self._next(batch)
            new = self.embeddings.vectors(keys, [known.items[key] for key in keys], known.generation + 1)
            return self._step("migrate", lambda: migration.add(new, keys), keys=keys)
        if known.state == "filling" and target == "migrate":
            return time.sleep(0.01)  # until killed
        if known.state == "filling":
            what, call = "cut over", migration.cut_over
        elif finishing:
            what, call = "finish", migration.finish
        elif target == "rehash":
            what, call = "rehash", lambda: (index.rehash(), index.wait())
        else:
            what, call = "roll back", migration.roll_back
        return self._step(what, call)

    def _next(self, n: int) -> list[int]:
        """Return the next items that have no new vector."""
        found: list[int] = []
        while not found:
            self.queue = self.queue or sorted(self.known.missing)
            found = [key for key in self.queue[:n] if key in self.known.missing]
            self.queue = self.queue[n:]
        return found

    def _edit(self, rng: np.random.Generator) -> None:
        """Add, delete or replace some items, or change their metadata; of those there are, only each fourth."""
        known, index = self.known, self.index
        what = ("add", "delete", "replace", "note")[int(rng.integers(4))]
        draws = 4 * rng.permutation(self.n_items // 4)[: 3 * _EDITED]
        keys = [key for key in draws.tolist() if key in known.items][:_EDITED]
        if what == "add":
            keys = list(range(known.next_key, known.next_key + _EDITED))
            fresh, notes = self.embeddings.vectors(keys, 0, known.generation), [{"note": 0}] * len(keys)
            self._step("add", lambda: index.add(fresh, keys=keys, metadata=notes), keys=keys)
        elif what == "delete":
            self._step("delete", lambda: index.delete(keys), keys=keys)
        elif what == "replace":
            changes = [known.items[key] + 1 for key in keys]
            fresh = self.embeddings.vectors(keys, changes, known.generation)
            self._step("replace", lambda: index.upsert(fresh, keys), keys=keys)
        else:
            value = int(rng.integers(1, 10**6))
            notes = [{"note": value}] * len(keys)
            self._step("note", lambda: index.update(keys, metadata=notes), keys=keys, value=value)

    def _step(self, what: str, call: Callable[[], Any], **more: Any) -> None:
        write(self.journal, what, False, **more)
        call()
        write(self.journal, what, True, **more)
        self.known.read()
