"""OnlineHashing: the loop of Fig. 2 -- a learner, a reservoir, a trigger and a hash table.

A stream of examples moves the mapping and feeds the reservoir; every ``interval`` examples the trigger says
whether the table is worth recomputing. Queries are answered with the table as it is.
"""

import os
from collections import deque
from contextlib import closing
from dataclasses import asdict, dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import state as saved
from .. import validation
from ..errors import CorruptStore, InvalidInput, MIHashError, NotReady
from ..mapping import HashMapping, mapping_from_state
from ..neighbors import Neighborhood
from ..online import OnlineLearner, learner_class
from ..reservoir import Reservoir
from ..store import HashTable, MemoryTable
from ..trigger import Decision, FixedRate, Trigger, TriggerUpdate
from .blocks import Learning, Moment
from .decisions import decide
from .label_names import LabelNames
from .quality import Gauge

State = saved.State
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
        A rule of `mihash.neighbors`, or a Euclidean threshold, in place of the usual rules (labels, or the 5 %
        closest pairs without them).

    Notes
    -----
    On one machine, the mapping, the decisions and the codes are functions of the parameters and of the stream,
    never of how the stream was cut into calls of `feed`.

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
        neighbors: Neighborhood | float | None = None,
    ) -> None:
        if not isinstance(learner, OnlineLearner):
            raise InvalidInput(f"`learner` must be an online learner, such as online.MIHash(); got {learner!r}.")
        if not isinstance(trigger, Trigger):
            raise InvalidInput(f"`trigger` must be TriggerUpdate() or FixedRate(); got {trigger!r}.")
        if table is not None and not all(hasattr(table, name) for name in ("add", "rebuild", "search", "mapping")):
            raise InvalidInput(f"`table` must be a hash table, such as MemoryTable(); got {table!r}.")
        if table is not None and len(table) and table.n_features is None:
            raise InvalidInput("`table` must hold vectors: codes alone cannot be recomputed.")
        self.trigger = trigger
        self.table: HashTable = MemoryTable() if table is None else table
        size = validation.integer("reservoir_size", reservoir_size, minimum=2)
        self._learning = Learning(learner, Reservoir(size, seed, neighbors))
        self._updates = 0
        self.history: deque[Check] = deque(maxlen=_HISTORY)
        self._snapshot: HashMapping | None = None
        self._gauge = Gauge()
        self._names = LabelNames()

    @property
    def learner(self) -> OnlineLearner:
        """The online hashing method, as it was at the last block edge."""
        return self._learning.learner

    @property
    def reservoir(self) -> Reservoir:
        """The sample of the stream, as it was at the last block edge."""
        return self._learning.reservoir

    @property
    def seen(self) -> int:
        """How many examples were fed."""
        return self._learning.seen

    @property
    def updates(self) -> int:
        """How often the hash table was computed so far, the initial table counted (201 = 200 + 1)."""
        self._start_from_table()
        return self._updates

    @property
    def current(self) -> HashMapping:
        """The mapping after every example fed so far."""
        self._start_from_table()
        return self._learning.current

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
            Feature vectors (n, d), any number at a time, or one vector (d,).
        y
            Class labels (n,) as integers or strings, a 0/1 matrix (n, classes), or None; one label for one vector.
            The kind of the first labels is the kind of all.
        """
        rows, targets, _ = validation.as_rows("X", X, y)
        vectors, labels = self._learning.check(rows, self._names.codes(targets), self.table.n_features)
        self._names.keep()
        self._start(vectors.shape[1])
        with closing(self._learning.feed(vectors, labels, [self.trigger.interval])) as moments:
            for moment in moments:
                self._decide(moment)

    def search(self, Q: ArrayLike, k: int = 10) -> tuple[NDArray[Any], NDArray[np.int32]]:
        """Return keys and distances (n_queries, min(k, items)) of the nearest stored items, nearest first.

        Queries are encoded with the snapshot, as the table was. One query (d,) gives answers of one dimension.
        """
        validation.integer("k", k, minimum=1)
        queries, _, single = validation.as_rows("Q", Q)
        self._start_from_table()
        if self._snapshot is None:
            n = len(validation.features("Q", queries, allow_empty=True))
            found: tuple[Any, Any] = np.empty((n, 0), dtype=np.int64), np.empty((n, 0), dtype=np.int32)
        else:
            found = self.table.search(queries, k)
        return (found[0][0], found[1][0]) if single else found

    def update(self) -> None:
        """Recompute the table with the current mapping now, whatever the trigger would say."""
        self._accept(self.current)
        self.history.append(Check(self.seen, Decision(True, float("nan"), "requested by update()")))

    def _start(self, n_features: int) -> None:
        if self._snapshot is None:
            self.learner.start(n_features)
            self._accept(self.learner.mapping)

    def _start_from_table(self) -> None:
        if self._snapshot is None and self.table.n_features is not None:
            self._start(self.table.n_features)

    def _decide(self, moment: Moment) -> None:
        decision = decide(self.trigger, moment, self.snapshot, self._gauge)
        if decision.update:
            self._accept(moment.mapping)
        self.history.append(Check(moment.seen, decision))

    def _accept(self, mapping: HashMapping) -> None:
        self.table.rebuild(mapping)
        self._snapshot = mapping
        self._updates += 1

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
        state = {
            "learning": self._learning.state(),
            "gauge": self._gauge.state(),
            "names": self._names.state(),
            "trigger": {"kind": kind, **asdict(self.trigger)},  # type: ignore[call-overload]
            "table": table(),
            "updates": self.updates,
            "history": [[check.seen, asdict(check.decision)] for check in self.history],
            "snapshot": None if self._snapshot is None else self._snapshot.state(),
        }
        saved.write(path, state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], learner: OnlineLearner | None = None) -> Self:
        """Return the loop that `save` wrote; a learner of one's own class is given as a fresh one."""
        state = saved.read(path)
        try:
            return cls._from_state(state, learner)
        except MIHashError:
            raise
        except (KeyError, TypeError) as error:
            raise CorruptStore(f"{path} is not a saved OnlineHashing: {error!r}.") from error

    @classmethod
    def _from_state(cls, state: State, learner: OnlineLearner | None) -> Self:
        learning, trigger = state["learning"], dict(state["trigger"])
        if learner is None:  # for a class of one's own, the error names the known ones and `load` takes a learner
            learner = learner_class(learning["learner"]["name"])(**learning["learner"]["parameters"])
        table = MemoryTable()
        table.restore(state["table"])
        rule = _TRIGGERS[trigger.pop("kind")](**trigger)
        system = cls(learner, rule, learning["reservoir"]["size"], table)
        system._learning.restore(learning)
        system._gauge.restore(state["gauge"])
        if "names" in state:  # not in files of mihash 0.1
            system._names.restore(state["names"])
        system._updates = state["updates"]
        system.history.extend(Check(seen, Decision(**decision)) for seen, decision in state["history"])
        if state["snapshot"] is not None:
            system._snapshot = mapping_from_state(state["snapshot"])
        return system

    def __repr__(self) -> str:
        """Show the parts and how far the stream has come."""
        return f"OnlineHashing({self.learner!r}, {self.trigger!r}, {self.seen} examples, {self.updates} updates)"
