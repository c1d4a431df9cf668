"""OSH: random codewords for the labels, and hash functions boosted to predict them (Sec. 4.2, a compared method).

F. Cakir, S. A. Bargal and S. Sclaroff, "Online supervised hashing", Computer Vision and Image Understanding,
2017.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..reservoir import Reservoir
from .codewords import Codebook
from .online_learner import OnlineLearner

Matrix = NDArray[np.float32]

_STEEPEST = np.float32(10)


class OSH(OnlineLearner):
    """Learn linear hash functions that predict random codewords of the labels, by online boosting.

    A label is given a codeword c of random +-1 when it first appears; the number of labels is not limited. With
    the exponential loss, bit after bit, j = 1, 2, ..., takes the step

        w_j += eta exp(-sum_{k<j} c_k w_k.x) exp(-c_j w_j.x) c_j x,

    where the functions k < j have taken theirs already: a bit attends to the examples that the bits before it get
    wrong. With the hinge loss, each bit with c_j w_j.x < 1 takes the step eta c_j x. The code is the signs of
    w_j.x, not the codeword. An example of several labels takes one such round for each of them, in the order of
    the columns, and an example without a label takes none. Even a stream of one class moves the functions.

    Features should be centred and of unit length (`mihash.datasets.normalize`): far from the origin, or at another
    scale, little or nothing is learned.

    References
    ----------
    F. Cakir, S. A. Bargal and S. Sclaroff, "Online supervised hashing", CVIU 2017.

    Parameters
    ----------
    n_bits
        The code length b.
    eta
        The step size. The authors use 0.1 on all their data, which are centred and of unit length.
    loss
        ``"exponential"``, the published boosting, or ``"hinge"``, which the authors' release also has.
    seed
        Seeds the first hyperplanes and the codewords.

    Notes
    -----
    The exponent is bounded by 10, so that no step overflows. Features of unit length do not reach the bound;
    longer ones do, and then less is learned.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=2000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((2000, 16))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> system = mihash.OnlineHashing(mihash.online.OSH(n_bits=16), reservoir_size=200)
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(16)
    >>> system.feed(X[:1500], y[:1500])
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.4
    0.7
    """

    name = "osh"
    needs_labels = True
    learned_names = ("W", "codebook")

    def __init__(self, n_bits: int = 32, *, eta: float = 0.1, loss: str = "exponential", seed: int = 0) -> None:
        super().__init__(n_bits, seed)
        self.eta = validation.number("eta", eta, above=0)
        self.loss = validation.choice("loss", loss, ("exponential", "hinge"))

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes and without codewords."""
        super().begin(n_features)
        self._codebook = Codebook(self.n_bits, self.seed)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take the steps of each example of the block, in order."""
        assert y is not None
        owners, codewords = self._codebook.look_up(y)
        ends = np.searchsorted(owners, np.arange(len(X)), side="right")
        C = _learn_block(X @ self._W, X @ X.T, codewords, ends, np.float32(self.eta), self.loss == "exponential")
        self._W = self._W + X.T @ C


@jit_reordering
def _learn_block(
    Y: Matrix, G: Matrix, codewords: NDArray[np.int8], ends: NDArray[np.int64], eta: np.float32, boosting: bool
) -> Matrix:
    """Return C (n, b): the block's steps, dW = X' C, exactly as if taken one at a time.

    Y (n, b) are the block's projections before it, G (n, n) its inner products: the steps C[s] of example s add
    G[t, s] C[s] to the projections of example t. The codewords of example t end before ends[t].
    """
    n_block, n_bits = Y.shape
    C = np.zeros((n_block, n_bits), dtype=np.float32)
    y = np.empty(n_bits, dtype=np.float32)
    row = 0
    for t in range(n_block):
        y[:] = Y[t]
        for s in range(t):
            for k in range(n_bits):
                y[k] += G[t, s] * C[s, k]
        while row < ends[t]:
            before = np.float32(0)  # the sum of c_k w_k.x over the functions that have taken their step
            for k in range(n_bits):
                c = np.float32(codewords[row, k])
                step = np.float32(0)
                if boosting:
                    step = eta * c * np.exp(min(-before - c * y[k], _STEEPEST))
                elif c * y[k] < 1:
                    step = eta * c
                C[t, k] += step
                y[k] += G[t, t] * step
                before += c * y[k]
            row += 1
    return C
