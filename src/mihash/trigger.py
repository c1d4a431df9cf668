"""When to recompute the hash table: Trigger Update and the fixed rate (Sec. 3.1, 4.2), and the price of a rehash.

A trigger does not depend on a learner. It decides whether the current mapping is worth recomputing every stored
code, and returns a `Decision`. It also works alone, with any callable that turns features into codes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from math import nan

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .comparison import INFORMATION, Compared, Comparison
from .errors import InvalidInput, UnknownName
from .neighbors import Neighborhood
from .state import State

Measure = Callable[[], tuple[float, float]]

FEWEST = 50  # examples in a sample before which a price is not asked for: the first tables are made at once
_WEIGHT = 0.1  # of a block in the moving average of the information
_LEAST_WORTH = 0.1  # of the information of a query that counts as more than chance, at least


@dataclass(frozen=True)
class Decision:
    """What a trigger decided, and why.

    Attributes
    ----------
    update
        Whether to recompute the hash table with the current mapping.
    gain
        Q_R(current) - Q_R(snapshot), in bits or as a share of recall; NaN if the rule did not measure it.
    reason
        One sentence for a person.
    current, snapshot
        The two qualities; NaN if they were not measured.
    """

    update: bool
    gain: float
    reason: str
    current: float = float("nan")
    snapshot: float = float("nan")


class Trigger(ABC):
    """A rule that decides about hash table updates every ``interval`` examples (the paper's U)."""

    interval: int

    def decide(
        self,
        current: Compared,
        snapshot: Compared,
        X: ArrayLike,
        y: ArrayLike | None = None,
        neighbors: ArrayLike | Neighborhood | None = None,
        quality: str = INFORMATION,
    ) -> Decision:
        """Decide from a sample of the stream, on which both mappings are measured.

        Parameters
        ----------
        current, snapshot
            Hash mappings, or any callables from features (n, d) to codes: packed (uint8), or bits as booleans,
            0/1 or -1/+1 of another type; or two quantizers of any kind, as `mihash.Quantizer`.
        X
            The sample (n, d), for example ``reservoir.X``.
        y
            Its labels: integers or strings (n,), a 0/1 matrix (n, classes), or None.
        neighbors
            Which pairs are neighbours: None for rows that share a label (without labels: rows closer than the 5 %
            quantile of the sample's distances), a number for a Euclidean threshold, a boolean matrix (n, n), or a
            rule of `mihash.neighbors`.
        quality
            What is measured: ``"information"``, in bits; or ``"recall@10"``, with any number: the share of the ten
            nearest others that are among the ten nearest by code. With labels or neighbours it is the share of
            these that are found.

        Notes
        -----
        No update is made if the mapping moved by less than 1e-6 (App. D.3); for plain callables, if no code
        of the sample changed.
        """
        compared = Comparison(current, snapshot, X, y, neighbors, quality)
        return self.judge(compared.moved, compared.n, compared.means, compared.unit)

    @abstractmethod
    def judge(self, moved: bool, n_sample: int, measure: Measure, unit: str = "bits") -> Decision:
        """Decide, given whether the mapping moved, and how to measure (current, snapshot) if need be."""


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
        Whether theta is a share of the snapshot's quality instead of bits. How many bits there are to gain depends
        on the data (at most the entropy of the neighbourhood); a share means the same everywhere.

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
        validation.boolean("relative", self.relative)

    def judge(self, moved: bool, n_sample: int, measure: Measure, unit: str = "bits") -> Decision:
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
        reason = f"the gain of {gain:+.4f} {unit} {verdict} theta = {self.theta:g}{share}"
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

    def judge(self, moved: bool, n_sample: int, measure: Measure, unit: str = "bits") -> Decision:  # noqa: ARG002 -- nothing to measure
        """Say yes unless nothing changed."""
        if not moved:
            return _unmoved()
        return Decision(True, float("nan"), f"{self.interval} examples have passed")


@dataclass
class PriceUpdate(Trigger):
    """Update when the examples since the last table have missed more than a rehash costs: rent or buy.

    Each new example counts as a query. Before it is learned, its information i = I(D; C) with the sample is
    measured under the current mapping and under the snapshot. The difference, as a share of what the current
    mapping gives, is the part of a query that the table missed. The trigger sums these parts::

        S <- max(0, S + sum over a block of (i_current - i_snapshot) / m),

    where m is a moving average of i_current minus ``by_chance``, and at least a tenth of it, with a weight of 0.1
    for each block. If not every block is measured, one counts for several. If S exceeds the price, the trigger
    requests a rehash and resets S to 0. This is the rent-or-buy rule: if the loss never falls while a table is
    kept, and newer mappings are never worse, it costs at most twice as much as the best schedule in hindsight,
    plus one interval.

    The loop calls `observe` for each block of the stream and saves `state`. `decide` alone measures ``X`` once: it
    takes the rows of ``X`` as the examples since the last rehash, measures each against the others, and keeps no
    sum.

    Parameters
    ----------
    price
        What a rehash costs, in perfectly answered queries. A higher price makes fewer rehashes.
    interval
        How many examples pass between two decisions.

    Attributes
    ----------
    missed
        S: what the table has missed since the last rehash, in perfectly answered queries.
    by_chance
        The chance level: the information that an example has about shuffled neighbours. With few neighbours for
        each example it is a large part of i, so m leaves it out. The loop measures it now and then, if there are
        labels.

    Examples
    --------
    >>> import mihash
    >>> X, y = np.repeat([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], 20, axis=0), np.repeat([0, 1], 40)
    >>> bad, good = (lambda X: X[:, 1:] > 0), (lambda X: X[:, :1] > 0)
    >>> decision = mihash.PriceUpdate(price=20).decide(good, bad, X, y)
    >>> decision.update, decision.reason
    (True, 'since the last rehash the table lost what 80.0 queries are worth; a rehash costs 20')
    """

    price: float = 20.0
    interval: int = 100
    missed: float = field(default=0.0, init=False, repr=False, compare=False)
    by_chance: float = field(default=0.0, init=False, repr=False, compare=False)
    _usual: float | None = field(default=None, init=False, repr=False, compare=False)
    _last: tuple[float, float] | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Check the parameters."""
        self.price = validation.number("price", self.price, minimum=0)
        validation.integer("interval", self.interval, minimum=1)

    def observe(self, current: NDArray[np.float64], snapshot: NDArray[np.float64], n_blocks: int = 1) -> None:
        """Add what a block of arriving examples missed.

        Parameters
        ----------
        current, snapshot
            The information (n,) of each example with the sample as it was before the block, under the current
            mapping and under the one of the table, in bits.
        n_blocks
            How many blocks this one counts for; more than one if others are not measured.

        Examples
        --------
        >>> trigger = PriceUpdate(price=20)
        >>> trigger.observe(np.full(100, 0.4), np.full(100, 0.3))
        >>> round(trigger.missed, 3)
        25.0
        """
        mean = float(current.mean())
        worth = max(mean - self.by_chance, _LEAST_WORTH * mean)
        self._usual = worth if self._usual is None else (1 - _WEIGHT) * self._usual + _WEIGHT * worth
        self._last = mean, float(snapshot.mean())
        difference = n_blocks * float((current - snapshot).sum())
        self.missed = max(0.0, self.missed + _share(difference, self._usual))

    def updated(self) -> None:
        """Reset the sum: there is a new table."""
        self.missed = 0.0

    def judge(self, moved: bool, n_sample: int, measure: Measure, unit: str = "bits") -> Decision:  # noqa: ARG002 -- measured before
        """Compare what was missed with the price."""
        if not moved:
            return _unmoved()
        if self._last is None:
            return _early()
        return self._decision(self.missed, *self._last)

    def decide(
        self,
        current: Compared,
        snapshot: Compared,
        X: ArrayLike,
        y: ArrayLike | None = None,
        neighbors: ArrayLike | Neighborhood | None = None,
        quality: str = INFORMATION,
    ) -> Decision:
        """Decide as if the rows of ``X`` were the examples since the last table; nothing is summed or kept.

        The parameters are those of `Trigger.decide`.
        """
        compared = Comparison(current, snapshot, X, y, neighbors, quality)
        if not compared.moved:
            return _unmoved()
        if compared.n < FEWEST:
            return _early()
        now, before = compared.each()
        missed = max(0.0, _share(float((now - before).sum()), float(now.mean())))
        return self._decision(missed, float(now.mean()), float(before.mean()))

    def _decision(self, missed: float, current: float, snapshot: float) -> Decision:
        reason = (
            f"since the last rehash the table lost what {missed:.1f} queries are worth; "
            f"a rehash costs {self.price:g}"
        )
        return Decision(missed > self.price, current - snapshot, reason, current, snapshot)

    def state(self) -> State:
        """Return the sum and the price, which may have been measured since."""
        sums = {"missed": self.missed, "by_chance": self.by_chance, "usual": self._usual}
        return {"price": self.price, "last": self._last, **sums}

    def restore(self, state: State) -> None:
        """Continue with the sum that `state` returned."""
        self.price, self.missed, self._usual = state["price"], state["missed"], state["usual"]
        self.by_chance = state.get("by_chance", 0.0)  # not in earlier states
        self._last = None if state["last"] is None else (state["last"][0], state["last"][1])


TRIGGERS: dict[str, type[Trigger]] = {
    "TriggerUpdate": TriggerUpdate,
    "FixedRate": FixedRate,
    "PriceUpdate": PriceUpdate,
}


def trigger_state(trigger: Trigger) -> State:
    """Return the parameters of a trigger as plain values.

    Examples
    --------
    >>> trigger_state(FixedRate(50)), trigger_from_state({"kind": "FixedRate", "interval": 50})
    ({'kind': 'FixedRate', 'interval': 50}, FixedRate(interval=50))
    """
    kind = type(as_trigger(trigger))
    given = (part.name for part in fields(kind) if part.init)  # type: ignore[arg-type]  # every one is a dataclass
    return {"kind": kind.__name__, **{name: getattr(trigger, name) for name in given}}


def trigger_from_state(state: State) -> Trigger:
    """Return the trigger that `trigger_state` described."""
    return TRIGGERS[state["kind"]](**{name: value for name, value in state.items() if name != "kind"})


def as_trigger(trigger: str | Trigger) -> Trigger:
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


def _early() -> Decision:
    return Decision(
        True, nan, f"fewer than {FEWEST} examples were in the sample: the first tables are made at once"
    )


def _share(difference: float, usual: float) -> float:
    """Return a difference of information in units of perfect queries; 0 if no query gives any."""
    return difference / usual if usual > 1e-9 else 0.0
