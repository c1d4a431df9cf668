"""What the client returns: lists that carry what else a response says."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from .client_requests import Key


class Result(NamedTuple):
    """The nearest items to one query, nearest first, with their metadata if it was requested."""

    keys: list[Key]
    distances: list[float]
    metadata: list[dict[str, Any] | None] | None


class Results(list[Result]):
    """The answer to a search: a `Result` for each query.

    Attributes
    ----------
    version
        The version of the hash table that answered, None before the first.
    measure
        What the distances are, as in `Hits`.
    unknown_fields
        If nothing was found: the fields of the filter that no item has.
    missing
        The shards of an index on Ray that did not answer.

    Examples
    --------
    >>> results = [{"keys": ["a"], "distances": [0.5]}]
    >>> found = Results.of({"version": 3, "measure": "euclidean", "results": results})
    >>> found, found.measure, found.version
    ([Result(keys=['a'], distances=[0.5], metadata=None)], 'euclidean', 3)
    """

    version: int | None
    measure: str
    unknown_fields: list[str]
    missing: tuple[int, ...]

    @classmethod
    def of(cls, answer: dict[str, Any]) -> "Results":
        """Return what a response holds."""
        found = cls(Result(each["keys"], each["distances"], each.get("metadata")) for each in answer["results"])
        found.version, found.measure = answer.get("version"), str(answer.get("measure"))
        found.unknown_fields = list(answer.get("unknown_fields", ()))
        found.missing = tuple(answer.get("missing_shards", ()))
        return found


class UpsertedKeys(list[Key]):
    """The keys that were upserted; `replaced` is how many of them were stored before."""

    replaced: int = 0

    @classmethod
    def of(cls, keys: list[Key], replaced: int = 0) -> "UpsertedKeys":
        """Return keys, with how many were stored before."""
        found = cls(keys)
        found.replaced = replaced
        return found


class ServiceStats:
    """The state of an index and of its service; fields are read as attributes, or by name as from a dictionary.

    Examples
    --------
    >>> stats = ServiceStats({"items": 3, "version": None})
    >>> stats.items, stats["items"], "version" in stats, dict(stats)
    (3, 3, True, {'items': 3, 'version': None})
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = dict(fields)

    def __getattr__(self, name: str) -> Any:
        """Return a field."""
        if name == "_fields" or name not in self._fields:
            raise AttributeError(f"The stats have no field {name!r}.")
        return self._fields[name]

    def __getitem__(self, name: str) -> Any:
        """Return a field."""
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(self._fields)

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a field."""
        return name in self._fields

    def __eq__(self, other: object) -> bool:
        """Compare the fields with those of others, or with a dictionary."""
        return self._fields == (other._fields if isinstance(other, ServiceStats) else other)

    __hash__ = None  # type: ignore[assignment]  # as of a dictionary

    def __repr__(self) -> str:
        """Return the fields as text."""
        return f"ServiceStats({self._fields!r})"

    def keys(self) -> list[str]:
        """Return the names of the fields."""
        return list(self._fields)

    def get(self, name: str, default: Any = None) -> Any:
        """Return a field, or ``default`` where there is none."""
        return self._fields.get(name, default)
