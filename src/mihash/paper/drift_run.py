"""One stream through one system: what `mihash reproduce drift` measures (docs/drift.md).

A system is a learner, a drift watch or none, and several triggers that share one learning pass. Every 400 examples
the next 100 rows are queries before they are learned, against a table of everything so far and against one of the
last 4,000 rows. A time at which no query has a relevant row does not count. Where a stream has rows that are held
out, those of the classes that it has shown are queries as well. For the schedule in hindsight, candidate mappings
are kept, and each is measured on every window of 100 rows that comes after it.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..drift import DriftWatch
from ..information import arriving_information
from ..loop.decisions import Check
from ..loop.hindsight import best_schedule
from ..loop.learning_loop import Loop
from ..mapping import HashMapping
from ..neighbors import nearest, within_fraction
from ..online import learner_class
from ..ranking import mean_average_precision
from ..reservoir import Reservoir
from ..trigger import FixedRate, PriceUpdate, Trigger, TriggerUpdate
from .drift_streams import Matrix, Stream

EVERY, N_QUERIES, RECENT = 400, 100, 4000
WINDOW = 100
PRICE = 20.0
RULES: dict[str, Trigger] = {
    "price": PriceUpdate(PRICE, WINDOW),
    "share": TriggerUpdate(0.02, WINDOW, relative=True),
    "always": FixedRate(WINDOW),
}
_CANDIDATE = 200  # examples between two candidates of the schedule in hindsight
_NEAR = 0.01
_IN_HINDSIGHT = 1000  # examples of the sample that candidates are measured with
_SOON = 1000  # examples after a change within which an alarm counts as its


@dataclass(frozen=True)
class System:
    """What a stream is sent through.

    Attributes
    ----------
    learner
        The name of an online learner.
    watched
        Whether a drift watch looks for changes.
    rules
        Names of triggers, keys of `RULES`.
    """

    learner: str
    watched: bool
    rules: tuple[str, ...]


SYSTEMS = {
    "follows": System("momenthash", True, ("price", "share", "always")),
    "still": System("momenthash", False, ("price",)),
    "paper": System("mihash", False, ("share",)),
}


@dataclass
class _Candidates:
    """Mappings that a table could have been made of, and what each gave on every later window."""

    mappings: list[HashMapping] = field(default_factory=list)
    begins: list[int] = field(default_factory=list)
    curves: list[list[float]] = field(default_factory=list)  # for each window, the sum of the information
    _codes: list[NDArray[np.uint8]] = field(default_factory=list)
    _origin: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def add(self, mapping: HashMapping, window: int) -> int:
        """Keep a mapping from a window on; return its number."""
        if self.mappings and self.mappings[-1] == mapping:
            return len(self.mappings) - 1
        self.mappings.append(mapping)
        self.begins.append(window)
        self._codes.append(np.empty((0, 0), dtype=np.uint8))
        return len(self.mappings) - 1

    def measure(self, reservoir: Reservoir, X: NDArray[np.float32], y: NDArray[Any] | None) -> None:
        """Measure all of them on a window, against the sample as it is."""
        rows = slice(0, _IN_HINDSIGHT)
        sample, sample_y, origin = reservoir.X[rows], reservoir.y, reservoir.origin[rows].copy()
        if y is not None and sample_y is not None:
            relevant: Any = (y, sample_y[rows])
        else:
            relevant = nearest(X, sample, max(2, int(_NEAR * len(sample))))
        stale = np.flatnonzero(self._origin != origin) if len(self._origin) == len(origin) else None
        found = []
        for number, mapping in enumerate(self.mappings):
            codes = self._codes[number]
            if stale is None or len(codes) != len(origin):
                codes = mapping.encode_rows(sample)
            elif len(stale):
                codes[stale] = mapping.encode_rows(sample[stale])
            self._codes[number] = codes
            information = arriving_information(mapping.encode_rows(X), codes, relevant, mapping.n_bits)
            found.append(float(information.sum()))
        self._origin = origin
        self.curves.append(found)

    def missed(self) -> NDArray[np.float64]:
        """Return what each candidate missed in each window (candidates, windows), in perfect queries.

        The newest candidate at a window is the current mapping there.
        """
        values = np.zeros((len(self.mappings), len(self.curves)))
        usual: float | None = None
        for window, curve in enumerate(self.curves):
            mean = curve[-1] / WINDOW
            usual = mean if usual is None else 0.9 * usual + 0.1 * mean
            values[: len(curve), window] = (curve[-1] - np.array(curve)) / max(usual, 1e-9)
        return values


@dataclass
class _Branch:
    """What a pass was under one trigger: when it made tables, and mAP over time by table and queries."""

    snapshot: HashMapping | None = None
    updated_at: list[int] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    precisions: dict[str, list[float]] = field(default_factory=dict)

    def curves(self) -> dict[str, Any]:
        """Return the curves, NaN as None, and the mean of each."""
        found: dict[str, Any] = {}
        for name, values in self.precisions.items():
            found[f"area{name}"] = float(np.nanmean(values))
            found[f"precisions{name}"] = [None if np.isnan(value) else value for value in values]
        return found


def run_stream(
    stream: Stream,
    system: str,
    *,
    n_bits: int,
    reservoir_size: int,
    top: int | None,
    seed: int,
    measured: bool = True,
) -> dict[str, Any]:
    """Send a stream through a system, and return what was measured as plain values.

    Parameters
    ----------
    stream
        The stream.
    system
        A key of `SYSTEMS`.
    n_bits
        The code length.
    reservoir_size
        How many examples are sampled.
    top
        Where rankings are cut, None for nowhere.
    seed
        Seeds learner and reservoir.
    measured
        Whether to measure retrieval and the schedule in hindsight; alarms and rehashes are always.

    Examples
    --------
    >>> import mihash
    >>> from mihash.paper.drift_streams import make_stream
    >>> stream = make_stream(mihash.datasets.digits(), "classes", 1500, seed=0)
    >>> result = run_stream(stream, "still", n_bits=16, reservoir_size=200, top=None, seed=0)
    >>> sorted(result["rules"]["price"])[:4], len(result["examples"])
    (['area', 'area_recent', 'best_cost', 'best_rehashes'], 3)
    """
    made = SYSTEMS[system]
    triggers = [RULES[name] for name in made.rules]
    loop = Loop(
        learner_class(made.learner)(n_bits, seed=seed),
        Reservoir(reservoir_size, seed),
        triggers,
        drift=DriftWatch() if made.watched else None,
    )
    branches, alarms, candidates = [_Branch() for _ in triggers], list[tuple[int, str]](), _Candidates()

    def note(check: Check, mapping: HashMapping | None, position: int) -> None:
        branch = branches[position]
        if check.kind == "alarm" and position == 0:
            alarms.append((check.seen, check.reason))
        if mapping is not None:
            branch.snapshot = mapping
            branch.updated_at.append(check.seen)
            branch.tables.append(candidates.add(mapping, len(candidates.curves)) if measured else 0)

    relevance = _Relevance(stream)
    feeding_s, examples, T = 0.0, list[int](), len(stream.X)
    loop.start(stream.X.shape[1], note)
    for start in range(0, T - WINDOW + 1, WINDOW):
        block = slice(start, start + WINDOW)
        X, y = stream.X[block], None if stream.y is None else stream.y[block]
        if measured and start:
            if start % _CANDIDATE == 0:
                candidates.add(loop.current, len(candidates.curves))
            candidates.measure(loop.reservoir, X, y)
        begin = time.process_time()
        loop.feed(X, y, note)
        feeding_s += time.process_time() - begin
        at = start + WINDOW
        if measured and at % EVERY == 0 and at + N_QUERIES <= T:
            examples.append(at)
            _retrieve(stream, relevance, branches, at, top)
    result: dict[str, Any] = {
        "stream": stream.kind,
        "system": system,
        "seed": seed,
        "rows": T,
        "examples": examples,
        "changes": list(stream.changes),
        "alarms": [{"seen": seen, "reason": reason} for seen, reason in alarms],
        **_judged_alarms([seen for seen, _ in alarms], stream),
        "us_learning": (feeding_s - loop.observing_s) / T * 1e6,
        "us_observing": loop.observing_s / T * 1e6,
    }
    costs = _costs(branches, candidates) if measured else [{} for _ in branches]
    result["rules"] = {
        name: {
            **branch.curves(),
            "updated_at": branch.updated_at,
            "rehashes": len(branch.updated_at) - 1,
            "recomputed": sum(branch.updated_at),
            **cost,
        }
        for name, branch, cost in zip(made.rules, branches, costs, strict=True)
    }
    return result


class _Relevance:
    """Who is relevant to a query: the same class; without labels, closer than the 5 % quantile of pairs."""

    def __init__(self, stream: Stream) -> None:
        self.stream = stream
        rows = np.random.default_rng(0).choice(len(stream.X), min(1000, len(stream.X)), replace=False)
        self.rule = within_fraction(stream.X[rows]) if stream.y is None else None

    def between(self, queries: Matrix, labels: NDArray[Any] | None, base: slice) -> Any:
        X, y = self.stream.X, self.stream.y
        if self.rule is None and y is not None and labels is not None:
            return labels, y[base]
        assert self.rule is not None
        return self.rule.between(queries, None, X[base], None)


def _queries(stream: Stream, at: int) -> dict[str, tuple[Matrix, NDArray[Any] | None]]:
    """Return the queries of a time: the next rows, and those held out whose class the stream has shown."""
    next_rows = slice(at, at + N_QUERIES)
    found = {"": (stream.X[next_rows], None if stream.y is None else stream.y[next_rows])}
    if stream.held_out is not None and stream.y is not None:
        X, y = stream.held_out
        known = np.isin(y, stream.y[:at])
        found["_held_out"] = X[known], y[known]
    return found


def _retrieve(
    stream: Stream, relevance: _Relevance, branches: Sequence[_Branch], at: int, top: int | None
) -> None:
    """Measure mAP of each kind of queries in each table, under each trigger's mapping."""
    bases = {"": slice(0, at), "_recent": slice(max(0, at - RECENT), at)}
    asked, found = _queries(stream, at), dict[str, dict[str, float]]()
    for branch in branches:
        mapping = branch.snapshot
        assert mapping is not None
        if mapping.fingerprint not in found:
            codes = mapping.encode_rows(stream.X[:at])
            found[mapping.fingerprint] = {
                kind + table: mean_average_precision(
                    mapping.encode_rows(X), codes[base], relevance.between(X, y, base), mapping.n_bits, top=top
                )
                for kind, (X, y) in asked.items()
                for table, base in bases.items()
            }
        for name, value in found[mapping.fingerprint].items():
            branch.precisions.setdefault(name, []).append(value)


def _costs(branches: Sequence[_Branch], candidates: _Candidates) -> list[dict[str, Any]]:
    """Return the cost of each trigger's tables, and that of the best schedule in hindsight."""
    missed = candidates.missed()
    best = best_schedule(missed, candidates.begins, PRICE)
    found = []
    for branch in branches:
        total = 0.0
        ends = [*(candidates.begins[table] for table in branch.tables[1:]), missed.shape[1]]
        begin = 0
        for table, end in zip(branch.tables, ends, strict=True):
            total += float(missed[table, begin:end].sum())
            begin = end
        cost = total + PRICE * (len(branch.tables) - 1)
        found.append(
            {
                "missed": total,
                "cost": cost,
                "best_cost": best.cost,
                "best_rehashes": len(best.tables),
                "cost_ratio": cost / best.cost if best.cost > 0 else None,
            }
        )
    return found


def _judged_alarms(alarms: Sequence[int], stream: Stream) -> dict[str, Any]:
    """Return how long after each change there was an alarm, None for never, and how many alarms were false."""
    delays: list[int | None] = []
    right = set[int]()
    for change, end in zip(stream.changes, [*stream.changes[1:], len(stream.X)], strict=False):
        after = [seen for seen in alarms if change < seen <= min(end, change + _SOON)]
        delays.append(after[0] - change if after else None)
        right.update(after)
    must = [delay for change, delay in zip(stream.changes, delays, strict=True) if change not in stream.returns]
    return {"delays": delays, "delays_of_new": must, "false_alarms": len([s for s in alarms if s not in right])}
