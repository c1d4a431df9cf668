"""LSH: random hyperplanes that are never changed (locality-sensitive hashing)."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..reservoir import Reservoir
from .online_learner import OnlineLearner


class LSH(OnlineLearner):
    """Random hyperplanes through the origin that never change: the baseline of every other method.

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
    learned_names = ()  # the hyperplanes follow from the seed
    uses_threshold = False

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        super().__init__(n_bits, seed)

    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Learn nothing."""
