"""A migration to another embedding model, through the service."""

from collections.abc import Callable, Sequence
from typing import Any

from .client_requests import Key, as_list, fields_of, several, to_json


class ClientMigration:
    """The steps of a migration, as `OnlineIndex.migration` has them.

    Parameters
    ----------
    call
        Sends a request: its method, path and body; returns the response.
    """

    def __init__(self, call: Callable[[str, str, bytes | None], dict[str, Any]]) -> None:
        self._call = call

    def progress(self) -> dict[str, Any]:
        """Return how far the migration is and what to do next; the state is "none" without a migration."""
        return self._call("GET", "/v1/migration", None)

    def add(self, vectors: Any, keys: Key | Sequence[Key]) -> int:
        """Store the new vectors of items by key, and return how many; a second vector replaces the first."""
        body = fields_of(vectors=as_list(vectors), keys=several(keys))
        return int(self._call("PUT", "/v1/migration/items", body)["added"])

    def cut_over(self, force: bool = False) -> dict[str, Any]:
        """Answer with the new vectors from now on; with ``force`` items without one are left out."""
        return self._call("POST", "/v1/migration/cut-over", to_json({"force": force}))

    def roll_back(self) -> dict[str, Any]:
        """Answer with the old vectors again, as they were at the cut-over."""
        return self._call("POST", "/v1/migration/roll-back", None)

    def finish(self) -> None:
        """Remove the old vectors; after that the cut-over cannot be undone."""
        self._call("POST", "/v1/migration/finish", None)

    def cancel(self) -> None:
        """Remove the new vectors; the old ones continue to answer."""
        self._call("DELETE", "/v1/migration", None)
