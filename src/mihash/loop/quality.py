"""Quality (Eq. 6) on the reservoir; only examples that were replaced since the last check are encoded again."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..information import distance_counts, mean_information, replace_items
from ..mapping import HashMapping
from ..neighbors import Neighborhood, SameLabel, neighborhood_from_state, neighborhood_state
from ..reservoir import Reservoir
from ..state import State

_NOTHING = np.empty(0, dtype=np.int64)


@dataclass
class SampleCodes:
    """The codes of a reservoir under a mapping, and which examples of the stream they are of.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(3)
    >>> reservoir.add([[1.0], [-1.0]])
    >>> found = SampleCodes.under(mihash.mapping.LinearMapping([[1.0]]))
    >>> found.follow(reservoir), found.codes.ravel()
    (array([0, 1]), array([1, 0], dtype=uint8))
    >>> found.follow(reservoir)
    array([], dtype=int64)
    """

    mapping: HashMapping
    codes: NDArray[np.uint8]
    coded: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    seen: int = -1

    @classmethod
    def under(cls, mapping: HashMapping) -> "SampleCodes":
        """Return the codes of an empty sample."""
        return cls(mapping, np.empty((0, -(-mapping.n_bits // 8)), dtype=np.uint8))

    def follow(self, reservoir: Reservoir) -> NDArray[np.int64]:
        """Update the codes to the examples of the reservoir; return the slots that were encoded.

        Earlier codes are not changed in place.
        """
        if self.seen == reservoir.seen:
            return _NOTHING
        origin = reservoir.origin.copy()
        n = len(origin)
        if len(self.codes) != n:
            self.codes, self.coded = np.zeros((n, self.codes.shape[1]), dtype=np.uint8), origin
            stale = np.arange(n)
        else:
            stale = np.flatnonzero(self.coded != origin)
        if len(stale) == n:
            self.codes = self.mapping.signs(reservoir.X, reservoir.projected(self.mapping))
        elif len(stale):
            self.codes = self.codes.copy()
            self.codes[stale] = self.mapping.encode_rows(reservoir.X[stale])
        self.coded, self.seen = origin, reservoir.seen
        return stale


def sample_neighbors(reservoir: Reservoir) -> NDArray[Any]:
    """Return the class labels (n,) of a sample, or who is a neighbour of whom in it (n, n)."""
    rule, X, y = reservoir.neighborhood, reservoir.X, reservoir.y
    if rule is None:
        return np.zeros((len(X), len(X)), dtype=np.bool_)
    return y if isinstance(rule, SameLabel) and y is not None else rule.between(X, y, X, y)


@dataclass
class _Measurement:
    """What was measured of a mapping: the codes of the reservoir, and the counts that were made of them."""

    sample: SampleCodes
    y: NDArray[Any] | None = None
    counts: NDArray[np.int32] | None = None


class SampleQuality:
    """Q_R (Eq. 6) of several mappings, on a reservoir that changes a little between two measurements.

    It remembers the codes and counts of the mappings that were measured last and, unless neighbours are those of
    the same class, the matrix of neighbours. Pairs of examples that are still there are not counted again.

    Parameters
    ----------
    n_mappings
        How many mappings are remembered: each snapshot, the current mapping, and the one before it, which may have
        become a snapshot.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(4)
    >>> reservoir.add([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0, 0, 1, 1])
    >>> good, bad = (mihash.mapping.LinearMapping(w) for w in ([[1.0], [0.0]], [[0.0], [1.0]]))
    >>> quality = SampleQuality()
    >>> round(quality.measure(reservoir, good), 3), round(quality.measure(reservoir, bad), 3)
    (0.918, 0.252)
    """

    def __init__(self, n_mappings: int = 3) -> None:
        self.n_mappings = n_mappings
        self._measured: dict[int, _Measurement] = {}
        self._rule: Neighborhood | None = None
        self._matrix: NDArray[np.bool_] = np.empty((0, 0), dtype=np.bool_)
        self._paired = _NOTHING

    def measure(self, reservoir: Reservoir, mapping: HashMapping) -> float:
        """Return Q_R of a mapping on the reservoir."""
        found = self._measured.pop(id(mapping), None)
        if found is None:
            found = _Measurement(SampleCodes.under(mapping))
        self._measured[id(mapping)] = found  # the last used is forgotten last
        while len(self._measured) > self.n_mappings:
            del self._measured[next(iter(self._measured))]
        if found.sample.seen != reservoir.seen:
            self._count(found, reservoir)
        assert found.counts is not None
        return mean_information(found.counts)

    def _count(self, found: _Measurement, reservoir: Reservoir) -> None:
        codes, y = found.sample.codes, found.y
        stale = found.sample.follow(reservoir)
        neighbors = self._neighbors(reservoir)
        by_class = neighbors.ndim == 1
        new, n_bits = found.sample.codes, found.sample.mapping.n_bits
        kept = found.counts is not None and len(found.counts) == len(new) and len(stale) < len(new) // 4
        if kept and by_class and y is not None and found.counts is not None:
            replace_items(found.counts, (codes, y), (new, neighbors), stale)
        else:
            found.counts = distance_counts(new, neighbors, n_bits)
        found.y = neighbors.copy() if by_class else None

    def state(self) -> State:
        """Return the matrix of neighbours, so that rounding does not decide a pair differently after a resume."""
        rule = None if self._rule is None else neighborhood_state(self._rule)
        return {"rule": rule, "matrix": np.packbits(self._matrix), "paired": self._paired}

    def restore(self, state: State) -> None:
        """Continue with the matrix that `state` returned."""
        n, rule = len(state["paired"]), state["rule"]
        self._rule, self._paired = None if rule is None else neighborhood_from_state(rule), state["paired"]
        self._matrix = np.unpackbits(state["matrix"], count=n * n).reshape(n, n).astype(np.bool_)

    def _neighbors(self, reservoir: Reservoir) -> NDArray[Any]:
        """Return labels, or the matrix of neighbours with the rows and columns of new examples redone."""
        n, rule, X, y = len(reservoir), reservoir.neighborhood, reservoir.X, reservoir.y
        if rule is None or (isinstance(rule, SameLabel) and y is not None):
            return sample_neighbors(reservoir)
        if rule != self._rule or len(self._paired) != n:
            self._rule, self._matrix = rule, sample_neighbors(reservoir)
        else:
            stale = np.flatnonzero(self._paired != reservoir.origin)
            if len(stale):
                block = rule.between(X[stale], None if y is None else y[stale], X, y)
                self._matrix[stale] = block
                self._matrix[:, stale] = block.T
        self._paired = reservoir.origin.copy()
        return self._matrix
