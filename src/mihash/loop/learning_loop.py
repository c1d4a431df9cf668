"""The loop of Fig. 2: a learner moves the mapping, a reservoir samples the stream, a trigger decides.

What is learned and decided is a function of the parameters and of the rows so far. Blocks end at fixed example
counts (multiples of the learner's block size), wherever the stream was cut into calls: rows that do not fill a
block wait, and a check in mid-block works on copies that have learned from them.

A yes makes the current mapping the accepted one, with which later checks compare the current one. When a hash
table with its codes is published does not matter here. A replay follows the log: stored checks are read, not made
again. So an index also continues where it was on another processor, where learning ends in other last bits.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from math import nan

import numpy as np
from numpy.typing import ArrayLike

from ..errors import MIHashError, NotReady
from ..kernels import one_thread
from ..mapping import HashMapping, NormalizedMapping, mapping_from_state
from ..online import OnlineLearner
from ..reservoir import Reservoir, same_kind
from ..state import State
from ..trigger import Decision, Trigger
from .decisions import Check, decide
from .distances import Distances, reservoir_distances
from .normalization import N_EXAMPLES, Normalization, fit_normalization
from .quality import SampleQuality
from .row_queue import Labels, RowQueue, Rows, Vectors

Notify = Callable[[Check, HashMapping | None, int], None]
"""Takes a check, the mapping that it accepted or None, and the position of the trigger."""


def _ignore(check: Check, mapping: HashMapping | None, branch: int) -> None:
    """Do nothing with a check."""


@dataclass
class Branch:
    """A trigger and what it has decided.

    Attributes
    ----------
    trigger
        When a mapping is accepted; None for only on request.
    accepted
        The mapping that was accepted last, of normalised features; None before the first.
    n_checks
        How many checks there were.
    deciding_s
        CPU seconds that these took.
    """

    trigger: Trigger | None
    accepted: HashMapping | None = None
    n_checks: int = 0
    deciding_s: float = 0.0


class Loop:
    """A learner, a reservoir and one or more triggers that go through a stream together.

    Learning does not depend on the trigger, so one pass serves several: each has its own accepted mapping. Each
    check is given to a function ``notify`` before the loop goes on. If that raises, the check counts as not made,
    and the next call makes it again.

    Parameters
    ----------
    learner
        The online hashing method; the loop moves it.
    reservoir
        The sample of the stream; the loop fills it.
    triggers
        When a mapping is accepted. None for a trigger means: only on request.
    metric
        ``"euclidean"`` or ``"cosine"``: features are centred and scaled, by the first 256 examples; until there
        are so many, they wait. None: features are used as they are.
    raises
        Whether an error of the learner is raised. Otherwise it stops the learning, and nothing else: ``failure``
        says why, the accepted mapping stays, and `succeed` starts a new learner.

    Attributes
    ----------
    queue
        The rows that wait.
    failure
        Why learning has stopped; None while it has not.

    Examples
    --------
    >>> import mihash
    >>> loop = Loop(mihash.online.MIHash(16), Reservoir(100), [mihash.TriggerUpdate(0.01)], metric="euclidean")
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=1000)
    >>> X = 5 + rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((1000, 16))
    >>> checks = []
    >>> loop.feed(*loop.check(X, y), notify=lambda check, mapping, branch: checks.append(check))
    >>> [(check.kind, check.seen) for check in checks if check.accepted][:3]
    [('start', 0), ('normalization', 0), ('trigger', 100)]
    """

    def __init__(
        self,
        learner: OnlineLearner,
        reservoir: Reservoir,
        triggers: Sequence[Trigger | None],
        *,
        metric: str | None = None,
        raises: bool = True,
    ) -> None:
        self.learner, self.reservoir, self.metric, self.raises = learner, reservoir, metric, raises
        self.branches = [Branch(trigger) for trigger in triggers]
        self.quality = SampleQuality(n_mappings=len(self.branches) + 2)
        self.normalization: Normalization | None = None
        self.queue = RowQueue()
        self.failure: str | None = None
        self._intervals = sorted({trigger.interval for trigger in triggers if trigger is not None})
        self._checked = 0  # checks up to this example are made
        self._offset = 0  # examples that are not in the reservoir's count: before a restart, or dropped
        self._log: dict[int, tuple[Check, HashMapping | None]] = {}

    @property
    def seen(self) -> int:
        """How many examples were fed, those that wait for their block counted, those left for later not."""
        return self._offset + self.reservoir.seen + self.queue.due

    @property
    def accepted(self) -> HashMapping | None:
        """The mapping that the first trigger accepted last, of normalised features; None before the first."""
        return self.branches[0].accepted

    @property
    def n_checks(self) -> int:
        """How many checks of the first trigger there were."""
        return self.branches[0].n_checks

    @property
    def trouble(self) -> str | None:
        """Why nothing is being learned: learning has failed, or a batch method refuses the sample; or None."""
        return self.failure or self.learner.refusal

    @property
    def current(self) -> HashMapping:
        """The mapping after every example so far; where learning has stopped, the accepted one."""
        return self._wrapped(self._current())

    def _current(self) -> HashMapping:
        if self.failure is not None and self.accepted is not None:
            return self.accepted
        return self._at(self._n_ready())[0]

    # Learning

    def check(self, X: ArrayLike, y: ArrayLike | None, n_features: int | None = None) -> tuple[Vectors, Labels]:
        """Return examples in the form that `feed` takes, or raise; nothing changes."""
        vectors, labels = self.reservoir.check(X, y, self.learner.n_features or n_features)
        self.check_labels(labels)
        return vectors, labels

    def check_labels(self, labels: Labels) -> None:
        """Raise where checked labels, or their absence, do not match the earlier labels or the learner."""
        if len(self.reservoir):
            same_kind("y", labels, self.reservoir.y)
        if self.queue.first is not None:
            same_kind("y", labels, self.queue.first.labels)
        self.learner.check(labels)

    def feed(self, vectors: Vectors, labels: Labels, notify: Notify = _ignore) -> None:
        """Learn from checked examples."""
        self.start(vectors.shape[1], notify)
        self.put(vectors, labels)
        self.learn(notify=notify)

    def put(self, vectors: Vectors, labels: Labels, last: int | None = None) -> None:
        """Queue copies of checked examples for `learn`; ``last`` is the number of the last row in a store."""
        copies = vectors.copy() if self.normalization is None else self.normalization.apply(vectors)
        self.queue.put(copies, None if labels is None else labels.copy(), last)

    def start(self, n_features: int, notify: Notify = _ignore) -> None:
        """Make the first mapping and accept it, unless that is done."""
        if self.accepted is None:
            self.learner.start(n_features)
            self._accept_all("start", "the first mapping", notify)

    def learn(self, n: int | None = None, notify: Notify = _ignore) -> None:
        """Learn from the next n rows of the queue, by default from all, and make the checks that are due."""
        if self.queue.first is not None:
            self.start(self.queue.first.vectors.shape[1], notify)
        self.queue.take(n)
        if self.failure is not None:
            self.queue.drop(self.queue.due)
            return
        if self.metric is not None and self.normalization is None and self.queue.due >= N_EXAMPLES:
            self._normalize(notify)
        while self.failure is None and (at := self._next()) <= self.reservoir.seen + self._n_ready():
            self._step(at, notify)

    def _normalize(self, notify: Notify) -> None:
        """Fit the normalisation to the first examples, and normalise all that wait."""
        assert self.metric is not None
        self.normalization = fit_normalization(self.queue.head(N_EXAMPLES).vectors, self.metric)
        self._accept_all("normalization", f"the first {N_EXAMPLES} examples give the features' centre", notify)
        self.queue.convert(self.normalization.apply)

    def _next(self) -> int:
        """Return the next example count at which a block ends or a check is due."""
        checks = ((self._checked // interval + 1) * interval for interval in self._intervals)
        return min([self.reservoir.seen + self.learner.block_size, *checks])

    def _step(self, at: int, notify: Notify) -> None:
        """Learn the block that ends at an example count, if one does, and make the checks that are due there."""
        forced, block, decisions = False, self.learner.block_size, list[tuple[int, Decision]]()
        with self._failing():
            if at == self.reservoir.seen + block:
                forced = self.reservoir.seen < self.learner.forced_until
                _learn(self.learner, self.reservoir, self.queue.head(block))
                self.queue.drop(block)
            due = [
                position
                for position, branch in enumerate(self.branches)
                if branch.trigger is not None and (forced or at % branch.trigger.interval == 0)
            ]
            if due:
                mapping, reservoir = self._at(at - self.reservoir.seen)
                decisions = [(position, self._ask(mapping, reservoir, position, forced)) for position in due]
        for position, decision in decisions:
            self._decided("trigger", self._offset + at, decision, mapping, notify, position)
        self._checked = at

    def _n_ready(self) -> int:
        """Return how many rows wait for nothing but their block."""
        return self.queue.due if self.metric is None or self.normalization is not None else 0

    def _at(self, n: int) -> tuple[HashMapping, Reservoir]:
        """Return mapping and sample after the first n rows of the queue too; copies learn from these."""
        learner, reservoir = self.learner, self.reservoir
        if n:
            learner, reservoir = learner.copy(), reservoir.copy()
            _learn(learner, reservoir, self.queue.head(n))
        return learner.mapping, reservoir

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Stop learning at an error of the learner, where the loop does not raise it."""
        try:
            yield
        except Exception as error:
            if self.raises or isinstance(error, MemoryError):
                raise
            known = isinstance(error, MIHashError)
            self._stop(str(error) if known else f"{self.learner.name} raised {type(error).__name__}: {error}")

    def _stop(self, failure: str | None) -> None:
        """Stop learning, if there is a failure; rows that are due stay counted, and are not learned from."""
        self.failure = failure
        if failure is not None:
            self._offset += self.queue.due
            self.queue.drop(self.queue.due)

    # Decisions

    def request(self, reason: str = "requested by rehash()", notify: Notify = _ignore) -> Check:
        """Accept the current mapping now."""
        return self._decided("request", self.seen, Decision(True, nan, reason), self._current(), notify)

    def offer(self, mapping: HashMapping, force: bool = False, notify: Notify = _ignore) -> Check:
        """Take a mapping that was learned elsewhere as the current one; the trigger decides if it is accepted."""
        if self.accepted is None:
            raise NotReady("There is nothing to compare on: add vectors first.")
        self.learner.give(mapping)
        if force:
            return self.request("requested by offer(force=True)", notify)
        current, reservoir = self._at(self._n_ready())
        return self._decided("offer", self.seen, self._ask(current, reservoir), current, notify)

    def _ask(
        self, mapping: HashMapping, reservoir: Reservoir, position: int = 0, forced: bool = False
    ) -> Decision:
        """Ask a trigger about a mapping."""
        branch, begin = self.branches[position], time.process_time()
        if branch.trigger is None or branch.accepted is None:
            raise NotReady("There is no trigger to ask, or no first mapping to compare with.")
        decision = decide(branch.trigger, mapping, branch.accepted, reservoir, self.quality, forced)
        branch.deciding_s += time.process_time() - begin
        return decision

    def _accept_all(self, kind: str, reason: str, notify: Notify) -> None:
        """Accept the learner's mapping for every trigger."""
        mapping = self.learner.mapping
        for position in range(len(self.branches)):
            self._decided(kind, 0, Decision(True, nan, reason), mapping, notify, position)

    def _decided(
        self, kind: str, seen: int, decision: Decision, mapping: HashMapping, notify: Notify, position: int = 0
    ) -> Check:
        """Notify of the next check, as the log has it or as it was decided now; then take it over."""
        branch = self.branches[position]
        written = self._log.pop(branch.n_checks, None)
        if written is not None and (written[0].kind, written[0].seen) != (kind, seen):
            self._end_log(written)  # learning came to another point here: go on behind the log
            written = None
        if written is None:
            check = Check.of(branch.n_checks, kind, seen, decision)
            notify(check, self._wrapped(mapping) if decision.update else None, position)
            branch.accepted = mapping if decision.update else branch.accepted
        else:
            check, stored = written
            notify(check, stored, position)
            if stored is not None:
                self._accept_stored(stored)
        branch.n_checks += 1
        return check

    # The log and the state

    def follow(self, log: Iterable[tuple[Check, HashMapping | None]]) -> None:
        """Take over stored checks with the mappings that they accepted, in place of making them again."""
        self._log = {check.number: (check, mapping) for check, mapping in log}

    def _end_log(self, written: tuple[Check, HashMapping | None]) -> None:
        rest = [written, *self._log.values()]
        accepted = [mapping for _, mapping in rest if mapping is not None]
        if accepted:
            self._accept_stored(accepted[-1])
        self.branches[0].n_checks = 1 + max(check.number for check, _ in rest)
        self._log.clear()

    def _accept_stored(self, wrapped: HashMapping) -> None:
        """Accept a stored mapping, with its normalisation."""
        branch = self.branches[0]
        if self.metric is None:
            branch.accepted = wrapped
            return
        assert isinstance(wrapped, NormalizedMapping)
        branch.accepted = wrapped.inner
        if self.normalization is not None:
            self.normalization = Normalization(wrapped.mean, float(wrapped.gain[0]), wrapped.unit)

    def _wrapped(self, mapping: HashMapping) -> HashMapping:
        """Return a mapping of normalised features as one of features."""
        if self.metric is None:
            return mapping
        if self.normalization is None:
            return NormalizedMapping(mapping, np.zeros(mapping.n_features), 1.0, self.metric == "cosine")
        return self.normalization.wrap(mapping)

    def sampled(self) -> Callable[[HashMapping], Distances]:
        """Return a function that gives the distances under a mapping on the sample as it is now."""
        reservoir, normalization = self.reservoir.copy(), self.normalization
        return lambda mapping: reservoir_distances(reservoir, mapping, normalization)

    def succeed(self, stopped: "Loop") -> None:
        """Replace a loop that has stopped: keep its accepted mapping, and learn anew from the rows to come."""
        if stopped.accepted is not None:
            self.learner.start(stopped.accepted.n_features)
        self.branches, self.normalization = stopped.branches, stopped.normalization
        self.queue, self._offset = stopped.queue, stopped.seen

    def state(self) -> State:
        """Return everything that `restore` needs, but for rows that were left for later."""
        due = dict(zip("Xy", self.queue.head(self.queue.due)[:2], strict=True)) if self.queue.due else None
        waiting = self._n_ready() > 0
        return {
            "learning": {
                "learner": self.learner.state(),
                "reservoir": self.reservoir.state(),
                "waiting": due if waiting else None,
                "looked": self._checked,
            },
            "gauge": self.quality.state(),
            "normalization": None if self.normalization is None else asdict(self.normalization),
            "early": None if waiting else due,
            "accepted": None if self.accepted is None else self.accepted.state(),
            "n_events": self.n_checks,
            "failure": self.failure,
            "before": self._offset,
        }

    def restore(self, state: State) -> None:
        """Continue where `state` was taken."""
        learning, normalization, accepted = state["learning"], state["normalization"], state["accepted"]
        self.learner.restore(learning["learner"])
        self.reservoir.restore(learning["reservoir"])
        self.quality.restore(state["gauge"])
        self._checked = learning["looked"]
        self.normalization = None if normalization is None else Normalization(**normalization)
        self.branches[0].accepted = None if accepted is None else mapping_from_state(accepted)
        self.branches[0].n_checks = state["n_events"]
        self._offset = state.get("before", 0)  # not in checkpoints of mihash 0.1
        self.queue = RowQueue()
        for rows in (learning["waiting"], state["early"]):
            if rows is not None:
                self.queue.put(rows["X"], rows["y"])
        self.queue.take()
        self._stop(state["failure"])


def _learn(learner: OnlineLearner, reservoir: Reservoir, rows: Rows) -> None:
    """Move a learner and its reservoir by one block."""
    slots = reservoir.plan(len(rows.vectors))
    with one_thread():
        learner.learn(rows.vectors, rows.labels, reservoir, slots)
        reservoir.apply(rows.vectors, rows.labels, slots)
