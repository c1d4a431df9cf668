"""Schedules of the learning rate: a linear warm-up, then cosine, linear or step-wise decay."""

import math
from dataclasses import dataclass

from .. import validation

SCHEDULES = ("cosine", "linear", "step", "constant")


@dataclass(frozen=True)
class Schedule:
    """The factor of the learning rate at a step of the training.

    Parameters
    ----------
    kind
        ``"cosine"`` or ``"linear"``: down to 0 at the end. ``"step"``: times ``decay`` after every ``decay_every``
        epochs, as the paper does (App. B.3). ``"constant"``.
    warm_up
        Over which share of the training the rate first rises from 0.
    decay, decay_every
        For ``"step"``.

    Examples
    --------
    >>> schedule = Schedule("cosine", warm_up=0.25)
    >>> [round(schedule(step, 100, n_epochs=10), 3) for step in (0, 24, 62, 99)]
    [0.04, 1.0, 0.49, 0.0]
    >>> Schedule("step", decay=0.5, decay_every=10)(step=250, n_steps=300, n_epochs=30)
    0.25
    """

    kind: str = "cosine"
    warm_up: float = 0.0
    decay: float = 0.5
    decay_every: int = 50

    def __post_init__(self) -> None:
        """Check the values."""
        validation.choice("schedule", self.kind, SCHEDULES)
        validation.number("warm_up", self.warm_up, minimum=0, maximum=1)
        validation.number("decay", self.decay, above=0)
        validation.integer("decay_every", self.decay_every, minimum=1)

    def __call__(self, step: int, n_steps: int, n_epochs: int) -> float:
        """Return the factor at a step, counted from 0."""
        rising = self.warm_up * n_steps
        if step + 1 < rising:
            return (step + 1) / rising
        if self.kind == "constant":
            return 1.0
        if self.kind == "step":
            epoch = step * n_epochs // n_steps
            return float(self.decay ** (epoch // self.decay_every))
        gone = (step + 1 - rising) / max(1.0, n_steps - rising)
        return max(0.0, 1 - gone) if self.kind == "linear" else (1 + math.cos(math.pi * min(1.0, gone))) / 2
