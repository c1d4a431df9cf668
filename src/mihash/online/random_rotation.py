"""RandomRotation: the axes of a random rotation, which are never changed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..kernels import one_thread
from ..reservoir import Reservoir
from .online_learner import OnlineLearner


class RandomRotation(OnlineLearner):
    """Orthogonal hyperplanes in random directions that never change: what needs no learning.

    With codes as long as the vector and the two bytes of an index (docs/search.md), distances are estimated as in
    RaBitQ. More bits than features are the axes of several rotations.

    References
    ----------
    J. Gao and C. Long, "RaBitQ: quantizing high-dimensional vectors with a theoretical error bound for approximate
    nearest neighbor search", SIGMOD 2024.

    Parameters
    ----------
    n_bits
        The code length b.
    seed
        Seeds the rotation.

    Examples
    --------
    >>> import mihash
    >>> system = mihash.OnlineHashing(mihash.online.RandomRotation(n_bits=4))
    >>> system.feed(np.random.default_rng(0).standard_normal((300, 4)))
    >>> W = system.current.weights
    >>> abs(W.T @ W - np.eye(4)).max() < 1e-6, system.updates
    (np.True_, 1)
    """

    name = "randomrotation"
    learned_names = ()  # the rotation follows from the seed
    uses_threshold = False

    def __init__(self, n_bits: int = 32, *, seed: int = 0) -> None:
        super().__init__(n_bits, seed)

    def begin(self, n_features: int) -> None:
        """Draw the rotations."""
        rng = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(2,)))
        parts: list[NDArray[np.float64]] = []
        with one_thread():
            for first in range(0, self.n_bits, n_features):
                drawn = rng.standard_normal((n_features, n_features))[:, : self.n_bits - first]
                axes, upper = np.linalg.qr(drawn)  # the first axes of a rotation follow from the first columns
                signs = np.where(np.diag(upper) < 0, -1.0, 1.0)  # so that every rotation is as likely
                parts.append(axes * signs)
        self._W = np.concatenate(parts, axis=1).astype(np.float32)

    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Learn nothing."""
