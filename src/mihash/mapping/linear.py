"""Linear hash functions (Sec. 3.2)."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .hash_mapping import HashMapping, frozen
from .signs import LinearSigns
from .sums import Matrix


class LinearMapping(HashMapping):
    """Linear hash functions: bit i is 1 where w_i . x + offset_i > 0 (Sec. 3.2).

    Parameters
    ----------
    weights
        The matrix W (d, b); a copy is kept.
    offset
        One number for each bit; zeros by default. It carries a mean that is subtracted, for example.

    Examples
    --------
    >>> mapping = LinearMapping(np.array([[1.0, -1.0], [0.0, 2.0]]), offset=[0.0, -1.0])
    >>> mapping.encode([[1.0, 0.0], [0.5, 2.0]]).ravel()
    array([1, 3], dtype=uint8)
    """

    kind = "linear"

    def __init__(self, weights: ArrayLike, offset: ArrayLike | None = None) -> None:
        self._weights = frozen("weights", weights, ndim=2)
        given = np.zeros(self._weights.shape[1]) if offset is None else offset
        self._offset = frozen("offset", given, ndim=1)
        if self._offset.shape != self._weights.shape[1:]:
            raise InvalidInput(
                f"`offset` must have one number for each of the {self._weights.shape[1]} bits; "
                f"got shape {self._offset.shape}."
            )

    @property
    def weights(self) -> Matrix:
        """The matrix W (d, b), read-only."""
        return self._weights

    @property
    def offset(self) -> Matrix:
        """What is added to each bit's projection (b,), read-only."""
        return self._offset

    @property
    def n_bits(self) -> int:
        """The code length b."""
        return int(self._weights.shape[1])

    @property
    def n_features(self) -> int:
        """The dimension d of the vectors that it takes."""
        return int(self._weights.shape[0])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights and the offset."""
        return {"weights": self._weights, "offset": self._offset}

    def project(self, X: Matrix) -> Matrix:
        """Return X W + offset."""
        projections: Matrix = X @ self._weights
        projections += self._offset
        return projections

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes: certified signs, which depend on vector and mapping alone."""
        return self._signs.encode(X, projections)

    @cached_property
    def _signs(self) -> LinearSigns:
        return LinearSigns(self._weights, self._offset)
