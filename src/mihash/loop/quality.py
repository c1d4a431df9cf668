"""Measures quality on a reservoir again and again, redoing only what its replaced examples have changed."""

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


def sample_neighbors(reservoir: Reservoir) -> NDArray[Any]:
    """Return the class labels (n,) of a sample, or who is a neighbour of whom in it (n, n)."""
    rule, X, y = reservoir.neighborhood, reservoir.X, reservoir.y
    if rule is None:
        return np.zeros((len(X), len(X)), dtype=np.bool_)
    return y if isinstance(rule, SameLabel) and y is not None else rule.between(X, y, X, y)


@dataclass
class _Look:
    """What is known of a mapping: the codes of the reservoir, whose they are, and what was counted on them."""

    mapping: HashMapping
    codes: NDArray[np.uint8]
    coded: NDArray[np.int64] = field(default_factory=lambda: _NOTHING)
    y: NDArray[Any] | None = None
    counts: NDArray[np.int32] | None = None
    seen: int = -1

    def follow(self, reservoir: Reservoir) -> NDArray[np.int64]:
        """Have the codes of all examples, making only those that are missing; return which these were."""
        origin = reservoir.origin.copy()
        n = len(origin)
        if len(self.codes) != n:
            self.codes, self.coded, self.counts = np.zeros((n, self.codes.shape[1]), dtype=np.uint8), origin, None
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


class SampleQuality:
    """Q_R (Eq. 6) of several mappings, on a reservoir that changes a little between two looks.

    It remembers codes and counts of the mappings it has measured lately and, where neighbours are not simply those
    of the same class, who is a neighbour of whom; pairs of examples that are still there are not counted again.

    Parameters
    ----------
    n_mappings
        How many mappings are remembered: each snapshot, the current mapping and, since that may have become a
        snapshot, the one before it.

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
        self._looks: dict[int, _Look] = {}
        self._rule: Neighborhood | None = None
        self._matrix: NDArray[np.bool_] = np.empty((0, 0), dtype=np.bool_)
        self._paired = _NOTHING

    def measure(self, reservoir: Reservoir, mapping: HashMapping) -> float:
        """Return Q_R of a mapping on the reservoir as it is."""
        look = self._looks.pop(id(mapping), None)
        if look is None:
            look = _Look(mapping, np.empty((0, -(-mapping.n_bits // 8)), dtype=np.uint8))
        self._looks[id(mapping)] = look  # used last, forgotten last
        while len(self._looks) > self.n_mappings:
            del self._looks[next(iter(self._looks))]
        if look.seen != reservoir.seen:
            self._count(look, reservoir)
        assert look.counts is not None
        return mean_information(look.counts)

    def _count(self, look: _Look, reservoir: Reservoir) -> None:
        codes, y = look.codes, look.y
        stale = look.follow(reservoir)
        neighbors = self._neighbors(reservoir)
        by_class = neighbors.ndim == 1
        if by_class and look.counts is not None and y is not None and len(stale) < len(codes) // 4:
            replace_items(look.counts, (codes, y), (look.codes, neighbors), stale)
        else:
            look.counts = distance_counts(look.codes, neighbors, look.mapping.n_bits)
        look.y = neighbors.copy() if by_class else None

    def state(self) -> State:
        """Return who is a neighbour of whom, so that rounding decides no pair anew after a resume."""
        rule = None if self._rule is None else neighborhood_state(self._rule)
        return {"rule": rule, "matrix": np.packbits(self._matrix), "paired": self._paired}

    def restore(self, state: State) -> None:
        """Go on with the neighbours that `state` returned."""
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
