"""When to recompute the hash table: Trigger Update, and the fixed rate it is compared with (Sec. 3.1, 4.2).

A trigger is stateless and knows no learner. It is asked now and then whether the current mapping is worth
recomputing every stored code for, and answers with a `Decision`. It works alone around any callable that turns
features into codes.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .codes import pack
from .errors import InvalidInput, UnknownName
from .information import quality
from .mapping import HashMapping
from .neighbors import Neighborhood, WithinDistance, label_neighborhood, within_fraction
from .state import State

Encoder = HashMapping | Callable[[NDArray[np.float32]], ArrayLike]
Measure = Callable[[], tuple[float, float]]

UNMOVED = 1e-6


@dataclass(frozen=True)
class Decision:
    """What a trigger decided, and why.

    Attributes
    ----------
    update
        Whether to recompute the hash table with the current mapping.
    gain
        Q_R(current) - Q_R(snapshot) in bits; NaN where the rule did not measure it.
    reason
        One sentence for a person.
    current, snapshot
        The two qualities in bits; NaN where they were not measured.
    """

    update: bool
    gain: float
    reason: str
    current: float = float("nan")
    snapshot: float = float("nan")


class Trigger(ABC):
    """A rule that decides about hash table updates, asked every ``interval`` examples (the paper's U)."""

    interval: int

    def decide(
        self,
        current: Encoder,
        snapshot: Encoder,
        X: ArrayLike,
        y: ArrayLike | None = None,
        neighbors: ArrayLike | Neighborhood | None = None,
    ) -> Decision:
        """Decide from a sample of the stream, on which both mappings are measured.

        Parameters
        ----------
        current, snapshot
            Hash mappings, or any callables from features (n, d) to codes: packed (uint8), or bits as booleans,
            0/1 or -1/+1 of another type.
        X
            The sample (n, d), for example ``reservoir.X``.
        y
            Its labels: integers or strings (n,), a 0/1 matrix (n, classes), or None.
        neighbors
            Who is a neighbour: None for the labels' own rule (without labels: closer than the 5 % quantile of
            the sample's distances), a number for a Euclidean threshold, a boolean matrix (n, n), or a rule of
            `mihash.neighbors`.

        Notes
        -----
        No update is made if the mapping moved by less than 1e-6 (App. D.3); for plain callables, if no code
        of the sample changed.
        """
        vectors = validation.features("X", X)
        if isinstance(current, HashMapping) and isinstance(snapshot, HashMapping):
            moved = current.distance(snapshot) >= UNMOVED
            codes = [current.encode(vectors), snapshot.encode(vectors)] if moved else []
        else:
            codes = [_codes_of(current, vectors), _codes_of(snapshot, vectors)]
            moved = codes[0].shape != codes[1].shape or bool((codes[0] != codes[1]).any())
        resolved = _resolve(neighbors, vectors, y)

        def measure() -> tuple[float, float]:
            now, before = (quality(part, resolved, 8 * part.shape[1]) for part in codes)
            return now, before

        return self.judge(moved, len(vectors), measure)

    @abstractmethod
    def judge(self, moved: bool, n_sample: int, measure: Measure) -> Decision:
        """Decide, given whether the mapping moved and how to measure (current, snapshot) if need be."""


@dataclass(frozen=True)
class TriggerUpdate(Trigger):
    """Update when the quality on the reservoir has improved by more than theta (Eq. 5).

    Parameters
    ----------
    theta
        The improvement, in bits of mutual information, that an update must bring (strictly more). 0 is the
        paper's default; -inf gives the fixed-rate baseline, +inf keeps the first table for ever.
    interval
        How many examples pass between two decisions (the paper's U).
    relative
        Whether theta is a share of the snapshot's quality in place of bits. How many bits there are to gain
        depends on the data (at most the entropy of the neighbourhood); a share means the same everywhere.

    Examples
    --------
    >>> import mihash
    >>> X = np.array([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]])
    >>> bad, good = (lambda X: X[:, 1:] > 0), (lambda X: X[:, :1] > 0)
    >>> decision = mihash.TriggerUpdate(theta=0.1).decide(good, bad, X, y=[0, 0, 1, 1])
    >>> decision.update, round(decision.gain, 3), decision.reason
    (True, 0.667, 'the gain of +0.6667 bits is above theta = 0.1')
    """

    theta: float = 0.0
    interval: int = 100
    relative: bool = False

    def __post_init__(self) -> None:
        """Check the parameters."""
        validation.number("theta", self.theta, finite=False)
        validation.integer("interval", self.interval, minimum=1)

    def judge(self, moved: bool, n_sample: int, measure: Measure) -> Decision:
        """Compare the gain in quality with theta."""
        if not moved:
            return _unmoved()
        if n_sample < 2:
            return Decision(False, 0.0, "fewer than 2 examples in the sample: no quality to compare")
        current, snapshot = measure()
        gain = current - snapshot
        bar = self.theta * snapshot if self.relative and np.isfinite(self.theta) else self.theta
        update = bool(gain > bar)
        verdict = "is above" if update else "is not above"
        share = f" times {snapshot:.4f}" if self.relative else ""
        reason = f"the gain of {gain:+.4f} bits {verdict} theta = {self.theta:g}{share}"
        return Decision(update, gain, reason, current, snapshot)


@dataclass(frozen=True)
class FixedRate(Trigger):
    """Update every ``interval`` examples, whatever the quality: the paper's baseline (Sec. 4.2).

    Parameters
    ----------
    interval
        How many examples pass between two updates (the paper's U).

    Examples
    --------
    >>> import mihash
    >>> sign = lambda X: X > 0
    >>> mihash.FixedRate().decide(sign, sign, [[1.0], [-1.0]]).reason
    'the mapping has not moved since the last update'
    """

    interval: int = 100

    def __post_init__(self) -> None:
        """Check the parameter."""
        validation.integer("interval", self.interval, minimum=1)

    def judge(self, moved: bool, n_sample: int, measure: Measure) -> Decision:  # noqa: ARG002 -- nothing to measure
        """Say yes unless nothing changed."""
        if not moved:
            return _unmoved()
        return Decision(True, float("nan"), f"{self.interval} examples have passed")


TRIGGERS: dict[str, type[Trigger]] = {"TriggerUpdate": TriggerUpdate, "FixedRate": FixedRate}


def trigger_state(trigger: Trigger) -> State:
    """Return a trigger as plain values.

    Examples
    --------
    >>> trigger_state(FixedRate(50)), trigger_from_state({"kind": "FixedRate", "interval": 50})
    ({'kind': 'FixedRate', 'interval': 50}, FixedRate(interval=50))
    """
    return {"kind": type(as_trigger(trigger)).__name__, **vars(trigger)}


def trigger_from_state(state: State) -> Trigger:
    """Return the trigger that `trigger_state` described."""
    return TRIGGERS[state["kind"]](**{name: value for name, value in state.items() if name != "kind"})


def as_trigger(trigger: "str | Trigger") -> Trigger:
    """Return a trigger that was given as an object, or by the name of its class.

    Examples
    --------
    >>> as_trigger("FixedRate")
    FixedRate(interval=100)
    """
    if isinstance(trigger, str):
        named = {name.lower(): made for name, made in TRIGGERS.items()}
        if trigger.lower() not in named:
            raise UnknownName(f"There is no trigger {trigger!r}; known: {', '.join(TRIGGERS)}.")
        return named[trigger.lower()]()
    if type(trigger) not in TRIGGERS.values():
        raise InvalidInput(f"`trigger` must be one of {', '.join(TRIGGERS)}; got {trigger!r:.80}.")
    return trigger


def _unmoved() -> Decision:
    return Decision(False, 0.0, "the mapping has not moved since the last update")


def _codes_of(encoder: Encoder, X: NDArray[np.float32]) -> NDArray[np.uint8]:
    if isinstance(encoder, HashMapping):
        return encoder.encode(X)
    if not callable(encoder):
        raise InvalidInput(f"A mapping must be a hash mapping or a callable X -> codes; got {encoder!r}.")
    codes = np.asarray(encoder(X))
    codes = validation.packed("codes", codes) if codes.dtype == np.uint8 else pack(codes)
    if len(codes) != len(X):
        raise InvalidInput(f"A mapping must return one code for each of {len(X)} rows; got {len(codes)}.")
    return codes


def _resolve(
    neighbors: ArrayLike | Neighborhood | None, X: NDArray[np.float32], y: ArrayLike | None
) -> NDArray[Any]:
    """Return class labels (n,) or a neighbour matrix (n, n): what `quality` takes."""
    labels = None if y is None else validation.labels("y", y, len(X), names=True)
    if neighbors is None and labels is not None and labels.ndim == 1:
        return labels
    if neighbors is None and len(X) < 2:
        return np.zeros((len(X), len(X)), dtype=np.bool_)
    rule: Any = neighbors
    if rule is None:
        rule = within_fraction(X) if labels is None else label_neighborhood(labels)
    elif np.isscalar(rule):
        rule = WithinDistance(validation.number("neighbors", rule, minimum=0))
    if hasattr(rule, "between"):
        matrix: NDArray[np.bool_] = rule.between(X, labels, X, labels)
        return matrix
    return validation.boolean_matrix("neighbors", rule, (len(X), len(X)))
