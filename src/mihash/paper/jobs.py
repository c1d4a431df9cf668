"""One experiment: what is run, where its result is stored, and what several experiments share.

A job is an online run, a batch fit, the training of a network, one of the two studies without a trigger (Fig. 3;
Fig. 1 and 6), or a stream of the drift benchmark. The path of its result follows from the job alone.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from ..batch import METHODS, lacking
from ..trigger import FixedRate, Trigger, TriggerUpdate
from .recipes import RECIPES, Recipe

Parameters = tuple[tuple[str, Any], ...]

_COMMON = ("dataset", "method", "parameters", "n_bits", "trial")
_OWN = {"online": ("share", "theta", "every", "timed"), "batch": ("n_features",)}
_NETWORK = "dpsh"  # a method that needs what every network needs


@dataclass(frozen=True)
class Job:
    """One experiment that leaves one result.

    Attributes
    ----------
    kind
        ``"online"``: a stream through a learner under a trigger; ``"batch"``: a batch method fitted to a training
        set (Sec. 4.3.2); ``"images"``: a network trained end to end; ``"correlation"`` and
        ``"distributions"``: see `Definition`; ``"drift"``: a stream that changes through a system.
    dataset
        One of the paper's three, by its name, and what stands in for it depends on the scale; or a user's file, by
        the name of its `Source`.
    method
        A learner, a batch method, a recipe or a system by name; empty for a correlation.
    parameters
        Its arguments that differ from the defaults, sorted by name.
    n_bits
        The code length.
    trial
        Which of the random splits and orders of the data.
    share
        Online: the reservoir's size in units of the protocol's.
    theta
        Online: the trigger's threshold; None for an update at a fixed rate.
    every
        Online: the update interval in units of the protocol's.
    timed
        Online: whether its times are wanted; then its pass serves no other interval or threshold.
    missing
        Online: the share of the stream's labels that are missing, at random.
    ends
        Online: whether the table is also updated after the first block and the last example.
    n_features
        Batch: to how many dimensions features are brought first, by a random orthonormal matrix; 0 leaves them.
    validate
        Images: whether training images query the others, so that the test images are not used.
    stream
        Drift: how the stream changes.
    """

    kind: str
    dataset: str
    method: str
    parameters: Parameters
    n_bits: int
    trial: int = 0
    share: float = 1.0
    theta: float | None = None
    every: float = 1.0
    timed: bool = False
    missing: float = 0.0
    ends: bool = False
    n_features: int = 0
    validate: bool = False
    stream: str = ""

    @property
    def shared(self) -> "Job":
        """What is learned once for all jobs that have it.

        A learning pass serves every trigger; a fit serves all code lengths (0) where a short code begins a longer
        one; a network that was warmed up as a classifier serves every method.
        """
        if self.kind == "online":
            return replace(self, theta=None, every=1.0)
        if self.kind == "images":
            return replace(self, method="", parameters=())
        nested = self.kind == "batch" and self.method in METHODS and METHODS[self.method].nested
        return replace(self, n_bits=0) if nested else self

    @property
    def lacking(self) -> str | None:
        """What has to be installed for it, or None."""
        if self.kind not in ("batch", "images"):
            return None
        return lacking(_NETWORK if self.kind == "images" else self.method)

    @property
    def recipe(self) -> Recipe:
        """How its network is trained."""
        return RECIPES[self.method].with_arguments(dict(self.parameters))

    def trigger(self, interval: int) -> Trigger:
        """Return the trigger, given the protocol's interval."""
        scaled = max(1, round(self.every * interval))
        return FixedRate(scaled) if self.theta is None else TriggerUpdate(self.theta, scaled)

    @property
    def described(self) -> dict[str, Any]:
        """What its result says about it; nothing where the result has that among its own values."""
        values = asdict(self) | {"parameters": dict(self.parameters)}
        if self.kind == "images":
            validated = {"validate": True} if self.validate else {}
            return {key: values[key] for key in ("method", "n_bits", "trial")} | {
                "recipe": asdict(self.recipe),
                **validated,
            }
        rare = {key: values[key] for key in ("missing", "ends") if values[key]}
        return {key: values[key] for key in (*_COMMON, *_OWN[self.kind])} | rare if self.kind in _OWN else {}

    @property
    def path(self) -> Path:
        """Where the result is stored, below the folder of results of a scale.

        Examples
        --------
        >>> print(Job("online", "cifar10", "okh", (("C", 0.1),), 32, theta=0.0).path)
        cifar10/32-bits/okh-0199c4/trial-0/theta-0.json
        >>> print(Job("batch", "cifar10", "sdh", (("kernel", "linear"),), 32).path)
        batch/cifar10/32-bits/sdh-ba0e8b/trial-0.json
        >>> print(Job("images", "cifar10", "mihash", (), 32).path)
        cifar10/images/setting2-mihash-32-0.json
        """
        if self.kind == "correlation":
            return Path("correlation", f"{self.dataset}.json")
        if self.kind == "distributions":
            return Path("distributions", f"{self.dataset}-{_named(self.method, self.parameters)}.json")
        if self.kind == "drift":
            return Path("drift", self.dataset, f"{self.stream}-{self.method}-{self.trial}.json")
        if self.kind == "images":
            name = f"setting2-{self.method}-{self.n_bits}-{self.trial}" + "-validation" * self.validate
            return Path(self.dataset, "images", f"{name}.json")
        folder = Path(self.dataset, f"{self.n_bits}-bits", _named(self.method, self.parameters))
        if self.kind == "batch":
            width = f"-{self.n_features}-features" if self.n_features else ""
            return Path("batch") / folder / f"trial-{self.trial}{width}.json"
        rule = "fixed-rate" if self.theta is None else f"theta-{_shortest(self.theta)}"
        rule += "" if self.every == 1 else f"-every-{_shortest(self.every)}"
        rule += "" if self.share == 1 else f"-reservoir-{_shortest(self.share)}"
        rule += f"-missing-{_shortest(self.missing)}" if self.missing else ""
        rule += "-ends" if self.ends else ""
        return Path("timed" if self.timed else "") / folder / f"trial-{self.trial}" / f"{rule}.json"

    def __str__(self) -> str:
        """Return what a person calls it."""
        method = self.method or ("networks" if self.kind == "images" else self.kind)
        stream = f" {self.stream}" if self.stream else ""
        return f"{self.dataset}{stream} {method} {self.n_bits or 'all'} bits, trial {self.trial}"


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
