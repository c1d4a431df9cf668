"""A feed-forward network of plain arrays as hash functions: what VDSH learns. Encoding needs NumPy alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from . import ordered_sums as sums
from .hash_mapping import HashMapping, frozen
from .linear import LinearMapping
from .ordered_sums import Matrix


def _relu(X: Matrix) -> Matrix:
    return np.maximum(X, 0, out=X)


def _tanh(X: Matrix) -> Matrix:
    return np.tanh(X, out=X)


ACTIVATIONS: dict[str, Callable[[Matrix], Matrix]] = {"relu": _relu, "tanh": _tanh}


class NetworkMapping(HashMapping):
    """Layers x -> g(x W + c), the last without g: bit i is 1 where its i-th output is above 0.

    Parameters
    ----------
    weights
        The matrices W of the layers, (d, nodes), (nodes, nodes), ..., (nodes, b).
    offsets
        What each layer adds, one vector for each.
    activation
        g: ``"relu"`` or ``"tanh"``.

    Examples
    --------
    Exclusive or, which no linear function is:

    >>> mapping = NetworkMapping([[[1, -1], [-1, 1]], [[1], [1]]], offsets=[[0, 0], [-0.5]])
    >>> mapping.encode([[0, 0], [0, 1], [1, 0], [1, 1]]).ravel()
    array([0, 1, 1, 0], dtype=uint8)
    """

    kind = "network"

    def __init__(
        self, weights: Sequence[ArrayLike], offsets: Sequence[ArrayLike], activation: str = "relu"
    ) -> None:
        self.activation: str = validation.choice("activation", activation, tuple(ACTIVATIONS))
        self._weights = [frozen(f"weights[{i}]", W, ndim=2) for i, W in enumerate(weights)]
        self._offsets = [frozen(f"offsets[{i}]", c, ndim=1) for i, c in enumerate(offsets)]
        widths = [W.shape[0] for W in self._weights[1:]]
        if not self._weights or [W.shape[1] for W in self._weights[:-1]] != widths:
            shapes = ", ".join(str(W.shape) for W in self._weights)
            raise InvalidInput(f"`weights` must be layers that follow one another; got shapes {shapes or 'none'}.")
        if [c.shape for c in self._offsets] != [W.shape[1:] for W in self._weights]:
            raise InvalidInput("`offsets` must have one number for each output of each layer.")
        super().__init__(self._weights[0].shape[0], self._weights[-1].shape[1])

    @classmethod
    def from_arrays(cls, **arrays: NDArray[Any]) -> Self:
        """Return the mapping that `arrays` describes."""
        n_layers = (len(arrays) - 1) // 2
        names = list(ACTIVATIONS)
        return cls(
            [arrays[f"weights_{i}"] for i in range(n_layers)],
            [arrays[f"offset_{i}"] for i in range(n_layers)],
            names[int(np.reshape(arrays["activation"], ()))],
        )

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the weights and offsets of each layer, and the number of the activation."""
        named: dict[str, NDArray[Any]] = {
            "activation": np.array([list(ACTIVATIONS).index(self.activation)], dtype=np.int32)
        }
        for i, (W, c) in enumerate(zip(self._weights, self._offsets, strict=True)):
            named[f"weights_{i}"], named[f"offset_{i}"] = W, c
        return named

    def project(self, X: Matrix) -> Matrix:
        """Return the outputs of the last layer."""
        return self._last.project(self._hidden(X))

    def signs(self, X: Matrix, projections: Matrix | None = None) -> NDArray[np.uint8]:
        """Return the codes: certified signs of the last layer."""
        return self._last.signs(self._hidden(X), projections)

    def _hidden(self, X: Matrix) -> Matrix:
        """Return what goes into the last layer, each row independent of the others to the last bit."""
        values = X
        for W, c in zip(self._weights[:-1], self._offsets[:-1], strict=True):
            values = sums.product(values, W)
            values += c
            values = ACTIVATIONS[self.activation](values)
        return values

    @cached_property
    def _last(self) -> LinearMapping:
        return LinearMapping(self._weights[-1], self._offsets[-1])
