"""HCOH: columns of a Hadamard matrix as codewords of the labels, and hash functions regressed on them.

M. Lin, R. Ji, H. Liu and Y. Wu, "Supervised online hashing via Hadamard codebook learning", ACM Multimedia 2018.
Not compared in the paper, which is older.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..reservoir import Reservoir
from .codewords import MOST_CLASSES, Codebook
from .online_learner import OnlineLearner

Matrix = NDArray[np.float32]


class HCOH(OnlineLearner):
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
        How many classes are expected: the matrix has the power of two columns that is at least this and
        ``n_bits``. If it is then larger than ``n_bits``, codewords are the signs of random projections of its
        columns, as published, and no longer exactly half apart. None takes as many columns as ``n_bits`` asks
        for. Labels beyond the columns get random codewords; a codeword never changes.
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
    needs_labels = True
    learned_names = ("W", "codebook")

    def __init__(self, n_bits: int = 32, *, eta: float = 0.1, n_classes: int | None = None, seed: int = 0) -> None:
        super().__init__(n_bits, seed)
        self.eta = validation.number("eta", eta, above=0)
        self.n_classes = None if n_classes is None else validation.integer("n_classes", n_classes, 1, MOST_CLASSES)

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes and without codewords."""
        super().begin(n_features)
        self._codebook = Codebook(self.n_bits, self.seed, self.n_classes or self.n_bits)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take one gradient step for each example of the block, in order."""
        assert y is not None
        C = _learn_block(X @ self._W, X @ X.T, self._codebook.targets(y), np.float32(self.eta))
        self._W = self._W + X.T @ C


@jit_reordering
def _learn_block(Y: Matrix, G: Matrix, targets: Matrix, eta: np.float32) -> Matrix:
    """Return C (n, b): the block's steps, dW = X' C, exactly as if taken one at a time.

    Y (n, b) are the block's projections before it, G (n, n) its inner products: the step C[s] of example s adds
    G[t, s] C[s] to the projections of example t.
    """
    n_block, n_bits = Y.shape
    C = np.zeros((n_block, n_bits), dtype=np.float32)
    y = np.empty(n_bits, dtype=np.float32)
    for t in range(n_block):
        y[:] = Y[t]
        for s in range(t):
            for k in range(n_bits):
                y[k] += G[t, s] * C[s, k]
        for k in range(n_bits):
            if targets[t, k] != 0:
                f = np.tanh(y[k])
                C[t, k] = eta * (targets[t, k] - f) * (np.float32(1) - f * f)
    return C
