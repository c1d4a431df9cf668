"""AdaptHash, adaptive hashing: gradient steps on pairs of a stream, on wrong bits with the largest projections.

A step changes W by its own Gram matrix and by two examples, so it stays in the span of the block's first W and the
block's examples: a block of steps is computed exactly from inner products (`_learn_pairs`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..reservoir import Reservoir
from .online_learner import OnlineLearner
from .similar_pairs import insert, loss_margin, similar_pairs

Matrix = NDArray[np.float32]
Doubles = NDArray[np.float64]
Flags = NDArray[np.bool_]

_LONGEST = 10.0
_SHORTEST = 1e-12  # squared: a hash function of length 0 is not scaled


class AdaptHash(OnlineLearner):
    """Learn linear hash functions from pairs, by gradient steps on the bits that a Hamming loss picks.

    Consecutive examples of the stream are a pair (first with second, third with fourth), s = 1 if it is similar
    and -1 if not. With d its Hamming distance, the loss is max(0, d - (1 - alpha) b) for a similar pair and
    max(0, alpha b - d) for another. Of the wrong bits (that differ, or agree), the ceil(loss) with the largest
    projections take a step of size eta down the gradient of (f_i.f_j - b s)^2, where f = 2 sigma(W'x) - 1; all
    take one of size lambda towards orthogonality, W (W'W - I), and are scaled to unit length. Without a loss
    nothing moves. Works with class labels, multi-labels, or none.

    Features should be centred and of unit length (`mihash.datasets.normalize`): far from the origin, or at another
    scale, little or nothing is learned.

    References
    ----------
    F. Cakir and S. Sclaroff, "Adaptive Hashing for Fast Similarity Search", ICCV 2015.

    Parameters
    ----------
    n_bits
        The code length b.
    alpha
        Similar pairs may differ in (1 - alpha) b bits, others must differ in alpha b. From 0 to 1.
    lambda_
        The step towards orthogonal hash functions.
    eta
        The step size on the pair's squared error.
    seed
        Seeds the first hyperplanes.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, size=2000)
    >>> X = rng.standard_normal((2, 64))[y] + 1.5 * rng.standard_normal((2000, 64))
    >>> X /= np.linalg.norm(X, axis=1, keepdims=True)
    >>> system = mihash.OnlineHashing(mihash.online.AdaptHash(n_bits=16), reservoir_size=200)
    >>> system.feed(X[:1500], y[:1500])
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(64)
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.1
    1.0
    """

    name = "adapthash"

    def __init__(
        self, n_bits: int = 32, *, alpha: float = 0.9, lambda_: float = 0.01, eta: float = 0.1, seed: int = 0
    ) -> None:
        super().__init__(n_bits, seed)
        self.alpha = validation.number("alpha", alpha, minimum=0, maximum=1)
        self.lambda_ = validation.number("lambda_", lambda_, minimum=0)
        self.eta = validation.number("eta", eta, above=0)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:  # noqa: ARG002 -- one signature for all
        """Take one step for each pair of the block that has a loss, in order."""
        similar = similar_pairs(X, y, reservoir)
        done = 0
        while done < len(similar):
            done += self._learn_from(X[2 * done : 2 * len(similar)], similar[done:])

    def _learn_from(self, X: Matrix, similar: Flags) -> int:
        """Take the steps of some pairs, at least of the first; return of how many."""
        span = np.concatenate([self._W.T, X])
        inner = (span @ span.T).astype(np.float64)
        margin = loss_margin(self.alpha, self.n_bits)
        Z, n_pairs, n_steps = _learn_pairs(inner, similar, self.n_bits, margin, self.lambda_, self.eta)
        if n_steps:
            self._W = span.T @ Z.astype(np.float32)
        return int(n_pairs)


@jit_reordering
def _multiply(rows: Doubles, n_rows: int, A: Doubles, row: Doubles) -> None:
    """Multiply the first rows by A (b, b), in place: too little for a BLAS that may start threads."""
    n_bits = len(A)
    for r in range(n_rows):
        for k in range(n_bits):
            row[k] = rows[r, k]
            rows[r, k] = 0
        for m in range(n_bits):
            for k in range(n_bits):
                rows[r, k] += row[m] * A[m, k]


@jit_reordering
def _learn_pairs(
    G: Doubles, similar: Flags, n_bits: int, margin: float, lambda_: float, eta: float
) -> tuple[Doubles, int, int]:
    """Return W as weights Z (b + n, b) of the span [W, X], after how many pairs, and how many of them stepped.

    G (b + n, b + n) holds the inner products of the span: the hash functions before the block, then its
    examples. S = W'W is followed from step to step, so that no step costs a product as long as the features.

    Nearly parallel hash functions are separated by differences of nearly equal vectors, which lose digits. When
    the parts of a hash function, of unit length itself, are longer than `_LONGEST`, the function returns early and
    the caller continues from a new span.
    """
    Z, S = np.zeros((len(G), n_bits)), np.empty((n_bits, n_bits))
    A, row, scale = np.empty((n_bits, n_bits)), np.empty(n_bits), np.empty(n_bits)
    v, f, step = np.empty((2, n_bits)), np.empty((2, n_bits)), np.empty((2, n_bits))
    wrong, values = np.empty(n_bits, dtype=np.int64), np.empty(n_bits)
    for k in range(n_bits):
        Z[k, k] = 1
        for m in range(n_bits):
            S[k, m] = G[k, m]
    n_steps = 0
    for pair in range(len(similar)):
        i, j = n_bits + 2 * pair, n_bits + 2 * pair + 1
        v[:] = 0
        for r in range(i):
            for k in range(n_bits):
                v[0, k] += G[i, r] * Z[r, k]
                v[1, k] += G[j, r] * Z[r, k]
        n_wrong = 0
        for k in range(n_bits):
            if ((v[0, k] > 0) == (v[1, k] > 0)) != similar[pair]:
                n_wrong = insert(values, wrong, n_wrong, -max(abs(v[0, k]), abs(v[1, k])), k)  # largest first
        # Wrong bits: of a similar pair those that differ, d; of another those that agree, b - d.
        loss = n_wrong - (n_bits - margin)
        if loss <= 0:
            continue
        n_steps += 1
        error = -float(n_bits) if similar[pair] else float(n_bits)
        for k in range(n_bits):
            f[0, k], f[1, k] = np.tanh(v[0, k] / 2), np.tanh(v[1, k] / 2)  # 2 sigma(v) - 1
            error += f[0, k] * f[1, k]
        step[:] = 0
        for kept in range(int(np.ceil(loss))):
            k = wrong[kept]
            step[0, k] = -eta * error * f[1, k] * (1 - f[0, k] * f[0, k])
            step[1, k] = -eta * error * f[0, k] * (1 - f[1, k] * f[1, k])
        # W becomes W A + [x_i, x_j] step; the same to Z, to the projections v, and from both sides to S.
        for k in range(n_bits):
            for m in range(n_bits):
                A[k, m] = -lambda_ * S[k, m]
            A[k, k] += 1 + lambda_
        _multiply(Z, i, A, row)
        _multiply(v, 2, A, row)
        _multiply(S, n_bits, A, row)
        _multiply(S, n_bits, A, row)  # A is a polynomial in S: they commute
        for k in range(n_bits):
            Z[i, k], Z[j, k] = step[0, k], step[1, k]
            along_i = v[0, k] + G[i, i] * step[0, k] + G[i, j] * step[1, k]
            along_j = v[1, k] + G[i, j] * step[0, k] + G[j, j] * step[1, k]
            for m in range(n_bits):
                S[k, m] += along_i * step[0, m] + along_j * step[1, m]
                S[k, m] += step[0, k] * v[0, m] + step[1, k] * v[1, m]
            scale[k] = 1 / np.sqrt(max(S[k, k], _SHORTEST))
        for k in range(n_bits):
            for m in range(n_bits):
                S[k, m] *= scale[k] * scale[m]
        longest = 0.0
        for r in range(j + 1):
            for k in range(n_bits):
                Z[r, k] *= scale[k]
                longest = max(longest, Z[r, k] * Z[r, k] * G[r, r])
        if longest > _LONGEST * _LONGEST:
            return Z, pair + 1, n_steps
    return Z, len(similar), n_steps
