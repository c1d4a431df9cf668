"""MomentHash: mutual information on a basis from streaming moments (beyond the paper).

The paper's MIHash moves W by one example's information at a time, from random hyperplanes. MomentHash writes
W = B M + D. B is a basis from the moments of the stream: with labels the ridge discriminant
B = (C + (d/n) t I)^-1 A, without labels the leading principal directions. M places b hyperplanes in it,
D corrects what lies outside of it, and with labels each hyperplane has an offset from the centre. They follow the
gradient of mutual information on the arriving block and a draw of the sample, preconditioned by the moments.
Projections are kept at unit spread, so that nothing saturates.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..mapping import HashMapping, LinearMapping
from ..reservoir import Reservoir
from ..state import State
from .drawn_rows import StepRows, from_past, from_sample, nearest_share
from .information_step import information_step
from .leading_covariance import kept_rank
from .moment_basis import (
    Basis,
    Covariance,
    discriminant,
    factor,
    principal_directions,
    principal_hyperplanes,
    scale_of,
    spectrum,
)
from .moments import Moments, indicators
from .online_learner import OnlineLearner, hyperplanes
from .past_examples import KeptExamples, PastExamples
from .planes import Planes, turned_apart
from .step_schedule import FIRST_REFRESH, n_steps, next_refresh, takes_steps
from .stream_kernel import StreamKernel

Matrix = NDArray[np.float32]

_AUTO = "auto"
_MEMORY, _MEMORY_PER_CLASS = 20_000, 500  # examples
_GROWN = 10  # a class refreshes the basis when it has twice its examples and _GROWN more
_OUTSIDE = 5  # the preconditioner outside the basis is recomputed at every _OUTSIDE-th refresh
_FEWEST = 50  # examples in the sample before the first information step
_DRAWS = (150, 2500)
_PAIRS = 62_500
_ANCHORS = 100
_CORRECTION_STEPS = 4
_FIRST_BLOCKS = 10  # whose classes are the first ones of the stream
_START = 2000  # without labels, examples until the rotation of the principal directions is fixed
_DRAWN = 1000  # without labels, examples of the sample that a step looks at
_COMPARED = 200  # without labels, examples of the sample with which the start is chosen
_MOST_CLASSES = 512
_KERNEL_RIDGE = 0.1  # of the basis on a kernel map, whose spectrum falls faster, in units of that on the features
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


class MomentHash(OnlineLearner):
    """Learn linear hash functions by mutual information on a basis from streaming moments.

    Works with class labels, whose classes need not be known in advance, with multi-labels, and without labels:
    neighbours are then the nearest 2 % of the sample, unless the loop was given a rule. The first 512 classes
    shape the basis; later ones only define neighbours.

    Parameters
    ----------
    n_bits
        The code length b.
    memory
        With labels, after how many examples an old one counts 1/e in the moments; None for ever. ``"auto"`` is
        20,000, or 500 for each class if that is more. Without labels nothing is forgotten.
    rate
        The step size of M, times the root of a tenth of the classes; None for 4 with labels and 0 without.
    correction
        The step size of D; None for 0.1 with labels and 10 without.
    features
        ``"linear"``, or ``"rbf"`` for a Gaussian kernel map whose anchors are the first examples: better
        codes with labels, at several times the cost. Until there are enough anchors the mapping is random
        hyperplanes.
    n_anchors
        How many anchors the kernel map has.
    replay
        How many steps to take on each block with labels, instead of one, on rows drawn from the whole past instead
        of the sample. 5 gives better codes at several times the cost. An index draws from its stored rows;
        elsewhere the learner keeps every example in memory.
    rank
        How many leading directions of the covariance to keep, in place of d x d numbers; None for all of it up
        to 2048 features, and for 512 beyond.
    seed
        Seeds the first hyperplanes and the draws of the sample.

    Attributes
    ----------
    past
        Where the examples of the past are, for ``replay``; None if the learner keeps them itself.

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
    changes_arrays = False
    uses_threshold = False

    def __init__(
        self,
        n_bits: int = 32,
        *,
        memory: float | str | None = "auto",
        rate: float | None = None,
        correction: float | None = None,
        features: str = "linear",
        n_anchors: int = 1000,
        replay: int = 0,
        rank: int | None = None,
        seed: int = 0,
    ) -> None:
        super().__init__(n_bits, seed)
        self.memory = memory if memory in (None, _AUTO) else validation.number("memory", memory, minimum=100)
        self.rate = None if rate is None else validation.number("rate", rate, minimum=0)
        self.correction = None if correction is None else validation.number("correction", correction, minimum=0)
        self.features = validation.choice("features", features, ("linear", "rbf"))
        self.n_anchors = validation.integer("n_anchors", n_anchors, minimum=2)
        self.replay = validation.integer("replay", replay, minimum=0, maximum=100)
        self.rank = None if rank is None else validation.integer("rank", rank, minimum=1)
        self.past: PastExamples | None = None

    def begin(self, n_features: int) -> None:
        """Start from random hyperplanes."""
        self._moments: Moments | None = None
        self._labelled = True
        self._columns: dict[int, int] = {}
        self._basis: Basis | None = None
        self._planes: Planes | None = None
        self._since = 0
        self._blocks = 0
        self._due = FIRST_REFRESH
        self._counts_then = np.zeros(0)
        self._refreshes = 0
        self._dimension = n_features
        self._kept = KeptExamples()
        self._kernel = StreamKernel(self.n_anchors) if self.features == "rbf" else None
        self._made: tuple[Basis, Planes, HashMapping] | None = None  # what `current` returns until they move

    def current(self) -> HashMapping:
        """Return the mapping learned so far: the average of the hyperplanes, about the centre.

        Without labels they are made more orthogonal, except on a kernel map, which has no margins.
        """
        if self._basis is None or self._planes is None:
            return LinearMapping(hyperplanes(self._dimension, self.n_bits, self.seed))
        if self._made is None or self._made[0] is not self._basis or self._made[1] is not self._planes:
            W = self._planes.mean_weights(self._basis)
            if not self._labelled and self._kernel is None and not self._planes.whitened:
                W = turned_apart(W)
            offset = self._planes.mean_c - self._basis.mean.astype(np.float64) @ W
            mapping = LinearMapping(W, offset) if self._kernel is None else self._kernel.mapping(W, offset)
            self._made = self._basis, self._planes, mapping
        return self._made[2]

    @property
    def _kind(self) -> _Kind:
        kind = _LABELS if self._labelled else _NONE
        rate = kind.rate if self.rate is None else self.rate
        return kind._replace(rate=rate, correction=kind.correction if self.correction is None else self.correction)

    def learn(self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:
        """Take information steps on the block, then let it enter the moments; refresh the basis when due."""
        if self._moments is None:
            self._labelled = y is not None
            self._moments = self._no_moments()
        if self._kernel is None or self._kernel.ready:
            self._learn_block(X, y, reservoir, slots)
        else:
            self._gather_anchors(X, y, reservoir, slots)
        if self.replay and self.past is None:
            self._kept = self._kept.after(X.copy(), None if y is None else y.copy())

    def _gather_anchors(
        self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Keep the block for the kernel map; once that has its anchors, let all kept blocks enter the moments."""
        assert self._moments is not None
        assert self._kernel is not None
        self._kernel = self._kernel.after(X, y)
        if self._kernel.ready:
            blocks = self._kernel.blocks(self.block_size)
            self._kernel = self._kernel.without_blocks()
            for rows, labels in blocks:
                self._moments = self._moments.after(self._kernel.features(rows), self._indicators(labels))
                self._since += len(rows)
            self._refresh_when_due(X, reservoir, slots)

    def _learn_block(
        self, X: Matrix, y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        assert self._moments is not None
        Y = self._indicators(y)
        if (
            self._basis is not None
            and self._planes is not None
            and len(reservoir) >= min(_FEWEST, reservoir.size)
            and takes_steps(self._labelled, self._since, self._blocks, self._moments.n_classes, self.replay)
        ):
            for block, others in self._drawn(StepRows(X, y), reservoir):
                self._planes = self._step(self._basis, self._planes, block, others, reservoir)
        self._blocks += 1
        self._moments = self._moments.after(self._featured(X), Y)
        self._since += len(X)
        self._refresh_when_due(X, reservoir, slots)

    def _featured(self, X: Matrix) -> Matrix:
        return X if self._kernel is None else self._kernel.features(X)

    def _refresh_when_due(self, X: Matrix, reservoir: Reservoir, slots: NDArray[np.int64]) -> None:
        assert self._moments is not None
        if self._since >= self._due or self._has_grown():
            while self._due <= self._since:
                self._due = next_refresh(self._due, self._labelled, self._moments.n, self.block_size)
            self._refresh(reservoir.sample_after(X, slots))

    def refresh(self, keep: int) -> None:
        """Follow a change of the stream: the moments get the weight of ``keep`` examples.

        The schedule of refreshes and steps, and the averages, begin again. M, D and the mapping stay until then.
        """
        if self._moments is None:
            return
        self._moments = self._moments.discounted(keep)
        self._since, self._due = 0, FIRST_REFRESH
        if self._planes is not None:
            self._planes = self._planes._replace(k=0)

    def _no_moments(self) -> Moments:
        d = self._dimension if self._kernel is None else self.n_anchors
        rank = kept_rank(self.rank, self.n_bits, d)
        if not self._labelled or self.memory is None:
            return Moments(d, None, rank=rank)
        if self.memory == _AUTO:
            return Moments(d, _MEMORY, _MEMORY_PER_CLASS, rank)
        return Moments(d, float(self.memory), rank=rank)

    def _has_grown(self) -> bool:
        """Tell whether a class has enough more examples than at the last refresh for its mean to have moved."""
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
        self, basis: Basis, planes: Planes, block: StepRows, others: StepRows, reservoir: Reservoir
    ) -> Planes:
        """Return the hyperplanes after a step along the gradient of mutual information on a block and others."""
        assert self._moments is not None
        kind, n, y = self._kind, len(block.X), block.y
        rows = np.concatenate([block.X, others.X])
        Z = self._moments.shortened(self._featured(rows) - basis.mean)[0]
        n_anchors = min(len(Z), max(_ANCHORS, _PAIRS // len(Z))) if self._labelled else min(len(Z), n)
        rule = reservoir.given_neighborhood if y is None else reservoir.neighborhood_for(block.X, y)
        if rule is None:
            near = nearest_share(Z if self._kernel is None else rows - rows.mean(axis=0), n_anchors, n)
        else:
            labels = None if y is None or others.y is None else np.concatenate([y, others.y])
            own = None if labels is None else labels[:n_anchors]
            near = rule.between(rows[:n_anchors], own, rows, labels).view(np.uint8)
        found = information_step(Z @ planes.weights(basis) + planes.c, near, kind.slope, kind.smoothing)
        G = found.gradient
        inner = None
        if kind.rate:
            inside: Matrix = Z @ basis.B
            inner = inside.T @ G
        outer = (Z[:n].T @ G[:n]) * np.float32(n_anchors / n) if self._labelled else Z.T @ G
        n_more, n_usual = (n_steps(self._since, self._moments.n_classes, replay) for replay in (self.replay, 0))
        smaller = n_more / n_usual if self._labelled else 1  # together, the steps of a replay go as far as usual
        return planes.moved(
            basis,
            found.spread,
            inner,
            outer,
            G.sum(axis=0),
            rate=kind.rate * float(np.sqrt(max(1.0, basis.B.shape[1] / 10))) / smaller,
            correction=kind.correction,
            every=_CORRECTION_STEPS if self._labelled else 1,
            least_weight=4 * self.block_size / (self._moments.memory or np.inf) / smaller,
        )

    def _drawn(self, block: StepRows, reservoir: Reservoir) -> Iterator[tuple[StepRows, StepRows]]:
        """Yield for each step that is taken on a block the rows that it looks at."""
        assert self._moments is not None
        if not self._labelled:
            yield from from_sample(block, reservoir, 1, _DRAWN, self.seed)
            return
        shares = self._moments.counts / self._moments.n
        n_others = int(np.clip(15 / max(float((shares * shares).sum()), 1e-4), *_DRAWS))
        past = self._kept if self.past is None else self.past
        n = n_steps(self._since, self._moments.n_classes, self.replay)
        if self.replay and len(past) >= _FEWEST:
            yield from from_past(block, past, reservoir.seen, n, n_others, self.seed)
        else:
            yield from from_sample(block, reservoir, n, n_others, self.seed)

    def _refresh(self, sample: Matrix) -> None:
        """Recompute the basis from the moments; M and D stay, so that the codes move with it."""
        assert self._moments is not None
        self._moments = self._moments.gathered()
        self._counts_then = self._moments.counts
        C = self._moments.covariance()
        t = scale_of(C, self._moments)
        if t is None:
            return  # every example is the same so far
        outside = None if self._basis is None else (self._basis.outside, self._basis.floor)
        if outside is None or self._since <= _START or self._refreshes % _OUTSIDE == 0:
            outside = factor(C, self._kind.ridge * t)
        self._refreshes += 1
        if self._labelled:
            self._place_in_discriminant(C, t, outside)
        else:
            self._place_in_principal(C, outside, sample)

    def _place_in_discriminant(self, C: Covariance, t: float, outside: tuple[Matrix, float]) -> None:
        assert self._moments is not None
        B, E = discriminant(self._moments, C, t, 1.0 if self._kernel is None else _KERNEL_RIDGE)
        values, vectors = spectrum(E)
        if not len(values):
            return  # one class so far: nothing to tell apart
        inside = ((vectors / values) @ vectors.T).astype(np.float32)
        before, self._basis = self._basis, Basis(self._moments.centre.astype(np.float32), B, inside, *outside)
        rng = np.random.default_rng([self.seed, 12, self._since])
        if self._planes is None or before is None:
            Q = rng.standard_normal((len(values), self.n_bits))
            M = (vectors / np.sqrt(values)) @ (Q / np.linalg.norm(Q, axis=0))
            c = rng.standard_normal(self.n_bits) / len(values)  # few directions: bits differ by where they cut
            self._planes = Planes.at(M.astype(np.float32), c.astype(np.float32), len(self._moments.mean))
            return
        old, new = before.column_lengths(), self._basis.column_lengths()
        self._planes = self._planes.with_columns(old, new)
        had = np.zeros(len(new), dtype=np.bool_)
        had[: len(old)] = old > 0
        born = np.flatnonzero(~had & (new > 0))
        if len(born) or len(new) > len(self._planes.m):
            sizes = np.sqrt(np.maximum(np.diag(E)[born], _TINY) * len(E))
            rows = (rng.standard_normal((len(born), self.n_bits)) / sizes[:, None]).astype(np.float32)
            tops = np.zeros(len(born)) if self._blocks <= _FIRST_BLOCKS else new[born]
            self._planes = self._planes.with_classes(len(new), born, rows, tops)

    def _place_in_principal(self, C: Covariance, outside: tuple[Matrix, float], sample: Matrix) -> None:
        assert self._moments is not None
        before = self._basis
        n = min(self.n_bits, len(self._moments.mean))
        values, B = principal_directions(C, n, None if before is None else before.B)
        values = np.maximum(values, _TINY)
        mean = self._moments.mean.astype(np.float32)
        self._basis = Basis(mean, B, np.diag(1 / values).astype(np.float32), *outside)
        if before is None or self._planes is None or self._since <= _START:
            centred: Matrix = self._featured(sample) - mean
            components: Matrix = centred @ B
            enough = len(sample) >= _COMPARED + _DRAWN
            near = nearest_share(centred, _COMPARED, _COMPARED) if enough else None
            M, whitened = principal_hyperplanes(components, values, self.n_bits, self.seed, near)
            M /= np.sqrt((values[:, None] * M**2).sum(axis=0)) + _TINY
            c = np.zeros(self.n_bits, dtype=np.float32)
            self._planes = Planes.at(M.astype(np.float32), c, len(self._moments.mean), whitened)
        else:
            self._planes = self._planes.in_basis(before, self._basis)

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
            "refreshes": self._refreshes,
            "kernel": None if self._kernel is None else self._kernel.state(),
            "kept": self._kept.state(),
        }

    def relearn(self, learned: State) -> None:
        """Take over what `learned` returned."""
        self._labelled = learned["labelled"]
        if self._kernel is not None:
            self._kernel = self._kernel.restored(learned["kernel"])
        self._moments = None
        if learned["moments"] is not None:
            self._moments = self._no_moments()
            self._moments.restore(learned["moments"])
        self._columns = {label: column for column, label in enumerate(learned["classes"].tolist())}
        self._basis = None if learned["basis"] is None else Basis(**learned["basis"])
        self._planes = None if learned["planes"] is None else Planes.restored(learned["planes"])
        self._since, self._blocks, self._due = learned["since"], learned["blocks"], learned["due"]
        self._counts_then, self._refreshes = learned["counts_then"], learned["refreshes"]
        if "kept" in learned:  # not in earlier states
            self._kept = KeptExamples.restored(learned["kept"])
