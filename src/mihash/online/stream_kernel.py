"""A Gaussian kernel map for a learner that starts late: the first examples of the stream are its anchors.

Unlike `Anchors`, it keeps the labels of the examples that it waited with, so that these are learned from as well.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from ..mapping import GaussianKernel, KernelMapping
from ..neighbors import squared_distances
from ..state import State

Matrix = NDArray[np.float32]
Block = tuple[Matrix, NDArray[Any] | None]

_WIDTH = 0.5  # of the mean distance between anchors
_NARROWEST = 1e-15


class StreamKernel:
    """The kernel map whose anchors are the first ``n_anchors`` examples; no method changes it.

    Parameters
    ----------
    n_anchors
        How many examples are anchors.

    Examples
    --------
    >>> kernel = StreamKernel(3).after(np.eye(2, dtype=np.float32), None)
    >>> kernel.ready
    False
    >>> kernel = kernel.after(np.zeros((2, 2), dtype=np.float32), None)
    >>> kernel.ready, kernel.features(np.zeros((1, 2), dtype=np.float32)).round(2)
    (True, array([[0.21, 0.21, 1.  ]], dtype=float32))
    """

    def __init__(self, n_anchors: int) -> None:
        self.n_anchors = n_anchors
        self._waiting: tuple[Block, ...] = ()
        self._kernel: GaussianKernel | None = None

    @property
    def ready(self) -> bool:
        """Whether there are enough examples."""
        return self._kernel is not None

    def after(self, X: Matrix, y: NDArray[Any] | None) -> Self:
        """Return the map after more examples."""
        found = type(self)(self.n_anchors)
        found._waiting = (*self._waiting, (X.copy(), y))
        rows = np.concatenate([block[0] for block in found._waiting])
        if len(rows) >= self.n_anchors:
            anchors = rows[: self.n_anchors]
            distances = np.sqrt(squared_distances(anchors, anchors))
            mean = float(distances.sum(dtype=np.float64)) / max(1, len(anchors) * (len(anchors) - 1))
            found._kernel = GaussianKernel(anchors, max(_WIDTH * mean, _NARROWEST))
        return found

    def blocks(self, size: int) -> list[Block]:
        """Return the examples that it waited with, in blocks of a size."""
        X = np.concatenate([block[0] for block in self._waiting])
        labels = [y for _, y in self._waiting if y is not None]
        y = np.concatenate(labels) if labels else None
        return [(X[i : i + size], None if y is None else y[i : i + size]) for i in range(0, len(X), size)]

    def without_blocks(self) -> Self:
        """Return the map without the examples that it waited with."""
        found = type(self)(self.n_anchors)
        found._kernel = self._kernel
        return found

    def features(self, X: Matrix) -> Matrix:
        """Return the kernel features (n, anchors)."""
        assert self._kernel is not None
        return self._kernel.features(X)

    def mapping(self, W: Matrix, offset: NDArray[np.float64]) -> KernelMapping:
        """Return the mapping of linear functions W (anchors, b) of these features."""
        assert self._kernel is not None
        return KernelMapping(self._kernel.anchors, self._kernel.width, W, offset, kernel=self._kernel)

    def state(self) -> State:
        """Return the anchors, or the examples so far."""
        found: State = {"anchors": None, "width": 0.0, "X": None, "y": None}
        if self._kernel is not None:
            found |= {"anchors": self._kernel.anchors, "width": float(self._kernel.width[0])}
        if self._waiting:
            ((X, y),) = self.blocks(sum(len(block[0]) for block in self._waiting))
            found |= {"X": X, "y": y}
        return found

    def restored(self, state: State) -> Self:
        """Return the map that `state` described."""
        found = type(self)(self.n_anchors)
        if state["X"] is not None:
            found._waiting = ((state["X"], state["y"]),)
        if state["anchors"] is not None:
            found._kernel = GaussianKernel(state["anchors"], state["width"])
        return found
