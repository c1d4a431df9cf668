"""What an index has learned: a function of its options and of the rows so far, and of nothing else.

Rows go in, events come out: the decisions of the trigger, each with a number. A yes makes the current mapping the
accepted one, which later decisions compare with. When its hash table is there for queries is another matter and
has no influence here. A replay follows the log: decisions that are written down are read, not made again. So an
index goes on where it was also on another processor, on which learning ends in other last bits.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, MIHashError, NotReady
from ..mapping import HashMapping, NormalizedMapping, mapping_from_state
from ..online import Given, OnlineLearner, Refit
from ..reservoir import Reservoir, same_kind
from ..state import State
from ..trigger import Decision, Trigger
from .blocks import Learning, Moment
from .decisions import decide
from .distances import Distances, reservoir_distances
from .normalization import N_EXAMPLES, Normalization, fit_normalization
from .quality import Gauge

Labels = NDArray[Any] | None


@dataclass(frozen=True)
class Event:
    """A decision.

    Attributes
    ----------
    number
        Which decision it is, from 0; the first mapping is the 0.
    kind
        Who decided: ``"start"``, ``"normalization"``, ``"trigger"``, ``"request"``, or ``"offer"`` where the
        trigger was asked about a mapping from elsewhere.
    seen
        After how many examples.
    decision
        What was decided, and why.
    mapping
        The mapping that was accepted, None where none was.
    """

    number: int
    kind: str
    seen: int
    decision: Decision
    mapping: HashMapping | None


class Stream:
    """A learner, a reservoir and a trigger, and the mapping that was accepted last.

    Parameters
    ----------
    learner
        The online hashing method; it is moved.
    trigger
        When a mapping is accepted.
    reservoir
        The sample of the stream; it is filled.
    metric
        ``"euclidean"`` or ``"cosine"``, for the normalisation.
    normalize
        Whether features are centred and scaled, by what the first 256 examples have; these wait until they are so
        many.

    Examples
    --------
    >>> import mihash
    >>> stream = Stream(mihash.online.MIHash(16), mihash.TriggerUpdate(0.01, 100), Reservoir(100))
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 4, size=1000)
    >>> X = 5 + rng.standard_normal((4, 16))[y] + 0.7 * rng.standard_normal((1000, 16))
    >>> events = list(stream.feed(*stream.check(X, y)))
    >>> [(event.kind, event.seen) for event in events if event.mapping is not None][:3]
    [('start', 0), ('normalization', 0), ('trigger', 100)]
    """

    def __init__(
        self,
        learner: OnlineLearner,
        trigger: Trigger,
        reservoir: Reservoir,
        metric: str = "euclidean",
        normalize: bool = True,
    ) -> None:
        self.trigger, self.metric, self.normalize = trigger, metric, normalize
        self._learning = Learning(learner, reservoir)
        self._gauge = Gauge()
        self._normalization: Normalization | None = None
        self._early: tuple[NDArray[np.float32], Labels] | None = None
        self._accepted: HashMapping | None = None  # of normalised features
        self._before = 0  # examples of streams that this one succeeds
        self._log: dict[int, Event] = {}
        self.n_events = 0
        self.failure: str | None = None

    @property
    def learner(self) -> OnlineLearner:
        """The online hashing method."""
        return self._learning.learner

    @property
    def seen(self) -> int:
        """How many examples were fed."""
        return self._before + self._learning.seen + (0 if self._early is None else len(self._early[0]))

    @property
    def started(self) -> bool:
        """Whether there is a first mapping."""
        return self._accepted is not None

    @property
    def trouble(self) -> str | None:
        """Why nothing is being learned: learning has failed, or a batch method refuses the sample; or None."""
        refusal = self.learner.refusal if isinstance(self.learner, Refit) else None
        return self.failure or refusal

    @property
    def begun(self) -> bool:
        """Whether there is anything that the options do not say: an example, or a mapping that was given."""
        return self.started or (isinstance(self.learner, Given) and self.learner.n_features is not None)

    @property
    def current(self) -> HashMapping:
        """The mapping after every example so far; where learning has stopped, the accepted one."""
        return self._wrapped(self._current())

    def _current(self) -> HashMapping:
        if self.failure is not None and self._accepted is not None:
            return self._accepted
        return self._learning.current

    def check(
        self, X: ArrayLike, y: ArrayLike | None, n_features: int | None = None
    ) -> tuple[NDArray[np.float32], Labels]:
        """Return examples in the form that `feed` takes, or raise; nothing changes."""
        vectors, labels = self._learning.check(X, y, n_features)
        if self._early is not None:
            same_kind("y", labels, self._early[1])
        return vectors, labels

    def follow(self, log: Iterable[Event]) -> None:
        """Take decisions that were made before, in place of making them again, as the stream comes to them."""
        self._log = {event.number: event for event in log}

    def feed(self, vectors: NDArray[np.float32], labels: Labels) -> Iterator[Event]:
        """Learn from checked examples and yield every decision on the way.

        Whatever a learner raises stops the learning, and nothing else; ``failure`` is the reason. The accepted
        mapping stays; `succeed` begins anew.
        """
        if not self.started:
            self.learner.start(vectors.shape[1])
            reason = "the first mapping"
            yield self._decided("start", 0, lambda: (Decision(True, float("nan"), reason), self.learner.mapping))
        if self.failure is not None:
            return
        try:
            yield from self._feed(vectors, labels)
        except MemoryError:
            raise
        except MIHashError as error:
            self.failure = str(error)
        except Exception as error:  # of the learner's own making: a library's, or a fault
            self.failure = f"{self.learner.name} raised {type(error).__name__}: {error}"

    def _feed(self, vectors: NDArray[np.float32], labels: Labels) -> Iterator[Event]:
        if self.normalize and self._normalization is None:
            vectors, labels = self._joined(vectors, labels)
            if len(vectors) < N_EXAMPLES:
                self._early = (vectors.copy(), None if labels is None else labels.copy())
                return
            self._early = None
            self._normalization = fit_normalization(vectors[:N_EXAMPLES], self.metric)
            why = f"the first {N_EXAMPLES} examples give the features' centre"
            yield self._decided(
                "normalization", 0, lambda: (Decision(True, float("nan"), why), self.learner.mapping)
            )
        yield from self._learn(vectors, labels)

    def _learn(self, vectors: NDArray[np.float32], labels: Labels) -> Iterator[Event]:
        assert self._accepted is not None
        if self._normalization is not None:
            vectors = self._normalization.apply(vectors)
        with closing(self._learning.feed(vectors, labels, [self.trigger.interval])) as moments:
            for moment in moments:
                yield self._decided("trigger", self._before + moment.seen, partial(self._judged, moment))

    def _judged(self, moment: Moment) -> tuple[Decision, HashMapping]:
        assert self._accepted is not None
        return decide(self.trigger, moment, self._accepted, self._gauge), moment.mapping

    def request(self, reason: str = "requested by rehash()") -> Event:
        """Accept the current mapping now."""
        return self._decided("request", self.seen, lambda: (Decision(True, float("nan"), reason), self._current()))

    def succeed(self, stopped: "Stream") -> None:
        """Go on in place of a stream that has stopped: keep the accepted mapping, and learn from the beginning."""
        if stopped._accepted is not None:
            self.learner.start(stopped._accepted.n_features)
        self._accepted, self._normalization = stopped._accepted, stopped._normalization
        self.n_events, self._before = stopped.n_events, stopped.seen

    def begin(self, mapping: HashMapping) -> None:
        """Take a mapping that was learned elsewhere, which is accepted with the first example."""
        self._given().give(mapping)

    def _given(self) -> Given:
        if not isinstance(self.learner, Given):
            raise InvalidInput(
                f"This index learns its mapping with {self.learner.name}. One that was made with `mapping=` takes "
                "others."
            )
        return self.learner

    def offer(self, mapping: HashMapping, force: bool = False) -> Event:
        """Take a mapping that was learned elsewhere as the current one; the trigger says if it is accepted."""
        learner = self._given()
        if self._accepted is None:
            raise NotReady("There is nothing to compare on: add vectors first.")
        learner.give(mapping)
        if force:
            return self.request("it was given, and asked for")
        return self._decided("offer", self.seen, lambda: self._judged(self._learning.now()))

    def sampled(self) -> Callable[[HashMapping], Distances]:
        """Return what gives the distances under a mapping on the sample of this moment, whatever is fed later."""
        reservoir, normalization = self._learning.reservoir.copy(), self._normalization
        return lambda mapping: reservoir_distances(reservoir, mapping, normalization)

    def state(self) -> State:
        """Return everything that `restore` needs."""
        early = None if self._early is None else dict(zip("Xy", self._early, strict=True))
        return {
            "learning": self._learning.state(),
            "gauge": self._gauge.state(),
            "normalization": None if self._normalization is None else self._normalization.state(),
            "early": early,
            "accepted": None if self._accepted is None else self._accepted.state(),
            "n_events": self.n_events,
            "failure": self.failure,
            "before": self._before,
        }

    def restore(self, state: State) -> None:
        """Go on where `state` was taken."""
        self._learning.restore(state["learning"])
        self._gauge.restore(state["gauge"])
        found, early, accepted = state["normalization"], state["early"], state["accepted"]
        self._normalization = None if found is None else Normalization(**found)
        self._early = None if early is None else (early["X"], early["y"])
        self._accepted = None if accepted is None else mapping_from_state(accepted)
        self.n_events, self.failure = state["n_events"], state["failure"]
        self._before = state.get("before", 0)  # as of mihash 0.2

    def _joined(self, vectors: NDArray[np.float32], labels: Labels) -> tuple[NDArray[np.float32], Labels]:
        if self._early is None:
            return vectors, labels
        before, targets = self._early
        joined = None if labels is None or targets is None else np.concatenate([targets, labels])
        return np.concatenate([before, vectors]), joined

    def _decided(self, kind: str, seen: int, decide: Callable[[], tuple[Decision, HashMapping]]) -> Event:
        """Return the next event: as the log has it, else as it is decided now, on a mapping."""
        decision, mapping = decide()  # where the log counts, too: what is measured is part of the state
        written = self._log.pop(self.n_events, None)
        if written is not None and (written.kind, written.seen) == (kind, seen):
            if written.mapping is not None:
                self._accept(written.mapping)
            event = written
        else:
            if written is not None:  # learning came to another point here: go on behind the log
                self._end_log(written)
            if decision.update:
                self._accepted = mapping
            event = Event(self.n_events, kind, seen, decision, self._wrapped(mapping) if decision.update else None)
        self.n_events += 1
        return event

    def _end_log(self, written: Event) -> None:
        rest = [written, *self._log.values()]
        accepted = [event.mapping for event in rest if event.mapping is not None]
        if accepted:
            self._accept(accepted[-1])
        self.n_events = 1 + max(event.number for event in rest)
        self._log.clear()

    def _accept(self, wrapped: HashMapping) -> None:
        """Take over a mapping of features as it was stored, with its normalisation."""
        if not self.normalize:
            self._accepted = wrapped
            return
        assert isinstance(wrapped, NormalizedMapping)
        self._accepted = wrapped.inner
        if self._normalization is not None:
            self._normalization = Normalization(wrapped.mean, float(wrapped.gain[0]), wrapped.unit)

    def _wrapped(self, mapping: HashMapping) -> HashMapping:
        if not self.normalize:
            return mapping
        if self._normalization is None:
            return NormalizedMapping(mapping, np.zeros(mapping.n_features), 1.0, self.metric == "cosine")
        return self._normalization.wrap(mapping)
