"""One pass of a learner over a stream, with block edges at fixed example counts.

A learner learns in blocks. Their edges stand at multiples of its block size, wherever the stream was cut into
calls and wherever somebody looks: rows that do not fill a block wait, and who looks in mid-block sees copies that
have gone ahead. So what is learned depends on the stream alone.
"""

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..kernels import one_thread
from ..mapping import HashMapping
from ..online import OnlineLearner
from ..reservoir import Reservoir, same_kind
from ..state import State

Labels = NDArray[Any] | None


@dataclass(frozen=True)
class Moment:
    """A point of the stream at which a decision is due.

    Attributes
    ----------
    seen
        How many examples have passed.
    mapping
        The mapping after them.
    reservoir
        The sample of them; in mid-block a copy.
    forced
        Whether the learner asks for an update here (App. D.2).
    """

    seen: int
    mapping: HashMapping
    reservoir: Reservoir
    forced: bool


class Learning:
    """A learner and a reservoir that go through a stream together.

    Parameters
    ----------
    learner
        The online hashing method; it is moved.
    reservoir
        The sample of the stream; it is filled.

    Examples
    --------
    >>> import mihash
    >>> learning = Learning(mihash.online.MIHash(8), mihash.Reservoir(50))
    >>> X = np.random.default_rng(0).standard_normal((250, 4))
    >>> [moment.seen for moment in learning.feed(*learning.check(X, X[:, 0] > 0), intervals=[90, 100])]
    [90, 100, 180, 200]
    """

    def __init__(self, learner: OnlineLearner, reservoir: Reservoir) -> None:
        self.learner = learner
        self.reservoir = reservoir
        self._waiting: tuple[NDArray[np.float32], Labels] | None = None
        self._peeked: tuple[int, HashMapping] | None = None
        self._looked = 0  # decisions up to here are made

    @property
    def seen(self) -> int:
        """How many examples were fed."""
        waiting = 0 if self._waiting is None else len(self._waiting[0])
        return self.reservoir.seen + waiting

    @property
    def current(self) -> HashMapping:
        """The mapping after every example fed so far, also those that wait for their block to fill."""
        if self._waiting is None:
            return self.learner.mapping
        if self._peeked is None or self._peeked[0] != self.seen:
            self._peeked = (self.seen, self._ahead(*self._waiting)[0].mapping)
        return self._peeked[1]

    def now(self) -> Moment:
        """Return this moment of the stream, with the examples that wait for their block to fill."""
        learner, reservoir = (
            (self.learner, self.reservoir) if self._waiting is None else self._ahead(*self._waiting)
        )
        return Moment(self.seen, learner.mapping, reservoir, forced=False)

    def check(
        self, X: ArrayLike, y: ArrayLike | None, n_features: int | None = None
    ) -> tuple[NDArray[np.float32], Labels]:
        """Return examples in the form that `feed` takes, or raise; nothing changes."""
        vectors, labels = self.reservoir.check(X, y, self.learner.n_features or n_features)
        if self._waiting is not None:
            same_kind("y", labels, self._waiting[1])
        self.learner.check(labels)
        return vectors, labels

    def feed(self, vectors: NDArray[np.float32], labels: Labels, intervals: Sequence[int]) -> Generator[Moment]:
        """Learn from checked examples, pausing at multiples of each interval and where the learner asks for it."""
        self.learner.start(vectors.shape[1])
        if self._waiting is not None:
            vectors = np.concatenate([self._waiting[0], vectors])
            labels = None if labels is None else np.concatenate([self._waiting[1], labels])
        start, end, block = self.reservoir.seen, self.reservoir.seen + len(vectors), self.learner.block_size

        def rows(first: int, last: int) -> tuple[NDArray[np.float32], Labels]:
            part = slice(first - start, last - start)
            return vectors[part], None if labels is None else labels[part]

        try:
            while (event := self._next_event(intervals)) <= end:
                forced = False
                if event == self.reservoir.seen + block:
                    self._learn(*rows(event - block, event))
                    forced = event - block < self.learner.forced_until
                if forced or any(event % interval == 0 for interval in intervals):
                    yield self._moment(event, *rows(self.reservoir.seen, event), forced)
                self._looked = event  # a decision that failed is made again
        finally:  # also when whoever decides has failed: what was not learned from waits
            rest, rest_labels = rows(self.reservoir.seen, end)
            kept = (rest.copy(), None if rest_labels is None else rest_labels.copy())
            self._waiting = kept if len(rest) else None

    def _next_event(self, intervals: Sequence[int]) -> int:
        """Return the next block edge or multiple of an interval after the last one."""
        due = ((self._looked // interval + 1) * interval for interval in intervals)
        return min(self.reservoir.seen + self.learner.block_size, *due)

    def _moment(self, seen: int, X: NDArray[np.float32], y: Labels, forced: bool) -> Moment:
        learner, reservoir = self._ahead(X, y) if len(X) else (self.learner, self.reservoir)
        return Moment(seen, learner.mapping, reservoir, forced)

    def _learn(self, X: NDArray[np.float32], y: Labels) -> None:
        slots = self.reservoir.plan(len(X))
        with one_thread():
            self.learner.learn(X, y, self.reservoir, slots)
            self.reservoir.apply(X, y, slots)

    def _ahead(self, X: NDArray[np.float32], y: Labels) -> tuple[OnlineLearner, Reservoir]:
        """Return copies of learner and reservoir that have gone on by part of a block."""
        ahead = Learning(self.learner.copy(), self.reservoir.copy())
        ahead._learn(X, y)
        return ahead.learner, ahead.reservoir

    def state(self) -> State:
        """Return learner, reservoir and the rows that wait."""
        waiting = None if self._waiting is None else dict(zip("Xy", self._waiting, strict=True))
        return {
            "learner": self.learner.state(),
            "reservoir": self.reservoir.state(),
            "waiting": waiting,
            "looked": self._looked,
        }

    def restore(self, state: State) -> None:
        """Go on where `state` was taken."""
        self.learner.restore(state["learner"])
        self.reservoir.restore(state["reservoir"])
        self._looked = state["looked"]
        waiting = state["waiting"]
        self._waiting = None if waiting is None else (waiting["X"], waiting["y"])
