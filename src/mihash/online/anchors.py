"""A Gaussian kernel map whose anchors are drawn from the first examples of the stream.

Kernel methods need anchors before they can start, and a stream has no training set to draw them from. So the first
blocks of the stream are a warm-up sample: they are stored, anchors are drawn from them, and learning begins with
the next block. Until then the mapping is random hyperplanes.
"""

from typing import Self

import numpy as np
from numpy.typing import NDArray

from ..mapping import GaussianKernel, KernelMapping
from ..state import State

Matrix = NDArray[np.float32]


class Anchors:
    """Anchors of a kernel map, collected from a warm-up sample.

    Parameters
    ----------
    n_anchors
        How many anchors are drawn.
    warm_up
        How many examples are stored before they are drawn, rounded up to whole blocks.
    seed
        Seeds the draw.
    block_size
        The learner's block size: a copy in mid-block never draws.

    Examples
    --------
    >>> anchors = Anchors(n_anchors=2, warm_up=4, seed=0)
    >>> anchors.absorb(np.arange(4.0, dtype=np.float32)[:, None])
    >>> anchors.ready, anchors.transform(np.zeros((1, 1), dtype=np.float32)).shape
    (True, (1, 3))
    """

    def __init__(self, n_anchors: int, warm_up: int, seed: int, block_size: int = 1) -> None:
        self.n_anchors = n_anchors
        self.warm_up = -(-warm_up // block_size) * block_size
        self.seed = seed
        self.width = 0.0
        self._rows: list[Matrix] = []
        self._points: Matrix | None = None
        self._cached: GaussianKernel | None = None

    @property
    def ready(self) -> bool:
        """Whether the warm-up sample is complete."""
        return self._points is not None

    @property
    def points(self) -> Matrix:
        """The anchors (m, d)."""
        assert self._points is not None
        return self._points

    def absorb(self, X: Matrix) -> None:
        """Store examples; when there are enough of them, draw the anchors.

        The kernel's width is the mean distance between the sample and its anchors.
        """
        self._rows.append(X.copy())
        sample = np.concatenate(self._rows)
        if len(sample) < self.warm_up:
            return
        generator = np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(3,)))
        chosen = generator.permutation(len(sample))[: self.n_anchors]
        self._points = sample[np.sort(chosen)]
        self._rows = []
        inner = sample.astype(np.float64) @ self._points.T.astype(np.float64)
        squares = (sample.astype(np.float64) ** 2).sum(axis=1)[:, None] - 2 * inner
        squares += (self._points.astype(np.float64) ** 2).sum(axis=1)
        self.width = max(float(np.sqrt(np.maximum(squares, 0)).mean()), 1e-6)

    def transform(self, X: Matrix) -> Matrix:
        """Return the kernel features and a constant 1 (n, m + 1), rows independent of each other."""
        features = np.ones((len(X), len(self.points) + 1), dtype=np.float32)
        features[:, :-1] = self._kernel.features(X)
        return features

    @property
    def _kernel(self) -> GaussianKernel:
        if self._cached is None:
            self._cached = GaussianKernel(self.points, self.width)
        return self._cached

    def mapping(self, W: Matrix) -> KernelMapping:
        """Return the mapping of linear functions W (m + 1, b) on these features."""
        return KernelMapping(self.points, self.width, W[:-1], W[-1], kernel=self._kernel)

    def state(self) -> State:
        """Return what was collected."""
        rows = np.concatenate(self._rows) if self._rows else None
        return {"rows": rows, "points": self._points, "width": self.width}

    def restore(self, state: State) -> Self:
        """Continue from what `state` returned."""
        self._rows = [] if state["rows"] is None else [state["rows"]]
        self._points, self.width, self._cached = state["points"], state["width"], None
        return self
