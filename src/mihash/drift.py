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
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .comparison import Encoder, codes_of
from .drift_evidence import Evidence, anchor_rows, information_evidence, projection_evidence
from .errors import InvalidInput
from .information import arriving_information, own_information
from .mapping import HashMapping
from .state import State

ClassNames = Callable[[], Sequence[str]]
"""Returns the names of classes by their numbers; nothing where classes are numbers."""

_WEIGHT = 0.05  # of a block in the moving average of the score
_FAST = 0.3  # the same while it is quiet at the start, and without labels after an alarm
_WORST = 3.0  # a score counts at most so much below that average
_NAME_LENGTH = 40


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
    standard error. Without labels -z is the mean over the bits of the squared t of the block's mean and of its
    variance, minus 2, its value under chance; projections are cut off 2.5 scales from their median, and -z is
    divided if few or correlated bits make it vary more. A one-sided CUSUM sums how far z falls below its usual
    value::

        S <- max(0, S - (z - usual) - slack),    an alarm where S > threshold.

    The usual value is a moving average, at most 0: the mapping was learned from the sample, which therefore looks
    better than new blocks, most of all early in a stream. Slow changes move the usual value along, and raise no
    alarm. It follows z closely in the quiet time at the start, and without labels also in the quiet time after an
    alarm: until the sample is replaced, each block differs from it because of the change that raised the alarm.
    Without labels the slack is multiplied by sqrt(1 - usual), as squares vary more the larger they are.

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

        This does not reset the sum: call `restart` for that. ``class_names`` returns the names of classes.
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
        """Reset the sum, as after an alarm."""
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


def as_watch(drift: DriftWatch | bool | None) -> DriftWatch | None:
    """Return the drift watch for a value of `drift`: a `DriftWatch`, True, False or None."""
    if not isinstance(drift, DriftWatch | bool | None):
        raise InvalidInput(f"`drift` must be a DriftWatch, True or False; got {drift!r:.80}.")
    return DriftWatch() if drift is True else drift or None


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
