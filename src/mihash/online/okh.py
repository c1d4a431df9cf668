"""OKH, online kernel-based hashing: passive-aggressive steps on pairs of a stream.

A pair's codes are wrong when too many bits differ (or agree). The nearest right codes are found by flipping the
bits that are least sure, and the hash functions take the smallest step towards them that a bound allows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..mapping import HashMapping
from ..reservoir import Reservoir
from .anchors import Anchors
from .online_learner import OnlineLearner, hyperplanes
from .similar_pairs import insert, loss_margin, similar_pairs

Matrix = NDArray[np.float32]
Flags = NDArray[np.bool_]


class OKH(OnlineLearner):
    """Learn hash functions on a Gaussian kernel map from pairs, by passive-aggressive steps.

    Consecutive examples of the stream are a pair (first with second, third with fourth). With d its Hamming
    distance, the loss R is max(0, d - (1 - alpha) b) for a similar pair and max(0, alpha b - d) for another.
    A pair with a loss has codes g found for it, by flipping the ceil(R) wrong bits that are nearest to 0; then
    W moves by min(C, l / ||G||^2) G, where l = (h - g).f summed over the pair plus sqrt(R), and
    G = k_i (g_i - h_i)' + k_j (g_j - h_j)'. Works with class labels, multi-labels, or none.

    Features should be centred and of unit length (`mihash.datasets.normalize`): far from the origin, or at another
    scale, little or nothing is learned.

    References
    ----------
    L.-K. Huang, Q. Yang and W.-S. Zheng, "Online Hashing", IJCAI 2013.

    Parameters
    ----------
    n_bits
        The code length b.
    C
        The bound on a step's size.
    alpha
        Similar pairs may differ in (1 - alpha) b bits, others must differ in alpha b. From 0 to 1.
    n_anchors
        How many anchors the kernel map has.
    warm_up
        How many examples at the stream's start are set aside to draw the anchors from. Until then the mapping
        is random hyperplanes.
    seed
        Seeds the first hash functions and the anchors.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=4000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((4000, 16))
    >>> system = mihash.OnlineHashing(mihash.online.OKH(n_bits=16, C=0.01, n_anchors=50), reservoir_size=200)
    >>> for part in (slice(0, 300), slice(300, 3500)):
    ...     system.feed(X[part], y[part])
    ...     print(round(mihash.quality(system.current.encode(X[3500:]), y[3500:], n_bits=16), 1))
    0.4
    0.8
    """

    name = "okh"
    learned_names = ("W", "anchors")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        C: float = 0.001,
        alpha: float = 0.3,
        n_anchors: int = 300,
        warm_up: int = 300,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.C = validation.number("C", C, above=0)
        self.alpha = validation.number("alpha", alpha, minimum=0, maximum=1)
        self.n_anchors = validation.integer("n_anchors", n_anchors, minimum=1)
        self.warm_up = validation.integer("warm_up", warm_up, minimum=self.n_anchors)

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes."""
        self._anchors = Anchors(self.n_anchors, self.warm_up, self.seed, self.block_size)
        super().begin(n_features)

    def current(self) -> HashMapping:
        """Return the hyperplanes before the anchors are drawn, and then the kernel mapping learned so far."""
        return self._anchors.mapping(self._W) if self._anchors.ready else super().current()

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take one step for each pair of the block that has a loss, in order."""
        if not self._anchors.ready:
            self._anchors.absorb(X)
            if self._anchors.ready:
                self._W = hyperplanes(len(self._anchors.points) + 1, self.n_bits, self.seed)
            return
        similar = similar_pairs(X, y, reservoir)
        if not len(similar):
            return
        K = self._anchors.transform(X[: 2 * len(similar)])
        steps = _learn_pairs(K @ self._W, K @ K.T, similar, loss_margin(self.alpha, self.n_bits), self.C)
        if steps.any():
            self._W = self._W + K.T @ steps


@jit_reordering
def _learn_pairs(F: Matrix, K: Matrix, similar: Flags, margin: float, C: float) -> Matrix:
    """Return the block's steps (n, b), which times the features are dW, as if taken one pair at a time.

    F (n, b) holds the values of the hash functions before the block, K (n, n) the features' inner products; a
    step on example s adds K[t, s] times itself to the values of example t. F is overwritten.
    """
    n_bits = F.shape[1]
    steps = np.zeros(F.shape, dtype=np.float32)
    wrong, values = np.empty(n_bits, dtype=np.int64), np.empty(n_bits, dtype=np.float32)
    for pair in range(len(similar)):
        i, j = 2 * pair, 2 * pair + 1
        for s in range(i):
            for k in range(n_bits):
                F[i, k] += K[i, s] * steps[s, k]
                F[j, k] += K[j, s] * steps[s, k]
        n_wrong = 0
        for k in range(n_bits):
            if ((F[i, k] > 0) == (F[j, k] > 0)) != similar[pair]:
                n_wrong = insert(values, wrong, n_wrong, min(abs(F[i, k]), abs(F[j, k])), k)
        # Wrong bits: of a similar pair those that differ, d; of another those that agree, b - d.
        loss = n_wrong - (n_bits - margin)
        if loss <= 0:
            continue
        excess, square = np.sqrt(loss), 0.0
        for flip in range(int(np.ceil(loss))):
            k = wrong[flip]
            row = i if abs(F[i, k]) <= abs(F[j, k]) else j
            excess += 2 * values[flip]
            square += 4 * K[row, row]
            steps[row, k] = -2 if F[row, k] > 0 else 2
        tau = np.float32(min(C, excess / square))
        for k in range(n_bits):
            steps[i, k] *= tau
            steps[j, k] *= tau
    return steps
