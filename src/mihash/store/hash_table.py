"""What the loop needs of a hash table, wherever it keeps its codes."""

from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..mapping import HashMapping


class HashTable(Protocol):
    """Items with their codes under one snapshot; queries are encoded with that same snapshot."""

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

    def add(self, X: ArrayLike, keys: ArrayLike | None = None) -> None:
        """Store items; their codes are made with the table's own snapshot."""
        ...

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot."""
        ...

    def search(self, Q: ArrayLike, k: int = 10) -> tuple[NDArray[np.generic], NDArray[np.int32]]:
        """Return keys and distances of the k nearest items to each query."""
        ...
