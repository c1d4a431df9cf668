"""What an index is created with: checked once, stored with it, and enough to make its loop again."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, ParamSpec, Self, TypedDict, TypeVar

from .. import validation
from ..drift import DriftWatch, as_watch
from ..errors import CorruptStore, InvalidInput
from ..loop.learning_loop import Loop
from ..mapping import HashMapping
from ..online import ExternalMapping, OnlineLearner, learner_class
from ..reservoir import Reservoir
from ..store.sqlite.settings import METRICS
from ..trigger import (
    FixedRate,
    PriceUpdate,
    Trigger,
    TriggerUpdate,
    as_trigger,
    trigger_from_state,
    trigger_state,
)

RELATIVE_THETA = 0.02
N_BITS = 64
MOST_BITS = 4096


Given = ParamSpec("Given")
Result = TypeVar("Result")

_FORMER = {  # arguments of `create` and `open` that have gone, and what to write instead
    "theta": "trigger=TriggerUpdate(theta, interval)",
    "interval": "trigger=TriggerUpdate(theta, interval)",
    "parameters": "a learner object, such as learner=mihash.online.MIHash(64, learning_rate=0.5)",
    "mapping": "learner=mapping",
    "table": "cluster=Cluster(...)",
    "shards": "cluster=Cluster(shards=...)",
    "nodes": "cluster=Cluster(nodes=...)",
    "address": "cluster=Cluster(address=...)",
    "timeout_s": "cluster=Cluster(timeout_s=...)",
    "allow_partial": "cluster=Cluster(allow_partial=...)",
}


def names_former(call: Callable[Given, Result]) -> Callable[Given, Result]:
    """Raise an error that names the replacement of a removed argument."""

    @wraps(call)
    def checked(*args: Given.args, **options: Given.kwargs) -> Result:
        for name in options:
            if name in _FORMER:
                raise InvalidInput(f"`{name}` is no longer an argument: pass {_FORMER[name]}.")
        return call(*args, **options)

    return checked


def default_trigger(interval: int = 100) -> PriceUpdate:
    """Return the default trigger: a rehash costs as much as 20 perfectly answered queries are worth."""
    return PriceUpdate(interval=interval)


def _earlier_trigger(interval: int) -> TriggerUpdate:
    """Return the default of earlier indexes, 2 % of the table's quality; their options do not name it."""
    return TriggerUpdate(RELATIVE_THETA, interval, relative=True)


class RareOptions(TypedDict, total=False):
    """Options of an index that few need; `OnlineIndex.create` describes them."""

    normalize: bool
    drift: DriftWatch | bool
    factors: bool | None
    keep: int | str | Mapping[str, str] | None


@dataclass(frozen=True)
class Options:
    """The options of an index, as `OnlineIndex.create` describes them.

    Examples
    --------
    >>> options = Options(n_bits=16, learner="hmoh", parameters={"lr": 0.5})
    >>> Options.from_text(options.to_text()) == options
    True
    >>> Options(learner="hmoh", parameters={"rate": 0.5})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `parameters` of hmoh must be among ...; got rate.
    """

    n_bits: int = N_BITS
    learner: str = "momenthash"
    metric: str = "euclidean"
    normalize: bool = True
    trigger: Trigger = field(default_factory=default_trigger)
    drift: DriftWatch | None = field(default_factory=DriftWatch)
    reservoir_size: int = 2000
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every value."""
        self._take(n_bits=validation.integer("n_bits", self.n_bits, minimum=1, maximum=MOST_BITS))
        validation.choice("metric", self.metric, METRICS)
        validation.boolean("normalize", self.normalize)
        self._take(reservoir_size=validation.integer("reservoir_size", self.reservoir_size, minimum=2))
        self._take(seed=validation.integer("seed", self.seed, minimum=0), drift=as_watch(self.drift))
        self.make_learner()
        try:
            self.to_text()
        except TypeError as error:
            raise InvalidInput(f"The learner's parameters must be plain numbers and strings; {error}.") from error

    def _take(self, **checked: Any) -> None:
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    @classmethod
    def chosen(
        cls,
        n_bits: int | None,
        learner: str | OnlineLearner | HashMapping | None,
        trigger: str | Trigger | None,
        seed: int,
        **others: Any,
    ) -> Self:
        """Return the options, with learner and trigger given as objects or by name.

        Examples
        --------
        >>> import mihash
        >>> options = Options.chosen(None, mihash.online.HMOH(16, lr=0.5), "FixedRate", seed=3)
        >>> options.n_bits, options.learner, options.parameters["lr"], options.trigger
        (16, 'hmoh', 0.5, FixedRate(interval=100))
        """
        rule = default_trigger() if trigger is None else as_trigger(trigger)
        if isinstance(learner, HashMapping):
            others |= {"learner": ExternalMapping.name, "normalize": False}
            length = learner.n_bits
        elif isinstance(learner, OnlineLearner):
            if learner.n_features is not None:
                raise InvalidInput("`learner` must be fresh: this one has learned from examples already.")
            parameters = learner.parameters()
            length, own = parameters.pop("n_bits"), parameters.pop("seed")
            others |= {
                "learner": learner.name,
                "parameters": parameters if own == seed else parameters | {"seed": own},
            }
        else:
            if not isinstance(learner, str | None):
                raise InvalidInput(
                    f"`learner` must be a learner, its name, or a hash mapping; got {learner!r:.80}."
                )
            if learner == ExternalMapping.name:
                raise InvalidInput(f"`learner` cannot be {learner!r}: give the mapping itself as `learner`.")
            others |= {} if learner is None else {"learner": learner}
            length = N_BITS if n_bits is None else n_bits
        if n_bits not in (None, length):
            raise InvalidInput(f"`n_bits` must be that of the learner, {length}; got {n_bits!r}. Leave it out.")
        return cls(n_bits=length, trigger=rule, seed=seed, **others)

    @names_former
    def check_same(
        self,
        *,
        dtype: tuple[str, str | None],
        n_bits: Any = None,
        learner: Any = None,
        trigger: Any = None,
        **others: Any,
    ) -> None:
        """Raise if an option that is given differs from the one that the index was created with.

        ``dtype`` is the stored one and the one that is given.
        """
        unknown = sorted(set(others) - set(vars(self)))
        if unknown:
            raise InvalidInput(f"`{unknown[0]}` is not an option of an index; see OnlineIndex.create.")
        asked = Options.chosen(n_bits, learner, trigger, **({"seed": self.seed} | others))
        given = {"n_bits": n_bits, "learner": learner, "trigger": trigger} | others
        if given.get("drift") is True and self.drift is not None:
            del given["drift"]  # any watch will do
        names = [name for name, value in given.items() if value is not None or name == "drift"]
        pairs = {name: (getattr(self, name), getattr(asked, name)) for name in names}
        own = self.drift
        if "drift" in pairs and own is not None and own.start is None:
            usual = {"start": DriftWatch().start}  # of a program that an earlier mihash ran, which had no start
            pairs["drift"] = own, own if asked.drift == DriftWatch.of(own.parameters() | usual) else asked.drift
        if isinstance(learner, OnlineLearner):
            pairs["learner"] = (repr(self.make_learner()), repr(asked.make_learner()))
        if dtype[1] is not None:
            pairs["dtype"] = dtype
        for name, (was, wanted) in pairs.items():
            if was != wanted:
                raise InvalidInput(
                    f"This index was created with {name}={was!r}; got {wanted!r}. Leave `{name}` out, or create "
                    "another index."
                )

    @property
    def theta(self) -> float | None:
        """The trigger's theta in bits; None for a price or a share of the quality, -inf for a fixed rate."""
        if isinstance(self.trigger, TriggerUpdate) and not self.trigger.relative:
            return self.trigger.theta
        return float("-inf") if isinstance(self.trigger, FixedRate) else None

    @property
    def interval(self) -> int:
        """How many examples pass between two decisions."""
        return self.trigger.interval

    def make_learner(self) -> OnlineLearner:
        """Return a fresh learner."""
        made = learner_class(self.learner)
        known = [name for name in made(self.n_bits, seed=0).parameters() if name != "n_bits"]
        unknown = sorted(set(self.parameters) - set(known))
        if unknown:
            known.remove("seed")
            raise InvalidInput(
                f"`parameters` of {self.learner} must be among {', '.join(known)}; got {', '.join(unknown)}."
            )
        return made(self.n_bits, **{"seed": self.seed, **self.parameters})

    def make_loop(self, learn_only: bool = False) -> Loop:
        """Return a loop that has seen nothing; with ``learn_only``, one without a trigger."""
        return Loop(
            self.make_learner(),
            Reservoir(self.reservoir_size, self.seed),
            [None if learn_only else self.trigger],
            drift=self.drift,
            metric=self.metric if self.normalize else None,
            raises=False,
        )

    def to_text(self) -> str:
        """Return the options as JSON."""
        values = {name: value for name, value in vars(self).items() if name not in ("trigger", "drift")}
        values |= {"theta": self.theta, "interval": self.interval}
        if self.trigger not in (TriggerUpdate(self.theta or 0.0, self.interval), _earlier_trigger(self.interval)):
            values["trigger"] = trigger_state(self.trigger)
        if self.drift is not None:  # earlier indexes have none
            values["drift"] = self.drift.parameters()
        return json.dumps(values, sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the options that `to_text` wrote."""
        try:
            values = json.loads(text)
            theta, interval, rule = values.pop("theta"), values.pop("interval"), values.pop("trigger", None)
            watch = values.pop("drift", None)
            if rule is not None:
                trigger = trigger_from_state(rule)
            else:
                trigger = _earlier_trigger(interval) if theta is None else TriggerUpdate(theta, interval)
            return cls(**values, trigger=trigger, drift=None if watch is None else DriftWatch.of(watch))
        except (TypeError, ValueError, KeyError) as error:
            raise CorruptStore(f"The options of the index cannot be read: {error}.") from error
