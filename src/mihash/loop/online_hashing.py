"""OnlineHashing: the loop of Fig. 2 -- a learner, a reservoir, a trigger and a hash table.

A stream of examples moves the mapping and feeds the reservoir; every ``interval`` examples the trigger says
whether the table is worth recomputing. Queries are answered with the table as it is.
"""

from __future__ import annotations

import os
from collections import deque
from math import nan
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import ArrayLike

from .. import state as saved
from .. import validation
from ..drift import DriftWatch, as_watch
from ..errors import CorruptStore, InvalidInput, MIHashError, NotReady, Renamed
from ..label_names import LabelNames
from ..mapping import HashMapping
from ..neighbors import Neighborhood
from ..online import OnlineLearner, learner_class
from ..reservoir import Reservoir
from ..store.memory import MemoryTable
from ..store.question import Hits, Question
from ..trigger import Decision, Trigger, TriggerUpdate, as_trigger, trigger_from_state, trigger_state
from .decisions import Check
from .learning_loop import Loop

State = saved.State
_HISTORY = 100_000


class HashTable(Protocol):
    """What the loop needs of a hash table: items and queries encoded with one snapshot."""

    def __len__(self) -> int:
        """Return how many items are stored."""
        ...

    @property
    def n_features(self) -> int | None:
        """The dimension of the stored vectors, None while it is not known."""
        ...

    @property
    def mapping(self) -> HashMapping | None:
        """The snapshot that the codes belong to, None before the first `rebuild`."""
        ...

    def add(self, X: ArrayLike, keys: ArrayLike | None = None) -> Any:
        """Store items; their codes are made with the table's own snapshot."""
        ...

    def rebuild(self, mapping: HashMapping) -> None:
        """Recompute every code with a new snapshot."""
        ...

    def search(self, Q: ArrayLike, k: int = 10, *, margins: bool | None = None) -> Hits:
        """Return the k nearest items to each query; with ``margins=False`` by Hamming distance."""
        ...


class OnlineHashing:
    """Learn a hash mapping from a stream, and recompute the hash table when that pays.

    Parameters
    ----------
    learner
        An online hashing method of `mihash.online`, or the name of one, such as ``"momenthash"``, for 32 bits.
    trigger
        When to update the table: `TriggerUpdate`, `PriceUpdate` or `FixedRate`, or one of these names; None: only
        when `rehash` is called.
    reservoir_size
        How many examples of the stream are sampled, at least 2; the paper uses 5 % of the stream.
    table
        Where codes are kept; a new `MemoryTable` by default.
    drift
        A `DriftWatch`, or True for the usual one, which detects changes of the stream. At an alarm the sample and
        the learner follow the change; `history` lists the alarm. None or False detects no changes, as in the
        paper.
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
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, size=1000)
    >>> X = rng.standard_normal((3, 8))[y] + 0.3 * rng.standard_normal((1000, 8))
    >>> system = mihash.OnlineHashing(mihash.online.MIHash(n_bits=16), reservoir_size=100)
    >>> system.table.add(X)
    >>> system.feed(X, y)
    >>> keys, distances = system.search(X[:5], k=3)[:2]
    >>> [(y[row] == y[query]).tolist() for query, row in enumerate(keys)]
    [[True, True, True], [True, True, True], [True, True, True], [True, True, True], [True, True, True]]
    >>> 1 < system.updates < 11
    True
    """

    def __init__(
        self,
        learner: OnlineLearner | str,
        trigger: Trigger | str | None = TriggerUpdate(),  # noqa: B008 -- frozen
        reservoir_size: int = 1000,
        table: HashTable | None = None,
        drift: DriftWatch | bool | None = None,
        *,
        seed: int = 0,
        neighbors: Neighborhood | float | None = None,
    ) -> None:
        if isinstance(learner, str):
            learner = learner_class(learner)(n_bits=32, seed=seed)
        if not isinstance(learner, OnlineLearner):
            raise InvalidInput(
                f"`learner` must be an online learner or its name, such as online.MIHash(); got {learner!r}."
            )
        trigger = as_trigger(trigger) if isinstance(trigger, str) else trigger
        if not isinstance(trigger, Trigger | None):
            raise InvalidInput(
                f"`trigger` must be TriggerUpdate(), PriceUpdate(), FixedRate() or None; got {trigger!r}."
            )
        if table is not None and not all(hasattr(table, name) for name in ("add", "rebuild", "search", "mapping")):
            raise InvalidInput(f"`table` must be a hash table, such as MemoryTable(); got {table!r}.")
        if table is not None and len(table) and table.n_features is None:
            raise InvalidInput("`table` must hold vectors: codes alone cannot be recomputed.")
        self.table: HashTable = MemoryTable() if table is None else table
        size = validation.integer("reservoir_size", reservoir_size, minimum=2)
        self._loop = Loop(learner, Reservoir(size, seed, neighbors=neighbors), [trigger], drift=as_watch(drift))
        learner.belong()
        self._updates, self._version = 0, -1
        self._history: deque[Check] = deque(maxlen=_HISTORY)
        self._names = LabelNames()
        self._loop.arrivals.class_names = self._class_names

    @property
    def trigger(self) -> Trigger | None:
        """The trigger, which decides about updates; one with a price holds its sum."""
        return self._loop.branches[0].trigger

    def _class_names(self) -> list[str]:
        return self._names.names

    @property
    def drift(self) -> DriftWatch | None:
        """The drift watch; None if there is none."""
        return self._loop.drift

    @property
    def learner(self) -> OnlineLearner:
        """The online hashing method, as it was at the last block edge."""
        return self._loop.learner

    @property
    def reservoir(self) -> Reservoir:
        """The sample of the stream, as it was at the last block edge."""
        return self._loop.reservoir

    @property
    def seen(self) -> int:
        """How many examples were fed."""
        return self._loop.seen

    @property
    def updates(self) -> int:
        """How often the hash table was computed so far, the initial table counted (201 = 200 + 1)."""
        self._start_from_table()
        return self._updates

    @property
    def current(self) -> HashMapping:
        """The mapping after every example fed so far."""
        self._start_from_table()
        return self._loop.current

    @property
    def snapshot(self) -> HashMapping:
        """The mapping that the table's codes and the queries are made with."""
        self._start_from_table()
        if self._loop.accepted is None:
            raise NotReady("The dimension is not known yet: feed or store examples first.")
        return self._loop.accepted

    def history(self) -> list[Check]:
        """Return the decisions so far, in order (the newest 100,000); the first mapping is the first of them."""
        self._start_from_table()
        return list(self._history)

    def feed(self, X: ArrayLike, y: validation.GivenLabels | None = None) -> None:
        """Learn from examples of the stream, deciding about the table on the way.

        Parameters
        ----------
        X
            Feature vectors (n, d), any number at a time, or one vector (d,). Of no rows nothing is learned.
        y
            Class labels (n,) as integers or strings, a 0/1 matrix (n, classes), or None; one label for one vector.
            The kind of the first labels is the kind of all. Later some may be missing: None, NaN, pandas' NA,
            masked, a row of a matrix that is all of it, or ``y`` itself. Rows without one are not learned from.

        Notes
        -----
        If the learner or the trigger raises an error, rows that were not learned from wait, and the next call
        continues with them: do not feed them again.
        """
        rows, targets = validation.as_rows("X", X, y)
        known = None if np.shape(rows) == (0, 1) else self._loop.learner.n_features or self.table.n_features
        vectors = validation.features("X", rows, known, allow_empty=True)
        if not len(vectors):
            if targets is not None and np.size(targets):
                raise InvalidInput("`y` must have one label for each row, and `X` has no rows.")
            return
        before = self._loop.labels
        if targets is None and before is not None:
            targets = [None] * len(vectors)
        labels = self._names.checked(targets, len(vectors), None if before is None else before.shape[1:])
        self._loop.check_labels(labels)
        self._names.keep()
        self._loop.feed(vectors, labels, self._publish)

    def search(self, Q: ArrayLike, k: int = 10, *, margins: bool | None = None) -> Hits:
        """Return the nearest stored items, nearest first.

        Codes are ranked by the query's margins where the mapping has them; with ``margins=False`` by Hamming
        distance. ``measure`` says which.

        Keys and distances have the shape (n_queries, min(k, items)); for one query (d,) they have one dimension.
        Queries are encoded with the snapshot, as the table was. ``version`` is the number of the decision that
        accepted the snapshot, None before the first.
        """
        self._start_from_table()
        if self._loop.accepted is None:
            question = Question.of(Q, None, k=k, margins=margins)
            return question.hits(question.nothing(measure=question.measure("", None)))
        if margins is None:  # a table of one's own may not know of them
            return self.table.search(Q, k)._replace(version=self._version)
        return self.table.search(Q, k, margins=margins)._replace(version=self._version)

    def rehash(self) -> None:
        """Recompute the table with the current mapping now, without asking the trigger."""
        self._start_from_table()
        self._loop.request(notify=self._publish)

    def _start_from_table(self) -> None:
        if self.table.n_features is not None:
            self._loop.start(self.table.n_features, self._publish)

    def _publish(self, check: Check, mapping: HashMapping | None, _branch: int = 0) -> None:
        """Recompute the table if a mapping was accepted, and remember the check."""
        if mapping is not None:
            self.table.rebuild(mapping)
            self._updates, self._version = self._updates + 1, check.number
        self._history.append(check)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write everything to a file: learner, reservoir, trigger, table, and examples that wait.

        A loaded loop learns the same bits as one that never stopped.
        """
        table = getattr(self.table, "state", None)
        if table is None:
            raise InvalidInput(
                f"The loop cannot be saved with a {type(self.table).__name__}, which stores its own state."
            )
        self._start_from_table()
        state = self._loop.state() | {
            "names": self._names.state(),
            "trigger": None if self.trigger is None else trigger_state(self.trigger),
            "drift": None if self.drift is None else self.drift.parameters(),
            "table": table(),
            "updates": self.updates,
            "history": [dict(check) for check in self._history],
        }
        saved.write(path, state)

    @classmethod
    def load(cls, path: str | os.PathLike[str], learner: OnlineLearner | None = None) -> Self:
        """Return the loop that `save` wrote; for your own learner class, pass a fresh instance as `learner`."""
        state = saved.read(path)
        try:
            return cls._from_state(state, learner)
        except MIHashError:
            raise
        except (KeyError, TypeError) as error:
            raise CorruptStore(f"{path} is not a saved OnlineHashing: {error!r}.") from error

    @classmethod
    def _from_state(cls, state: State, learner: OnlineLearner | None) -> Self:
        if "accepted" not in state:
            state = _from_0_1(state)
        learning, trigger = state["learning"], state["trigger"]
        if learner is None:  # for a class of one's own, the error names the known ones and `load` takes a learner
            learner = learner_class(learning["learner"]["name"])(**learning["learner"]["parameters"])
        table = MemoryTable()
        table.restore(state["table"])
        if trigger is not None:
            trigger = trigger_from_state(trigger)
        drift = None if state.get("drift") is None else DriftWatch.of(state["drift"])  # not in earlier files
        system = cls(learner, trigger, learning["reservoir"]["size"], table, drift)
        system._loop.restore(state)
        system._names.restore(state["names"])
        system._updates = state["updates"]
        system._history.extend(Check(**check) for check in state["history"])
        system._version = max((check.number for check in system._history if check.accepted), default=-1)
        return system

    def __getattr__(self, name: str) -> Any:
        """Name the new name of what was renamed."""
        if name == "update":
            raise Renamed("OnlineHashing.update()", "OnlineHashing.rehash()")
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __repr__(self) -> str:
        """Show the parts and how far the stream has come."""
        return f"OnlineHashing({self.learner!r}, {self.trigger!r}, {self.seen} examples, {self.updates} updates)"


def _from_0_1(state: State) -> State:
    """Return the state in a file of mihash 0.1 as of today; it has no names, and no check for the start."""
    decided = [] if state["snapshot"] is None else [("start", 0, Decision(True, nan, "the first mapping"))]
    decided += [("trigger", seen, Decision(**decision)) for seen, decision in state["history"]]
    checks = [dict(Check.of(number, *each)) for number, each in enumerate(decided)]
    nothing = dict.fromkeys(("normalization", "early", "failure"))
    found = {"accepted": state["snapshot"], "n_events": len(checks), "history": checks}
    return state | nothing | found | {"names": LabelNames().state()}
