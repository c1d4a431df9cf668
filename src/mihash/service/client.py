"""A client of the service (docs/service.md) that needs only the standard library."""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import urlencode

from ..errors import UnknownField
from .client_connection import Event, ServiceConnection
from .client_migration import ClientMigration
from .client_requests import (
    Key,
    as_list,
    as_rows,
    deleted,
    encode,
    fields_of,
    in_path,
    is_key,
    is_one,
    listed,
    matched,
    several,
    to_json,
)
from .client_results import Result, Results, ServiceStats, UpsertedKeys

__all__ = ["Client", "Event", "Result", "Results", "ServiceStats", "UpsertedKeys"]

ClientMetadata = Mapping[str, Any] | Sequence[Mapping[str, Any] | None] | None

_PAGE = 1000  # items that are listed at a time


class Client(ServiceConnection):
    """Sends requests to a service over one connection, which is kept open; use one client per thread.

    An error of the service is raised as an error of this package: `InvalidInput`, `DuplicateKey`, `UnknownName`,
    `NotReady`, `ReadOnly`, or `ServiceError` with its code. If the service is busy, the client retries when the
    service says.

    Parameters
    ----------
    url
        The address of the service, such as ``"http://127.0.0.1:8000"``.
    token
        The bearer token, if the service needs one.
    retries
        How often a request is sent again to a busy service; the service does nothing with a request it refuses.
    timeout_s
        How long a response may take.
    max_answer
        The largest response, in bytes; the client reads no more of a larger one.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")  # mihash serve --demo
    >>> client.search(key=17, k=3)  # doctest: +SKIP
    [Result(keys=[1541, 402, 1690], distances=[0.41, 0.52, 0.58], metadata=None)]
    """

    def add(
        self,
        vectors: Any,
        keys: Key | Sequence[Key] | None = None,
        labels: Any = None,
        metadata: ClientMetadata = None,
    ) -> list[Key]:
        """Store vectors, learn from them, and return their keys; they are on disk when this returns.

        Parameters
        ----------
        vectors
            Lists of numbers, or an array (n, d); or one vector, then keys, labels and metadata may be single, too.
            An array without keys, labels and metadata is sent as binary.
        keys
            Unique strings or whole numbers; sequential numbers by default.
        labels
            A class for each vector, or lists of 0 and 1; None if it is missing.
        metadata
            A dictionary for each vector, or None.
        """
        vectors, fields = as_rows(vectors, keys, labels, metadata)
        if _is_nothing(vectors, fields):
            return []

        def stored_keys(answer: dict[str, Any]) -> list[Key]:
            if keys is not None:
                return list(answer["keys"])
            first, last = int(answer["first"]), int(answer["last"])
            if last - first + 1 != len(vectors):
                raise ValueError(f"{last - first + 1} keys for {len(vectors)} rows")
            return list(range(first, last + 1))

        return self._call("POST", *encode("/v1/items", vectors, fields, binary=not fields), read=stored_keys)

    def search(
        self,
        vectors: Any = None,
        k: int = 10,
        *,
        key: Key | None = None,
        where: Mapping[str, Any] | None = None,
        rescore: int | None = None,
        radius: int | None = None,
        margins: bool | None = None,
        recall: float | None = None,
        metadata: bool = False,
    ) -> Results:
        """Return the nearest items to each query, or to the stored item ``key``, as `OnlineIndex.search` does.

        The answer is a list of a `Result` for each query, also for one vector; it has `version`, `measure` and
        `unknown_fields`.
        """
        options: dict[str, Any] = {"k": k, "where": where, "rescore": rescore, "radius": radius}
        options |= {"margins": margins, "recall": recall, "metadata": metadata, "key": key}
        fields = {name: value for name, value in options.items() if value is not None}
        vectors, _ = as_rows(vectors, needed=False)
        request = encode("/v1/search", vectors, fields, binary=key is None)
        found = self._call("POST", *request, read=Results.of)
        _warn(found.unknown_fields)
        return found

    def upsert(
        self, vectors: Any, keys: Key | Sequence[Key], labels: Any = None, metadata: ClientMetadata = None
    ) -> UpsertedKeys:
        """Store vectors under keys and replace items that have them; return the keys.

        ``replaced`` of what is returned is how many of them were stored before. Without ``metadata``, stored items
        keep theirs.
        """
        vectors, fields = as_rows(vectors, keys, labels, metadata)
        if _is_nothing(vectors, fields):
            return UpsertedKeys()

        def stored_keys(answer: dict[str, Any]) -> UpsertedKeys:
            return UpsertedKeys.of(fields["keys"], int(answer["replaced"]))

        return self._call("PUT", *encode("/v1/items", vectors, fields, binary=False), read=stored_keys)

    def update(
        self,
        keys: Key | Sequence[Key],
        vectors: Any = None,
        labels: Any = None,
        metadata: ClientMetadata = None,
    ) -> int:
        """Give stored keys new vectors, new metadata, or both; return how many; none if a key is unknown."""
        vectors, fields = as_rows(vectors, keys, labels, metadata, needed=False)
        request = encode("/v1/items", vectors, fields, binary=False)
        return self._call("PATCH", *request, read=lambda answer: int(answer["updated"]))

    def get(self, keys: Key | Sequence[Key]) -> Any:
        """Return an item as a dictionary: key, vector, label and metadata; of several keys a list of items.

        A list is read a thousand items at a time.
        """
        if is_one(keys):
            return self._call("GET", f"/v1/items/{in_path(keys)}", read=dict)
        wanted, found = as_list(keys), list[dict[str, Any]]()
        for start in range(0, len(wanted), _PAGE):
            body = fields_of(keys=wanted[start : start + _PAGE])
            found += self._call("POST", "/v1/get", body, read=lambda answer: list(map(dict, answer["items"])))
        return found

    def items(
        self, where: Mapping[str, Any] | None = None, after: Key | None = None, limit: int | None = None
    ) -> Iterator[tuple[Key, dict[str, Any] | None]]:
        """Yield keys and metadata of items, oldest first, at most ``limit``, read a page at a time.

        Items may be replaced or deleted meanwhile; a replaced item is yielded again at the end.
        """
        options = {} if where is None else {"where": to_json(where).decode()}
        left = float("inf") if limit is None else limit
        place = f'"{after}"' if isinstance(after, str) else after
        while left > 0:
            page = {**options, **({} if place is None else {"after": place}), "limit": int(min(left, _PAGE))}
            found, place, unknown = self._call("GET", f"/v1/items?{urlencode(page)}", read=listed)
            _warn(unknown)
            yield from found
            left -= len(found)
            if place is None:
                return

    def keys(
        self, where: Mapping[str, Any] | None = None, after: Key | None = None, limit: int | None = None
    ) -> list[Key]:
        """Return the keys of items in the order of their age, as `OnlineIndex.keys` does."""
        return [key for key, _ in self.items(where, after, limit)]

    def delete(self, keys: Key | Sequence[Key] | None = None, where: Mapping[str, Any] | None = None) -> int:
        """Delete items by key, or those that match a filter, and return how many; none if a key is unknown."""
        body = fields_of(keys=None if keys is None else several(keys), where=where)
        n, unknown = self._call("POST", "/v1/delete", body, read=deleted)
        _warn(unknown)
        return n

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """Return how many items match a filter; without one, how many are stored."""
        n, unknown = self._call("POST", "/v1/count", fields_of(where=where), read=matched)
        _warn(unknown)
        return n

    def contains(self, keys: Key | Sequence[Key]) -> list[bool]:
        """Return for each key whether it is stored, as `OnlineIndex.contains` does."""
        wanted, found = as_list(several(keys)), list[bool]()
        for start in range(0, len(wanted), _PAGE):
            body = fields_of(keys=wanted[start : start + _PAGE])
            found += self._call("POST", "/v1/contains", body, read=lambda answer: list(answer["contains"]))
        return found

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is stored."""
        if not is_key(key):
            return False
        (found,) = self.contains([key])
        return found

    def __len__(self) -> int:
        """Return how many items are stored."""
        return int(self.stats()["items"])

    def __bool__(self) -> bool:
        """Return True: a client of an index without items is one, too."""
        return True

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys of stored items in the order of their age, a page at a time."""
        return (key for key, _ in self.items())

    def stats(self) -> ServiceStats:
        """Return the state of the index and of the service; fields are attributes, and read by name."""
        return self._call("GET", "/v1/stats", read=ServiceStats)

    def history(self, after: int | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return decisions: those after a number, oldest first; by default the newest."""
        given = {name: value for name, value in (("after", after), ("limit", limit)) if value is not None}
        path = f"/v1/history?{urlencode(given)}"
        return self._call("GET", path, read=lambda answer: list(answer["decisions"]))

    def hindsight(self, price: float | None = None) -> dict[str, Any]:
        """Compare the rehashes so far with the best schedule in hindsight, as `OnlineIndex.hindsight` does."""
        given = "" if price is None else f"?{urlencode({'price': price})}"
        return self._call("GET", f"/v1/hindsight{given}", read=dict)

    def set_price(self, price: float | None = None) -> float:
        """Set the price of a rehash, in queries; None measures it. Return the price."""
        return self._call(
            "POST", "/v1/price", to_json({"price": price}), read=lambda answer: float(answer["price"])
        )

    def migrate(self, n_bits: int | None = None, metric: str | None = None) -> ClientMigration:
        """Begin to replace the vectors by those of another embedding model; the old ones answer meanwhile."""
        self._call("POST", "/v1/migration", to_json({"n_bits": n_bits, "metric": metric}), read=dict)
        return self.migration

    @property
    def migration(self) -> ClientMigration:
        """The migration that is under way; its `progress` says whether there is one."""
        return ClientMigration(lambda method, path, body: self._call(method, path, body, read=dict))

    def versions(self) -> list[dict[str, Any]]:
        """Return the versions that have answered queries, in order, each with its items and build time."""
        return self._call("GET", "/v1/versions", read=lambda answer: list(map(dict, answer["versions"])))

    def rehash(self) -> None:
        """Rebuild all codes with the current mapping."""
        self._call("POST", "/v1/rehash", read=dict)

    def pause(self) -> None:
        """Build no new version until `resume`; learning and decisions continue."""
        self._call("POST", "/v1/pause", read=dict)

    def resume(self) -> None:
        """Build the newest accepted version, and later ones when they are accepted."""
        self._call("POST", "/v1/resume", read=dict)


def _is_nothing(vectors: Any, fields: dict[str, Any]) -> bool:
    """Tell whether there is nothing to store: no rows, and nothing that would belong to some."""
    return hasattr(vectors, "__len__") and not len(vectors) and not any(fields.values())


def _warn(unknown_fields: list[str]) -> None:
    """Warn of fields of a filter that no item has."""
    if unknown_fields:
        text = f"No item has the field {', '.join(map(repr, unknown_fields))}, which `where` asks for."
        warnings.warn(text, UnknownField, stacklevel=3)
