"""A search of a hash table and its answer. Each search option is defined here, once."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..extras import load_extra
from ..mapping import HashMapping
from ..search import Method, as_method
from .filters import Condition, compile_filter
from .keys import Key

Found = list[tuple[NDArray[np.int64], NDArray[Any]]]
"""For each query the ids of the items that were found, and their distances."""


class Nearest(NamedTuple):
    """What was found for each query, before it is shaped into `Hits`.

    Attributes
    ----------
    found
        Ids and distances for each query, nearest first.
    keys
        The keys of these ids; None if the ids are the keys, or keys were not asked for.
    version
        The version of the hash table that answered, -1 before the first.
    missing
        The shards that did not answer.
    measure
        What the distances are, as in `Hits`.
    """

    found: Found
    keys: list[NDArray[Any]] | None = None
    version: int = -1
    missing: tuple[int, ...] = ()
    measure: str = "hamming"


class Hits(NamedTuple):
    """The answer to a search.

    Attributes
    ----------
    keys
        Keys (n_queries, k), nearest first; for a radius search a list with one array for each query. For a single
        query vector, its keys (k,).
    distances
        The distances in the same shape, in the unit of ``measure``.
    version
        The version of the hash table that answered, None before the first.
    measure
        ``"hamming"``, ``"margin"`` (the sum of the query's margins over the bits that differ), or after rescoring
        the metric of the vectors: ``"euclidean"``, ``"cosine"`` (1 - cosine) or ``"ip"`` (the negative inner
        product). In each, smaller is nearer.
    """

    keys: Any
    distances: Any
    version: int | None
    measure: str = "hamming"

    @property
    def missing(self) -> tuple[int, ...]:
        """The shards that did not answer; empty except in a `PartialHits`."""
        return ()

    def to_pandas(self) -> Any:
        """Return a ``pandas.DataFrame`` with one row for each item found: query, rank, key and distance."""
        return load_extra("frames", "A data frame needs pandas", "pandas").DataFrame(self._columns())

    def to_polars(self) -> Any:
        """Return a ``polars.DataFrame`` with one row for each item found: query, rank, key and distance."""
        return load_extra("frames", "A data frame needs polars", "polars").DataFrame(self._columns())

    def _columns(self) -> dict[str, list[Any]]:
        single = isinstance(self.keys, np.ndarray) and self.keys.ndim == 1
        keys, distances = ([self.keys], [self.distances]) if single else (self.keys, self.distances)
        return {
            "query": [query for query, row in enumerate(keys) for _ in row],
            "rank": [rank for row in keys for rank in range(len(row))],
            "key": [key for row in keys for key in np.asarray(row).tolist()],
            "distance": [distance for row in distances for distance in np.asarray(row).tolist()],
        }


def _stacked(rows: list[NDArray[Any]], kind_of_none: type[np.generic], width_of_none: int) -> NDArray[Any]:
    """Return rows of one length as a matrix; a single row is not copied."""
    if len(rows) == 1:
        return rows[0][None]
    if not rows:
        return np.empty((0, width_of_none), dtype=kind_of_none)
    return np.concatenate(rows).reshape(len(rows), len(rows[0]))  # faster than np.stack


class PartialHits(Hits):
    """An answer without the items of some shards, given only with ``allow_partial=True``.

    Examples
    --------
    >>> hits = PartialHits(np.array([[3]]), np.array([[0]]), 7, "hamming", (1,))
    >>> keys, distances, version, measure = hits
    >>> version, hits.missing, Hits(*hits).missing
    (7, (1,), ())
    """

    _missing: tuple[int, ...]

    def __new__(
        cls, keys: Any, distances: Any, version: int | None, measure: str, missing: tuple[int, ...]
    ) -> Self:
        """Return the answer, with the numbers of the shards that are not in it."""
        made = super().__new__(cls, keys, distances, version, measure)
        made._missing = missing
        return made

    @property
    def missing(self) -> tuple[int, ...]:
        """The shards that did not answer."""
        return self._missing


class Item(NamedTuple):
    """A stored item: its key, vector, label (or None) and metadata (or None)."""

    key: Key
    vector: NDArray[np.float32]
    label: Any
    metadata: dict[str, Any] | None


class Option(NamedTuple):
    """One search option: its name, JSON type, default, least value (or None) and what it does, in one line."""

    name: str
    type: str
    default: Any
    minimum: int | None
    description: str


def _about(kind: str, description: str, minimum: int | None = None) -> dict[str, Any]:
    return {"type": kind, "minimum": minimum, "description": description}


@dataclass(frozen=True)
class Question:
    """What is asked, checked by `of`.

    The options are the fields with a description; `options` lists them for HTTP, the command line and the docs.

    Examples
    --------
    >>> [option.name for option in Question.options()]
    ['k', 'where', 'rescore', 'radius', 'margins', 'recall', 'method', 'n_threads']
    >>> question = Question.of([1.0, 2.0], n_features=2, k=3)
    >>> question.queries.shape, question.single, question.k
    ((1, 2), True, 3)
    """

    queries: NDArray[np.float32]
    k: int = field(
        default=10,
        metadata=_about("integer", "How many items to return for each query; fewer where there are fewer.", 1),
    )
    where: Condition | None = field(
        default=None,
        metadata=_about("object", "Return only items whose metadata matches this filter (docs/index.md)."),
    )
    rescore: int | None = field(
        default=None,
        metadata=_about(
            "integer",
            "How many candidates to rank by their vectors' distance; 0: none; null: by `recall`.",
            0,
        ),
    )
    radius: int | None = field(
        default=None,
        metadata=_about("integer", "Return all items within this Hamming distance instead of the k nearest.", 0),
    )
    margins: bool | None = field(
        default=None,
        metadata=_about(
            "boolean",
            "Whether to rank the nearest codes by the query's margins; null: if the mapping has them.",
        ),
    )
    recall: float | None = field(
        default=None,
        metadata=_about(
            "number",
            "The share of the true k nearest to find, above 0 and at most 1; instead of `rescore`. null: 0.95.",
        ),
    )
    method: Method = field(
        default="auto",
        metadata=_about("string", "How to search the codes: scan, multi-index, or auto for the faster one."),
    )
    n_threads: int = field(default=1, metadata=_about("integer", "How many threads share the work.", 1))
    factors: bool | None = None
    """Whether to estimate distances by margins and the two bytes; None: if that was measured to pay."""
    n_ranked: int | None = None
    """How many of the nearest codes to rank by margins; None: by the number of results."""
    most_tied: int = 0
    """Up to how many candidates to rescore if more tie with the last of them."""
    compares_all: bool = False
    """Whether to compare all vectors, held in memory, if the table is not too large for that."""
    single: bool = False
    """Whether one query vector (d,) was given; then the answer has no dimension for queries."""

    @classmethod
    @cache
    def options(cls) -> tuple[Option, ...]:
        """Return each search option."""
        described = [each for each in fields(cls) if each.metadata]
        return tuple(Option(each.name, default=each.default, **each.metadata) for each in described)

    @classmethod
    def of(cls, Q: ArrayLike, n_features: int | None, **given: Any) -> Question:
        """Return a checked question, or raise `InvalidInput`.

        Parameters
        ----------
        Q
            Queries (n_queries, d), or one query vector (d,).
        n_features
            The dimension of the stored vectors, None while it is not known.
        given
            Values of the `options`, with ``where`` as the filter's dictionary.
        """
        raw = validation.array("X", Q)
        single = raw.ndim == 1
        options = cls.checked(**given)
        queries = validation.features("X", raw[None] if single else raw, n_features, allow_empty=True)
        return cls(queries, **options, single=single)

    @classmethod
    def checked(cls, **given: Any) -> dict[str, Any]:
        """Return values of the `options`, checked, with the filter compiled."""
        for option in cls.options():
            value = given.get(option.name)
            if option.name in given and option.type == "integer" and (value, option.default) != (None, None):
                given[option.name] = validation.integer(option.name, value, minimum=option.minimum or 0)
        if "method" in given:
            as_method(given["method"])
        if not isinstance(given.get("margins"), bool | None):
            raise InvalidInput(f"`margins` must be True, False or None; got {given['margins']!r:.80}.")
        if given.get("recall") is not None:
            validation.number("recall", given["recall"], above=0, maximum=1)
            if given.get("rescore") is not None:
                raise InvalidInput(
                    "Give `recall` or `rescore`, not both: `recall` chooses how many candidates are rescored."
                )
        if given.get("radius") is not None:
            for name in ("rescore", "margins", "recall"):
                if given.get(name):
                    raise InvalidInput(f"With `radius` items are ranked by Hamming distance: leave `{name}` out.")
        if given.get("where") is not None:
            given["where"] = compile_filter(given["where"])
        return given

    @property
    def n_wanted(self) -> int:
        """How many candidates are returned, or read to be rescored."""
        return max(self.k, self.rescore or 0)

    def by_margins(self, mapping: HashMapping | None) -> bool:
        """Tell whether to rank codes of a mapping by margins; raise if `margins=True` and it has none."""
        has = mapping is None or mapping.has_margins
        if self.margins and not has:
            raise InvalidInput("The hash mapping of this index has no margins: leave `margins` out.")
        return has and self.margins is not False and self.radius is None

    def measure(self, metric: str, mapping: HashMapping | None) -> str:
        """Return the measure of the distances in an answer, for a mapping and a metric of vectors."""
        if self.rescore:
            return metric
        return "margin" if self.by_margins(mapping) else "hamming"

    def nothing(self, version: int = -1, measure: str = "hamming") -> Nearest:
        """Return what is found in a table without items."""
        distances = np.empty(0, dtype=np.int32 if measure == "hamming" else np.float32)
        found = [(np.empty(0, dtype=np.int64), distances)] * len(self.queries)
        return Nearest(found, None, version, measure=measure)

    def hits(self, nearest: Nearest, n_items: int = 0) -> Hits:
        """Return what was found in the wanted shape; ``n_items`` sets the width if there are no queries."""
        keys: Any = nearest.keys if nearest.keys is not None else [ids for ids, _ in nearest.found]
        distances: Any = [each for _, each in nearest.found]
        if nearest.keys is not None and len({each.dtype for each in keys}) > 1:  # one type for the whole answer
            keys = [each.astype(object) for each in keys]
        if self.single:
            keys, distances = keys[0], distances[0]
        elif self.radius is None:
            width, kind = min(self.k, n_items), np.int32 if nearest.measure == "hamming" else np.float32
            keys, distances = _stacked(keys, np.int64, width), _stacked(distances, kind, width)
        version = nearest.version if nearest.version >= 0 else None
        if nearest.missing:
            return PartialHits(keys, distances, version, nearest.measure, nearest.missing)
        return Hits(keys, distances, version, nearest.measure)
