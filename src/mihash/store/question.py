"""Answers to queries from one edition: scan, filter, rescore, and the keys of what was found."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..search import Bitmap, Method, as_bitmap, as_columns, as_method
from .edition import Edition
from .filters import compile_filter
from .keys import key_array
from .rescoring import Found, rescored
from .sqlite.database import Database
from .sqlite.items import keys_of, matching
from .sqlite.segments import Segments
from .sqlite.settings import read_settings

_REMEMBERED = 8


class Hits(NamedTuple):
    """The answer to a search.

    Attributes
    ----------
    keys
        Keys (n_queries, k), nearest first; for a radius search a list with one array for each query.
    distances
        Their Hamming distances, or after rescoring the distances of the vectors themselves.
    version
        The version of the hash table that answered, -1 before the first.
    """

    keys: Any
    distances: Any
    version: int

    @property
    def missing(self) -> tuple[int, ...]:
        """The shards that did not answer: none, but for a `PartialHits`."""
        return ()


class PartialHits(Hits):
    """An answer in which shards are missing, for who has allowed that.

    Examples
    --------
    >>> hits = PartialHits(np.array([[3]]), np.array([[0]]), 7, (1,))
    >>> keys, distances, version = hits
    >>> version, hits.missing, Hits(*hits).missing
    (7, (1,), ())
    """

    _missing: tuple[int, ...]

    def __new__(cls, keys: Any, distances: Any, version: int, missing: tuple[int, ...]) -> Self:
        """Return the answer, with the numbers of the shards that are not in it."""
        made = super().__new__(cls, keys, distances, version)
        made._missing = missing
        return made

    @property
    def missing(self) -> tuple[int, ...]:
        """The shards that did not answer."""
        return self._missing


@dataclass(frozen=True)
class Question:
    """What is asked, checked.

    Attributes
    ----------
    queries
        Feature vectors (n_queries, d).
    k
        How many items are wanted for each.
    condition
        An SQL condition on metadata with its parameters, or None.
    rescore
        How many candidates are rescored, 0 for none.
    radius
        In place of k, up to which Hamming distance items are wanted.
    method
        How codes are searched.
    n_threads
        How many threads share the work.
    """

    queries: NDArray[np.float32]
    k: int
    condition: tuple[str, list[Any]] | None = None
    rescore: int = 0
    radius: int | None = None
    method: Method = "auto"
    n_threads: int = 1

    @classmethod
    def checked(
        cls,
        Q: ArrayLike,
        n_features: int | None,
        k: int,
        where: Mapping[str, Any] | None,
        rescore: int,
        radius: int | None,
        method: str,
        n_threads: int,
    ) -> "Question":
        """Return what is asked, or raise where something of it is wrong."""
        chosen, n_threads = as_method(method), validation.integer("n_threads", n_threads, minimum=1)
        k = validation.integer("k", k, minimum=1)
        rescore = validation.integer("rescore", rescore, minimum=0)
        if radius is not None:
            radius = validation.integer("radius", radius, minimum=0)
        condition = None if where is None else compile_filter(where)
        queries = validation.features("Q", Q, n_features, allow_empty=True)
        return cls(queries, k, condition, rescore, radius, chosen, n_threads)

    def nothing(self, version: int) -> Hits:
        """Return the answer of a table without items."""
        n = len(self.queries)
        if self.radius is not None:
            return Hits([np.empty(0, dtype=np.int64)] * n, [np.empty(0, dtype=np.int32)] * n, version)
        return Hits(np.empty((n, 0), dtype=np.int64), np.empty((n, 0), dtype=np.int32), version)


class Answers:
    """Answers questions from editions, with keys, metadata and vectors from the disk.

    Parameters
    ----------
    database, segments
        Where keys, metadata and vectors are.
    metric
        How vectors are compared when they are rescored.
    """

    def __init__(self, database: Database, segments: Segments, metric: str) -> None:
        self._database, self._segments, self.metric = database, segments, metric
        # By what they depend on, for a prefix of the rows.
        self._matches: dict[tuple[Any, ...], tuple[NDArray[np.bool_], Bitmap | None]] = {}

    def hits(self, edition: Edition, question: Question, plain_keys: bool) -> Hits | None:
        """Return an answer from one edition, None where a row of it is not stored any more."""
        lists = self.nearest(edition, question)
        if lists is None:
            return None
        if not lists:
            return question.nothing(edition.version)
        ids = [found for found, _ in lists]
        keys = ids if plain_keys else self.keys(ids)
        if keys is None:
            return None
        distances = [found for _, found in lists]
        if question.radius is not None:
            return Hits(keys, distances, edition.version)
        return Hits(np.stack(keys), np.stack(distances), edition.version)

    def nearest(self, edition: Edition, question: Question) -> Found | None:
        """Return ids and distances for each query."""
        live = edition.live
        if question.condition is not None:
            live = self._matching(edition, *question.condition)
            if live is None:
                return None
        queries = as_columns(edition.mapping.encode_rows(question.queries))
        k, rescore, radius = question.k, question.rescore, question.radius
        how = live, question.method, question.n_threads
        if radius is None:
            rows, distances = edition.searcher.nearest(queries, edition.columns, max(k, rescore), *how)
            lists: Found = [(edition.ids[row], each) for row, each in zip(rows, distances, strict=True)]
        else:
            found = edition.searcher.within(queries, edition.columns, radius, *how)
            lists = [(edition.ids[row], each) for row, each in found]
        if not rescore:
            return lists
        return rescored(self._segments, question.queries, lists, k if radius is None else None, self.metric)

    def keys(self, lists: list[NDArray[np.int64]]) -> list[NDArray[Any]] | None:
        """Return the keys of ids, None where one is not stored any more."""
        wanted = np.unique(np.concatenate(lists))
        with self._database.read() as connection:
            found = keys_of(connection, wanted)
        if len(found) < len(wanted):
            return None
        whole = key_array(list(found.values())).dtype  # one type for the whole answer
        return [key_array([found[number] for number in ids.tolist()]).astype(whole) for ids in lists]

    def _matching(self, edition: Edition, sql: str, parameters: list[Any]) -> Bitmap | None:
        """Return the rows that were not deleted and whose metadata matches; None where some are gone meanwhile.

        Rows never change, so what is known of the first ones stays, and only those that came since are looked at.
        """
        name = (edition.n_purges, sql, json.dumps(parameters))
        known, bits = self._matches.get(name, (np.empty(0, dtype=np.bool_), None))
        if len(known) < edition.n:
            mask = np.zeros(edition.n, dtype=np.bool_)
            mask[: len(known)] = known
            fresh = edition.ids[len(known) :][~edition.dead[len(known) :]]
            with self._database.read() as connection:
                settings = read_settings(connection)
                current = (settings.get("tombstones", 0), settings.get("compactions", 0))
                if current != (edition.n_tombstones, edition.n_purges):
                    return None
                found = matching(connection, sql, parameters, fresh)
            mask[edition.places(np.array(found, dtype=np.int64))] = True
            known, bits = mask, as_bitmap(mask)
            kept = {each: of for each, of in list(self._matches.items())[1 - _REMEMBERED :] if each != name}
            self._matches = {**kept, name: (known, bits)}
        if bits is None or len(known) > edition.n:
            bits = as_bitmap(known[: edition.n])
        return bits if edition.live is None else bits & edition.live
