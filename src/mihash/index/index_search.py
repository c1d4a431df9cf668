"""Search of an index."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..errors import InvalidInput, NotReady, StoreError
from ..store.edition import Edition
from ..store.filters import compile_filter
from ..store.keys import Key
from ..store.question import Hits, PartialHits, Question
from ..store.table import Table
from .index_state import IndexState
from .recall import Recall, evaluate
from .unknown_fields import warn_of_unknown_fields


class IndexSearch(IndexState):
    """The part of an index that answers queries."""

    def search(
        self,
        X: ArrayLike | None = None,
        k: int = 10,
        *,
        key: Key | None = None,
        where: Mapping[str, Any] | None = None,
        radius: int | None = None,
        rescore: int | None = None,
        margins: bool | None = None,
        recall: float | None = None,
        method: str = "auto",
        n_threads: int = 1,
    ) -> Hits:
        """Return the nearest items to each query, nearest first, ties in the order of addition.

        Parameters
        ----------
        X
            Queries (n_queries, d), as features; one vector (d,) gives one-dimensional answers.
        k
            How many items to return for each query, or all if there are fewer.
        key
            A stored item, instead of ``X``: return its nearest others, in one-dimensional arrays.
        where
            Only items whose metadata matches, such as ``{"year": {"$gte": 2000}}`` (docs/index.md). If nothing is
            found and no item has one of the fields, the call warns (`UnknownField`).
        radius
            Return all items within this Hamming distance instead of the k nearest: lists with one array for each
            query. ``rescore`` and ``margins`` are errors with it.
        rescore
            How many candidates to rank by the distance of their vectors; 0 for none. By default as many as reach
            ``recall``, at most a fiftieth of the items or 2,000 (docs/search.md).
        margins
            Whether to rank the nearest codes by the query's distances to the hyperplanes of the bits that differ
            (docs/search.md); by default if the mapping is linear. With ``margins=False`` and ``rescore=0``
            distances are Hamming distances.
        recall
            The share of the true k nearest to find, as measured on a sample of the items; the default is 0.95. If
            you set it, a search may read a tenth of the vectors.
        method
            ``"scan"``, ``"multi-index"`` (multi-index hashing, which takes several times the memory of the codes;
            for up to 256 bits), or ``"auto"`` for the faster one; the answer is the same.
        n_threads
            How many threads share the work.

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder, X = tempfile.TemporaryDirectory(), np.eye(8) + np.eye(8, k=1)
        >>> with mihash.open(folder.name, n_bits=64) as index:
        ...     keys = index.add(X)
        ...     one, others = index.search(X[3], k=1), index.search(key=3, k=2, rescore=8)
        >>> one.keys.tolist(), sorted(others.keys.tolist()), others.measure
        ([3], [2, 4], 'euclidean')
        >>> folder.cleanup()
        """
        options: dict[str, Any] = {"k": k, "where": where, "radius": radius, "rescore": rescore}
        options |= {"margins": margins, "recall": recall, "method": method, "n_threads": n_threads}
        hits = self._hits(X, key, options)
        if where and not any(map(np.size, hits.keys if radius is not None else [hits.keys])):
            warn_of_unknown_fields(self._table, compile_filter(where))
        return hits

    def unknown_fields(self, where: Mapping[str, Any]) -> list[str]:
        """Return the fields of a filter that no item has; they are often misspelt."""
        return self._table.unknown_fields(compile_filter(where))

    def codes_in_memory(self, margins: bool | None = None) -> tuple[int, int] | None:
        """Return version and number of items where a search with ``rescore=0`` needs codes in memory alone.

        None while rows wait to be learned from, while a version is built, or where something is to be measured
        first; also for a process that only reads, for keys of the caller's own, and on Ray.
        """
        if self.read_only or self.behind or self._builder.busy:
            return None
        table = self._table
        if table.setting("table") == "ray" or not table.setting("plain_keys"):
            return None
        edition = table.edition
        if not isinstance(edition, Edition) or not edition.searcher.always_scans(edition.n):
            return None
        return (edition.version, edition.n_items) if table.target.is_measured(margins) else None

    def _hits(self, X: ArrayLike | None, key: Key | None, options: Mapping[str, Any]) -> Hits:
        """Return what `search` does, from one generation, without a warning about unknown fields."""
        while True:
            table = self._table
            try:
                return _hits_of(table, X, key, options)
            except (NotReady, StoreError):
                if self._closed or self._table is table:
                    raise  # else a migration has closed it meanwhile: ask the table that answers now

    def evaluate(self, k: int = 10, n_queries: int = 100, rescore: int | None = None, seed: int = 0) -> Recall:
        """Return the share of the true k nearest items that searches find, on a sample of the stored ones.

        Without ``rescore``, with as many candidates as a search reads by default.
        """
        return evaluate(self._table, k, n_queries, rescore, seed)


def _hits_of(table: Table, X: ArrayLike | None, key: Key | None, options: Mapping[str, Any]) -> Hits:
    if X is not None and key is None:
        return table.search(X, **options)
    if X is not None or key is None:
        raise InvalidInput("Give exactly one of `X` and `key`: it names the query.")
    if not isinstance(key, str) and np.ndim(key):
        raise InvalidInput(
            f"`key` must be one key; got {key!r:.80}. To search for several items, call `search` once for each."
        )
    Question.checked(**options)  # before the key is looked for
    asked = table.target.chosen(Question.of(table.get(key).vector, table.n_features, **options))
    k, more = asked.k, asked.rescore and max(asked.rescore, asked.k) + 1  # it finds itself
    asked = replace(asked, k=k + 1, rescore=more)
    hits = asked.hits(table.nearest(asked))
    others = np.flatnonzero(hits.keys != key)[: k if asked.radius is None else None]
    answer = hits.keys[others], hits.distances[others], hits.version, hits.measure
    return PartialHits(*answer, hits.missing) if hits.missing else Hits(*answer)
