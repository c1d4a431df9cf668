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
_FAR = 10.0  # times the usual distance from the centre: a row farther away is no anchor


class StreamKernel:
    """The kernel map whose anchors are the first ``n_anchors`` examples; no method changes it.

    The width is half the mean distance between anchors, where a distance counts for at most twice the median. An
    example that is more than 10 times as far from the median of the examples as usual is no anchor: the next one
    takes its place.

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
            ordinary = rows[_is_ordinary(rows)]
            if len(ordinary) >= self.n_anchors:
                anchors = ordinary[: self.n_anchors]
                found._kernel = GaussianKernel(anchors, _width(anchors))
        return found

    def blocks(self, size: int) -> list[Block]:
        """Return the buffered examples, in blocks of a size."""
        X = np.concatenate([block[0] for block in self._waiting])
        labels = [y for _, y in self._waiting if y is not None]
        y = np.concatenate(labels) if labels else None
        return [(X[i : i + size], None if y is None else y[i : i + size]) for i in range(0, len(X), size)]

    def without_blocks(self) -> Self:
        """Return the map without the buffered examples."""
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


def _is_ordinary(rows: Matrix) -> NDArray[np.bool_]:
    """Tell which rows are at most 10 times as far from their median as usual: always half of them or more."""
    centred = rows - np.median(rows, axis=0).astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", centred, centred, dtype=np.float64))
    usual = float(np.median(lengths))
    ordinary: NDArray[np.bool_] = (lengths <= _FAR * usual) | (usual == 0)
    return ordinary


def _width(anchors: Matrix) -> float:
    """Return half the mean distance between anchors, of which none counts for more than twice their median."""
    n = len(anchors)
    distances = np.sqrt(squared_distances(anchors, anchors))
    longest = 2 * float(np.median(distances[np.triu_indices(n, 1)])) if n > 1 else 0.0
    if longest > 0:  # not if most anchors are equal
        distances = np.minimum(distances, longest)
    mean = float(distances.sum(dtype=np.float64)) / max(1, n * (n - 1))
    return max(_WIDTH * mean, _NARROWEST)
