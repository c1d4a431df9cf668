"""What an index is made with: checked once, stored with it, and enough to make its learner again."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from .. import validation
from ..errors import CorruptStore, InvalidInput
from ..loop.loop import Stream
from ..online import OnlineLearner, learner_class
from ..reservoir import Reservoir
from ..trigger import TriggerUpdate

METRICS = ("euclidean", "cosine")
RELATIVE_THETA = 0.02


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

    n_bits: int = 64
    learner: str = "mihash"
    metric: str = "euclidean"
    normalize: bool = True
    theta: float | None = None
    interval: int = 100
    reservoir_size: int = 2000
    seed: int = 0
    parameters: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Check every value."""
        self._take(n_bits=validation.integer("n_bits", self.n_bits, minimum=1, maximum=4096))
        validation.choice("metric", self.metric, METRICS)
        if not isinstance(self.normalize, bool):
            raise InvalidInput(f"`normalize` must be True or False; got {self.normalize!r}.")
        if self.theta is not None:
            self._take(theta=validation.number("theta", self.theta, finite=False))
        self._take(interval=validation.integer("interval", self.interval, minimum=1))
        self._take(reservoir_size=validation.integer("reservoir_size", self.reservoir_size, minimum=2))
        self._take(seed=validation.integer("seed", self.seed, minimum=0))
        if not isinstance(self.parameters, Mapping):
            raise InvalidInput(f"`parameters` must be a dictionary; got {self.parameters!r:.80}.")
        self.make_learner()
        try:
            self.to_text()
        except TypeError as error:
            raise InvalidInput(f"`parameters` must be plain numbers and strings; {error}.") from error

    def _take(self, **checked: Any) -> None:
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def make_learner(self) -> OnlineLearner:
        """Return a fresh learner."""
        cls = learner_class(self.learner)
        known = [name for name in cls(self.n_bits, seed=0).parameters() if name not in ("n_bits", "seed")]
        unknown = sorted(set(self.parameters) - set(known))
        if unknown:
            raise InvalidInput(
                f"`parameters` of {self.learner} must be among {', '.join(known)}; got {', '.join(unknown)}."
            )
        return cls(self.n_bits, seed=self.seed, **self.parameters)

    def make_trigger(self) -> TriggerUpdate:
        """Return the trigger; without a theta, one that asks for 2 % of the quality that the table has."""
        if self.theta is None:
            return TriggerUpdate(RELATIVE_THETA, self.interval, relative=True)
        return TriggerUpdate(self.theta, self.interval)

    def make_stream(self) -> Stream:
        """Return a stream that nothing has gone through."""
        reservoir = Reservoir(self.reservoir_size, self.seed)
        return Stream(self.make_learner(), self.make_trigger(), reservoir, self.metric, self.normalize)

    def to_text(self) -> str:
        """Return the options as JSON."""
        return json.dumps(asdict(self), sort_keys=True)

    @classmethod
    def from_text(cls, text: str) -> Self:
        """Return the options that `to_text` wrote."""
        try:
            return cls(**json.loads(text))
        except (TypeError, ValueError) as error:
            raise CorruptStore(f"The options of the index cannot be read: {error}.") from error
