"""Measurements of new examples before they are learned: for triggers with a price, and for the drift watch.

They compare a block with the sample as it was before the block, so that nothing was learned from the block.

The longer the stream, the slower the mapping moves, and the less a measurement tells. So without labels fewer
windows of a long stream are measured, and each counts for those after it. The drift watch still checks every
window, with the mapping and the spread of the sample's projections of the last measurement.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from ..drift import ClassNames, DriftWatch
from ..drift_evidence import Evidence, Spread, anchor_rows, information_evidence, projection_evidence
from ..information import arriving_information, own_information
from ..mapping import HashMapping, LinearMapping, mapping_from_state
from ..neighbors import nearest
from ..reservoir import Reservoir
from ..state import State
from ..trigger import Decision, PriceUpdate
from .decisions import TriggerState
from .quality import SampleCodes
from .row_queue import QueuedRows

Floats = NDArray[np.float64]

NEAR = 0.01  # without labels, this share of the sample are an example's neighbours
WINDOW = 100  # examples that are looked at together, at least
_CHANCE_EACH = 10  # windows between two measurements of the information by chance, and how many have one at first
_MEASURED_OFTEN = 2500  # examples: of a stream n times as long, one window in n is measured
_RARELY = 10  # at least one window in _RARELY
_FEWEST_WATCHED = 128  # bits, if a code has that many


def windows_each(reservoir: Reservoir) -> int:
    """Return how many windows one measurement stands for: more in a long stream, all for themselves with labels.

    Examples
    --------
    >>> import mihash
    >>> reservoir, found = mihash.Reservoir(100), []
    >>> for n in (4900, 100, 5000, 90_000):
    ...     reservoir.add(np.zeros((n, 1)))
    ...     found.append(windows_each(reservoir))
    >>> found
    [1, 2, 4, 10]
    """
    return 1 if reservoir.y is not None else min(_RARELY, max(1, reservoir.age // _MEASURED_OFTEN))


class _Watched(NamedTuple):
    """What the drift watch looks through without labels: a mapping, and where the sample's projections lie.

    Of long codes of a linear mapping it looks at every n-th bit, 128 to 255 in all: others hardly tell more.
    """

    mapping: HashMapping
    each: int
    spread: Spread

    @classmethod
    def of(cls, mapping: HashMapping, reservoir: Reservoir) -> Self:
        """Measure the sample.

        Examples
        --------
        >>> import mihash
        >>> reservoir = mihash.Reservoir(8)
        >>> reservoir.add([[-1.0]] * 4 + [[1.0]] * 4)
        >>> watched = _Watched.of(LinearMapping([range(1, 513)]), reservoir)
        >>> watched.each, watched.mapping.n_bits, watched.mapping.weights[0, :3].tolist()
        (4, 128, [1.0, 5.0, 9.0])
        """
        each = 1
        if isinstance(mapping, LinearMapping) and mapping.n_bits >= 2 * _FEWEST_WATCHED:
            each = mapping.n_bits // _FEWEST_WATCHED
            mapping = LinearMapping(mapping.weights[:, ::each], mapping.offset[::each])
        return cls(mapping, each, Spread.of(reservoir.projected(mapping)))

    def evidence(self, rows: QueuedRows) -> Evidence:
        """Return how rows differ from the sample."""
        return projection_evidence(self.mapping.project(rows.vectors), self.spread, each=self.each)


class Arrivals:
    """Measures blocks of a stream before they are learned.

    It remembers the codes of the sample under the mappings that it measured last, so that only replaced examples
    are encoded again.

    Parameters
    ----------
    n_mappings
        How many mappings are remembered: each snapshot, and the current mapping.

    Attributes
    ----------
    class_names
        Returns the names of classes for the sentence of an alarm; None where classes are numbers.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(4)
    >>> reservoir.add([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0, 0, 1, 1])
    >>> good, bad = (mihash.mapping.LinearMapping(w) for w in ([[1.0], [0.0]], [[0.0], [1.0]]))
    >>> rows = QueuedRows(np.array([[3, 1], [-3, 1]], dtype=np.float32), np.array([1, 0]), np.array([4, 5]))
    >>> [found.tolist() for found in Arrivals().information(reservoir, [good, bad], rows)]
    [[1.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, n_mappings: int = 2) -> None:
        self.n_mappings = n_mappings
        self.class_names: ClassNames | None = None
        self._samples: dict[int, SampleCodes] = {}
        self._watched: _Watched | None = None  # without labels

    def observe(
        self,
        reservoir: Reservoir,
        current: Callable[[], HashMapping],
        prices: Sequence[TriggerState],
        drift: DriftWatch | None,
        rows: QueuedRows,
    ) -> Decision | None:
        """Measure rows for triggers with a price and for a drift watch; return an alarm as a decision, or None.

        ``current`` returns the current mapping. The drift watch starts once the reservoir holds enough examples.
        """
        n_windows = windows_each(reservoir)
        evidence: Evidence | None = None
        if reservoir.seen // len(rows.vectors) % n_windows == 0:
            evidence = self._measure(reservoir, current(), prices, drift, rows, n_windows)
        elif drift is not None and self._watched is not None:
            evidence = self._watched.evidence(rows)
        if drift is None or evidence is None:
            return None
        alarm = drift.add(evidence, len(rows.vectors), self.class_names)
        if alarm is None:
            return None
        return Decision(False, alarm.strength, alarm.reason, alarm.arrivals, alarm.sample)

    def _measure(
        self,
        reservoir: Reservoir,
        current: HashMapping,
        prices: Sequence[TriggerState],
        drift: DriftWatch | None,
        rows: QueuedRows,
        n_windows: int,
    ) -> Evidence | None:
        """Add what rows missed to the sums of triggers, counted ``n_windows`` times; return their evidence."""
        own: Floats | None = None
        if prices:
            accepted = [current if branch.accepted is None else branch.accepted for branch in prices]
            own, *others = self.information(reservoir, [current, *accepted], rows)
            self._note_chance(reservoir, current, prices, rows)
            for branch, information in zip(prices, others, strict=True):
                assert isinstance(branch.trigger, PriceUpdate)
                branch.trigger.observe(own, information, n_windows)
        if drift is None or not drift.ready(len(reservoir), reservoir.size):
            return None
        return self.evidence(reservoir, current, rows, own)

    def _note_chance(
        self, reservoir: Reservoir, mapping: HashMapping, prices: Sequence[TriggerState], rows: QueuedRows
    ) -> None:
        """Tell triggers how much information there is by chance: at each of the first windows, then at some.

        Without labels it is not measured: it would cost as much as the measurement itself.
        """
        number = reservoir.seen // len(rows.vectors)
        if reservoir.y is not None and (number < _CHANCE_EACH or number % _CHANCE_EACH == 0):
            found = self.by_chance(reservoir, mapping, rows)
            for branch in prices:
                assert isinstance(branch.trigger, PriceUpdate)
                branch.trigger.by_chance = found

    def by_chance(self, reservoir: Reservoir, mapping: HashMapping, rows: QueuedRows) -> float:
        """Return the mean information of rows with the sample if its neighbours were shuffled among it.

        Examples
        --------
        >>> import mihash
        >>> reservoir, mapping = mihash.Reservoir(8), mihash.mapping.LinearMapping([[1.0]])
        >>> reservoir.add([[-1.0]] * 4 + [[1.0]] * 4, [0] * 4 + [1] * 4)
        >>> rows = QueuedRows(np.ones((1, 1), dtype=np.float32), np.array([1]), np.array([8]))
        >>> arrivals = Arrivals()
        >>> float(arrivals.information(reservoir, [mapping], rows)[0][0])
        1.0
        >>> arrivals.by_chance(reservoir, mapping, rows)
        0.0
        """
        relevant = _relevant(reservoir, rows)
        order = np.random.default_rng([reservoir.seed, 3, reservoir.seen]).permutation(len(reservoir))
        if isinstance(relevant, tuple):
            relevant = relevant[0], relevant[1][order]
        else:
            relevant = np.ascontiguousarray(relevant[:, order])
        codes, sample = mapping.encode_rows(rows.vectors), self._codes(reservoir, mapping)
        return float(arriving_information(codes, sample, relevant, mapping.n_bits).mean())

    def information(self, reservoir: Reservoir, mappings: Sequence[HashMapping], rows: QueuedRows) -> list[Floats]:
        """Return the information (n,) of each row with the sample, under each mapping.

        Without labels, neighbours are the nearest 1 % of the sample, unless the reservoir was given a rule.
        """
        relevant = _relevant(reservoir, rows)
        found: dict[int, Floats] = {}
        for mapping in mappings:
            if id(mapping) not in found:
                codes = mapping.encode_rows(rows.vectors)
                sample = self._codes(reservoir, mapping)
                found[id(mapping)] = arriving_information(codes, sample, relevant, mapping.n_bits)
        return [found[id(mapping)] for mapping in mappings]

    def evidence(
        self, reservoir: Reservoir, mapping: HashMapping, rows: QueuedRows, information: Floats | None
    ) -> Evidence:
        """Return how rows differ from the sample under a mapping; ``information`` is theirs, if it is known."""
        y, sample_y = rows.labels, reservoir.y
        if y is None or sample_y is None:
            self._watched = _Watched.of(mapping, reservoir)
            return self._watched.evidence(rows)
        arriving = self.information(reservoir, [mapping], rows)[0] if information is None else information
        anchors = anchor_rows(len(reservoir), reservoir.seen)
        own = own_information(self._codes(reservoir, mapping), sample_y, anchors, mapping.n_bits)
        return information_evidence(arriving, own, y, sample_y)

    def state(self) -> State:
        """Return what the drift watch looks through between two measurements."""
        if self._watched is None:
            return {"watched": None}
        mapping, each, spread = self._watched
        return {"watched": {"mapping": mapping.state(), "each": each, **spread._asdict()}}

    def restore(self, state: State) -> None:
        """Continue with what `state` returned."""
        watched, self._watched = state["watched"], None
        if watched is not None and "centres" in watched:  # states of earlier versions measure again
            spread = Spread(*(watched[name] for name in Spread._fields))
            self._watched = _Watched(mapping_from_state(watched["mapping"]), watched.get("each", 1), spread)

    def _codes(self, reservoir: Reservoir, mapping: HashMapping) -> NDArray[np.uint8]:
        found = self._samples.pop(id(mapping), None)
        if found is None:
            found = SampleCodes.under(mapping)
        self._samples[id(mapping)] = found  # the last used is forgotten last
        while len(self._samples) > self.n_mappings:
            del self._samples[next(iter(self._samples))]
        found.follow(reservoir)
        return found.codes


def _relevant(reservoir: Reservoir, rows: QueuedRows) -> NDArray[np.bool_] | tuple[NDArray[Any], NDArray[Any]]:
    """Return labels of rows and sample, or the matrix of who is a neighbour of whom."""
    given, X, y = reservoir.given_neighborhood, reservoir.X, reservoir.y
    if given is not None:
        return given.between(rows.vectors, rows.labels, X, y)
    if rows.labels is not None and y is not None:
        return rows.labels, y
    return nearest(rows.vectors, X, max(2, int(NEAR * len(X))))
