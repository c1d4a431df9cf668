"""One learning pass over a stream, under several triggers at once (Sec. 4.2, App. B.1, D).

What is learned does not depend on the trigger, so one pass serves every theta and every update interval: each
trigger keeps a snapshot of its own, and retrieval is measured on the table as it would be at that moment.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..comparison import UNMOVED
from ..loop.decisions import Check
from ..loop.learning_loop import Loop
from ..mapping import HashMapping
from ..neighbors import Labels
from ..online import OnlineLearner
from ..ranking import mean_average_precision
from ..reservoir import Reservoir
from ..trigger import Trigger
from .datasets import Split

AREAS = ("mean", "trapezoid")

Progress = Callable[[int, int], None]
Rows = NDArray[np.float32]


@dataclass
class Branch:
    """What a pass was under one trigger.

    Attributes
    ----------
    trigger
        The rule.
    snapshot
        The mapping of its table now.
    precisions
        mAP of the table as it was at each checkpoint.
    updated_at
        After how many examples the table was updated; the initial table is the 0.
    gains
        The gain of each decision that was measured.
    deciding_s
        CPU seconds spent on its decisions.
    """

    trigger: Trigger
    snapshot: HashMapping = field(init=False)
    precisions: list[float] = field(default_factory=list)
    updated_at: list[int] = field(default_factory=list)
    gains: list[float] = field(default_factory=list)
    deciding_s: float = 0.0

    @property
    def updates(self) -> int:
        """How often the table was computed, the initial one counted."""
        return len(self.updated_at)

    @property
    def area(self) -> float:
        """The area under the curve: the mean of mAP over the checkpoints (App. B.1)."""
        return float(np.mean(self.precisions))

    def note(self, check: Check, mapping: HashMapping | None) -> None:
        """Keep what a check measured, and the mapping that it accepted."""
        if check.gain is not None:
            self.gains.append(check.gain)
        if mapping is not None:
            self.snapshot = mapping
            self.updated_at.append(check.seen)


@dataclass
class Pass:
    """A learning pass: when it was measured, and a branch for each trigger.

    Attributes
    ----------
    examples
        The checkpoints, as numbers of examples.
    branches
        One for each trigger, in their order.
    first, last
        The mapping before and after learning.
    learning_s
        CPU seconds spent on learning and the reservoir.
    reservoir_s
        CPU seconds of these that the reservoir took, measured by filling another one with the same stream.
    update_s
        CPU seconds of one table update: encoding the whole table, in the median over the mappings measured.
    """

    examples: list[int]
    branches: list[Branch]
    first: HashMapping
    last: HashMapping
    learning_s: float
    reservoir_s: float
    update_s: float


def learn_once(
    split: Split,
    learner: OnlineLearner,
    triggers: Sequence[Trigger],
    checkpoints: NDArray[np.int64],
    *,
    reservoir_size: int,
    top: int | None = None,
    seed: int = 0,
    missing: float = 0.0,
    ends: bool = False,
    progress: Progress = lambda done, total: None,  # noqa: ARG005 -- reports nothing
) -> Pass:
    """Send the stream of a split through a learner, once, and follow every trigger.

    Parameters
    ----------
    split
        Queries, retrieval set and stream.
    learner
        A fresh learner; it is moved.
    triggers
        The rules to follow.
    checkpoints
        After how many examples retrieval is measured.
    reservoir_size
        How many examples of the stream are sampled.
    top
        Where the ranking is cut, None for nowhere.
    seed
        Seeds the reservoir, and the draw of missing labels.
    missing
        The share of the labels that are missing. A label that is missing at one share is missing at larger ones.
    ends
        Whether every table is also updated after the learner's first block and after the last example, whatever
        its trigger says, unless the mapping has not moved: what the authors' code did before its release.
    progress
        Called with how many examples of how many are done.

    Examples
    --------
    >>> import mihash
    >>> from mihash.paper.datasets import checkpoints, digits, find_protocol
    >>> split = find_protocol("digits").split(digits())
    >>> rules = [mihash.FixedRate(100), mihash.TriggerUpdate(0, 100), mihash.TriggerUpdate(float("inf"), 100)]
    >>> result = learn_once(split, mihash.online.MIHash(16), rules, checkpoints(1597, 5), reservoir_size=100)
    >>> [branch.updates for branch in result.branches][::2]
    [16, 1]
    """
    loop = Loop(learner, Reservoir(reservoir_size, seed), triggers)
    X, y = loop.check(split.X_stream, split.y_stream)
    if y is not None and missing:
        gone = np.random.default_rng([seed, 21]).random(len(y)) < missing
        y = validation.with_missing(y[~gone], gone)
    branches = [Branch(trigger) for trigger in triggers]

    def note(check: Check, mapping: HashMapping | None, position: int) -> None:
        branches[position].note(check, mapping)

    loop.start(X.shape[1], note)
    first = loop.current
    measured: dict[str, float] = {}
    updates_s: list[float] = []
    feeding_s, done = 0.0, 0
    points = checkpoints.tolist()
    forced = {min(learner.block_size, points[-1]), points[-1]} if ends else set()
    for seen in sorted({*points, *forced}):
        begin = time.process_time()
        loop.feed(X[done:seen], None if y is None else y[done:seen], note)
        feeding_s += time.process_time() - begin
        done = seen
        if seen in forced:
            _update_all(loop, branches)
        if seen not in points:
            continue
        for branch in branches:
            key = branch.snapshot.fingerprint
            if key not in measured:
                measured[key], seconds = _precision(split, branch.snapshot, top)
                updates_s.append(seconds)
            branch.precisions.append(measured[key])
        progress(done, len(X))
    for branch, followed in zip(branches, loop.branches, strict=True):
        branch.deciding_s = followed.deciding_s
    learning_s = feeding_s - sum(branch.deciding_s for branch in branches)
    reservoir_s = _reservoir_seconds(Reservoir(reservoir_size, seed), X, y, learner.block_size)
    update_s = float(np.median(updates_s))
    return Pass(points, branches, first, loop.current, learning_s, reservoir_s, update_s)


def _update_all(loop: Loop, branches: Sequence[Branch]) -> None:
    """Update every table whose mapping is not the current one."""
    mapping = loop.current
    for branch, followed in zip(branches, loop.branches, strict=True):
        if followed.accepted is not None and mapping.distance(followed.accepted) >= UNMOVED:
            followed.accept(mapping)
            branch.snapshot = mapping
            branch.updated_at.append(loop.seen)


def pass_seed(trial: int, seed: int) -> int:
    """Return what seeds the learner and the reservoir of a trial: another for every trial and seed.

    Examples
    --------
    >>> pass_seed(2, seed=0), pass_seed(2, seed=1)
    (2, 1002)
    """
    return trial + 1000 * seed


def area_under(examples: Sequence[int], precisions: Sequence[float], rule: str = "mean") -> float:
    """Return the area under a curve of mAP: the mean over the checkpoints (App. B.1), or by the trapezoidal rule.

    The trapezoidal rule weighs each checkpoint by its distance to the others, divided by the length of the curve.

    Examples
    --------
    >>> area_under([0, 10, 40], [0.1, 0.4, 0.7])
    0.39999999999999997
    >>> area_under([0, 10, 40], [0.1, 0.4, 0.7], "trapezoid")
    0.475
    """
    validation.choice("auc", rule, AREAS)
    if rule == "mean" or len(examples) < 2:
        return float(np.mean(precisions))
    return float(np.trapezoid(precisions, examples) / (examples[-1] - examples[0]))


def _reservoir_seconds(reservoir: Reservoir, X: Rows, y: Labels | None, block_size: int) -> float:
    """Return the CPU seconds that a reservoir takes for a stream."""
    begin = time.process_time()
    for start in range(0, len(X), block_size):
        rows = slice(start, start + block_size)
        slots = reservoir.plan(len(X[rows]))
        reservoir.apply(X[rows], None if y is None else y[rows], slots)
    return time.process_time() - begin


def _precision(split: Split, mapping: HashMapping, top: int | None) -> tuple[float, float]:
    """Return mAP of a table, and the CPU seconds of encoding it."""
    begin = time.process_time()
    base = mapping.encode_rows(split.X_base)
    seconds = time.process_time() - begin
    queries = mapping.encode_rows(split.X_query)
    return mean_average_precision(queries, base, split.relevant, mapping.n_bits, top=top), seconds
