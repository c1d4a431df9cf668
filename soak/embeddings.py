"""The same items as several embedding models see them: what a migration moves from and to.

Every item has a hidden vector; each model maps hidden vectors to its own space. So every process can compute the
vector of an item by any model, and the true neighbours, to the last bit.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["N_QUERIES", "Embeddings"]

N_QUERIES = 200
_BLOCK, _HIDDEN, _CLUSTERS, _SPREAD = 256, 24, 500, 0.6
_QUERY = 10**6  # in place of how often an item was changed


class Embeddings:
    """The vectors of items by the model of each generation.

    Parameters
    ----------
    dims
        The dimensions, which models have in turn.
    seed
        What items and models are drawn from.
    """

    def __init__(self, dims: tuple[int, ...], seed: int) -> None:
        self.dims, self._seed = dims, seed
        self._centres = np.random.default_rng([seed, 0]).standard_normal((_CLUSTERS, _HIDDEN))
        self._block = lru_cache(64)(self._computed)
        self._weights = lru_cache(8)(self._drawn)
        self._hidden = lru_cache(4096)(self._placed)

    def dim(self, generation: int) -> int:
        """Return the dimension of a generation."""
        return self.dims[generation % len(self.dims)]

    def vectors(self, keys: ArrayLike, changes: ArrayLike, generation: int) -> NDArray[np.float32]:
        """Return the vectors of items after so many changes each, by the model of a generation."""
        numbers = np.asarray(keys, dtype=np.int64)
        times = np.broadcast_to(np.asarray(changes, dtype=np.int64), numbers.shape)
        blocks, out = numbers // _BLOCK, np.empty((len(numbers), self.dim(generation)), dtype=np.float32)
        for change, block in sorted(set(zip(times.tolist(), blocks.tolist(), strict=True))):
            at = np.flatnonzero((times == change) & (blocks == block))
            out[at] = self._block(change, block, generation)[numbers[at] % _BLOCK]
        return out

    def queries(self, generation: int) -> NDArray[np.float32]:
        """Return the queries, which are no items."""
        return self.vectors(np.arange(N_QUERIES), _QUERY, generation)

    def nearest(self, n_items: int, generation: int, n: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Return the n nearest to each query among unchanged items, nearest first, and the squared distances."""
        queries = self.queries(generation)
        best = np.zeros((N_QUERIES, 0), dtype=np.float32)
        keys = np.zeros((N_QUERIES, 0), dtype=np.int64)
        for start in range(0, n_items, 16 * _BLOCK):
            part = np.arange(start, min(start + 16 * _BLOCK, n_items))
            distances = squared(queries, self.vectors(part, 0, generation))
            best = np.hstack([best, distances])
            keys = np.hstack([keys, np.broadcast_to(part, distances.shape)])
            first = np.argsort(best, axis=1, kind="stable")[:, :n]
            best, keys = np.take_along_axis(best, first, 1), np.take_along_axis(keys, first, 1)
        return keys, best

    def vector(self, key: int, change: int, generation: int) -> NDArray[np.float32]:
        """Return one vector, with another rounding than `vectors`; it takes less time."""
        hidden = self._hidden(change, key // _BLOCK)[key % _BLOCK]
        found: NDArray[np.float32] = np.tanh((hidden @ self._weights(generation)).astype(np.float32))
        return found

    def _computed(self, change: int, block: int, generation: int) -> NDArray[np.float32]:
        """Return the vectors of a block; a whole one, so that they are the same bits in every process."""
        hidden = self._hidden(change, block)
        found: NDArray[np.float32] = np.tanh((hidden @ self._weights(generation)).astype(np.float32))
        return found

    def _placed(self, change: int, block: int) -> NDArray[np.float64]:
        rng = np.random.default_rng([self._seed, 1, change, block])
        centres = self._centres[rng.integers(_CLUSTERS, size=_BLOCK)]
        return centres + _SPREAD * rng.standard_normal((_BLOCK, _HIDDEN))

    def _drawn(self, generation: int) -> NDArray[np.float64]:
        rng = np.random.default_rng([self._seed, 2, generation])
        return rng.standard_normal((_HIDDEN, self.dim(generation))) / _HIDDEN**0.5


def squared(A: NDArray[np.float32], B: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the squared Euclidean distances between the rows of both."""
    found: NDArray[np.float32] = (A**2).sum(axis=1)[:, None] - 2 * A @ B.T + (B**2).sum(axis=1)
    return found
