"""MIHash, online: gradient ascent on mutual information, one example at a time (Sec. 3.2 and 4.3.1).

F. Cakir, K. He, S. A. Bargal and S. Sclaroff, "MIHash: Online Hashing with Mutual Information", ICCV 2017.

Each arriving example is compared with the reservoir: I of its distances to neighbours and non-neighbours there
is raised by one step on the hash functions. The gradient flows through the arriving example's code alone, so a
step is a rank-one matrix, and a block of steps is computed exactly from inner products (`_learn_block`).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..kernels import jit_reordering
from ..mapping import LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .online_learner import OnlineLearner, hyperplanes
from .whitening import Whitening

Matrix = NDArray[np.float32]
Flags = NDArray[np.uint8]

_FIRST_WHITENING = 256
_IDLE = 0.01


class MIHash(OnlineLearner):
    """Learn linear hash functions by gradient ascent on mutual information.

    Works with class labels, multi-labels, or none (neighbours by Euclidean distance). The reservoir starts
    empty; an example that finds no neighbour or no non-neighbour in it gives no step, and while it holds only
    a few, steps are small (``warm_up``).

    Parameters
    ----------
    n_bits
        The code length b.
    learning_rate
        The step size on I in nats.
    decay
        Step t uses learning_rate / (1 + decay t).
    scale
        A of the relaxed hash functions 2 sigma(A w.x) - 1 (App. A); the paper chooses from 10 to 50.
    n_bins
        K of the distance histograms (Eq. 8); None is the paper's default, K = b.
    warm_up
        With n < warm_up examples in the reservoir, a step is multiplied by n / warm_up: a mapping learned from
        a handful of examples fits them alone. (The authors' release fills a tenth of the reservoir beforehand
        with labelled examples from outside the stream, for the same reason.) 0 for full steps at once.
    whiten
        Precondition the features by shrinkage whitening, estimated on the reservoir at the first block edge
        after 256, 512, 1024, ... examples; the number is the shrinkage in units of the mean eigenvalue. Learning
        never waits for it, neighbours are taken in the original space, and the mapping stays one linear map. A
        new estimate does not change the codes, except for bits that had nearly all of the sample on one side:
        their hyperplanes are moved to its mean. None is the paper's method, which wants features that are
        centred and of unit length.
    gradient
        ``"exact"``, the gradient of the paper's equations, or ``"released"``, what the authors' MATLAB release
        computes in its place (see docs/divergences.md).
    seed
        Seeds the first hyperplanes.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=2000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((2000, 16))
    >>> system = mihash.OnlineHashing(mihash.online.MIHash(n_bits=16), reservoir_size=200)
    >>> system.feed(X[:1500], y[:1500])
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(16)
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.4
    0.8
    """

    name = "mihash"
    changes_arrays = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        learning_rate: float = 1.0,
        decay: float = 0.0,
        scale: float = 10.0,
        n_bins: int | None = None,
        warm_up: int = 100,
        whiten: float | None = 2.0,
        gradient: str = "exact",
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.learning_rate = validation.number("learning_rate", learning_rate, above=0)
        self.decay = validation.number("decay", decay, minimum=0)
        self.scale = validation.number("scale", scale, above=0)
        self.n_bins = None if n_bins is None else validation.integer("n_bins", n_bins, minimum=1)
        self.warm_up = validation.integer("warm_up", warm_up, minimum=0)
        self.whiten = None if whiten is None else validation.number("whiten", whiten, above=0)
        self.gradient = validation.choice("gradient", gradient, ("exact", "released"))

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes."""
        self._Z_seen = -1
        self._Z: Matrix = np.zeros((0, 0), dtype=np.float32)
        self._lengths: Matrix = np.zeros(0, dtype=np.float32)
        self._mapping: LinearMapping | None = None
        self._W: Matrix = hyperplanes(n_features, self.n_bits, self.seed)
        self._offset = np.zeros(self.n_bits)
        self._space = None if self.whiten is None else Whitening.identity(n_features)

    def current(self) -> LinearMapping:
        """Return the linear mapping learned so far."""
        if self._mapping is None:
            self._mapping = LinearMapping(self._W, self._offset)
        return self._mapping

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:
        """Take one exact gradient step for each example of the block, in order."""
        n, size = len(X), reservoir.size
        kept = len(reservoir)
        rule = reservoir.neighborhood_for(X, y)
        Z, lengths = self._whitened(X)
        self._recall(reservoir)
        near = np.zeros((n, size), dtype=np.uint8)
        near_block = np.zeros((n, n), dtype=np.uint8)
        K = np.zeros((n, size), dtype=np.float32)
        P = np.zeros((self.n_bits, size), dtype=np.float32)
        if rule is not None:
            near_block[:] = rule.between(X, y, X, y)
        if kept:
            np.matmul(Z, self._Z[:kept].T, out=K[:, :kept])
            P[:, :kept] = (reservoir.projected(self.current()) / self._lengths[:kept, None]).T
            if rule is not None:
                near[:, :kept] = rule.between(X, y, reservoir.X, reservoir.y)
        t = np.arange(reservoir.seen, reservoir.seen + n)
        C = _learn_block(
            self.current().project(X) / lengths[:, None],
            P,
            K,
            Z @ Z.T,
            near,
            near_block,
            slots,
            kept,
            np.float32(self.scale / 2),
            self.n_bins or self.n_bits,
            self._rates(t, size),
            self.gradient == "released",
        )
        if C.any():
            self._step(Z.T @ C)
        self._remember(Z, lengths, slots, reservoir.seen + n)
        self._rewhiten(reservoir, X, slots)

    def _rates(self, t: NDArray[np.int64], size: int) -> Matrix:
        kept = np.minimum(t, size) / max(1, min(self.warm_up, size))
        rates: Matrix = (self.learning_rate * np.minimum(kept, 1.0) / (1 + self.decay * t)).astype(np.float32)
        return rates

    def _whitened(self, X: Matrix) -> tuple[Matrix, Matrix]:
        if self._space is None:
            return X, np.ones(len(X), dtype=np.float32)
        return self._space.transform(X)

    def _step(self, dW: Matrix) -> None:
        self._mapping = None
        if self._space is None:
            self._W = self._W + dW
        else:
            step = self._space.pull(dW)
            self._W = self._W + step
            self._offset = self._offset - self._space.mean.astype(np.float64) @ step

    def _rewhiten(self, reservoir: Reservoir, X: Matrix, slots: NDArray[np.int64]) -> None:
        """Estimate the preconditioner again each time that the stream has doubled.

        It changes the direction and the size of later steps, but not the parameters or the codes. The exception is
        a bit that is the same for nearly all of the sample: its hyperplane moves to the mean of the sample,
        because far from the data its relaxed bit is saturated and has no gradient.
        """
        before, after = reservoir.seen, reservoir.seen + len(X)
        due = _FIRST_WHITENING
        while due <= before:
            due *= 2
        if self._space is None or self.whiten is None or after < due or after % self.block_size:
            return
        sample = reservoir.sample_after(X, slots)
        self._space = Whitening.fit(sample, self.whiten).matched(self._space, self._W)
        self._Z_seen = -1
        share = (sample @ self._W + self._offset > 0).mean(axis=0)
        idle = np.minimum(share, 1 - share) < _IDLE
        if idle.any():
            self._mapping = None
            self._offset = np.where(idle, -(self._space.mean.astype(np.float64) @ self._W), self._offset)

    def _recall(self, reservoir: Reservoir) -> None:
        """Compute the whitened vectors of the reservoir, unless they are known."""
        if self._Z_seen == reservoir.seen:
            return
        self._Z = np.zeros((reservoir.size, self._W.shape[0]), dtype=np.float32)
        self._lengths = np.ones(reservoir.size, dtype=np.float32)
        if len(reservoir):
            self._Z[: len(reservoir)], self._lengths[: len(reservoir)] = self._whitened(reservoir.X)
        self._Z_seen = reservoir.seen

    def _remember(self, Z: Matrix, lengths: Matrix, slots: NDArray[np.int64], seen: int) -> None:
        """Put the block's whitened vectors into their slots."""
        if seen % self.block_size:  # a copy in mid-block: it shares these arrays, and does not learn again
            self._Z_seen = -1
            return
        kept = slots >= 0
        self._Z[slots[kept]] = Z[kept]
        self._lengths[slots[kept]] = lengths[kept]
        self._Z_seen = seen

    def learned(self) -> State:
        """Return the hash functions and the preconditioner."""
        space = None if self._space is None else self._space.state()
        return {"W": self._W, "offset": self._offset, "space": space}

    def relearn(self, learned: State) -> None:
        """Continue from what `learned` returned."""
        self._W, self._offset, self._mapping = learned["W"], learned["offset"], None
        self._space = None if learned["space"] is None else Whitening(**learned["space"])
        self._Z_seen = -1


@jit_reordering
def _tanh(x: Any) -> Any:
    """Return tanh(x) in float32 to 4e-7, as a ratio of polynomials fitted on [-8, 8]: this vectorises."""
    x = min(max(x, np.float32(-8.0)), np.float32(8.0))
    u = x * x
    p = np.float32(1.5230052e-08)
    p = p * u + np.float32(2.18944e-05)
    p = p * u + np.float32(0.003571582)
    p = p * u + np.float32(0.13444485)
    p = p * u + np.float32(1.0)
    q = np.float32(8.522298e-07)
    q = q * u + np.float32(0.0003411266)
    q = q * u + np.float32(0.026164383)
    q = q * u + np.float32(0.46777812)
    q = q * u + np.float32(1.0)
    return x * p / q


@jit_reordering
def _slopes(
    dots: Matrix,
    near: Flags,
    n_kept: int,
    n_pos: int,
    n_bits: int,
    mass: Matrix,
    ratio: Matrix,
    lower: NDArray[np.int32],
    slope: Matrix,
) -> None:
    """Write dI/dd (in nats) for each kept example, from the inner products of relaxed codes (Eq. 8-15)."""
    n_bins = mass.shape[1] - 1
    per_bin = np.float32(n_bins / n_bits)
    mass[:] = 0
    for r in range(n_kept):
        position = (np.float32(n_bits) - dots[r]) * np.float32(0.5) * per_bin
        low = min(max(np.int32(position), np.int32(0)), np.int32(n_bins - 1))
        share = position - np.float32(low)
        lower[r] = low
        mass[near[r], low] += np.float32(1) - share
        mass[near[r], low + 1] += share
    for k in range(n_bins + 1):
        both = (mass[0, k] + mass[1, k]) / np.float32(n_kept)
        for side in range(2):
            n_side = np.float32(n_pos if side else n_kept - n_pos)
            p = mass[side, k] / n_side
            ratio[side, k] = np.log(p / both) if p > 0 else np.float32(0)
    factor = per_bin / np.float32(n_kept)
    for r in range(n_kept):
        side, low = near[r], lower[r]
        slope[r] = (ratio[side, low + 1] - ratio[side, low]) * factor


@jit_reordering
def _learn_block(
    Y: Matrix,
    P: Matrix,
    K: Matrix,
    G: Matrix,
    near: Flags,
    near_block: Flags,
    slots: NDArray[np.int64],
    n_kept: int,
    half_scale: np.float32,
    n_bins: int,
    rates: Matrix,
    released: bool,
) -> Matrix:
    """Return C (n, b): the block's steps, dW = Z' C, exactly as if taken one at a time.

    Y (n, b) and P (b, size) are projections of the block and of the reservoir before the block; K (n, size) and
    G (n, n) inner products of the block with the reservoir and with itself. Step t adds G[t, s] C[t] to the
    projection of example s and K[t, r] C[t] to that of reservoir slot r; an example that takes a slot brings
    its projection, inner products and neighbours along. P, K and near are overwritten.
    """
    n_block, n_bits = Y.shape
    size = P.shape[1]
    C = np.zeros((n_block, n_bits), dtype=np.float32)
    Phi = np.empty((n_bits, size), dtype=np.float32)
    phi, y = np.empty(n_bits, dtype=np.float32), np.empty(n_bits, dtype=np.float32)
    dots, slope = np.empty(size, dtype=np.float32), np.empty(size, dtype=np.float32)
    lower = np.empty(size, dtype=np.int32)
    mass = np.empty((2, n_bins + 1), dtype=np.float32)
    ratio = np.empty((2, n_bins + 1), dtype=np.float32)
    stepped = False
    for t in range(n_block):
        y[:] = Y[t]
        for s in range(t):
            for k in range(n_bits):
                y[k] += G[t, s] * C[s, k]
        n_pos = 0
        for r in range(n_kept):
            n_pos += near[t, r]
        steps = 0 < n_pos < n_kept
        dots[:n_kept] = 0
        for k in range(n_bits):
            row, codes = P[k], Phi[k]
            if stepped:  # the step before, on the whole reservoir
                c, inner = C[t - 1, k], K[t - 1]
                for r in range(n_kept):
                    row[r] += c * inner[r]
            if steps:
                f = _tanh(half_scale * y[k])
                phi[k] = f
                for r in range(n_kept):
                    code = _tanh(half_scale * row[r])
                    codes[r] = code
                    dots[r] += f * code
        if steps:
            _slopes(dots, near[t], n_kept, n_pos, n_bits, mass, ratio, lower, slope)
            common = np.float32(0)
            for r in range(n_kept):
                common += slope[r]
            for k in range(n_bits):
                total, codes = np.float32(0), Phi[k]
                for r in range(n_kept):
                    total += slope[r] * codes[r]
                if released:
                    total = (total + common) * np.float32(0.25)
                derivative = half_scale * (np.float32(1) - phi[k] * phi[k])
                C[t, k] = rates[t] * np.float32(-0.5) * total * derivative
        stepped = steps
        j = slots[t]
        if j >= 0:
            for k in range(n_bits):
                P[k, j] = y[k] + G[t, t] * C[t, k]
            K[t, j] = 0  # this step is in P[:, j] already
            for s in range(t + 1, n_block):
                K[s, j] = G[t, s]
                near[s, j] = near_block[t, s]
            n_kept = max(n_kept, j + 1)
    return C
