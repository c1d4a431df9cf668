"""Reading the stored items of a hash table by key, in the order of their age, or by a filter."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .filters import Condition
from .keys import Key, as_keys
from .metadata import decode_metadata
from .question import Item


class ItemReads(ABC):
    """The reads of a table, over a few hooks."""

    @overload
    def get(self, keys: Key) -> Item: ...

    @overload
    def get(self, keys: ArrayLike) -> Item | list[Item]: ...

    def get(self, keys: ArrayLike | Key) -> Item | list[Item]:
        """Return a stored item; of several keys a list, in their order. An unknown key raises `UnknownName`."""
        wanted = as_keys(keys)
        items = self._items(wanted)
        return items[0] if isinstance(keys, str) or np.ndim(keys) == 0 else items

    def contains(self, keys: ArrayLike | Key) -> NDArray[np.bool_]:
        """Return for each key whether it is stored."""
        ids, _ = self.lookup(as_keys(keys), False)
        return np.array([number is not None for number in ids], dtype=np.bool_)

    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of items, None for those without; raise if its JSON exceeds ``max_bytes``."""
        return [decode_metadata(text) for text in self.lookup(as_keys(keys), True, max_bytes)[1]]

    def count(self, where: Condition) -> int:
        """Return how many items match a filter."""
        return len(self.listed(where)[0])

    @abstractmethod
    def unknown_fields(self, where: Condition) -> list[str]:
        """Return which fields of a filter no item has."""

    # Hooks

    @abstractmethod
    def lookup(
        self, keys: list[Key], with_texts: bool, max_bytes: int | None = None
    ) -> tuple[list[int | None], list[str | None]]:
        """Return the sequence number of each key, None if it is not stored, and its metadata as text."""

    @abstractmethod
    def listed(
        self, where: Condition | None = None, after: int = -1, limit: int | None = None
    ) -> tuple[list[int], list[Key]]:
        """Return sequence numbers and keys of items after a number, in order; at most ``limit``."""

    @abstractmethod
    def _items(self, keys: list[Key]) -> list[Item]:
        """Return stored items; an unknown key is an error."""
