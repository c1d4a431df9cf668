"""The loop of Fig. 2: a learner moves the mapping, a reservoir samples the stream, a trigger decides.

What is learned and decided is a function of the parameters and of the rows so far. Blocks end at fixed example
counts (multiples of the learner's block size), however the stream is split into calls: rows that do not fill a
block wait, and a check in mid-block works on copies that have learned from them. If a drift watch or a price
measures rows before they are learned, they wait for a whole window: one or more blocks, at least 100 rows.

When a check accepts the current mapping, later checks compare with it, whether or not its codes are published yet.
A replay reads stored checks instead of making them again. So an index also continues on another kind of processor,
where learning differs in the last bits.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from math import nan

from numpy.typing import ArrayLike

from .. import validation
from ..drift import DriftWatch
from ..errors import MIHashError, NotReady, StoreError
from ..kernels import one_thread
from ..mapping import HashMapping, NormalizedMapping, mapping_from_state
from ..online import OnlineLearner
from ..reservoir import Reservoir, same_kind
from ..state import State
from ..trigger import FEWEST, Decision, PriceUpdate, Trigger
from .arrivals import WINDOW, Arrivals
from .decisions import Check, DecisionLog, Entry, TriggerState, asks_for_threshold, decide
from .distances import Distances, reservoir_distances
from .normalization import N_EXAMPLES, Normalization, fit_normalization, wrapped
from .quality import SampleQuality
from .row_queue import Labels, RowQueue, Vectors, learn_rows

Notify = Callable[[Check, HashMapping | None, int], None]
"""Takes a check, the mapping that it accepted or None, and the position of the trigger."""


def _ignore(check: Check, mapping: HashMapping | None, branch: int) -> None:
    """Do nothing with a check."""


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
    drift
        The drift watch, or None. At an alarm the reservoir and the learner follow the new stream.
    metric
        ``"euclidean"`` or ``"cosine"``: features are centred and scaled by the first 256 examples; until then,
        rows wait. None: features are not changed.
    raises
        Whether an error of the learner is raised. Otherwise only learning stops: ``failure`` says why, the
        accepted mapping stays, and `succeed` starts a new learner.

    Attributes
    ----------
    queue
        The rows that wait.
    failure
        Why learning has stopped; None while it has not.

    Examples
    --------
    >>> import mihash
    >>> import numpy as np
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
        drift: DriftWatch | None = None,
        metric: str | None = None,
        raises: bool = True,
    ) -> None:
        self.learner, self.reservoir, self.metric, self.raises = learner, reservoir, metric, raises
        self.branches = [TriggerState(copy.copy(trigger)) for trigger in triggers]  # one with a sum of its own
        self.drift = copy.copy(drift)
        reservoir.measures = learner.uses_threshold or any(asks_for_threshold(rule) for rule in triggers)
        self.quality = SampleQuality(n_mappings=len(self.branches) + 2)
        self.arrivals = Arrivals(n_mappings=len(self.branches) + 1)
        self.observing_s = 0.0  # CPU seconds spent on prequential measurements
        self._mapping: HashMapping | None = None  # at the last block edge, if it is known
        self.normalization: Normalization | None = None
        self.queue = RowQueue()
        self.failure: str | None = None
        self._intervals = sorted({trigger.interval for trigger in triggers if trigger is not None})
        self._observed = 0  # windows up to this example were looked at
        self._alarm: Decision | None = None  # not reported yet
        self._checked = 0  # checks up to this example are made
        self._offset = 0  # examples that are not in the reservoir's count: before a restart, or dropped
        self._log = DecisionLog()

    @property
    def seen(self) -> int:
        """How many examples were fed, including those that wait for a full block, without those left for later."""
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
        """Why nothing is learned: learning has failed, or a batch method refuses the sample; or None."""
        return self.failure or self.learner.refusal

    @property
    def current(self) -> HashMapping:
        """The mapping after every example so far; where learning has stopped, the accepted one."""
        return self._wrapped(self._current())

    def _current(self) -> HashMapping:
        if self.failure is not None and self.accepted is not None:
            return self.accepted
        return self._at(self._n_ready())[0]

    def check(self, X: ArrayLike, y: ArrayLike | None, n_features: int | None = None) -> tuple[Vectors, Labels]:
        """Return examples in the form that `feed` takes, or raise; nothing changes."""
        vectors, labels = self.reservoir.check(X, y, self.learner.n_features or n_features)
        self.check_labels(labels)
        return vectors, labels

    def check_labels(self, labels: Labels) -> None:
        """Raise where checked labels, or their absence, do not match the earlier labels or the learner."""
        if len(self.reservoir) or self.queue.first is not None:
            same_kind("y", labels, self.labels)
        self.learner.check(labels)

    @property
    def labels(self) -> Labels:
        """Labels of earlier rows, None if there are none; they fix the label kind of the stream."""
        return self.reservoir.y if len(self.reservoir) or self.queue.first is None else self.queue.first.labels

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
        with one_thread():  # here for all blocks: to limit BLAS takes as long as a small product
            while self.failure is None and (at := self._next()) <= self.reservoir.seen + self._n_ready():
                self._step(at, notify)

    def _normalize(self, notify: Notify) -> None:
        """Fit the normalisation to the first examples, and normalise all that wait."""
        assert self.metric is not None
        self.normalization = fit_normalization(self.queue.head(N_EXAMPLES).vectors, self.metric)
        self._accept_all("normalization", f"the first {N_EXAMPLES} examples give the features' centre", notify)
        self.queue.convert(self.normalization.apply)

    @property
    def _prices(self) -> list[TriggerState]:  # whose triggers look at rows before these are learned, if any are
        branches = [] if self.learner.is_fixed else self.branches
        return [branch for branch in branches if isinstance(branch.trigger, PriceUpdate)]

    @property
    def _window(self) -> int:
        """How many rows are learned in one step: a block, or as many blocks as are looked at together."""
        block = self.learner.block_size
        return block if self.drift is None and not self._prices else block * -(-WINDOW // block)

    def _next(self) -> int:
        """Return the next example count at which a window ends or a check is due."""
        checks = ((self._checked // interval + 1) * interval for interval in self._intervals)
        return min([self.reservoir.seen + self._window, *checks])

    def _step(self, at: int, notify: Notify) -> None:
        """Learn the window that ends at an example count, if one does, and make the checks that are due there."""
        forced, decisions = False, list[tuple[int, Decision]]()
        whole = at == self.reservoir.seen + self._window
        if whole:
            self._watch(at, notify)
        with self._failing():
            if whole and self.failure is None:
                forced = self.reservoir.seen < self.learner.forced_until
                rows, self._mapping = self.queue.head(self._window), None
                learn_rows(self.learner, self.reservoir, rows)
                self.queue.drop(len(rows.vectors))
            asked = ((position, branch.trigger) for position, branch in enumerate(self.branches))
            due = [i for i, rule in asked if rule is not None and (forced or at % rule.interval == 0)]
            if due and self.failure is None:
                mapping, reservoir = self._at(at - self.reservoir.seen)
                decisions = [
                    (position, self._ask(mapping, reservoir, position, forced=forced)) for position in due
                ]
        for position, decision in decisions:
            self._decided("trigger", self._offset + at, decision, mapping, notify, position)
        self._checked = at

    def _watch(self, at: int, notify: Notify) -> None:
        """Measure a window for prices and the drift watch before learning from it; at an alarm, adapt to it."""
        if self.drift is None and not self._prices:
            return
        begin, rows, find = time.thread_time(), self.queue.head(self._window), self._at_edge
        with self._failing():
            if self._observed < at and len(self.reservoir) >= min(FEWEST, self.reservoir.size):
                made = self.arrivals.observe(self.reservoir, find, self._prices, self.drift, rows)
                self._alarm = self._log.alarm(self.n_checks, self._offset + at, made)
        self.observing_s += time.thread_time() - begin
        self._observed = at
        if self._alarm is not None and self.drift is not None:
            for position in range(len(self.branches)):
                self._decided("alarm", self._offset + at, self._alarm, None, notify, position)
            self._alarm = None
            self.drift.restart()
            self.reservoir.restart()
            self.learner.refresh(self.drift.keep)

    def _at_edge(self) -> HashMapping:
        """Return the learner's mapping, the same object until it learns again."""
        if self._mapping is None:
            self._mapping = self.learner.mapping
        return self._mapping

    def _n_ready(self) -> int:
        """Return how many rows wait for nothing but their block."""
        return self.queue.due if self.metric is None or self.normalization is not None else 0

    def _at(self, n: int) -> tuple[HashMapping, Reservoir]:
        """Return mapping and sample after the first n rows of the queue too; copies learn from these."""
        if not n:
            return self._at_edge(), self.reservoir
        learner, reservoir = self.learner.copy(), self.reservoir.copy()
        learn_rows(learner, reservoir, self.queue.head(n))
        return learner.mapping, reservoir

    @contextmanager
    def _failing(self) -> Iterator[None]:
        """Stop learning at an error of the learner, where the loop does not raise it."""
        try:
            yield
        except Exception as error:
            if self.raises or isinstance(error, MemoryError | StoreError):
                raise
            known = isinstance(error, MIHashError)
            self._stop(str(error) if known else f"{self.learner.name} raised {type(error).__name__}: {error}")

    def _stop(self, failure: str | None) -> None:  # rows that are due stay counted, and are not learned from
        self.failure = failure
        if failure is not None:
            self._offset += self.queue.due
            self.queue.drop(self.queue.due)

    def request(self, reason: str = "requested by rehash()", notify: Notify = _ignore) -> Check:
        """Accept the current mapping now."""
        return self._decided("request", self.seen, Decision(True, nan, reason), self._current(), notify)

    def set_price(self, price: float, reason: str, notify: Notify = _ignore) -> Check:
        """Set the price of a rehash, in queries; raise if the first trigger has no price."""
        trigger = self.branches[0].trigger
        if not isinstance(trigger, PriceUpdate):
            raise NotReady("The trigger has no price: use PriceUpdate.")
        decision = Decision(False, nan, reason, validation.number("price", price, minimum=0), trigger.price)
        check = self._decided("price", self.seen, decision, None, notify)
        trigger.price = price if check.current is None else check.current
        return check

    def offer(self, mapping: HashMapping, force: bool = False, notify: Notify = _ignore) -> Check:
        """Take a mapping that was learned elsewhere as the current one; the trigger decides if it is accepted."""
        if self.accepted is None:
            raise NotReady("The sample is empty, so mappings cannot be compared: add vectors first.")
        self.learner.give(mapping)
        self._mapping = None
        if force:
            return self.request("requested by offer(force=True)", notify)
        current, reservoir = self._at(self._n_ready())
        return self._decided("offer", self.seen, self._ask(current, reservoir, offered=True), current, notify)

    def _ask(self, mapping: HashMapping, reservoir: Reservoir, position: int = 0, **how: bool) -> Decision:
        """Ask a trigger about a mapping, forced or offered."""
        branch, begin = self.branches[position], time.thread_time()
        if branch.trigger is None or branch.accepted is None:
            raise NotReady("There is no trigger, or no accepted mapping to compare with.")
        decision = decide(branch.trigger, mapping, branch.accepted, reservoir, self.quality, **how)
        branch.deciding_s += time.thread_time() - begin
        return decision

    def _accept_all(self, kind: str, reason: str, notify: Notify) -> None:
        """Accept the learner's mapping for every trigger."""
        mapping = self._at_edge()
        for position in range(len(self.branches)):
            self._decided(kind, 0, Decision(True, nan, reason), mapping, notify, position)

    def _decided(
        self,
        kind: str,
        seen: int,
        decision: Decision,
        mapping: HashMapping | None,
        notify: Notify,
        position: int = 0,
    ) -> Check:
        """Notify of the next check, as the log has it or as it was decided now; then take it over."""
        branch = self.branches[position]
        written = self._log.take(branch.n_checks, kind, seen)
        if written is None:
            self._end_log()
            check = Check.of(branch.n_checks, kind, seen, decision)
            taken = mapping if decision.update else None
            notify(check, None if taken is None else self._wrapped(taken), position)
            if taken is not None:
                branch.accept(taken)
        else:
            check, stored = written
            notify(check, stored, position)
            if stored is not None:
                self._accept_stored(stored)
        branch.n_checks += 1
        return check

    def follow(self, log: Iterable[Entry]) -> None:
        """Take over stored checks with the mappings that they accepted, instead of making them again."""
        self._log = DecisionLog(log)

    def _end_log(self) -> None:
        """Go on behind the log, if there is more of it: learning came to another point."""
        rest = self._log.rest(self.n_checks)
        accepted = [mapping for _, mapping in rest if mapping is not None]
        if accepted:
            self._accept_stored(accepted[-1])
        if rest:
            self.branches[0].n_checks = 1 + max(check.number for check, _ in rest)

    def _accept_stored(self, wrapped: HashMapping) -> None:
        """Accept a stored mapping, with its normalisation."""
        branch = self.branches[0]
        if self.metric is None:
            branch.accept(wrapped)
            return
        assert isinstance(wrapped, NormalizedMapping)
        branch.accept(wrapped.inner)
        if self.normalization is not None:
            self.normalization = Normalization(wrapped.mean, float(wrapped.gain[0]), wrapped.unit)

    def _wrapped(self, mapping: HashMapping) -> HashMapping:
        """Return a mapping of normalised features as one of features."""
        return wrapped(mapping, self.normalization, self.metric)

    def sampled(self) -> Callable[[HashMapping], Distances]:
        """Return a function that gives the distances under a mapping on the sample as it is now."""
        reservoir, normalization = self.reservoir.copy(), self.normalization
        return lambda mapping: reservoir_distances(reservoir, mapping, normalization)

    def succeed(self, stopped: Loop) -> None:
        """Replace a loop that has stopped: keep its accepted mapping, and restart learning with the next rows."""
        if stopped.accepted is not None:
            self.learner.start(stopped.accepted.n_features)
        self.branches, self.normalization = stopped.branches, stopped.normalization
        self.queue, self._offset = stopped.queue, stopped.seen

    def state(self) -> State:
        """Return everything that `restore` needs, except rows that were left for later."""
        due = dict(zip("Xy", self.queue.head(self.queue.due)[:2], strict=True)) if self.queue.due else None
        waiting, trigger = self._n_ready() > 0, self.branches[0].trigger
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
            "watch": None if self.drift is None else self.drift.state(),
            "arrivals": self.arrivals.state(),
            "price": trigger.state() if isinstance(trigger, PriceUpdate) else None,
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
        watched = ((self.drift, "watch"), (self.branches[0].trigger, "price"), (self.arrivals, "arrivals"))
        for part, name in watched:  # not in earlier ones
            if isinstance(part, DriftWatch | PriceUpdate | Arrivals) and state.get(name) is not None:
                part.restore(state[name])
        self.queue = RowQueue()
        for rows in (learning["waiting"], state["early"]):
            if rows is not None:
                self.queue.put(rows["X"], rows["y"])
        self.queue.take()
        self._stop(state["failure"])
