"""Exact answers at every state that a table went through, for a few queries and one version at a time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mihash.mapping import HashMapping

__all__ = ["Exact", "Ledger"]

Answer = tuple[list[Any], list[Any]]

NEVER = np.iinfo(np.int64).max
N_CANDIDATES = 400


@dataclass
class Ledger:
    """Every row that was ever stored, and between which states it was there.

    State s is what the table holds after s changes.

    Attributes
    ----------
    vectors
        The rows in the order of their sequence numbers, in parts.
    keys, colors
        The key and a piece of metadata of each row.
    born, died
        After which change a row is there, and after which not any more.
    """

    vectors: list[NDArray[np.float32]] = field(default_factory=list)
    keys: list[int | str] = field(default_factory=list)
    colors: list[str] = field(default_factory=list)
    born: list[int] = field(default_factory=list)
    died: list[int] = field(default_factory=list)
    alive: dict[int | str, int] = field(default_factory=dict)

    def add(self, state: int, X: NDArray[np.float32], keys: Sequence[int | str], colors: Sequence[str]) -> None:
        """Store rows by the change that leads to a state."""
        self.alive |= {key: len(self.keys) + i for i, key in enumerate(keys)}
        self.vectors.append(X)
        self.keys += keys
        self.colors += colors
        self.born += [state] * len(X)
        self.died += [NEVER] * len(X)

    def remove(self, state: int, keys: Sequence[int | str]) -> list[str]:
        """Remove rows by the change that leads to a state; return their colours."""
        rows = [self.alive.pop(key) for key in keys]
        for row in rows:
            self.died[row] = state
        return [self.colors[row] for row in rows]


class Exact:
    """Exact answers of one version.

    Parameters
    ----------
    ledger
        The rows.
    mapping
        The mapping of the version.
    queries
        The queries (n, d).
    k, rescore
        How many items an answer has, and how many are rescored where that is asked for.
    """

    def __init__(self, ledger: Ledger, mapping: HashMapping, queries: NDArray[np.float32], k: int, rescore: int):
        self._queries, self._k, self._rescore = queries, k, rescore
        self._vectors = np.concatenate(ledger.vectors)
        self._born, self._died = np.array(ledger.born), np.array(ledger.died)
        self._keys, self._colors = ledger.keys, np.array(ledger.colors)
        self._codes, self._query_codes = mapping.encode(self._vectors), mapping.encode(queries)
        self._sorted: dict[tuple[int, str | None, int], tuple[NDArray[np.int64], NDArray[np.int64]]] = {}
        self._answers: dict[tuple[int, str | None, bool, int], Answer] = {}

    def answer(self, query: int, color: str | None, rescored: bool, state: int) -> Answer:
        """Return the keys and distances that a search in one state has to give."""
        name = (query, color, rescored, state)
        if name not in self._answers:
            self._answers[name] = self._answer(*name)
        return self._answers[name]

    def _answer(self, query: int, color: str | None, rescored: bool, state: int) -> Answer:
        rows, bits = self._there(query, color, self._rescore if rescored else self._k, state)
        if not rescored:
            return [self._keys[row] for row in rows], bits.tolist()
        differences = self._vectors[rows].astype(np.float64) - self._queries[query].astype(np.float64)
        lengths = np.sqrt((differences**2).sum(axis=1)).astype(np.float32)
        order = np.lexsort((rows, lengths))[: self._k]
        return [self._keys[row] for row in rows[order]], lengths[order].tolist()

    def _there(
        self, query: int, color: str | None, wanted: int, state: int
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nearest rows of a state by (distance, id), among a few candidates, or else all."""
        for n in (N_CANDIDATES, len(self._keys)):
            rows, bits = self._nearest(query, color, n)
            there = (self._born[rows] <= state) & (state < self._died[rows])
            if there.sum() >= wanted:
                break
        return rows[there][:wanted], bits[there][:wanted]

    def _nearest(self, query: int, color: str | None, n: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return the nearest of all rows that ever were, and how many bits away."""
        name = (query, color, n)
        if name not in self._sorted:
            bits = np.bitwise_count(self._codes ^ self._query_codes[query]).sum(axis=1, dtype=np.int64)
            rows = np.arange(len(bits)) if color is None else np.flatnonzero(self._colors == color)
            if n < len(rows):
                rows = rows[bits[rows] <= np.partition(bits[rows], n)[n]]
            rows = rows[np.argsort(bits[rows], kind="stable")][:n]
            self._sorted[name] = rows, bits[rows]
        return self._sorted[name]
