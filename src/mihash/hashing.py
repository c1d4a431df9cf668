"""OnlineHashing: the loop of Fig. 2 -- a learner, a reservoir, a trigger and a hash table.

A stream of examples moves the mapping and feeds the reservoir; every ``interval`` examples the trigger says
whether the table is worth recomputing. Queries are answered with the table as it is.
"""

import copy
import os
from collections import deque
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import state as saved
from . import validation
from .errors import CorruptStore, InvalidInput, NotReady
from .information import quality
from .mapping import HashMapping, mapping_from_state
from .neighbors import Neighborhood, SameLabel
from .online import OnlineLearner, learner_class
from .reservoir import Reservoir
from .tables import HashTable, MemoryTable
from .trigger import UNMOVED, Decision, FixedRate, Trigger, TriggerUpdate

__all__ = ["Check", "OnlineHashing"]

State = saved.State
Labels = NDArray[Any] | None

_HISTORY = 100_000
_TRIGGERS: dict[str, type[Trigger]] = {"TriggerUpdate": TriggerUpdate, "FixedRate": FixedRate}


@dataclass(frozen=True)
class Check:
    """A decision of the trigger, and after how many examples it was made."""

    seen: int
    decision: Decision


class OnlineHashing:
    """Learn a hash mapping from a stream, and recompute the hash table when that pays.

    Parameters
    ----------
    learner
        An online hashing method of `mihash.online`; the loop moves it.
    trigger
        When to update the table: `TriggerUpdate` or `FixedRate`.
    reservoir_size
        How many examples of the stream are sampled, at least 2; the paper uses 5 % of the stream.
    table
        Where codes are kept; a new `MemoryTable` by default.
    seed
        Seeds the reservoir.
    neighbors
        A rule of `mihash.neighbors` in place of the usual ones (labels, or the 5 % closest pairs without them).

    Notes
    -----
    The mapping, the decisions and the codes are functions of the parameters and of the stream, never of how the
    stream was cut into calls of `feed`.

    Examples
    --------
    >>> import mihash
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=1000)
    >>> X = rng.standard_normal((3, 8))[y] + 0.3 * rng.standard_normal((1000, 8))
    >>> system = mihash.OnlineHashing(mihash.online.MIHash(n_bits=16), reservoir_size=100)
    >>> system.table.add(X)
    >>> system.feed(X, y)
    >>> keys, distances = system.search(X[:5], k=3)
    >>> [(y[row] == y[query]).tolist() for query, row in enumerate(keys)]
    [[True, True, True], [True, True, True], [True, True, True], [True, True, True], [True, True, True]]
    >>> 1 < system.updates < 11
    True
    """

    def __init__(
        self,
        learner: OnlineLearner,
        trigger: Trigger = TriggerUpdate(),  # noqa: B008 -- frozen
        reservoir_size: int = 1000,
        table: HashTable | None = None,
        seed: int = 0,
        *,
        neighbors: Neighborhood | None = None,
    ) -> None:
        if not isinstance(learner, OnlineLearner):
            raise InvalidInput(f"`learner` must be an online learner, such as online.MIHash(); got {learner!r}.")
        if not isinstance(trigger, Trigger):
            raise InvalidInput(f"`trigger` must be TriggerUpdate() or FixedRate(); got {trigger!r}.")
        self.learner = learner
        self.trigger = trigger
        self.table: HashTable = MemoryTable() if table is None else table
        self.reservoir = Reservoir(
            validation.integer("reservoir_size", reservoir_size, minimum=2), seed, neighbors
        )
        self.updates = 0
        self.history: deque[Check] = deque(maxlen=_HISTORY)
        self._snapshot: HashMapping | None = None
        self._waiting: tuple[NDArray[np.float32], Labels] | None = None
        self._gauge = _Gauge(self.reservoir)
        self._peeked: tuple[int, HashMapping] | None = None

    @property
    def seen(self) -> int:
        """How many examples were fed."""
        waiting = 0 if self._waiting is None else len(self._waiting[0])
        return self.reservoir.seen + waiting

    @property
    def current(self) -> HashMapping:
        """The mapping after every example fed so far, also those that wait for their block to fill."""
        self._start_from_table()
        if self._waiting is None:
            return self.learner.mapping
        if self._peeked is None or self._peeked[0] != self.seen:
            self._peeked = (self.seen, self._ahead(*self._waiting)[0].mapping)
        return self._peeked[1]

    @property
    def snapshot(self) -> HashMapping:
        """The mapping that the table's codes and the queries are made with."""
        self._start_from_table()
        if self._snapshot is None:
            raise NotReady("The dimension is not known yet: feed or store examples first.")
        return self._snapshot

    def feed(self, X: ArrayLike, y: ArrayLike | None = None) -> None:
        """Learn from examples of the stream, deciding about the table on the way.

        Parameters
        ----------
        X
            Feature vectors (n, d), any number at a time.
        y
            Class labels (n,), a 0/1 matrix (n, classes), or None; as the stream began, so it goes on.
        """
        vectors, labels = self._checked(X, y)
        self._start(vectors.shape[1])
        before = self.seen
        if self._waiting is not None:
            vectors = np.concatenate([self._waiting[0], vectors])
            labels = None if labels is None else np.concatenate([self._waiting[1], labels])
        done = self._advance(vectors, labels, before)
        rest = (vectors[done:].copy(), None if labels is None else labels[done:].copy())
        self._waiting = rest if len(rest[0]) else None

    def search(self, Q: ArrayLike, k: int = 10) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return keys and distances (n_queries, min(k, items)) of the nearest stored items, nearest first.

        Queries are encoded with the snapshot, as the table was.
        """
        validation.integer("k", k, minimum=1)
        self._start_from_table()
        if self._snapshot is None:
            n = len(validation.features("Q", Q, allow_empty=True))
            return np.empty((n, 0), dtype=np.int64), np.empty((n, 0), dtype=np.int32)
        return self.table.search(Q, k)

    def update(self) -> None:
        """Recompute the table with the current mapping now, whatever the trigger would say."""
        mapping = self.current
        self._gauge.codes = None
        self._accept(mapping)

    def _checked(self, X: ArrayLike, y: ArrayLike | None) -> tuple[NDArray[np.float32], Labels]:
        known = self.learner.n_features or self.table.n_features
        vectors = validation.features("X", X, known)
        if self._waiting is not None and not len(self.reservoir):
            begun = Reservoir(2)
            begun.apply(*self._waiting, np.full(len(self._waiting[0]), -1))
            vectors, labels = begun.check(vectors, y)
        else:
            vectors, labels = self.reservoir.check(vectors, y)
        self.learner.check(labels)
        return vectors, labels

    def _start(self, n_features: int) -> None:
        if self._snapshot is None:
            self.learner.start(n_features)
            self._accept(self.learner.mapping)

    def _start_from_table(self) -> None:
        if self._snapshot is None and self.table.n_features is not None:
            self._start(self.table.n_features)

    def _advance(self, X: NDArray[np.float32], y: Labels, seen: int) -> int:
        """Go through rows from the last block edge on; return how many were learned from."""
        start, block, interval = self.reservoir.seen, self.learner.block_size, self.trigger.interval
        done = 0
        check = (seen // interval + 1) * interval
        while (event := min(start + done + block, check)) <= start + len(X):
            forced = False
            if event == start + done + block:
                part = slice(done, done + block)
                self._learn(X[part], None if y is None else y[part])
                done += block
                forced = event <= self.learner.forced_until
            if event == check or forced:
                part = slice(done, event - start)
                self._check(event, X[part], None if y is None else y[part], forced)
            if event == check:
                check += interval
        return done

    def _learn(self, X: NDArray[np.float32], y: Labels) -> None:
        slots = self.reservoir.plan(len(X))
        self.learner.learn(X, y, self.reservoir, slots)
        self.reservoir.apply(X, y, slots)
        self._gauge.replaced(slots)

    def _ahead(self, X: NDArray[np.float32], y: Labels) -> tuple[OnlineLearner, Reservoir]:
        """Return copies of learner and reservoir that have gone on by part of a block."""
        learner, reservoir = self.learner.copy(), copy.deepcopy(self.reservoir)
        slots = reservoir.plan(len(X))
        learner.learn(X, y, reservoir, slots)
        reservoir.apply(X, y, slots)
        return learner, reservoir

    def _check(self, seen: int, X: NDArray[np.float32], y: Labels, forced: bool) -> None:
        """Ask the trigger; rows that are not learned from yet are learned from by copies."""
        learner, gauge = self.learner, self._gauge
        if len(X):
            learner, reservoir = self._ahead(X, y)
            gauge = _Gauge(reservoir)
        current = learner.mapping
        moved = current.distance(self.snapshot) >= UNMOVED
        if forced and moved:
            decision = Decision(True, float("nan"), f"{self.learner.name} asks for it at its start")
        else:
            decision = self.trigger.judge(
                moved, len(gauge.reservoir), lambda: gauge.measure(current, self.snapshot)
            )
        self.history.append(Check(seen, decision))
        if decision.update:
            self._gauge.codes = None if forced or gauge is not self._gauge else gauge.current
            self._accept(current)

    def _accept(self, mapping: HashMapping) -> None:
        self.table.rebuild(mapping)
        self._snapshot = mapping
        self.updates += 1

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file: learner, reservoir, trigger, table, and examples that wait.

        Loaded again, the loop goes on to the same bits as if it had not stopped.
        """
        table = getattr(self.table, "state", None)
        if table is None:
            raise InvalidInput(
                f"A {type(self.table).__name__} keeps its own state and is not saved with the loop."
            )
        kind = type(self.trigger).__name__
        if kind not in _TRIGGERS:
            raise InvalidInput(f"Only {', '.join(_TRIGGERS)} can be saved; the trigger is a {kind}.")
        waiting = None if self._waiting is None else dict(zip("Xy", self._waiting, strict=True))
        state = {
            "learner": self.learner.state(),
            "reservoir": self.reservoir.state(),
            "trigger": {"kind": kind, **asdict(self.trigger)},  # type: ignore[call-overload]
            "table": table(),
            "updates": self.updates,
            "history": [[check.seen, asdict(check.decision)] for check in self.history],
            "snapshot": None if self._snapshot is None else self._snapshot.state(),
            "waiting": waiting,
        }
        saved.write(path, state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], learner: OnlineLearner | None = None) -> Self:
        """Return the loop that `save` wrote; a learner of one's own class is given as a fresh one."""
        state = saved.read(path)
        try:
            return cls._from_state(state, learner)
        except (KeyError, TypeError) as error:
            raise CorruptStore(f"{path} is not a saved OnlineHashing: {error!r}.") from error

    @classmethod
    def _from_state(cls, state: State, learner: OnlineLearner | None) -> Self:
        if learner is None:
            learner = learner_class(state["learner"]["name"])(**state["learner"]["parameters"])
        trigger = dict(state["trigger"])
        table = MemoryTable()
        table.restore(state["table"])
        neighbors = state["reservoir"]
        system = cls(
            learner, _TRIGGERS[trigger.pop("kind")](**trigger), neighbors["size"], table, neighbors["seed"]
        )
        learner.restore(state["learner"])
        system.reservoir.restore(state["reservoir"])
        system.updates = state["updates"]
        system.history.extend(Check(seen, Decision(**decision)) for seen, decision in state["history"])
        if state["snapshot"] is not None:
            system._snapshot = mapping_from_state(state["snapshot"])
        if state["waiting"] is not None:
            system._waiting = (state["waiting"]["X"], state["waiting"]["y"])
        return system

    def __repr__(self) -> str:
        """Show the parts and how far the stream has come."""
        return f"OnlineHashing({self.learner!r}, {self.trigger!r}, {self.seen} examples, {self.updates} updates)"


class _Gauge:
    """Measures both qualities on a reservoir, redoing only what its replaced slots have changed."""

    def __init__(self, reservoir: Reservoir) -> None:
        self.reservoir = reservoir
        self.codes: NDArray[np.uint8] | None = None  # the snapshot's
        self.current: NDArray[np.uint8] | None = None
        self._stale = np.zeros(reservoir.size, dtype=np.bool_)
        self._matrix: NDArray[np.bool_] | None = None
        self._stale_pairs = np.zeros(reservoir.size, dtype=np.bool_)
        self._rule: Neighborhood | None = None

    def replaced(self, slots: NDArray[np.int64]) -> None:
        """Note which slots hold other examples than before."""
        kept = slots[slots >= 0]
        self._stale[kept] = True
        self._stale_pairs[kept] = True

    def measure(self, current: HashMapping, snapshot: HashMapping) -> tuple[float, float]:
        """Return Q_R of the current mapping and of the snapshot, on the same examples (Eq. 6)."""
        X = self.reservoir.X
        neighbors = self._neighbors()
        self.current = current.encode(X)
        now = quality(self.current, neighbors, current.n_bits)
        before = quality(self._snapshot_codes(snapshot), neighbors, snapshot.n_bits)
        return now, before

    def _snapshot_codes(self, snapshot: HashMapping) -> NDArray[np.uint8]:
        n, X = len(self.reservoir), self.reservoir.X
        if self.codes is None:
            self.codes = snapshot.encode(X)
        else:
            if len(self.codes) < n:
                grown = np.zeros((n, self.codes.shape[1]), dtype=np.uint8)
                grown[: len(self.codes)] = self.codes
                self.codes = grown
            rows = np.flatnonzero(self._stale[:n])
            if len(rows):
                self.codes[rows] = snapshot.encode(X[rows])
        self._stale[:] = False
        return self.codes

    def _neighbors(self) -> NDArray[Any]:
        """Return labels, or the matrix of neighbours with the rows and columns of new examples redone."""
        n, rule, y = len(self.reservoir), self.reservoir.neighborhood, self.reservoir.y
        X = self.reservoir.X
        if isinstance(rule, SameLabel) and y is not None:
            return y
        if rule is None:
            return np.zeros((n, n), dtype=np.bool_)
        if self._matrix is None or len(self._matrix) != n or rule != self._rule:
            self._matrix = rule.between(X, y, X, y)
        else:
            rows = np.flatnonzero(self._stale_pairs[:n])
            if len(rows):
                block = rule.between(X[rows], None if y is None else y[rows], X, y)
                self._matrix[rows] = block
                self._matrix[:, rows] = block.T
        self._rule = rule
        self._stale_pairs[:] = False
        return self._matrix
