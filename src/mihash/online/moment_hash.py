"""MomentHash: mutual information on a basis from streaming moments (beyond the paper).

The paper's MIHash moves W by one example's information at a time, from random hyperplanes. MomentHash writes
W = B M + D. B is a basis from the moments of the stream: with labels the ridge discriminant
B = (C + (d/n) t I)^-1 A, without labels the leading principal directions. M places b hyperplanes in it, and
D corrects what lies outside of it. Both follow the gradient of mutual information on the arriving block and a draw
of the sample, preconditioned by the moments. Projections are kept at unit spread, so that nothing saturates.
"""

import copy
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..batch.itq import closest_rotation
from ..mapping import LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .information_step import information_step
from .moments import Moments, indicators
from .online_learner import OnlineLearner, hyperplanes

Matrix = NDArray[np.float32]

_MOMENTUM = np.float32(0.9)
_FIRST_REFRESH = 100  # examples; then 200, 400, 800, 1600, and so on by the schedule
_EVERY = 1000  # examples between refreshes later
_GROWN = 10  # a class refreshes the basis when it has twice its examples and so many more
_FEWEST = 50  # examples in the sample before the first information step
_EARLY_STEPS, _MOST_STEPS = 500, 10
_DRAWS = (150, 2500)
_PAIRS = 62_500
_ANCHORS = 200
_START = 2000  # without labels, examples until the rotation of the principal directions is fixed
_ROTATIONS = 30
_LATER_BLOCKS = 5  # without labels, information steps are taken on every so many-th block after the start
_NEAR = 0.01  # without labels, this share of the sample are an example's neighbours
_MOST_CLASSES = 512
_TINY = 1e-12


class _Kind(NamedTuple):
    """What differs between a stream with labels and one without."""

    rate: float
    correction: float
    slope: float
    smoothing: float
    ridge: float  # of the correction, in units of the mean eigenvalue


_LABELS = _Kind(4.0, 0.1, 3.3, 20.0, 0.5)
_NONE = _Kind(0.0, 10.0, 2.0, 5.0, 5.0)


class _Basis(NamedTuple):
    """What a refresh makes of the moments: mean, basis B, and the two preconditioners."""

    mean: Matrix
    B: Matrix
    inside: Matrix
    outside: Matrix


class _Planes(NamedTuple):
    """Hyperplanes relative to a basis: M inside it, D outside; their momenta, and their averages over k steps."""

    m: Matrix
    d: Matrix
    momentum_m: Matrix
    momentum_d: Matrix
    mean_m: Matrix
    mean_d: Matrix
    k: int

    @classmethod
    def at(cls, m: Matrix, d: Matrix) -> "_Planes":
        """Return hyperplanes that have not moved yet."""
        return cls(m, d, np.zeros_like(m), np.zeros_like(d), m, d, 0)


class MomentHash(OnlineLearner):
    """Learn linear hash functions by mutual information on a basis from streaming moments.

    Works with class labels, whose classes need not be known in advance, with multi-labels, and without labels:
    neighbours are then the nearest 1 % of the sample, unless the loop was given a rule. The first 512 classes
    shape the basis; later ones only define neighbours.

    Parameters
    ----------
    n_bits
        The code length b.
    memory
        With labels, after how many examples an old one counts 1/e in the moments; None for ever. Without labels
        nothing is forgotten.
    rate
        The step size of M, times the root of a tenth of the classes; None for 4 with labels and 0 without.
    correction
        The step size of D; None for 0.1 with labels and 10 without.
    seed
        Seeds the first hyperplanes and the draws of the sample.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=2000)
    >>> X = rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((2000, 16))
    >>> system = mihash.OnlineHashing(MomentHash(n_bits=16), reservoir_size=200)
    >>> system.feed(X[:1500], y[:1500])
    >>> before = mihash.online.LSH(n_bits=16)
    >>> before.start(16)
    >>> for mapping in (before.mapping, system.snapshot):
    ...     print(round(mihash.quality(mapping.encode(X[1500:]), y[1500:], n_bits=16), 1))
    0.4
    0.8
    """

    name = "momenthash"

    def __init__(
        self,
        n_bits: int = 32,
        *,
        memory: float | None = 20_000,
        rate: float | None = None,
        correction: float | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.memory = None if memory is None else validation.number("memory", memory, minimum=100)
        self.rate = None if rate is None else validation.number("rate", rate, minimum=0)
        self.correction = None if correction is None else validation.number("correction", correction, minimum=0)

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes."""
        self._moments: Moments | None = None
        self._labelled = True
        self._columns: dict[int, int] = {}
        self._basis: _Basis | None = None
        self._planes: _Planes | None = None
        self._since = 0
        self._blocks = 0
        self._due = _FIRST_REFRESH
        self._counts_then = np.zeros(0)
        self._handed = (hyperplanes(n_features, self.n_bits, self.seed), np.zeros(self.n_bits))

    def current(self) -> LinearMapping:
        """Return the linear mapping learned so far."""
        return LinearMapping(*self._handed)

    @property
    def _kind(self) -> _Kind:
        kind = _LABELS if self._labelled else _NONE
        rate = kind.rate if self.rate is None else self.rate
        return kind._replace(rate=rate, correction=kind.correction if self.correction is None else self.correction)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:
        """Take information steps on the block, then let it enter the moments; refresh the basis when due."""
        if self._moments is None:
            self._labelled = y is not None
            self._moments = Moments(X.shape[1], self.memory if self._labelled else None)
        Y = self._indicators(y)
        if (
            self._basis is not None
            and self._planes is not None
            and len(reservoir) >= min(_FEWEST, reservoir.size)
            and self._takes_steps()
        ):
            n_steps = int(np.clip(round(_EARLY_STEPS / max(self._since, 1)), 1, _MOST_STEPS))
            for number in range(n_steps if self._labelled else 1):
                self._step(self._basis, self._planes, X, y, reservoir, number)
        self._blocks += 1
        self._moments = self._moments.after(X, Y)
        self._since += len(X)
        if self._since >= self._due or self._has_grown():
            while self._due <= self._since:
                self._due = 2 * self._due if self._due < _EVERY else self._due + self._every()
            self._refresh(reservoir.sample_after(X, slots))

    def refresh(self, keep: int) -> None:
        """Follow a change of the stream: the moments get the weight of ``keep`` examples.

        The schedule of refreshes and steps, and the averages, begin again. M, D and the mapping stay until then.
        """
        if self._moments is None:
            return
        self._moments = self._moments.discounted(keep)
        self._since, self._due = 0, _FIRST_REFRESH
        if self._planes is not None:
            self._planes = self._planes._replace(k=0)

    def _takes_steps(self) -> bool:
        return self._labelled or self._since <= _START or self._blocks % _LATER_BLOCKS == 0

    def _every(self) -> int:
        """Return how many examples pass until the next refresh; without labels ever more, as less changes."""
        return _EVERY if self._labelled else max(_EVERY, self._since // 500 * 100)

    def _has_grown(self) -> bool:
        """Tell whether a class has so many more examples than at the last refresh that its mean has moved."""
        assert self._moments is not None
        if not self._labelled or self._basis is None:
            return False
        then = np.pad(self._counts_then, (0, self._moments.n_classes - len(self._counts_then)))
        return bool((self._moments.counts >= 2 * then + _GROWN).any())

    def _indicators(self, y: NDArray[Any] | None) -> Matrix | None:
        """Return the classes of a block as a 0/1 matrix; a class gets a column when it is first seen.

        After 512 classes, later ones get no column: they define neighbours, but do not shape the basis.
        """
        if y is None:
            return None
        if y.ndim == 2:
            return y[:, :_MOST_CLASSES].astype(np.float32)
        known = dict(self._columns)  # replaced, not changed: a copy of the learner shares it
        for label in dict.fromkeys(y.tolist()):
            if label not in known and len(known) < _MOST_CLASSES:
                known[label] = len(known)
        self._columns = known
        return indicators(np.array([known.get(label, -1) for label in y.tolist()], dtype=np.int64), len(known))

    def _step(
        self, basis: _Basis, planes: _Planes, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, number: int
    ) -> None:
        """Move M and D along the gradient of mutual information on the block and a draw of the sample."""
        kind, n = self._kind, len(X)
        drawn = self._drawn(reservoir, number)
        rows = np.concatenate([X, reservoir.X[drawn]])
        Z = rows - basis.mean
        n_anchors = min(len(Z), max(_ANCHORS, _PAIRS // len(Z))) if self._labelled else min(len(Z), n)
        rule = reservoir.given_neighborhood if y is None else reservoir.neighborhood_for(X, y)
        if rule is None:
            near = _nearest(Z, n_anchors, n)
        else:
            labels = None if y is None or reservoir.y is None else np.concatenate([y, reservoir.y[drawn]])
            own = None if labels is None else labels[:n_anchors]
            near = rule.between(rows[:n_anchors], own, rows, labels).view(np.uint8)
        W = basis.B @ planes.m + planes.d
        found = information_step(Z @ W, near, kind.slope, kind.smoothing)
        s, G = found.spread, found.gradient
        M, D, mM, mD = planes.m, planes.d, planes.momentum_m, planes.momentum_d
        if kind.rate:
            mM = _MOMENTUM * mM + basis.inside @ (basis.B.T @ (Z.T @ G)) * s
            rate = kind.rate * np.sqrt(max(1.0, basis.B.shape[1] / 10))
            M = M + np.float32(rate) * mM * s
        if kind.correction:
            part, weight = (slice(n), len(near) / n) if self._labelled else (slice(None), 1.0)
            mD = _MOMENTUM * mD + basis.outside @ (Z[part].T @ G[part]) * (s * np.float32(weight))
            D = D + np.float32(kind.correction) * mD * s
        M, D = M / s, D / s
        k = planes.k + 1
        weight = 4 / (k + 3)
        if self._labelled and self.memory is not None:
            weight = min(1.0, max(weight, 4 * self.block_size / self.memory))
        w = np.float32(weight)
        mean_m = M if k == 1 else planes.mean_m + w * (M - planes.mean_m)
        mean_d = D if k == 1 else planes.mean_d + w * (D - planes.mean_d)
        self._planes = _Planes(M, D, mM, mD, mean_m, mean_d, k)
        self._hand_out()

    def _drawn(self, reservoir: Reservoir, number: int) -> NDArray[np.int64]:
        """Return which examples of the sample a step looks at: a function of seed, example count and step."""
        assert self._moments is not None
        kept = len(reservoir)
        if not self._labelled:
            return np.arange(kept)
        shares = self._moments.counts / self._moments.n
        least, most = _DRAWS
        n = int(np.clip(15 / max(float((shares * shares).sum()), 1e-4), least, most))
        if n >= kept:
            return np.arange(kept)
        rng = np.random.default_rng([self.seed, 11, reservoir.seen, number])
        return np.sort(rng.choice(kept, n, replace=False, shuffle=False))

    def _hand_out(self) -> None:
        assert self._basis is not None
        assert self._planes is not None
        W = self._basis.B @ self._planes.mean_m + self._planes.mean_d
        self._handed = (W, -(self._basis.mean.astype(np.float64) @ W))

    def _refresh(self, sample: Matrix) -> None:
        """Make the basis anew from the moments; M and D stay, so that the codes move with it."""
        assert self._moments is not None
        self._counts_then = self._moments.counts
        C = self._moments.covariance()
        d = len(C)
        scale = float(np.trace(C, dtype=np.float64)) / d
        if not np.isfinite(scale) or scale <= _TINY * max(1e-30, float(np.square(self._moments.mean).mean())):
            return  # every example is the same so far
        outside = _inverse(C, self._kind.ridge * scale)
        mean = self._moments.mean.astype(np.float32)
        if self._labelled:
            self._discriminant(C, scale, mean, outside)
        else:
            self._principal(C, mean, outside, sample)
        if self._planes is not None:
            self._hand_out()

    def _discriminant(self, C: Matrix, scale: float, mean: Matrix, outside: Matrix) -> None:
        assert self._moments is not None
        d, b = len(C), self.n_bits
        A = self._moments.cross()
        B = _inverse(C, d / self._moments.n * scale) @ A
        E = (A.T @ B).astype(np.float64)
        values, vectors = np.linalg.eigh((E + E.T) / 2)
        if values[-1] <= _TINY:
            return  # one class so far: nothing to tell apart
        kept = values > 1e-5 * values[-1]
        values, vectors = values[kept], vectors[:, kept]
        self._basis = _Basis(mean, B, ((vectors / values) @ vectors.T).astype(np.float32), outside)
        rng = np.random.default_rng([self.seed, 12, self._since])
        planes = self._planes
        if planes is None:
            Q = rng.standard_normal((len(values), b))
            M = (vectors / np.sqrt(values)) @ (Q / np.linalg.norm(Q, axis=0))
            self._planes = _Planes.at(M.astype(np.float32), np.zeros((d, b), dtype=np.float32))
        elif len(planes.m) < len(E):
            n = len(E) - len(planes.m)
            sizes = np.sqrt(np.maximum(np.diag(E)[-n:], _TINY) * len(E))
            rows = (rng.standard_normal((n, b)) / sizes[:, None]).astype(np.float32)
            self._planes = planes._replace(
                m=np.concatenate([planes.m, rows]),
                momentum_m=np.concatenate([planes.momentum_m, np.zeros_like(rows)]),
                mean_m=np.concatenate([planes.mean_m, rows]),
            )

    def _principal(self, C: Matrix, mean: Matrix, outside: Matrix, sample: Matrix) -> None:
        d, b = len(C), self.n_bits
        values, vectors = np.linalg.eigh(C)
        n = min(b, d)
        values = np.maximum(values[::-1][:n], _TINY)
        B: Matrix = np.ascontiguousarray(vectors[:, ::-1][:, :n], dtype=np.float32)
        before, planes = self._basis, self._planes
        self._basis = _Basis(mean, B, np.diag(1 / values).astype(np.float32), outside)
        if before is None or planes is None or self._since <= _START:
            M = _rotations(np.asarray((sample - mean) @ B, dtype=np.float32), b, self.seed)
            M /= np.sqrt((values[:, None] * M**2).sum(axis=0)) + _TINY
            self._planes = _Planes.at(M.astype(np.float32), np.zeros((d, b), dtype=np.float32))
            return
        turned: Matrix = B.T @ before.B  # the same functions in the new basis; what it does not hold goes to D
        m, mean_m = turned @ planes.m, turned @ planes.mean_m
        self._planes = planes._replace(
            m=m,
            d=planes.d + before.B @ planes.m - B @ m,
            momentum_m=turned @ planes.momentum_m,
            mean_m=mean_m,
            mean_d=planes.mean_d + before.B @ planes.mean_m - B @ mean_m,
        )

    def learned(self) -> State:
        """Return moments, basis and hyperplanes."""
        return {
            "moments": None if self._moments is None else self._moments.state(),
            "labelled": self._labelled,
            "classes": np.array(list(self._columns), dtype=np.int64),
            "basis": None if self._basis is None else self._basis._asdict(),
            "planes": None if self._planes is None else self._planes._asdict(),
            "since": self._since,
            "blocks": self._blocks,
            "due": self._due,
            "counts_then": self._counts_then,
            "weights": self._handed[0],
            "offset": self._handed[1],
        }

    def relearn(self, learned: State) -> None:
        """Take over what `learned` returned."""
        self._labelled = learned["labelled"]
        self._moments = None
        if learned["moments"] is not None:
            self._moments = Moments(len(learned["weights"]), self.memory if self._labelled else None)
            self._moments.restore(learned["moments"])
        self._columns = {label: column for column, label in enumerate(learned["classes"].tolist())}
        self._basis = None if learned["basis"] is None else _Basis(**learned["basis"])
        self._planes = None if learned["planes"] is None else _Planes(**learned["planes"])
        self._since, self._blocks, self._due = learned["since"], learned["blocks"], learned["due"]
        self._counts_then = learned["counts_then"]
        self._handed = (learned["weights"], learned["offset"])

    def copy(self) -> Self:
        """Return an independent learner in the same state; arrays are shared, as none is changed in place."""
        return copy.copy(self)


def _inverse(C: Matrix, ridge: float) -> Matrix:
    """Return (C + ridge I)^-1."""
    full = C.astype(np.float64)
    full[np.diag_indices(len(C))] += ridge
    inverse: Matrix = np.linalg.inv(full).astype(np.float32)
    return inverse


def _nearest(Z: Matrix, n_anchors: int, n_block: int) -> NDArray[np.uint8]:
    """Return who is as near to each anchor as the nearest 1 % of the sample: the rows after the block."""
    squares = np.einsum("ij,ij->i", Z, Z)
    distances = squares[None] - 2 * (Z[:n_anchors] @ Z.T)
    n_near = max(2, int(_NEAR * (len(Z) - n_block)))
    bound = np.partition(distances[:, n_block:], n_near - 1, axis=1)[:, n_near - 1]
    return np.asarray(distances <= bound[:, None]).view(np.uint8)


def _rotations(P: Matrix, b: int, seed: int) -> NDArray[np.float64]:
    """Return rotations (k, b) that bring principal components (n, k) close to binary codes (ITQ).

    For more bits than components, several rotations from different starts.
    """
    k = P.shape[1]
    parts = []
    for number, start in enumerate(range(0, b, k)):
        n = min(k, b - start)
        rng = np.random.default_rng([seed, 13, number])
        R = np.linalg.qr(rng.standard_normal((n, n)))[0].astype(np.float32)
        V = P[:, :n]
        for _ in range(_ROTATIONS):
            signs = np.where(V @ R > 0, np.float32(1), np.float32(-1))
            R = closest_rotation(V, signs).astype(np.float32)
        parts.append(np.pad(R, ((0, k - n), (0, 0))))
    return np.concatenate(parts, axis=1).astype(np.float64)
