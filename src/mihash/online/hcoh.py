"""HCOH: columns of a Hadamard matrix as codewords of the labels, and hash functions regressed on them.

M. Lin, R. Ji, H. Liu and Y. Wu, "Supervised online hashing via Hadamard codebook learning", ACM Multimedia 2018.
Not compared in the paper, which is older.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..reservoir import Reservoir
from .hadamard import HadamardLearner, learn_block

Matrix = NDArray[np.float32]


class HCOH(HadamardLearner):
    """Learn linear hash functions whose relaxed bits tanh(w.x) come close to a Hadamard codeword of the label.

    A label is given a column of a Hadamard matrix when it is first seen; any two columns differ in half of their
    bits. Each example takes one gradient step on ||tanh(W'x) - c||^2 / 2,

        W += eta x ((c - f) * (1 - f^2))',    f = tanh(W'x),

    from random hyperplanes. The target c of an example with several labels is the sign of the sum of their
    codewords; a bit with a tie, and an example without a label, takes no step. Even a stream of one class moves
    the functions.

    Features should be centred and of unit length (`mihash.datasets.normalize`): far from the origin, or at another
    scale, little or nothing is learned.

    References
    ----------
    M. Lin, R. Ji, H. Liu and Y. Wu, "Supervised online hashing via Hadamard codebook learning", ACM MM 2018.

    Parameters
    ----------
    n_bits
        The code length b.
    eta
        The step size, for features that are centred and of unit length.
    n_classes
        How many classes are expected, as in `HadamardLearner`.
    seed
        Seeds the first hyperplanes and the codewords.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=2000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((2000, 16))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> system = mihash.OnlineHashing(mihash.online.HCOH(n_bits=16), reservoir_size=200)
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(16)
    >>> system.feed(X[:1500], y[:1500])
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.4
    0.8
    """

    name = "hcoh"

    def __init__(self, n_bits: int = 32, *, eta: float = 0.1, n_classes: int | None = None, seed: int = 0) -> None:
        super().__init__(n_bits, seed, n_classes)
        self.eta = validation.number("eta", eta, above=0)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take one gradient step for each example of the block, in order."""
        assert y is not None
        C = learn_block(X @ self._W, X @ X.T, self._codebook.targets(y), np.float32(self.eta), perceptron=False)
        self._W = self._W + X.T @ C
