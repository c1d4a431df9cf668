"""When a stream has changed: an alarm with its evidence (beyond the paper).

A drift watch looks at each block of a stream before it is learned. With labels it asks whether the codes still say
as much about the new examples as about those of the sample; without labels, whether the projections of the new
examples lie where those of the sample do. It knows no learner, and works alone around any callable that turns
features into codes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isnan, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .comparison import Encoder, codes_of
from .errors import InvalidInput
from .information import arriving_information, own_information
from .kernels import one_thread
from .mapping import HashMapping
from .state import State

Floats = NDArray[np.float64]
ClassNames = Callable[[], Sequence[str]]
"""Returns the names of classes by their numbers; nothing where classes are numbers."""

ANCHORS = 200  # examples of the sample whose own information is measured
_WEIGHT = 0.05  # of a block in the moving average of the score
_FAST = 0.3  # the same while it is quiet at the start, and without labels after an alarm
_WORST = 3.0  # a score counts at most so much below that average
_TINY = 1e-12
_CUT = 2.5  # scales from the median at which projections are cut off
_FEW = 500  # rows of the sample that tell quantiles and correlations
_MOST_FEATURES = 128  # of which correlations are computed
_STEADY = 0.5  # a score that varies by chance by no more than this is taken as it is
_NAMED = 3  # classes or bits that an alarm names
_FALL = 0.1  # of the largest fall: what a class must miss to be named
_NAME_LENGTH = 40


class Spread(NamedTuple):
    """Where projections lie, bit by bit: of u = (p - centre) / scale, cut off at 2.5, and of (u - mean of u)^2.

    Attributes
    ----------
    n
        Of how many examples.
    centres, scales
        The median (b,), and half the distance between the 16 % and the 84 % quantile (b,).
    means, variances
        Of the features (2 b,).
    by_chance
        The standard deviation that chance gives the mean of squared t values: more where bits are correlated.
    """

    n: int
    centres: Floats
    scales: Floats
    means: Floats
    variances: Floats
    by_chance: float

    @classmethod
    def of(cls, projections: NDArray[np.floating[Any]]) -> Self:
        """Return where projections (n, b) lie.

        Examples
        --------
        >>> P = np.random.default_rng(0).standard_normal((1000, 8))
        >>> P[0] = 1e6  # one outlier
        >>> spread = Spread.of(P)
        >>> float(np.abs(spread.centres).max()) < 0.2, spread.scales.round().tolist()
        (True, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0])
        """
        few = np.sort(projections[:_FEW].astype(np.float64), axis=0)
        low, centres, high = (few[min(len(few) - 1, int(share * len(few)))] for share in (0.16, 0.5, 0.84))
        deviations = np.abs(few - centres).mean(axis=0)
        scales = np.where(high - low > 1e-9 * deviations, (high - low) / 2, 1.25 * deviations)  # a rare value
        scales = np.where(scales > 0, scales, 1.0)
        cut = _cut(projections, centres, scales)
        features = np.concatenate([cut, (cut - cut.mean(axis=0)) ** 2], axis=1)
        means, variances = features.mean(axis=0), features.var(axis=0)
        return cls(len(features), centres, scales, means, variances, 2 * _chance(features, means, variances))

    def features(self, projections: NDArray[np.floating[Any]]) -> Floats:
        """Return the features of other projections."""
        cut = _cut(projections, self.centres, self.scales)
        return np.concatenate([cut, (cut - self.means[: cut.shape[1]]) ** 2], axis=1)


def _cut(projections: NDArray[np.floating[Any]], centres: Floats, scales: Floats) -> Floats:
    return np.clip((projections - centres) / scales, -_CUT, _CUT)


def _chance(features: Floats, means: Floats, variances: Floats) -> float:
    """Return the standard deviation of the mean over features (n, k) of a squared t, sqrt(2 tr(C^2)) / k.

    C is the correlation of the features; what chance adds to tr(C^2) is taken off. Some rows and features do.
    """
    few = slice(None, None, max(1, features.shape[1] // _MOST_FEATURES))
    rows = (features[:_FEW, few] - means[few]) / np.sqrt(variances[few] + _TINY)
    n, k = rows.shape
    with one_thread():
        correlation = rows.T @ rows / n
    return float(np.sqrt(2 * max(np.square(correlation).sum() - k * k / n, k)) / k)


class Evidence(NamedTuple):
    """What a block says about the stream, compared with the sample.

    Attributes
    ----------
    score
        How unlike the sample the block is, in standard errors: negative where it is worse, about 0 at rest.
    arrivals, sample
        The mean information of the block's examples with the sample, and of the sample's own, in bits; NaN
        without labels.
    moved
        The classes, or without labels the bits, that differ most; of classes, those that lose information.
    text
        The same in words.
    """

    score: float
    arrivals: float
    sample: float
    moved: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class Alarm:
    """The stream has changed.

    Attributes
    ----------
    seen
        How many examples the watch had seen.
    strength
        The sum that rose above the threshold of the watch.
    arrivals, sample
        The mean information of the last block's examples with the sample, and of the sample's own, in bits; NaN
        without labels.
    moved
        The classes, or without labels the bits, that differ most; of classes, those that lose information.
        Classes that are strings are numbered here; ``reason`` has their names.
    reason
        One sentence for a person.
    """

    seen: int
    strength: float
    arrivals: float
    sample: float
    moved: tuple[int, ...]
    reason: str


@dataclass
class DriftWatch:
    """Raise an alarm when a stream has changed.

    For each block, before the learner sees it, z measures how the block differs from the sample under one mapping.
    With labels z = (mean I(D; C) of the block's examples with the sample - mean of the sample's own) / its
    standard error. Without labels -z is the mean over the bits of the squared t of the block's mean and of its log
    variance, less 2, which is what chance gives. A one-sided CUSUM sums how far z falls below its usual value::

        S <- max(0, S - (z - usual) - slack),    an alarm where S > threshold.

    The usual value is a moving average, at most 0: the mapping was learned from the sample, which therefore looks
    better than new blocks, most of all early in a stream. Slow changes move the usual value along, and raise no
    alarm. It follows z closely in the quiet time at the start, and without labels in that after an alarm: until
    the sample is replaced, each block differs from it for the reason that is known. Without labels the slack is
    multiplied by sqrt(1 - usual), as squares vary more the larger they are.

    In a loop (``OnlineHashing(..., drift=DriftWatch())``) an alarm makes the sample and the learner follow: the
    reservoir samples as if the stream had just filled it, and the learner's `refresh` discounts its sums.

    Parameters
    ----------
    threshold
        The watch raises an alarm when the sum exceeds this. A larger threshold means later and fewer false alarms.
    slack
        How many standard errors a block may differ without raising the sum.
    quiet
        How many examples must pass after the start, or after an alarm, before the next alarm.
    keep
        At an alarm, a learner keeps the weight of this many past examples.
    start
        In a loop, the watch starts when the sample has ``start`` examples, or is full if it holds fewer. None, for
        files of earlier versions: it starts when the sample is full, and with labels the usual value follows z
        slowly from the start.

    Examples
    --------
    A classifier of four classes gets two new ones after 4000 examples.

    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = np.where(np.arange(6000) < 4000, rng.integers(0, 4, 6000), rng.integers(0, 6, 6000))
    >>> X = (rng.standard_normal((6, 16))[y] + 0.7 * rng.standard_normal((6000, 16))).astype(np.float32)
    >>> mapping = mihash.batch.MIHash(16, epochs=5).fit(X[:1000], y[:1000])
    >>> watch = mihash.DriftWatch()
    >>> for start in range(1000, 6000, 100):
    ...     block = slice(start, start + 100)
    ...     alarm = watch.observe(mapping, X[block], y[block], X[:1000], y[:1000])
    ...     if alarm is not None:
    ...         print(start + 100, alarm.reason)
    ...         break
    4200 the stream has changed: the codes give ... bits about new examples, and ... about the sample; 39 of 100
    have a class that the sample lacks; the codes have lost most about classes 4 and 5; the sum of ... is above 6
    """

    threshold: float = 6.0
    slack: float = 2.0
    quiet: int = 1000
    keep: int = 1000
    start: int | None = 1000
    seen: int = field(default=0, init=False, repr=False, compare=False)
    _sum: float = field(default=0.0, init=False, repr=False, compare=False)
    _usual: float = field(default=0.0, init=False, repr=False, compare=False)
    _waited: int = field(default=0, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        self.threshold = validation.number("threshold", self.threshold, above=0)
        self.slack = validation.number("slack", self.slack, minimum=0)
        self.quiet = validation.integer("quiet", self.quiet, minimum=0)
        self.keep = validation.integer("keep", self.keep, minimum=1)
        self.start = None if self.start is None else validation.integer("start", self.start, minimum=2)

    def ready(self, n_sample: int, size: int) -> bool:
        """Tell whether a sample with ``n_sample`` of at most ``size`` examples is enough to compare with.

        Examples
        --------
        >>> [DriftWatch().ready(n_sample, size) for n_sample, size in ((900, 5000), (1000, 5000), (300, 300))]
        [False, True, True]
        """
        return n_sample >= (size if self.start is None else min(size, self.start))

    def observe(
        self,
        mapping: Encoder,
        X: ArrayLike,
        y: ArrayLike | None,
        sample: ArrayLike,
        sample_y: ArrayLike | None = None,
    ) -> Alarm | None:
        """Look at a block of the stream before it is learned; return an alarm if there is one.

        Parameters
        ----------
        mapping
            A hash mapping, or any callable from features (n, d) to codes.
        X, y
            The block: vectors (n, d), at least 2, and labels of any kind, or None.
        sample, sample_y
            A sample of the stream before the block, for example ``reservoir.X`` and ``reservoir.y``.
        """
        vectors = validation.features("X", X)
        base = validation.features("sample", sample, vectors.shape[1])
        if len(vectors) < 2 or len(base) < 2:
            raise InvalidInput(f"A drift watch needs 2 examples or more; got {len(vectors)} and {len(base)}.")
        if (y is None) != (sample_y is None):
            raise InvalidInput("Give labels for both the block and the sample, or for neither.")
        if y is None or sample_y is None:
            if isinstance(mapping, HashMapping):
                evidence = projection_evidence(mapping.project(vectors), mapping.project(base))
            else:
                new, old = (_bits(codes_of(mapping, part)) for part in (vectors, base))
                evidence = projection_evidence(new, old, binary=True)
        else:
            labels = validation.labels("y", _together(y, sample_y), len(vectors) + len(base), names=True)
            own, others = labels[: len(vectors)], labels[len(vectors) :]
            codes, known = (codes_of(mapping, part) for part in (vectors, base))
            n_bits = 8 * codes.shape[1]
            rows = anchor_rows(len(base), self.seen)
            evidence = information_evidence(
                arriving_information(codes, known, (own, others), n_bits),
                own_information(known, others, rows, n_bits),
                own,
                others,
            )
        alarm = self.add(evidence, len(vectors), lambda: _names(y, sample_y))
        if alarm is not None:
            self.restart()
        return alarm

    def add(self, evidence: Evidence, n: int, class_names: ClassNames | None = None) -> Alarm | None:
        """Add the evidence of a block of n examples; return an alarm where the sum is above the threshold.

        The sum is not begun again: call `restart` for that. ``class_names`` returns the names of classes.
        """
        self.seen += n
        self._waited += n
        z, quiet, labelled = evidence.score, self._waited < self.quiet, not isnan(evidence.arrivals)
        first = self.seen == self._waited and self.start is not None  # before any alarm
        if not quiet:
            slack = self.slack if labelled else self.slack * sqrt(1 - self._usual)
            self._sum = max(0.0, self._sum - (z - self._usual) - slack)
        weight = _FAST if quiet and (first or not labelled) else _WEIGHT
        counted = z if quiet and not labelled else max(z, self._usual - _WORST)
        self._usual = min(0.0, self._usual + weight * (counted - self._usual))
        if self._sum <= self.threshold:
            return None
        _, arrivals, sample, moved, text = evidence
        if labelled and moved:
            text += f"; {_losing(moved, class_names() if class_names else ())}"
        reason = f"the stream has changed: {text}; the sum of {self._sum:.1f} is above {self.threshold:g}"
        return Alarm(self.seen, self._sum, arrivals, sample, moved, reason)

    def restart(self) -> None:
        """Begin the sum again, as after an alarm."""
        self._sum, self._waited = 0.0, 0

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        names = ("threshold", "slack", "quiet", "keep", "start")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of(cls, parameters: Mapping[str, Any]) -> Self:
        """Return the watch that `parameters` belong to; those of earlier files have no ``start``.

        Examples
        --------
        >>> DriftWatch.of({"threshold": 6.0, "slack": 2.0, "quiet": 1000, "keep": 1000}).start is None
        True
        """
        return cls(**({"start": None} | dict(parameters)))

    def state(self) -> State:
        """Return the sum and the counts."""
        return {"seen": self.seen, "sum": self._sum, "usual": self._usual, "waited": self._waited}

    def restore(self, state: State) -> None:
        """Continue with what `state` returned."""
        self.seen, self._sum, self._usual = state["seen"], state["sum"], state["usual"]
        self._waited = state["waited"]


def anchor_rows(n_sample: int, seen: int) -> NDArray[np.int64]:
    """Return which examples of a sample are measured at an example count: at most 200, others each time."""
    return (np.arange(min(ANCHORS, n_sample), dtype=np.int64) + seen) % n_sample


def information_evidence(arriving: Floats, own: Floats, y: NDArray[Any], sample_y: NDArray[Any]) -> Evidence:
    """Compare the information (n,) of new examples, with labels ``y``, with that of the sample's own (m,).

    Examples
    --------
    >>> y = np.array([0, 0, 1, 1])
    >>> found = information_evidence(np.array([0.1, 0.3, 0.6, 0.6]), np.array([0.5, 0.6, 0.7, 0.6]), y, y)
    >>> round(found.score, 2), found.moved, found.text
    (-1.79, (0,), 'the codes give 0.400 bits about new examples, and 0.600 about the sample')
    """
    arrivals, sample = float(arriving.mean()), float(own.mean())
    error = sqrt(float(arriving.var()) / len(arriving) + float(own.var()) / len(own) + _TINY)
    missing = sample - arriving  # of each new example
    if y.ndim == 1:
        classes, place = np.unique(y, return_inverse=True)
        falls = np.bincount(place, weights=missing)
        n_new = int((~np.isin(y, sample_y)).sum())
    else:
        classes, falls = np.arange(y.shape[1]), missing @ y
        n_new = int(((y != 0) & ~(sample_y != 0).any(axis=0)).any(axis=1).sum())
    order = np.argsort(-falls, kind="stable")[:_NAMED]
    moved = tuple(int(classes[i]) for i in order if falls[i] > max(0.0, _FALL * falls[order[0]]))
    text = f"the codes give {arrivals:.3f} bits about new examples, and {sample:.3f} about the sample"
    if n_new:
        text += f"; {n_new} of {len(y)} have a class that the sample lacks"
    return Evidence((arrivals - sample) / error, arrivals, sample, moved, text)


def projection_evidence(
    projections: NDArray[np.floating[Any]], sample: NDArray[np.floating[Any]] | Spread, binary: bool = False
) -> Evidence:
    """Compare projections (n, b) of new examples with those of the sample (m, b), bit by bit.

    The sample may be given by where its projections lie. Of binary values, only the means are compared, with the
    variance that the rate in both gives: the variance follows from the mean. If few or correlated bits make the
    score vary more by chance than half a standard error, it is divided by how much more.

    Examples
    --------
    >>> rng = np.random.default_rng(0)
    >>> new, old = rng.standard_normal((100, 8)), rng.standard_normal((1000, 8))
    >>> new[:, 5] += 2
    >>> found = projection_evidence(new, old)
    >>> found.score < -20, found.moved[0]
    (True, 5)
    """
    if binary and not isinstance(sample, Spread):
        n, m = len(projections), len(sample)
        rates = (projections.sum(axis=0) + sample.sum(axis=0) + 1.0) / (n + m + 2)
        variances, means = rates * (1 - rates), sample.mean(axis=0)
        moved = (projections.mean(axis=0) - means) ** 2 / (variances * (1 / n + 1 / m))
        expected, by_chance = 1.0, _chance(sample.astype(np.float64), means, variances)
    else:
        old = sample if isinstance(sample, Spread) else Spread.of(sample)
        n, m = len(projections), old.n
        t = (old.features(projections).mean(axis=0) - old.means) ** 2 / ((old.variances + _TINY) * (1 / n + 1 / m))
        moved = t[: len(old.centres)] + t[len(old.centres) :]
        expected, by_chance = 2.0, old.by_chance
    total = float(moved.mean())
    most = tuple(int(bit) for bit in np.argsort(-moved, kind="stable")[:_NAMED])
    text = f"projections have moved {total / expected:.1f} times as much as by chance, most in bit {most[0]}"
    score = (expected - total) / max(1.0, by_chance / _STEADY)
    return Evidence(score, float("nan"), float("nan"), most, text)


def _losing(classes: Sequence[int], names: Sequence[str]) -> str:
    """Return the clause that names the classes about which the codes have lost most, by name where they have one.

    Examples
    --------
    >>> _losing((2, 0), ["cat", "dog", "bird"]), _losing((-7,), ())
    ('the codes have lost most about classes bird and cat', 'the codes have lost most about class -7')
    """
    *others, last = (names[each][:_NAME_LENGTH] if 0 <= each < len(names) else str(each) for each in classes)
    named = f"classes {', '.join(others)} and {last}" if others else f"class {last}"
    return f"the codes have lost most about {named}"


def _names(y: ArrayLike | None, sample_y: ArrayLike | None) -> list[str]:
    """Return the names of classes that are strings, as `validation.labels` numbers them; nothing of others."""
    if y is None or sample_y is None:
        return []
    labels = _together(y, sample_y).ravel().tolist()
    return sorted(set(labels)) if all(isinstance(each, str) for each in labels) else []


def _bits(codes: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.unpackbits(codes, axis=1, bitorder="little").astype(np.float32)


def _together(y: ArrayLike, sample_y: ArrayLike) -> NDArray[Any]:
    parts = np.asarray(y), np.asarray(sample_y)
    if parts[0].ndim != parts[1].ndim or parts[0].shape[1:] != parts[1].shape[1:]:
        raise InvalidInput(
            f"Labels of block and sample must be of one kind; got shapes {parts[0].shape} and {parts[1].shape}."
        )
    return np.concatenate(parts)
