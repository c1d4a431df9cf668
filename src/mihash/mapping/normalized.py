"""A hash mapping that normalises features first (Sec. 4.1)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from ..state import State
from . import ordered_sums as sums
from .hash_mapping import HashMapping, frozen
from .linear import LinearMapping
from .ordered_sums import Matrix
from .signs import LinearSigns, without_blas

_FAR = 30.0  # a mean farther away, in units of the spread, is subtracted first: folding it would lose digits


class NormalizedMapping(HashMapping):
    """A hash mapping of normalised features: phi(gain (u - mean)), where u is x, or x at unit length.

    The normalisation is part of the mapping, so queries and stored vectors go through the same.

    Parameters
    ----------
    inner
        The mapping phi of normalised features.
    mean
        What is subtracted (d,).
    gain
        A scalar factor.
    unit
        Whether vectors are scaled to unit length first.

    Examples
    --------
    >>> inner = LinearMapping([[1.0], [0.0]])
    >>> mapping = NormalizedMapping(inner, mean=[0.5, 0.0], unit=True)
    >>> mapping.encode([[3.0, 3.0], [0.1, 1.0]]).ravel()
    array([1, 0], dtype=uint8)
    """

    kind = "normalized"

    def __init__(self, inner: HashMapping, mean: ArrayLike, gain: float = 1.0, unit: bool = False) -> None:
        super().__init__(inner.n_features, inner.n_bits)
        self.inner = inner
        self.mean = frozen("mean", mean, ndim=1)
        self.gain = frozen("gain", [gain], ndim=1)
        self.unit = bool(unit)
        if len(self.mean) != inner.n_features:
            raise InvalidInput(f"`mean` must have {inner.n_features} numbers; got {len(self.mean)}.")
        self._folded: LinearMapping | None = None
        if isinstance(inner, LinearMapping) and sums.lengths(self.mean[None])[0] * abs(float(self.gain[0])) < _FAR:
            weights = inner.weights.astype(np.float64) * float(self.gain[0])
            offset = inner.offset - sums.over_rows(self.mean[:, None] * weights)
            with np.errstate(over="ignore"):  # `frozen` raises if a number does not fit
                self._folded = LinearMapping(weights, offset)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the normalisation, and the arrays of the inner mapping."""
        unit = np.array([self.unit], dtype=np.float32)
        return {"mean": self.mean, "gain": self.gain, "unit": unit, **self.inner.arrays()}

    def normalize(self, X: Matrix) -> Matrix:
        """Return normalised features (n, d)."""
        return normalize(X, self.mean, float(self.gain[0]), self.unit)

    def project(self, X: Matrix) -> Matrix:
        """Return the inner mapping's real values; for a linear one, without subtracting the mean first."""
        if self._folded is None:
            return self.inner.project(self.normalize(X))
        if not self.unit:
            return self._folded.project(X)
        return self._folded.project(sums.to_unit_length(X))

    def without_blas(self, n: int) -> bool:
        """Tell whether n rows are so few that their products are summed here; only for linear mappings."""
        return self._folded is not None and without_blas(n, self.n_features)

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes; for a linear mapping, certified signs of the features as they are."""
        if self._folded is None:
            return self.inner.signs(self.normalize(X), projections)
        return self._signs.encode(X, None if self.unit else projections)

    def checked_signs(self, X: Matrix, first_row: int) -> NDArray[np.uint8]:
        """Return `signs`; raise for a number that is not finite."""
        if self._folded is None:
            return super().checked_signs(X, first_row)
        return self._signs.encode(X, first_row=first_row)

    @property
    def has_margins(self) -> bool:
        """Whether the inner mapping has margins."""
        return self.inner.has_margins

    @property
    def has_factors(self) -> bool:
        """Whether the inner mapping has margins."""
        return self.inner.has_margins

    def margins(self, X: Matrix) -> Matrix:
        """Return the inner mapping's margins of the normalised features."""
        return self.inner.margins(self.normalize(X))

    @property
    def for_products(self) -> HashMapping:
        """The inner mapping's, of features as they are; the mapping itself where that has none of its own."""
        own = self.inner.for_products
        return self if own is self.inner or self.unit else own

    @cached_property
    def _signs(self) -> LinearSigns:
        assert self._folded is not None
        return LinearSigns(self._folded.weights, self._folded.offset, self.unit)

    def distance(self, other: HashMapping) -> float:
        """Return the distance of the inner mappings where the normalisation is the same, else infinity."""
        same = isinstance(other, NormalizedMapping) and self.unit == other.unit
        if same and np.array_equal(self.mean, other.mean) and np.array_equal(self.gain, other.gain):  # type: ignore[attr-defined]
            return self.inner.distance(other.inner)  # type: ignore[attr-defined]
        return float("inf")

    def state(self) -> State:
        """Return the mapping as plain values, for `mapping_from_state`."""
        own = {"mean": self.mean, "gain": self.gain, "unit": self.unit}
        return {"kind": self.kind, "inner": self.inner.state(), **own}


def normalize(X: Matrix, mean: Matrix, gain: float, unit: bool) -> Matrix:
    """Return gain (u - mean) for each row, where u is x, or x at unit length.

    Examples
    --------
    >>> X = np.array([[3.0, 4.0]], dtype=np.float32)
    >>> normalize(X, mean=np.zeros(2, dtype=np.float32), gain=2.0, unit=True)
    array([[1.2, 1.6]], dtype=float32)
    """
    if unit:
        X = sums.to_unit_length(X)
    return (X - mean) * np.float32(gain)
