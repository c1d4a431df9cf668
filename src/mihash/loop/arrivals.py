"""What arriving examples say before they are learned: for a trigger that has a price, and for a drift watch.

Both are measured against the sample as it was before the block, so that nothing was learned from what is measured.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..drift import DriftWatch, Evidence, anchor_rows, information_evidence, projection_evidence
from ..information import arriving_information, own_information
from ..mapping import HashMapping
from ..neighbors import nearest
from ..reservoir import Reservoir
from ..trigger import Decision, PriceUpdate
from .decisions import Branch
from .row_queue import Rows
from .sample_codes import SampleCodes

Floats = NDArray[np.float64]

NEAR = 0.01  # without labels, this share of the sample are an example's neighbours
WINDOW = 100  # examples that are looked at together, at least


class Arrivals:
    """Measures blocks of a stream before they are learned.

    It remembers the codes of the sample under the mappings that it measured last, so that only replaced examples
    are encoded again.

    Parameters
    ----------
    n_mappings
        How many mappings are remembered: each snapshot, and the current mapping.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(4)
    >>> reservoir.add([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0, 0, 1, 1])
    >>> good, bad = (mihash.mapping.LinearMapping(w) for w in ([[1.0], [0.0]], [[0.0], [1.0]]))
    >>> rows = Rows(np.array([[3, 1], [-3, 1]], dtype=np.float32), np.array([1, 0]), np.array([4, 5]))
    >>> [found.tolist() for found in Arrivals().information(reservoir, [good, bad], rows)]
    [[1.0, 1.0], [0.0, 0.0]]
    """

    def __init__(self, n_mappings: int = 2) -> None:
        self.n_mappings = n_mappings
        self._samples: dict[int, SampleCodes] = {}

    def observe(
        self,
        reservoir: Reservoir,
        current: HashMapping,
        prices: Sequence[Branch],
        drift: DriftWatch | None,
        rows: Rows,
    ) -> Decision | None:
        """Let triggers that have a price, and a drift watch, look at rows; return an alarm as it is told, or None.

        The drift watch looks once the reservoir is full.
        """
        own: Floats | None = None
        if prices:
            accepted = [current if branch.accepted is None else branch.accepted for branch in prices]
            own, *others = self.information(reservoir, [current, *accepted], rows)
            for branch, information in zip(prices, others, strict=True):
                assert isinstance(branch.trigger, PriceUpdate)
                branch.trigger.observe(own, information)
        if drift is None or len(reservoir) < reservoir.size:
            return None
        alarm = drift.add(self.evidence(reservoir, current, rows, own), len(rows.vectors))
        return (
            None if alarm is None else Decision(False, alarm.strength, alarm.reason, alarm.arrivals, alarm.sample)
        )

    def information(self, reservoir: Reservoir, mappings: Sequence[HashMapping], rows: Rows) -> list[Floats]:
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
        self, reservoir: Reservoir, mapping: HashMapping, rows: Rows, information: Floats | None
    ) -> Evidence:
        """Return how rows differ from the sample under a mapping; ``information`` is theirs, if it is known."""
        y, sample_y = rows.labels, reservoir.y
        if y is None or sample_y is None:
            return projection_evidence(mapping.project(rows.vectors), reservoir.projected(mapping))
        arriving = self.information(reservoir, [mapping], rows)[0] if information is None else information
        anchors = anchor_rows(len(reservoir), reservoir.seen)
        own = own_information(self._codes(reservoir, mapping), sample_y, anchors, mapping.n_bits)
        return information_evidence(arriving, own, y, sample_y)

    def _codes(self, reservoir: Reservoir, mapping: HashMapping) -> NDArray[np.uint8]:
        found = self._samples.pop(id(mapping), None)
        if found is None:
            found = SampleCodes.under(mapping)
        self._samples[id(mapping)] = found  # the last used is forgotten last
        while len(self._samples) > self.n_mappings:
            del self._samples[next(iter(self._samples))]
        found.follow(reservoir)
        return found.codes


def _relevant(reservoir: Reservoir, rows: Rows) -> NDArray[np.bool_] | tuple[NDArray[Any], NDArray[Any]]:
    """Return labels of rows and sample, or the matrix of who is a neighbour of whom."""
    given, X, y = reservoir.given_neighborhood, reservoir.X, reservoir.y
    if given is not None:
        return given.between(rows.vectors, rows.labels, X, y)
    if rows.labels is not None and y is not None:
        return rows.labels, y
    return nearest(rows.vectors, X, max(2, int(NEAR * len(X))))
