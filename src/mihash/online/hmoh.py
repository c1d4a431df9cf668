"""HMOH: columns of a Hadamard matrix as codewords of the labels, and an averaged perceptron for each bit.

M. Lin, R. Ji, H. Liu, X. Sun, S. Chen and Q. Tian, "Hadamard matrix guided online hashing", International Journal
of Computer Vision 128, 2020. Not compared in the paper, which is older.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..mapping import HashMapping, LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .anchors import Anchors
from .hadamard import HadamardLearner, learn_block
from .online_learner import hyperplanes

Matrix = NDArray[np.float32]


class HMOH(HadamardLearner):
    """Learn hash functions that predict a Hadamard codeword of the label, by one averaged perceptron for each bit.

    A label is given a column c of a Hadamard matrix when it is first seen; any two columns differ in half of their
    bits. Bit k of an example, where c_k w_k.x <= 0, takes the step w_k += lr c_k x. The mapping after t examples
    is the average (W_0 + W_1 + ... + W_t) / (t + 1), where W_s is W after example s and W_0 are random
    hyperplanes, which are therefore the first mapping. (The authors begin at zero, where lr has no influence on
    the signs.) The target of an example with several labels is the sign of the sum of their codewords; a bit with
    a tie, and an example without a label, takes no step. Even a stream of one class moves the functions.

    Features should be centred and of unit length (`mihash.datasets.normalize`): far from the origin, or at another
    scale, little or nothing is learned.

    References
    ----------
    M. Lin, R. Ji, H. Liu, X. Sun, S. Chen and Q. Tian, "Hadamard matrix guided online hashing", IJCV 128, 2020.

    Parameters
    ----------
    n_bits
        The code length b.
    lr
        The step size, in lengths of the first hyperplanes: the larger, the sooner these are forgotten.
    n_classes
        How many classes are expected, as in `HadamardLearner`.
    kernel
        Learn on a Gaussian kernel map with anchors from the stream's beginning, centred on their mean and with a
        constant, in place of the features. The blocks of the warm-up are set aside for the anchors and not learned
        from; the mapping is random hyperplanes meanwhile, and learning begins at random hyperplanes of the kernel
        map.
    n_anchors
        How many anchors the kernel map has; the authors use 300 to 800.
    warm_up
        How many examples are set aside before the anchors are drawn from them, at least ``n_anchors``.
    seed
        Seeds the first hyperplanes, the codewords and the anchors.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=2000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((2000, 16))
    >>> system = mihash.OnlineHashing(mihash.online.HMOH(n_bits=16), reservoir_size=200)
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(16)
    >>> system.feed(X[:1500], y[:1500])
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.4
    0.8
    """

    name = "hmoh"
    learned_names = ("W", "sum", "n_summed", "codebook", "anchors")

    def __init__(
        self,
        n_bits: int = 32,
        *,
        lr: float = 1.0,
        n_classes: int | None = None,
        kernel: bool = False,
        n_anchors: int = 300,
        warm_up: int = 300,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed, n_classes)
        self.lr = validation.number("lr", lr, above=0)
        self.kernel = validation.boolean("kernel", kernel)
        self.n_anchors = validation.integer("n_anchors", n_anchors, minimum=1)
        self.warm_up = validation.integer("warm_up", warm_up, minimum=self.n_anchors)

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes, without codewords and anchors."""
        super().begin(n_features)
        self._anchors = Anchors(self.n_anchors, self.warm_up, self.seed, self.block_size) if self.kernel else None
        self._centre: Matrix = np.zeros(0, dtype=np.float32)
        self._begin_at_hyperplanes(n_features)

    def _begin_at_hyperplanes(self, n_features: int) -> None:
        self._W: Matrix = hyperplanes(n_features, self.n_bits, self.seed)
        self._sum = self._W.astype(np.float64)
        self._n_summed = 1

    def current(self) -> HashMapping:
        """Return the average of the hash functions so far."""
        W = self._sum / self._n_summed
        if self._anchors is None or not self._anchors.ready:
            return LinearMapping(W)
        W[-1] -= self._centre @ W
        return self._anchors.mapping(W.astype(np.float32))

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take one step for each example of the block, in order."""
        assert y is not None
        if self._anchors is None:
            self._step(X, y)
        elif self._anchors.ready:
            self._step(self._anchors.transform(X) - self._centre, y)
        else:
            self._anchors.absorb(X)
            if self._anchors.ready:
                self._centre = _centre(self._anchors)
                self._begin_at_hyperplanes(len(self._centre))

    def _step(self, X: Matrix, y: NDArray[Any]) -> None:
        n = len(X)
        C = learn_block(X @ self._W, X @ X.T, self._codebook.targets(y), np.float32(self.lr), perceptron=True)
        # Step s of the block, from 0, is part of W from then on: n - s times of n.
        within = X.T @ (C * np.arange(n, 0, -1, dtype=np.float32)[:, None])
        self._sum = self._sum + n * self._W.astype(np.float64) + within
        self._n_summed += n
        self._W = self._W + X.T @ C

    def relearn(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        super().relearn(learned)
        if self._anchors is not None and self._anchors.ready:
            self._centre = _centre(self._anchors)


def _centre(anchors: Anchors) -> Matrix:
    """Return the kernel map's mean over its anchors (m + 1,), 0 for the constant."""
    centre: Matrix = anchors.transform(anchors.points).mean(axis=0)
    centre[-1] = 0
    return centre
