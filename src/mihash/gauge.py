"""Measures quality on a reservoir again and again, redoing only what its replaced examples have changed."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .information import quality
from .mapping import HashMapping
from .neighbors import Neighborhood, SameLabel
from .reservoir import Reservoir

__all__ = ["Gauge"]

_NOTHING = np.empty(0, dtype=np.int64)


class Gauge:
    """Q_R of a moving mapping and of a snapshot (Eq. 6), on a reservoir that changes a little between two looks.

    It remembers the snapshot's codes and, where neighbours are not simply those of the same class, who is a
    neighbour of whom; an example that is still in its slot is not encoded or compared again.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(4)
    >>> reservoir.add([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0, 0, 1, 1])
    >>> good, bad = (mihash.mapping.LinearMapping(w) for w in ([[1.0], [0.0]], [[0.0], [1.0]]))
    >>> [round(q, 3) for q in Gauge().measure(reservoir, good, bad)]
    [0.918, 0.252]
    """

    def __init__(self) -> None:
        self._snapshot: HashMapping | None = None
        self._codes: NDArray[np.uint8] = np.empty((0, 0), dtype=np.uint8)
        self._coded = _NOTHING  # which example of the stream each code belongs to
        self._current: tuple[HashMapping, NDArray[np.uint8], NDArray[np.int64]] | None = None
        self._rule: Neighborhood | None = None
        self._matrix: NDArray[np.bool_] = np.empty((0, 0), dtype=np.bool_)
        self._paired = _NOTHING

    def measure(self, reservoir: Reservoir, current: HashMapping, snapshot: HashMapping) -> tuple[float, float]:
        """Return Q_R of the current mapping and of the snapshot, on the same examples."""
        neighbors = self._neighbors(reservoir)
        codes = current.encode(reservoir.X)
        before = quality(self._snapshot_codes(reservoir, snapshot), neighbors, snapshot.n_bits)
        self._current = (current, codes, reservoir.origin.copy())
        return quality(codes, neighbors, current.n_bits), before

    def _snapshot_codes(self, reservoir: Reservoir, snapshot: HashMapping) -> NDArray[np.uint8]:
        X, origin = reservoir.X, reservoir.origin
        if self._snapshot is not snapshot:
            self._snapshot, self._coded = snapshot, _NOTHING
            self._codes = np.empty((0, -(-snapshot.n_bits // 8)), dtype=np.uint8)
            if (
                self._current is not None and self._current[0] is snapshot
            ):  # the mapping measured last was accepted
                _, self._codes, self._coded = self._current
        self._codes, self._coded, stale = _fitted(self._codes, self._coded, origin)
        if len(stale):
            self._codes[stale] = snapshot.encode(X[stale])
        return self._codes

    def _neighbors(self, reservoir: Reservoir) -> NDArray[Any]:
        """Return labels, or the matrix of neighbours with the rows and columns of new examples redone."""
        n, rule, X, y = len(reservoir), reservoir.neighborhood, reservoir.X, reservoir.y
        if isinstance(rule, SameLabel) and y is not None:
            return y
        if rule is None:
            return np.zeros((n, n), dtype=np.bool_)
        if rule != self._rule or len(self._paired) != n:
            self._rule, self._matrix = rule, rule.between(X, y, X, y)
        else:
            stale = np.flatnonzero(self._paired != reservoir.origin)
            if len(stale):
                block = rule.between(X[stale], None if y is None else y[stale], X, y)
                self._matrix[stale] = block
                self._matrix[:, stale] = block.T
        self._paired = reservoir.origin.copy()
        return self._matrix


def _fitted(
    codes: NDArray[np.uint8], coded: NDArray[np.int64], origin: NDArray[np.int64]
) -> tuple[NDArray[np.uint8], NDArray[np.int64], NDArray[np.int64]]:
    """Return room for a code of each example, whose they will be, and which are still to be made."""
    if len(codes) != len(origin):
        grown = np.empty((len(origin), codes.shape[1]), dtype=np.uint8)
        known = np.full(len(origin), -1, dtype=np.int64)
        n = min(len(codes), len(origin))
        grown[:n], known[:n] = codes[:n], coded[:n]
        codes, coded = grown, known
    return codes, origin.copy(), np.flatnonzero(coded != origin)
