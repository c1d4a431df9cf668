"""A hash table in memory: vectors, codes and keys as arrays."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import DuplicateKey, InvalidInput, NotReady, SnapshotMismatch
from ..mapping import HashMapping, mapping_from_state
from ..search import Columns, Searcher, as_bitmap, as_codes, as_columns, empty_columns, margin_sums, reach
from ..state import State
from .edition import appended
from .keys import as_keys, key_array
from .question import Hits, Question, Reached, by_margins


class MemoryTable:
    """Items in memory, with their codes under one snapshot.

    A rebuild only stores the new snapshot; the codes are computed when they are first needed. So a table that is
    rebuilt twice between two queries pays once. The version of an answer counts the rebuilds, from 0.

    Examples
    --------
    >>> import mihash
    >>> codes = mihash.pack([[0, 0, 0, 1], [1, 1, 1, 1], [0, 0, 0, 0]])
    >>> table = mihash.MemoryTable.from_codes(codes, n_bits=4, keys=["a", "b", "c"])
    >>> keys, distances = table.search_codes(mihash.pack([[0, 0, 0, 0]]), k=2)
    >>> keys.tolist(), distances.tolist()
    ([['c', 'a']], [[0, 1]])
    """

    def __init__(self) -> None:
        self._n = 0
        self._n_bits: int | None = None
        self._version = -1
        self._mapping: HashMapping | None = None
        self._X: NDArray[np.float32] | None = None
        self._columns: Columns | None = None
        self._searcher: Searcher | None = None
        self._n_coded = 0
        self._from_codes = False
        self._keys: NDArray[Any] = np.empty(0, dtype=np.int64)
        self._known: set[Any] | None = None

    @classmethod
    def from_codes(cls, codes: ArrayLike, n_bits: int, keys: ArrayLike | None = None) -> Self:
        """Return a table of codes that were made elsewhere; it searches, and cannot be rebuilt."""
        checked = validation.packed("codes", codes, n_bits)
        table = cls()
        table._n_bits = n_bits
        table._store_keys(table._new_keys(keys, len(checked)))
        table._columns = as_columns(checked)
        table._n_coded, table._from_codes, table._version = len(checked), True, 0
        return table

    def __len__(self) -> int:
        """Return how many items are stored."""
        return self._n

    def __repr__(self) -> str:
        """Show the number of items and the snapshot."""
        return f"MemoryTable({self._n} items, {self._mapping!r})"

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        if self._X is not None:
            return int(self._X.shape[1])
        return None if self._mapping is None else self._mapping.n_features

    @property
    def n_bits(self) -> int | None:
        """The length of the codes, None while there is no mapping and no code."""
        return self._n_bits

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to."""
        return self._mapping

    @property
    def keys(self) -> NDArray[Any]:
        """The keys of all items in the order of their ids (a copy)."""
        return self._keys[: self._n].copy()

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The packed codes of all items in the order of their ids (a copy)."""
        return as_codes(self._coded(), self._bits()).copy()

    def add(self, X: ArrayLike, keys: ArrayLike | None = None) -> None:
        """Store items under unique keys (integers or strings); by default sequential numbers above those taken."""
        if self._from_codes:
            raise NotReady("A table made from codes holds no vectors: make a new one with `from_codes`.")
        vectors = validation.features("X", validation.as_rows("X", X)[0], self.n_features)
        new_keys = self._new_keys(keys, len(vectors))
        if self._X is None:
            self._X = np.empty((0, vectors.shape[1]), dtype=np.float32)
        self._X = appended(self._X, self._n, vectors)
        self._store_keys(new_keys)

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot, at the next need."""
        if self._n and self._X is None:
            raise NotReady("A table made from codes holds no vectors, so its codes cannot be recomputed.")
        if self._X is not None and mapping.n_features != self._X.shape[1]:
            raise InvalidInput(
                f"The table holds vectors of {self._X.shape[1]} features; the mapping takes {mapping.n_features}."
            )
        self._mapping, self._n_bits, self._n_coded = mapping, mapping.n_bits, 0
        self._columns = self._searcher = None
        self._version += 1

    def search(
        self, Q: ArrayLike, k: int = 10, *, margins: bool | None = None, method: str = "auto", n_threads: int = 1
    ) -> Hits:
        """Return the nearest items to each query, nearest first, ties in the order of addition.

        The options are those of `Question`; a single query vector gives 1-D answers.
        """
        if self._mapping is None:
            raise NotReady("The table has no mapping to encode queries with: rebuild it, or search by codes.")
        how: dict[str, Any] = {"method": method, "n_threads": n_threads}
        question = Question.of(Q, self._mapping.n_features, k=k, margins=margins, **how)
        codes = self._mapping.encode_rows(question.queries)
        measure, one = question.measure("", self._mapping), 0 if question.single else slice(None)
        if measure == "hamming":
            keys, distances = self.search_codes(codes, k, **how)
        else:
            keys, distances = self._by_margins(question, as_columns(codes))
        return Hits(keys[one], distances[one], self._version, measure)

    def _by_margins(self, question: Question, queries: Columns) -> tuple[NDArray[Any], NDArray[np.float32]]:
        """Return the keys of the nearest codes, ranked by margins, and these distances."""
        columns, how = self._coded(), (question.method, question.n_threads)
        rows, levels = self._own_searcher().nearest(queries, columns, reach(question.k), None, *how)
        assert self._mapping is not None
        sums = margin_sums(queries, columns, rows, self._mapping.margins(question.queries), question.n_threads)
        found = by_margins(Reached(list(zip(rows, levels, strict=True)), list(sums)), question.k)
        width = min(question.k, len(columns))
        ids = np.array([each for each, _ in found], dtype=np.int64).reshape(len(found), width)
        return self._keys[ids], np.array([each for _, each in found], dtype=np.float32).reshape(ids.shape)

    def search_codes(
        self,
        query_codes: ArrayLike,
        k: int = 10,
        fingerprint: str | None = None,
        *,
        method: str = "auto",
        n_threads: int = 1,
        radius: int | None = None,
        mask: ArrayLike | None = None,
    ) -> tuple[Any, Any]:
        """Search with codes that are there already; returns keys and distances (n_queries, min(k, items)).

        Parameters
        ----------
        query_codes
            Packed codes (n_queries, bytes).
        k
            How many items to return for each query.
        fingerprint
            The fingerprint of the mapping that made the query codes; if it is given and is not that of the
            table's snapshot, `SnapshotMismatch` is raised.
        method
            ``"scan"``, ``"multi-index"`` (multi-index hashing, which takes several times the memory of the codes;
            for up to 256 bits), or ``"auto"`` for the faster one; the answer is the same.
        n_threads
            How many threads share the work.
        radius
            Return all items within this Hamming distance instead of the k nearest: lists with one array for each
            query.
        mask
            Which items may be found, as booleans in the order of addition; all by default.
        """
        if fingerprint is not None and (self._mapping is None or fingerprint != self._mapping.fingerprint):
            raise SnapshotMismatch(
                "The query codes were made by another mapping than the table's. Encode with `table.mapping`."
            )
        asked = Question.checked(k=k, radius=radius, method=method, n_threads=n_threads)
        queries = as_columns(validation.packed("query_codes", query_codes, self._bits()))
        columns = self._coded()
        live = None if mask is None else as_bitmap(validation.boolean_matrix("mask", mask, (len(columns),)))
        how = live, asked["method"], asked["n_threads"]
        if radius is not None:
            found = self._own_searcher().within(queries, columns, asked["radius"], *how)
            return [self._keys[ids] for ids, _ in found], [each for _, each in found]
        ids, distances = self._own_searcher().nearest(queries, columns, asked["k"], *how)
        return self._keys[ids], distances

    def _own_searcher(self) -> Searcher:
        if self._searcher is None:
            self._searcher = Searcher(self._bits())
        return self._searcher

    def _bits(self) -> int:
        if self._n_bits is None:
            raise NotReady("The table has no codes yet: rebuild it with a mapping first.")
        return self._n_bits

    def _coded(self) -> Columns:
        """Return the codes of all items as columns of words, computing those that are missing."""
        if self._columns is None:
            self._columns = empty_columns(0, self._bits())
        if self._n_coded < self._n and self._X is not None and self._mapping is not None:
            codes = self._mapping.encode_rows(self._X[self._n_coded : self._n])
            self._columns = appended(self._columns, self._n_coded, as_columns(codes), order="F")
            self._n_coded = self._n
        return self._columns[: self._n]

    def _new_keys(self, keys: ArrayLike | None, n: int) -> NDArray[Any]:
        if keys is None:
            if self._known is None:
                return np.arange(self._n, self._n + n, dtype=np.int64)
            first = max(self._n, 1 + max((key for key in self._known if not isinstance(key, str)), default=-1))
            fresh = np.arange(first, first + n, dtype=np.int64)
        else:
            fresh = key_array(as_keys(keys, n))
        known = set(self._keys[: self._n].tolist()) if self._known is None else self._known
        seen: set[Any] = set()
        for key in fresh.tolist():
            if key in known or key in seen:
                raise DuplicateKey(f"The key {key!r} is stored already. Give each item its own key.")
            seen.add(key)
        self._known = known
        return fresh

    def _store_keys(self, fresh: NDArray[Any]) -> None:
        if self._known is not None:
            self._known.update(fresh.tolist())
        if fresh.dtype != self._keys.dtype:
            self._keys, fresh = self._keys.astype(object), fresh.astype(object)
        self._keys = appended(self._keys, self._n, fresh)
        self._n += len(fresh)

    def state(self) -> State:
        """Return vectors, keys and snapshot; codes are computed again."""
        if self._n and self._X is None:
            raise NotReady("A table made from codes cannot be saved with the loop: it holds no vectors.")
        plain = self._known is None
        return {
            "X": None if self._X is None else self._X[: self._n],
            "keys": None if plain else self._keys[: self._n].tolist(),
            "mapping": None if self._mapping is None else self._mapping.state(),
        }

    def restore(self, state: State) -> None:
        """Become the table whose `state` this is."""
        fresh = MemoryTable()
        if state["X"] is not None and len(state["X"]):
            fresh.add(state["X"], state["keys"])
        if state["mapping"] is not None:
            fresh.rebuild(mapping_from_state(state["mapping"]))
        self.__dict__ = fresh.__dict__
