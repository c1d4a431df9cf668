"""Linear hash functions (Sec. 3.2)."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from . import ordered_sums as sums
from .hash_mapping import HashMapping, frozen
from .ordered_sums import Matrix
from .signs import LinearSigns, without_blas

_MOST = 1e30  # a margin; the sum of 4,096 of them is still a number of float32


class LinearMapping(HashMapping):
    """Linear hash functions: bit i is 1 where w_i . x + offset_i > 0 (Sec. 3.2).

    Parameters
    ----------
    weights
        The matrix W (d, b); a copy is kept.
    offset
        One number for each bit; zeros by default.

    Attributes
    ----------
    weights, offset
        The matrix W and the offset as float32, read-only.

    Examples
    --------
    >>> mapping = LinearMapping(np.array([[1.0, -1.0], [0.0, 2.0]]), offset=[0.0, -1.0])
    >>> mapping.encode([[1.0, 0.0], [0.5, 2.0]]).ravel()
    array([1, 3], dtype=uint8)
    """

    kind = "linear"

    def __init__(self, weights: ArrayLike, offset: ArrayLike | None = None) -> None:
        self.weights = frozen("weights", weights, ndim=2)
        super().__init__(*self.weights.shape)
        given = np.zeros(self.n_bits) if offset is None else offset
        self.offset = frozen("offset", given, ndim=1)
        if self.offset.shape != self.weights.shape[1:]:
            raise InvalidInput(
                f"`offset` must have one number for each of the {self.n_bits} bits; got shape {self.offset.shape}."
            )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the offset."""
        return {"weights": self.weights, "offset": self.offset}

    def project(self, X: Matrix) -> Matrix:
        """Return X W + offset."""
        projections: Matrix = X @ self.weights
        projections += self.offset
        return projections

    def without_blas(self, n: int) -> bool:
        """Tell whether n rows are so few that their products are summed here."""
        return without_blas(n, self.n_features)

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes: certified signs, which depend on the vector and the mapping alone."""
        return self._signs.encode(X, projections)

    def checked_signs(self, X: Matrix, first_row: int) -> NDArray[np.uint8]:
        """Return `signs`; a row's length, which they need, tells whether its numbers are finite."""
        return self._signs.encode(X, first_row=first_row)

    @property
    def has_margins(self) -> bool:
        """True."""
        return True

    def margins(self, X: Matrix) -> Matrix:
        """Return |w . x + offset| / |w| for each bit, products summed in the order of the features.

        Examples
        --------
        >>> mapping = LinearMapping([[3.0, 0.0], [4.0, -2.0]], offset=[5.0, 0.0])
        >>> mapping.margins(np.array([[1, 0.5]], dtype=np.float32))
        array([[2. , 0.5]], dtype=float32)
        """
        with np.errstate(over="ignore", invalid="ignore"):
            values = sums.product(X, self.weights)
            values += self.offset
            np.abs(values, out=values)
            values *= self._per_length
        if not values.max(initial=0.0) < _MOST:  # nor is NaN
            # A vector of huge numbers overflows: such a bit counts for nothing, or for the most there is.
            np.nan_to_num(values, copy=False, nan=0.0, posinf=_MOST)
            np.minimum(values, np.float32(_MOST), out=values)
        return values

    @cached_property
    def for_products(self) -> LinearMapping:
        """The same hash functions without their offsets.

        Examples
        --------
        >>> LinearMapping([[1.0], [2.0]], offset=[-9.0]).for_products.encode([[1.0, 1.0]])
        array([[1]], dtype=uint8)
        """
        return LinearMapping(self.weights)

    @cached_property
    def _per_length(self) -> Matrix:
        """1 / |w|; 0 for a weight of zeros, whose bit is the same for all vectors."""
        found = sums.lengths(np.ascontiguousarray(self.weights.T))
        inverse = np.divide(1.0, found, out=np.zeros_like(found), where=found > 0)
        return np.minimum(inverse, _MOST).astype(np.float32)

    @cached_property
    def _signs(self) -> LinearSigns:
        return LinearSigns(self.weights, self.offset)
