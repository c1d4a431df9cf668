"""What is run once and leaves one result: a stream under a trigger, or a batch method fitted to a training set.

The path of a result among the others follows from the run alone.
"""

import hashlib
import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..batch import METHODS
from ..trigger import FixedRate, Trigger, TriggerUpdate

Parameters = tuple[tuple[str, Any], ...]


@dataclass(frozen=True, order=True)
class Run:
    """One stream through one learner under one trigger.

    Attributes
    ----------
    dataset
        One of the paper's three, by its name, and what stands in for it depends on the scale; or a user's file, by
        the name of its `Source`.
    method
        A learner by name.
    parameters
        Its arguments that differ from the defaults, sorted by name.
    n_bits
        The code length.
    trial
        Which of the random divisions and orders of the data.
    share
        The reservoir's size in units of the protocol's.
    theta
        The trigger's threshold; None for an update at a fixed rate.
    every
        The update interval in units of the protocol's.
    timed
        Whether its times are wanted: then its pass serves no other interval or threshold.
    """

    dataset: str
    method: str
    parameters: Parameters
    n_bits: int
    trial: int
    share: float
    theta: float | None
    every: float
    timed: bool = False

    @property
    def learning(self) -> "Run":
        """The learning pass that this run is part of: the same without its trigger."""
        return replace(self, theta=None, every=1.0)

    def trigger(self, interval: int) -> Trigger:
        """Return the trigger, given the protocol's interval."""
        scaled = max(1, round(self.every * interval))
        return FixedRate(scaled) if self.theta is None else TriggerUpdate(self.theta, scaled)

    @property
    def path(self) -> Path:
        """Where the result lies, below the folder of results.

        Examples
        --------
        >>> print(Run("cifar10", "okh", (("C", 0.1),), 32, 0, 1.0, 0.0, 1.0).path)
        cifar10/32-bits/okh-0199c4/trial-0/theta-0.json
        """
        rule = "fixed-rate" if self.theta is None else f"theta-{_shortest(self.theta)}"
        rule += "" if self.every == 1 else f"-every-{_shortest(self.every)}"
        rule += "" if self.share == 1 else f"-reservoir-{_shortest(self.share)}"
        folder = Path("timed" if self.timed else "", self.dataset, f"{self.n_bits}-bits")
        return folder / _named(self.method, self.parameters) / f"trial-{self.trial}" / f"{rule}.json"


@dataclass(frozen=True, order=True)
class Fit:
    """One batch method fitted to the training set of one division (Sec. 4.3.2).

    Attributes
    ----------
    dataset, parameters, n_bits, trial
        As those of a `Run`.
    method
        A batch method by name.
    n_features
        To how many dimensions features are brought first, by a random orthonormal matrix; 0 leaves them alone.
    """

    dataset: str
    method: str
    parameters: Parameters
    n_bits: int
    trial: int
    n_features: int = 0

    @property
    def learning(self) -> "Fit":
        """What is learned once for it: all lengths together, 0, where a short code begins a longer one."""
        nested = self.method in METHODS and METHODS[self.method].nested
        return replace(self, n_bits=0) if nested else self

    @property
    def path(self) -> Path:
        """Where the result lies, below the folder of results.

        Examples
        --------
        >>> print(Fit("cifar10", "sdh", (("kernel", "linear"),), 32, 0).path)
        batch/cifar10/32-bits/sdh-ba0e8b/trial-0.json
        """
        width = f"-{self.n_features}-features" if self.n_features else ""
        folder = Path("batch", self.dataset, f"{self.n_bits}-bits", _named(self.method, self.parameters))
        return folder / f"trial-{self.trial}{width}.json"


def _named(method: str, parameters: Parameters) -> str:
    """Return the name of a folder for a method with its arguments."""
    if not parameters:
        return method
    text = json.dumps(parameters, sort_keys=True)
    return f"{method}-{hashlib.blake2b(text.encode(), digest_size=3).hexdigest()}"


def _shortest(value: float) -> str:
    """Return the shortest text that is this number and no other."""
    text = f"{value:g}"
    return text if float(text) == value else repr(float(value))
