"""Rules for who is a neighbour (Sec. 3 and 4.1): same class, a shared label, or a small Euclidean distance.

A neighbourhood is a frozen value with one method, ``between``. The paper has two rules for distances: pairs of
training examples are neighbours below a *threshold* (the 5 % quantile of pair distances, `within_fraction`); the
true neighbours of a query are the closest 5 % of the data (`nearest_fraction`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from numbers import Real
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import InvalidInput
from .state import State

Rows = NDArray[np.float32]
Labels = NDArray[np.int64] | NDArray[np.uint8]
Flags = NDArray[np.bool_]
FRACTION = 0.05
_CHUNK_ROWS = 256
_ROUNDING = np.float32(1e-6)


class Neighborhood(Protocol):
    """A rule that says which pairs are neighbours."""

    def between(self, X: Rows, y: Labels | None, X_other: Rows, y_other: Labels | None) -> Flags:
        """Return the (n, m) matrix that is True where a row and an other row are neighbours."""
        ...


@dataclass(frozen=True)
class SameLabel:
    """Neighbours share their class; ``y`` holds integers (n,).

    Examples
    --------
    >>> SameLabel().between(None, np.array([1, 2]), None, np.array([2, 2, 1]))
    array([[False, False,  True],
           [ True,  True, False]])
    """

    def between(self, X: Rows | None, y: Labels | None, X_other: Rows | None, y_other: Labels | None) -> Flags:  # noqa: ARG002 -- by labels alone
        """Return True where two rows have the same class."""
        if y is None or y_other is None:
            raise InvalidInput("Neighbours by class need labels: give `y`.")
        same: Flags = y[:, None] == y_other[None, :]
        return same


@dataclass(frozen=True)
class SharedLabel:
    """Neighbours share at least one label; ``y`` is a 0/1 matrix (n, classes).

    Examples
    --------
    >>> SharedLabel().between(None, np.eye(2, dtype=np.uint8), None, np.array([[1, 1]], dtype=np.uint8))
    array([[ True],
           [ True]])
    """

    def between(self, X: Rows | None, y: Labels | None, X_other: Rows | None, y_other: Labels | None) -> Flags:  # noqa: ARG002 -- by labels alone
        """Return True where two rows have a label in common."""
        if y is None or y_other is None:
            raise InvalidInput("Neighbours by shared label need labels: give `y`.")
        shared: Flags = (y.astype(np.float32) @ y_other.astype(np.float32).T) > 0.5
        return shared


@dataclass(frozen=True)
class WithinDistance:
    """Neighbours are at most a Euclidean threshold apart; labels are ignored.

    Parameters
    ----------
    threshold
        The largest distance between neighbours. With 0, only copies are neighbours.

    Examples
    --------
    >>> X = np.array([[0.0], [1.0], [5.0]], dtype=np.float32)
    >>> WithinDistance(2.0).between(X, None, X[:1], None).ravel()
    array([ True,  True, False])
    """

    threshold: float

    def __post_init__(self) -> None:
        """Check the threshold."""
        validation.number("threshold", self.threshold, minimum=0)

    def between(self, X: Rows, y: Labels | None, X_other: Rows, y_other: Labels | None) -> Flags:  # noqa: ARG002 -- by vectors alone
        """Return True where two rows are at most ``threshold`` apart."""
        near: Flags = squared_distances(X, X_other) <= self.threshold**2
        return near


RULES: dict[str, Callable[..., Neighborhood]] = {
    rule.__name__: rule for rule in (SameLabel, SharedLabel, WithinDistance)
}


def as_neighborhood(rule: Neighborhood | float | None) -> Neighborhood | None:
    """Return the rule; a number becomes a `WithinDistance` with that threshold."""
    if rule is None or hasattr(rule, "between"):
        return rule
    if isinstance(rule, Real):
        return WithinDistance(validation.number("neighbors", rule, minimum=0))
    raise InvalidInput(
        f"`neighbors` must be a rule of mihash.neighbors or a distance threshold; got {rule!r:.80}."
    )


def neighborhood_state(rule: Neighborhood) -> State:
    """Return the rule as plain values, for `neighborhood_from_state`."""
    kind = type(rule).__name__
    if RULES.get(kind) is not type(rule):
        raise InvalidInput(f"Only the rules of mihash.neighbors can be saved; got {rule!r}.")
    return {"kind": kind, **vars(rule)}


def neighborhood_from_state(state: State) -> Neighborhood:
    """Return the rule that `neighborhood_state` described."""
    values = dict(state)
    return RULES[values.pop("kind")](**values)


def label_neighborhood(y: Labels) -> SameLabel | SharedLabel:
    """Return the neighbourhood that labels of this kind define."""
    return SameLabel() if y.ndim == 1 else SharedLabel()


def within_fraction(X: Rows, fraction: float = FRACTION) -> WithinDistance:
    """Return the neighbourhood whose threshold is the ``fraction`` quantile of the pair distances in ``X``.

    The paper's rule for training pairs without labels (Sec. 4.1: the smallest 5 %).

    Examples
    --------
    >>> round(within_fraction(np.arange(100.0, dtype=np.float32)[:, None]).threshold, 1)
    3.0
    """
    n = len(X)
    if n < 2:
        raise InvalidInput(f"A distance threshold needs at least 2 examples; got {n}.")
    pairs = squared_distances(X, X)[np.triu_indices(n, k=1)]
    rank = max(0, round(validation.number("fraction", fraction, above=0, maximum=1) * len(pairs)) - 1)
    above = min(len(pairs) - 1, rank + 1)
    pairs.partition((rank, above))
    # Half-way between two pairs, so that rounding does not decide about either.
    return WithinDistance(float(np.sqrt((float(pairs[rank]) + float(pairs[above])) / 2)))


def nearest_fraction(X: ArrayLike, X_base: ArrayLike, fraction: float = FRACTION) -> Flags:
    """Return for each query the closest ``fraction`` of the base as its true neighbours (n, m).

    The paper's rule for queries without labels (Sec. 4.1). Exactly ``round(fraction * m)`` items, at least
    one, are True in each row; between equal distances the lower index wins.

    Examples
    --------
    >>> nearest_fraction([[0.2]], [[0.0], [1.0], [2.0], [3.0]], fraction=0.5)
    array([[ True,  True, False, False]])
    """
    queries = validation.features("X", X)
    base = validation.features("X_base", X_base, queries.shape[1])
    return nearest(
        queries, base, max(1, round(validation.number("fraction", fraction, above=0, maximum=1) * len(base)))
    )


def nearest(X: Rows, X_base: Rows, k: int) -> Flags:
    """Return the k nearest base rows of each row (n, m); between equal distances the lower index wins."""
    near = np.zeros((len(X), len(X_base)), dtype=np.bool_)
    for start in range(0, len(X), _CHUNK_ROWS):
        block = squared_distances(X[start : start + _CHUNK_ROWS], X_base)
        limit = np.partition(block, k - 1, axis=1)[:, k - 1 : k]
        found = block <= limit
        if np.count_nonzero(found) > k * len(found):  # equal distances at a limit
            closer, level = block < limit, block == limit
            room = k - closer.sum(axis=1, keepdims=True)
            found = closer | (level & (level.cumsum(axis=1) <= room))
        near[start : start + _CHUNK_ROWS] = found
    return near


def squared_distances(X: Rows, X_other: Rows) -> Rows:
    """Return squared Euclidean distances (n, m), from inner products about the mean of ``X_other``.

    A square within the rounding of float32 is 0, so that copies are at distance 0.
    """
    centre = X_other.mean(axis=0, dtype=np.float64).astype(np.float32)
    A, B = X - centre, X_other - centre
    own, others = np.einsum("ij,ij->i", A, A), np.einsum("ij,ij->i", B, B)
    A *= -2
    squares: Rows = A @ B.T
    squares += others
    squares += own[:, None]
    if len(own) and len(others) and squares.min() < _ROUNDING * (own.max() + others.max()):
        squares[squares < _ROUNDING * (own[:, None] + others)] = 0
    return squares
