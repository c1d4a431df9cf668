"""Searches an index while it is migrated, and checks that each answer comes from one generation, and from which.

The distances of an answer say which vectors were compared. All of an answer must be of one generation; and unless
a cut-over or a roll back was under way during the search, of the one that was acknowledged last.
"""

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash.errors import InvalidInput

from .acknowledged import Acknowledged
from .embeddings import N_QUERIES, Embeddings, squared

__all__ = ["Load", "follow", "truth_file"]

_K, _GROUP, _TRIES = 10, 4, 20


def truth_file(base: Path, generation: int) -> Path:
    """Return where the nearest of the unchanged items are stored."""
    return base / f"nearest-{generation}.npz"


def follow(base: str, dims: tuple[int, ...], seed: int, n_items: int, pause_s: float) -> None:
    """Search in a process that only reads, from before the migration to its end."""
    load = Load(Path(base), dims, seed, n_items, "reader")
    with mihash.open(Path(base) / "index", read_only=True) as index:
        while not (Path(base) / "stop").exists():
            load.ask(index)
            time.sleep(pause_s)


class Load:
    """One that asks, and writes a line for each answer to a file of its own."""

    def __init__(self, base: Path, dims: tuple[int, ...], seed: int, n_items: int, name: str) -> None:
        self.base, self.n_items = base, n_items
        self.embeddings, self.known = Embeddings(dims, seed), Acknowledged(base / "journal")
        self._rng = np.random.default_rng(time.time_ns())
        self._file = (base / f"answers-{name}").open("a")
        self._stored: dict[tuple[int, int, int], NDArray[np.float32]] = {}
        self._queries: dict[int, NDArray[np.float32]] = {}
        self._truth: dict[int, tuple[int, NDArray[np.int64]]] = {}

    def start(self, index: mihash.OnlineIndex, pause_s: float) -> None:
        """Ask in a thread until the process ends; return after the first answer."""
        answered = threading.Event()

        def work() -> None:
            while not index._closed:
                self.ask(index)
                self.ask_for_key(index)
                answered.set()
                time.sleep(pause_s)

        threading.Thread(target=work, daemon=True).start()
        answered.wait(60)

    def ask(self, index: mihash.OnlineIndex) -> None:
        """Search for some queries, check the answer, and write down how good it is."""
        self.known.read()
        phase, possible, swaps = self.known.phase, self.known.possible, self.known.n_swaps
        numbers, refused = self._rng.choice(N_QUERIES, _GROUP, replace=False), None
        for attempt in range(_TRIES):
            choice = sorted(possible | self.known.possible, key=lambda each: each != self.known.generation)
            asked = choice[attempt % len(choice)]
            began = time.perf_counter()
            try:
                hits = index.search(self._asked(asked)[numbers], k=_K)
                break
            except InvalidInput as error:  # of another dimension: a cut-over came between
                refused = error
                self.known.read()
            except Exception as error:
                if not index._closed:
                    self._write(failure=f"{phase}: {error!r}")
                return
        else:
            self._write(failure=f"{phase}: generation {self.known.generation} does not answer: {refused}")
            return
        ms = 1000 * (time.perf_counter() - began)
        possible |= self._possible_since(swaps)
        answered = self._generation(self._asked(asked)[numbers], hits.keys, hits.distances)
        if answered is None:
            self._write(failure=f"{phase}: an answer that mixes generations: {hits}")
        elif answered not in possible:
            self._write(failure=f"{phase}: generation {answered} has answered, not {sorted(possible)}")
        else:
            recall = self._recall(hits.keys, numbers, answered) if answered == asked else None
            self._write(phase=phase, answers=_GROUP, recall=recall, ms=ms)

    def ask_for_key(self, index: mihash.OnlineIndex) -> None:
        """Search for the neighbours of an item that is never edited: its vector is of one generation, too."""
        self.known.read()
        phase, possible, swaps = self.known.phase, self.known.possible, self.known.n_swaps
        key = 4 * int(self._rng.integers(self.n_items // 4)) + 1
        try:
            hits = index.search(key=key, k=_K)
        except Exception as error:
            if not index._closed:
                self._write(failure=f"{phase}, by key: {error!r}")
            return
        possible |= self._possible_since(swaps)
        fitting = [
            generation
            for generation in possible
            if self._fits(self._vector(key, 0, generation), hits.keys, hits.distances, generation)
        ]
        if fitting:
            self._write(phase=phase, answers=1, recall=None, ms=None)
        else:
            self._write(failure=f"{phase}: the neighbours of {key} are of no generation of {possible}: {hits}")

    def _possible_since(self, swaps: int) -> set[int]:
        """Return the generations that may answer now, and that may have answered since so many swaps."""
        self.known.read()
        now = self.known.possible
        several = self.known.n_swaps - swaps > 1
        return now | ({self.known.generation - 1, self.known.generation + 1} if several else set())

    def _asked(self, generation: int) -> NDArray[np.float32]:
        if generation not in self._queries:
            self._queries[generation] = self.embeddings.queries(generation)
        return self._queries[generation]

    def _generation(self, queries: NDArray[np.float32], keys: Any, distances: Any) -> int | None:
        """Return the generation whose vectors have the distances of an answer; None where there is none."""
        for generation in (self.known.generation + step for step in (0, -1, 1)):
            if (
                generation >= 0
                and self.embeddings.dim(generation) == queries.shape[1]
                and all(self._fits(*each, generation) for each in zip(queries, keys, distances, strict=True))
            ):
                return generation
        return None

    def _fits(self, query: NDArray[np.float32], keys: Any, distances: Any, generation: int) -> bool:
        """Tell whether each distance is that to a vector which the item has, or has had, in a generation."""
        for key, distance in zip(keys, distances, strict=True):
            off = (abs(float(np.linalg.norm(query - each)) - distance) for each in self._versions(key, generation))
            if not any(each < 1e-3 * (1 + distance) for each in off):
                return False
        return True

    def _versions(self, key: int, generation: int) -> Iterator[NDArray[np.float32]]:
        """Yield the vectors that an item may have, the newest acknowledged one first."""
        now = self.known.items.get(key, 0)
        for change in (now, now + 1, *range(now - 1, -1, -1)):
            yield self._vector(int(key), change, generation)

    def _vector(self, key: int, change: int, generation: int) -> NDArray[np.float32]:
        name = (key, change, generation)
        if name not in self._stored:
            self._stored[name] = self.embeddings.vector(key, change, generation)
        return self._stored[name]

    def _recall(self, keys: Any, numbers: NDArray[np.int64], generation: int) -> float:
        """Return the share of the true neighbours that were found."""
        true = self._nearest(generation)[numbers]
        return float(np.mean([len(np.intersect1d(*pair)) / _K for pair in zip(keys, true, strict=True)]))

    def _nearest(self, generation: int) -> NDArray[np.int64]:
        """Return the true neighbours of every query among the items as they are acknowledged."""
        stamp, true = self._truth.get(generation, (-1, np.zeros((0, 0), dtype=np.int64)))
        if stamp == self.known.n_edits:
            return true
        items, queries = self.known.items, self._asked(generation)
        edited = [key for key, change in items.items() if change or key >= self.n_items]
        first = np.load(truth_file(self.base, generation))
        if edited:
            others = squared(queries, np.stack([self._vector(key, items[key], generation) for key in edited]))
        else:
            others = np.zeros((N_QUERIES, 0))
        rows = []
        for number in range(N_QUERIES):
            kept = [place for place, key in enumerate(first["keys"][number].tolist()) if items.get(key) == 0]
            distances = np.concatenate([first["squares"][number][kept], others[number]])
            order = np.argsort(distances, kind="stable")[:_K]
            rows.append(np.concatenate([first["keys"][number][kept], np.array(edited, dtype=np.int64)])[order])
        self._truth[generation] = (self.known.n_edits, np.stack(rows))
        return self._truth[generation][1]

    def _write(self, **line: Any) -> None:
        self._file.write(json.dumps(line) + "\n")
        self._file.flush()
