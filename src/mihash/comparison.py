"""Two hash mappings, or two quantizers of any kind, compared on one sample: what a trigger decides by.

The quality of each item is its mutual information between distance and neighbourhood, in bits (Eq. 3), or the
share of its true nearest items that are among the k nearest by distance. Both need nothing but distances, so a
product quantizer or an inverted file is measured as a hash is.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .codes import hamming, pack
from .errors import InvalidInput
from .information import distance_counts, each_information, mean_information
from .mapping import HashMapping
from .neighbors import Neighborhood, WithinDistance, label_neighborhood, squared_distances, within_fraction

Floats = NDArray[np.float64]
Encoder = HashMapping | Callable[[NDArray[np.float32]], ArrayLike]
"""What triggers and drift watches take: a mapping, or any callable that makes codes."""

UNMOVED = 1e-6
INFORMATION = "information"
_RECALL = "recall@"
_BINS = 32  # of distances that are no small whole numbers; each holds as many pairs


@dataclass(frozen=True)
class Quantizer:
    """A quantizer of any kind, given by its distances: product quantization, inverted files, RaBitQ.

    Parameters
    ----------
    distances
        A callable from vectors (n, d) to a matrix (n, n): entry (i, j) is the distance from row i as a query to
        row j as a stored vector. Use infinity for a row that a search does not find, for example because its list
        is not probed. Only their order within a row matters for recall, and their order for information.

    Examples
    --------
    >>> import mihash
    >>> X = np.random.default_rng(0).standard_normal((60, 2)).astype(np.float32)
    >>> def rounded(step):  # a quantizer that rounds what it stores
    ...     return mihash.Quantizer(lambda X: np.linalg.norm(X[:, None] - step * np.round(X / step), axis=2))
    >>> decision = mihash.TriggerUpdate(0.05).decide(rounded(0.1), rounded(2.0), X, quality="recall@10")
    >>> decision.update, round(decision.current, 2), round(decision.snapshot, 2)
    (True, 0.96, 0.42)
    """

    distances: "Callable[[NDArray[np.float32]], ArrayLike]"

    def between(self, X: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return the distances of the sample, checked."""
        found = np.asarray(self.distances(X), dtype=np.float32)
        if found.shape != (len(X), len(X)):
            raise InvalidInput(
                f"A quantizer must return the distances of {len(X)} rows to each other; got shape {found.shape}."
            )
        if np.isnan(found).any():
            raise InvalidInput("A quantizer must return distances, or infinity; got NaN.")
        return found


Compared = Encoder | Quantizer


class Comparison:
    """Two mappings on one sample.

    Parameters
    ----------
    current, snapshot
        Hash mappings, callables from features to codes, or quantizers.
    X, y, neighbors
        As `Trigger.decide` takes them.
    quality
        ``"information"``, or ``"recall@10"`` with any number.

    Attributes
    ----------
    moved
        Whether the two differ on the sample.
    n
        The size of the sample.
    unit
        What the qualities are measured in, as a word after a number.
    """

    def __init__(
        self,
        current: Compared,
        snapshot: Compared,
        X: ArrayLike,
        y: ArrayLike | None,
        neighbors: ArrayLike | Neighborhood | None,
        quality: str = INFORMATION,
    ) -> None:
        self._k = _recall_at(quality)
        self.unit = "bits" if self._k is None else f"in {quality}"
        self._X = validation.features("X", X)
        self.n = len(self._X)
        if isinstance(current, HashMapping) and isinstance(snapshot, HashMapping):
            self.moved = current.distance(snapshot) >= UNMOVED
            self._sides = [self._side(each) for each in (current, snapshot)] if self.moved else []
        else:
            self._sides = [self._side(each) for each in (current, snapshot)]
            now, before = self._sides
            self.moved = now.dtype != before.dtype or not np.array_equal(now, before)
        nearest = self._k is not None and y is None and neighbors is None
        self._relevant = None if nearest else neighbors_within(neighbors, self._X, y)

    def _side(self, one: Compared) -> NDArray[Any]:
        """Return packed codes, or the distances of a quantizer."""
        return one.between(self._X) if isinstance(one, Quantizer) else codes_of(one, self._X)

    def each(self) -> tuple[Floats, Floats]:
        """Return the quality of each item under the current mapping and under the snapshot."""
        now, before = (self._each(side) for side in self._sides)
        return now, before

    def means(self) -> tuple[float, float]:
        """Return the mean quality under the current mapping and under the snapshot."""
        if self._k is None:
            now, before = (mean_information(self._counts(side)) for side in self._sides)
        else:
            now, before = (float(each.mean()) for each in self.each())
        return now, before

    def _each(self, side: NDArray[Any]) -> Floats:
        if self._k is None:
            return each_information(self._counts(side))
        true = self._nearest(self._k) if self._relevant is None else _matrix(self._relevant)
        return recall_at(self._k, hamming(side, side) if side.dtype == np.uint8 else side, true)

    def _counts(self, side: NDArray[Any]) -> NDArray[Any]:
        assert self._relevant is not None
        if side.dtype == np.uint8:
            return distance_counts(side, self._relevant, 8 * side.shape[1])
        return _counts(side, _matrix(self._relevant))

    def _nearest(self, k: int) -> NDArray[np.bool_]:
        """Return the k nearest other vectors of each."""
        distances = squared_distances(self._X, self._X)
        np.fill_diagonal(distances, np.inf)
        true = np.zeros(distances.shape, dtype=np.bool_)
        found = np.argsort(distances, axis=1, kind="stable")[:, : min(k, self.n - 1)]
        np.put_along_axis(true, found, True, axis=1)
        return true


def recall_at(k: int, distances: NDArray[Any], true: NDArray[np.bool_]) -> Floats:
    """Return the share of each item's true neighbours among its k nearest others, expected over ties.

    An item with more than k neighbours can find k of them. Items without neighbours are left out.

    Parameters
    ----------
    k
        How many others are looked at.
    distances
        The matrix (n, n) of distances; infinity is never found.
    true
        The matrix (n, n) of which pairs are neighbours; its diagonal is ignored.

    Examples
    --------
    >>> distances = np.array([[0.0, 1.0, 1.0, 5.0], [1.0, 0.0, 2.0, 3.0]] + [[9.0] * 4] * 2)
    >>> true = np.array([[0, 1, 0, 0], [1, 0, 1, 0]] + [[0] * 4] * 2, dtype=bool)
    >>> recall_at(1, distances, true)
    array([0.5, 1. ])
    """
    values = np.array(distances, dtype=np.float64)
    np.fill_diagonal(values, np.inf)
    wanted = true & ~np.eye(len(values), dtype=np.bool_)
    k = min(k, len(values) - 1)
    last = np.partition(values, k - 1, axis=1)[:, k - 1 : k]
    nearer, level = values < last, (values == last) & np.isfinite(values)
    share = (k - nearer.sum(axis=1)) / np.maximum(level.sum(axis=1), 1)
    hits = (wanted & nearer).sum(axis=1) + share * (wanted & level).sum(axis=1)
    n_true = wanted.sum(axis=1)
    shares: Floats = (hits / np.maximum(np.minimum(n_true, k), 1))[n_true > 0]
    return shares


def _recall_at(quality: str) -> int | None:
    """Return k of ``"recall@k"``, None for information."""
    if quality == INFORMATION:
        return None
    if (
        isinstance(quality, str)
        and quality.startswith(_RECALL)
        and (digits := quality[len(_RECALL) :]).isdecimal()
    ):
        return validation.integer("quality", int(digits), minimum=1)
    raise InvalidInput(f'`quality` must be "information" or such as "recall@10"; got {quality!r:.80}.')


def _counts(distances: NDArray[np.float32], relevant: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Return how many others of each item are in each bin: non-neighbours, then neighbours."""
    n = len(distances)
    others = ~np.eye(n, dtype=np.bool_)
    known = distances[others & np.isfinite(distances)]
    edges = np.quantile(known, np.linspace(0, 1, _BINS + 1)[1:-1]) if len(known) else np.empty(0)
    bins = np.where(np.isfinite(distances), np.searchsorted(edges, distances, side="right"), _BINS)
    keys = bins + (_BINS + 1) * relevant + 2 * (_BINS + 1) * np.arange(n)[:, None]
    return np.bincount(keys[others], minlength=2 * (_BINS + 1) * n).reshape(n, -1)


def _matrix(relevant: NDArray[Any]) -> NDArray[np.bool_]:
    """Return neighbours as a matrix, from labels or a matrix."""
    if relevant.ndim == 2:
        return relevant.astype(np.bool_)
    return np.asarray(relevant[:, None] == relevant[None])


def codes_of(encoder: Encoder, X: NDArray[np.float32]) -> NDArray[np.uint8]:
    """Return the packed codes that a mapping, or any callable, makes of vectors.

    Examples
    --------
    >>> codes_of(lambda X: X > 0, np.array([[1.0, -1.0, 2.0]], dtype=np.float32))
    array([[5]], dtype=uint8)
    """
    if isinstance(encoder, HashMapping):
        return encoder.encode(X)
    if not callable(encoder):
        raise InvalidInput(f"A mapping must be a hash mapping or a callable X -> codes; got {encoder!r}.")
    codes = np.asarray(encoder(X))
    codes = validation.packed("codes", codes) if codes.dtype == np.uint8 else pack(codes)
    if len(codes) != len(X):
        raise InvalidInput(f"A mapping must return one code for each of {len(X)} rows; got {len(codes)}.")
    return codes


def neighbors_within(
    neighbors: ArrayLike | Neighborhood | None, X: NDArray[np.float32], y: ArrayLike | None
) -> NDArray[Any]:
    """Return class labels (n,) or a neighbour matrix (n, n): what `quality` takes."""
    labels = None if y is None else validation.labels("y", y, len(X), names=True)
    if neighbors is None and labels is not None and labels.ndim == 1:
        return labels
    if neighbors is None and len(X) < 2:
        return np.zeros((len(X), len(X)), dtype=np.bool_)
    rule: Any = neighbors
    if rule is None:
        rule = within_fraction(X) if labels is None else label_neighborhood(labels)
    elif np.isscalar(rule):
        rule = WithinDistance(validation.number("neighbors", rule, minimum=0))
    if hasattr(rule, "between"):
        matrix: NDArray[np.bool_] = rule.between(X, labels, X, labels)
        return matrix
    return validation.boolean_matrix("neighbors", rule, (len(X), len(X)))
