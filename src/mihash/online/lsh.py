"""Random hyperplanes (locality-sensitive hashing): the mapping before anything was learned."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..mapping import LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .online_learner import OnlineLearner, hyperplanes


class LSH(OnlineLearner):
    """Random hyperplanes through the origin that never move; the floor that every method must beat.

    References
    ----------
    M. Charikar, "Similarity estimation techniques from rounding algorithms", STOC 2002.

    Parameters
    ----------
    n_bits
        The code length b.
    seed
        Seeds the hyperplanes.

    Examples
    --------
    >>> import mihash
    >>> system = mihash.OnlineHashing(mihash.online.LSH(n_bits=8))
    >>> system.feed(np.random.default_rng(0).standard_normal((300, 4)))
    >>> system.updates
    1
    """

    name = "lsh"

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        super().__init__(n_bits, seed)

    def begin(self, n_features: int) -> None:
        """Draw the hyperplanes."""
        self._mapping = LinearMapping(hyperplanes(n_features, self.n_bits, self.seed))

    def current(self) -> LinearMapping:
        """Return the hyperplanes."""
        return self._mapping

    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Learn nothing."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {"n_bits": self.n_bits, "seed": self.seed}

    def learned(self) -> State:
        """Return nothing: the seed says it all."""
        return {}

    def relearn(self, learned: State) -> None:
        """Take over nothing."""
