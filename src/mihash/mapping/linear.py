"""Linear hash functions (Sec. 3.2)."""

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput
from .hash_mapping import HashMapping, frozen
from .ordered_sums import Matrix
from .signs import LinearSigns


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

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes: certified signs, which depend on the vector and the mapping alone."""
        return self._signs.encode(X, projections)

    @cached_property
    def _signs(self) -> LinearSigns:
        return LinearSigns(self.weights, self.offset)
