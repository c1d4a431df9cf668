"""A hash table in memory: vectors, codes and keys as arrays."""

from __future__ import annotations

from typing import Any, NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import DuplicateKey, InvalidInput, NotReady, SnapshotMismatch
from ..mapping import HashMapping, mapping_from_state
from ..search import Searcher, as_bitmap, as_columns
from ..state import State
from .edition import Edition, appended
from .keys import Key, as_keys, key_array
from .nearest_codes import candidates
from .question import Hits, Nearest, Question


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
        self._X: NDArray[np.float32] | None = None
        self._keys: NDArray[Any] | None = None  # None: the numbers of the rows
        self._known: set[Key] = set()
        self._edition: Edition | None = None  # of the rows whose codes were needed so far

    @classmethod
    def from_codes(cls, codes: ArrayLike, n_bits: int, keys: ArrayLike | None = None) -> Self:
        """Return a table of codes that were made elsewhere; it searches, and cannot be rebuilt."""
        columns = as_columns(validation.packed("codes", codes, n_bits))
        table, n = cls(), len(columns)
        table._store_keys(table._new_keys(keys, n), n)
        rows = np.arange(n), columns, np.zeros(n, dtype=np.bool_)
        table._edition = Edition(0, _MadeElsewhere(0, n_bits), n, *rows, Searcher(n_bits))
        return table

    def __len__(self) -> int:
        """Return how many items are stored."""
        return self._n

    def __repr__(self) -> str:
        """Show the number of items and the snapshot."""
        return f"MemoryTable({self._n} items, {self.mapping!r})"

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        if self._X is not None:
            return int(self._X.shape[1])
        return None if self.mapping is None else self.mapping.n_features

    @property
    def n_bits(self) -> int | None:
        """The length of the codes, None while there is no mapping and no code."""
        return None if self._edition is None else self._edition.mapping.n_bits

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to."""
        mapping = None if self._edition is None else self._edition.mapping
        return None if isinstance(mapping, _MadeElsewhere) else mapping

    @property
    def keys(self) -> NDArray[Any]:
        """The keys of all items in the order of their ids (a copy)."""
        return np.arange(self._n) if self._keys is None else self._keys[: self._n].copy()

    @property
    def codes(self) -> NDArray[np.uint8]:
        """The packed codes of all items in the order of their ids (a copy)."""
        return self.edition.codes().copy()

    @property
    def edition(self) -> Edition:
        """The codes of all items, of which those that are missing are computed first."""
        edition = self._edition
        if edition is None:
            raise NotReady("The table has no codes yet: rebuild it with a mapping first.")
        if self._X is not None and edition.n < self._n:
            missing = np.arange(edition.n, self._n)
            self._edition = edition = edition.encoded(missing, self._X[edition.n : self._n])
        return edition

    def add(self, X: ArrayLike, keys: ArrayLike | None = None) -> None:
        """Store items under unique keys (integers or strings); by default sequential numbers above those taken."""
        if self._edition is not None and isinstance(self._edition.mapping, _MadeElsewhere):
            raise NotReady("A table made from codes holds no vectors: make a new one with `from_codes`.")
        vectors = validation.features("X", validation.as_rows("X", X)[0], self.n_features)
        new_keys = self._new_keys(keys, len(vectors))
        if self._X is None:
            self._X = np.empty((0, vectors.shape[1]), dtype=np.float32)
        self._X = appended(self._X, self._n, vectors)
        self._store_keys(new_keys, len(vectors))

    def rebuild(self, mapping: HashMapping) -> None:
        """Set a new snapshot; every code is recomputed when codes are next needed."""
        if self._n and self._X is None:
            raise NotReady("A table made from codes holds no vectors, so its codes cannot be recomputed.")
        if self._X is not None and mapping.n_features != self._X.shape[1]:
            raise InvalidInput(
                f"The table holds vectors of {self._X.shape[1]} features; the mapping takes {mapping.n_features}."
            )
        self._edition = Edition.empty(0 if self._edition is None else self._edition.version + 1, mapping)

    def search(
        self, Q: ArrayLike, k: int = 10, *, margins: bool | None = None, method: str = "auto", n_threads: int = 1
    ) -> Hits:
        """Return the nearest items to each query, nearest first, ties in the order of addition.

        The options are those of `Question`; a single query vector gives 1-D answers.
        """
        mapping = self.mapping
        if mapping is None:
            raise NotReady("The table has no mapping to encode queries with: rebuild it, or search by codes.")
        question = Question.of(Q, mapping.n_features, k=k, margins=margins, method=method, n_threads=n_threads)
        measure = question.measure("", mapping)
        edition = self.edition
        found = candidates(edition, question, None)
        hits = question.hits(Nearest(found, None, edition.version, measure=measure), edition.n)
        return hits._replace(keys=self._keys_of(hits.keys))

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
        if fingerprint is not None and (self.mapping is None or fingerprint != self.mapping.fingerprint):
            raise SnapshotMismatch(
                "The query codes were made by another mapping than the table's. Encode with `table.mapping`."
            )
        asked = Question.checked(k=k, radius=radius, method=method, n_threads=n_threads)
        edition = self.edition
        queries = as_columns(validation.packed("query_codes", query_codes, edition.mapping.n_bits))
        live = None if mask is None else as_bitmap(validation.boolean_matrix("mask", mask, (edition.n,)))
        how = live, asked["method"], asked["n_threads"]
        if radius is not None:
            found = edition.searcher.within(queries, edition.columns, asked["radius"], *how)
            return [self._keys_of(rows) for rows, _ in found], [each for _, each in found]
        rows, distances = edition.searcher.nearest(queries, edition.columns, asked["k"], *how)
        return self._keys_of(rows), distances

    def _keys_of(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        return rows if self._keys is None else self._keys[rows]

    def _new_keys(self, keys: ArrayLike | None, n: int) -> NDArray[Any] | None:
        """Return keys for n more rows, None if these are their numbers; raise if one is taken."""
        if keys is None:
            if self._keys is None:
                return None
            first = max(self._n, 1 + max((key for key in self._known if isinstance(key, int)), default=-1))
            return np.arange(first, first + n)
        names = as_keys(keys, n)
        known = self._known if self._keys is not None else set[Key](range(self._n))
        fresh = set(names)
        taken = known & fresh
        if taken or len(fresh) < n:
            key = next(key for key in names if key in taken or taken.add(key))  # type: ignore[func-returns-value]
            raise DuplicateKey(f"The key {key!r} is stored already. Give each item its own key.")
        return key_array(names)

    def _store_keys(self, fresh: NDArray[Any] | None, n: int) -> None:
        """Take over the keys of n more rows."""
        if fresh is not None:
            keys = self.keys if self._keys is None else self._keys
            if not self._known:
                self._known = set(keys.tolist())
            self._known.update(fresh.tolist())
            if fresh.dtype != keys.dtype:
                keys, fresh = keys.astype(object, copy=False), fresh.astype(object, copy=False)
            self._keys = appended(keys, self._n, fresh)
        self._n += n

    def state(self) -> State:
        """Return vectors, keys and snapshot; codes are computed again."""
        if self._n and self._X is None:
            raise NotReady("A table made from codes cannot be saved with the loop: it holds no vectors.")
        return {
            "X": None if self._X is None else self._X[: self._n],
            "keys": None if self._keys is None else self.keys.tolist(),
            "mapping": None if self.mapping is None else self.mapping.state(),
        }

    def restore(self, state: State) -> None:
        """Become the table whose `state` this is."""
        fresh = MemoryTable()
        if state["X"] is not None and len(state["X"]):
            fresh.add(state["X"], state["keys"])
        if state["mapping"] is not None:
            fresh.rebuild(mapping_from_state(state["mapping"]))
        self.__dict__ = fresh.__dict__


class _MadeElsewhere(HashMapping):
    """Stands for the unknown mapping of codes that were made elsewhere."""

    kind = "unknown"

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return no parameters."""
        return {}

    def project(self, X: NDArray[np.float32]) -> NoReturn:
        """Raise: what made the codes is not known."""
        raise NotReady(f"What made these codes is not known, so {len(X)} vectors cannot be encoded.")
