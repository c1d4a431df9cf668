"""What a loop needs of a hash table."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import ArrayLike

from ..mapping import HashMapping
from .question import Hits


class HashTable(Protocol):
    """What `OnlineHashing` needs of a hash table: items and queries encoded with one snapshot."""

    def __len__(self) -> int:
        """Return how many items are stored."""
        ...

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        ...

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to, None before the first `rebuild`."""
        ...

    def add(self, X: ArrayLike, keys: ArrayLike | None = None) -> Any:
        """Store items; their codes are made with the table's own snapshot."""
        ...

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot."""
        ...

    def search(self, Q: ArrayLike, k: int = 10, *, margins: bool | None = None) -> Hits:
        """Return the k nearest items to each query; with ``margins=False`` by Hamming distance."""
        ...
