"""Boosted regression trees as hash functions: what FastHash learns.

The nodes of all trees are stored in plain arrays, one tree after the other. A right child follows its left sibling
and a leaf is its own child, so that vectors descend a tree in a fixed number of steps without a branch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..kernels import jit
from .hash_mapping import HashMapping
from .ordered_sums import Matrix

_LARGEST = np.finfo(np.float32).max


class ForestMapping(HashMapping):
    """Sums of trees: bit i is 1 where offset_i + the values of the leaves that x falls into are above 0.

    Parameters
    ----------
    feature
        The feature that each node compares (nodes,); any at a leaf.
    threshold
        A vector goes left where its feature is at most this (nodes,); any at a leaf. Kept as float32, rounded
        down, which changes no comparison with a float32 number.
    left
        The left child of each node (nodes,), later in its tree; the right child follows it. A leaf names itself.
    value
        What each leaf adds (nodes,), in float64; any at a node that is not a leaf.
    roots
        Where each tree begins (trees,), increasing from 0.
    n_trees
        How many trees each bit has (b,); the trees are in the order of the bits.
    offset
        What each bit's sum begins with (b,), in float64; zeros by default.
    n_features
        The dimension d of the vectors.

    Examples
    --------
    Two bits: x_0 > 0.5, and x_1 > 2.

    >>> split = {"feature": [0, 0, 0, 1, 0, 0], "threshold": [0.5, 0, 0, 2.0, 0, 0], "left": [1, 1, 2, 4, 4, 5]}
    >>> trees = {"value": [0, -1, 1, 0, -1, 1], "roots": [0, 3], "n_trees": [1, 1]}
    >>> mapping = ForestMapping(**split, **trees, n_features=2)
    >>> mapping.encode([[0.5, 2.0], [0.6, 2.0], [0.6, 2.1]]).ravel()
    array([0, 1, 3], dtype=uint8)
    """

    kind = "forest"

    def __init__(
        self,
        feature: ArrayLike,
        threshold: ArrayLike,
        left: ArrayLike,
        value: ArrayLike,
        roots: ArrayLike,
        n_trees: ArrayLike,
        offset: ArrayLike | None = None,
        *,
        n_features: ArrayLike,
    ) -> None:
        self._feature, self._left = _whole("feature", feature), _whole("left", left)
        self._threshold = _rounded_down(threshold)
        self._value = validation.numbers("value", value, ndim=1)
        self._roots, self._n_trees = _whole("roots", roots), _whole("n_trees", n_trees)
        width = validation.integer("n_features", np.reshape(n_features, ()).item(), minimum=1)
        super().__init__(width, len(self._n_trees))
        given = np.zeros(len(self._n_trees)) if offset is None else offset
        self._offset = validation.numbers("offset", given, ndim=1)
        self._steps = self._check()
        leaf = self._left == np.arange(len(self._left))
        self._feature[leaf], self._threshold[leaf], self._value[~leaf] = 0, _LARGEST, 0  # one form for one forest
        for array in self.arrays().values():
            array.setflags(write=False)

    def _check(self) -> NDArray[np.int32]:
        """Raise if the arrays are not a forest; return the depth of each tree."""
        n_nodes, n_trees = len(self._feature), len(self._roots)
        for name, array in (("threshold", self._threshold), ("left", self._left), ("value", self._value)):
            if len(array) != n_nodes:
                raise InvalidInput(
                    f"`{name}` must have a number for each of the {n_nodes} nodes; got {len(array)}."
                )
        if (self._n_trees < 0).any() or self._n_trees.sum() != n_trees:
            raise InvalidInput(f"`n_trees` must divide the {n_trees} trees among the bits.")
        if len(self._offset) != self.n_bits:
            raise InvalidInput(f"`offset` must have a number for each of the {self.n_bits} bits.")
        ends = np.append(self._roots[1:], n_nodes).astype(np.int32)
        if self._roots[0] != 0 or (ends <= self._roots).any():
            raise InvalidInput("`roots` must increase from 0 and stay below the number of nodes.")
        if self._feature.min() < 0 or self._feature.max() >= self.n_features:
            raise InvalidInput(f"`feature` must be from 0 to {self.n_features - 1}.")
        depths: NDArray[np.int32] = _depths(self._left, self._roots, ends)
        if (depths < 0).any():
            raise InvalidInput(
                f"`left` must name a later node of the same tree, each once, or the leaf itself; "
                f"tree {int(np.argmax(depths < 0))} does not."
            )
        return depths

    def arrays(self) -> dict[str, NDArray[Any]]:
        """Return the nodes, the trees and the offset."""
        return {
            "feature": self._feature,
            "threshold": self._threshold,
            "left": self._left,
            "value": self._value,
            "roots": self._roots,
            "n_trees": self._n_trees,
            "offset": self._offset,
            "n_features": np.array([self.n_features], dtype=np.int32),
        }

    def project(self, X: Matrix) -> Matrix:
        """Return each bit's sum, added up in float64 in the order of the trees."""
        nodes = (self._feature, self._threshold, self._left, self._value)
        trees = (self._roots, self._steps, self._n_trees, self._offset)
        sums: NDArray[np.float64] = _sums(np.ascontiguousarray(X), *nodes, *trees)
        return np.ascontiguousarray(sums.T, dtype=np.float32)

    def distance(self, other: HashMapping) -> float:
        """Return 0 for the same mapping, else infinity: trees have no parameters that compare."""
        return 0.0 if self == other else float("inf")


@jit
def _sums(
    X: Matrix,
    feature: NDArray[np.int32],
    threshold: Matrix,
    left: NDArray[np.int32],
    value: NDArray[np.float64],
    roots: NDArray[np.int32],
    steps: NDArray[np.int32],
    n_trees: NDArray[np.int32],
    offset: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the sums (b, n): all rows take a step, then the next, so that the loads of many rows overlap."""
    n, n_bits = X.shape[0], len(n_trees)
    sums = np.empty((n_bits, n))
    nodes = np.empty(n, dtype=np.int32)
    first = 0
    for bit in range(n_bits):
        row = sums[bit]
        row[:] = offset[bit]
        for tree in range(first, first + n_trees[bit]):
            nodes[:] = roots[tree]
            for _ in range(steps[tree]):
                for i in range(n):
                    node = nodes[i]
                    nodes[i] = left[node] + np.int32(X[i, feature[node]] > threshold[node])
            for i in range(n):
                row[i] += value[nodes[i]]
        first += n_trees[bit]
    return sums


@jit
def _depths(left: NDArray[np.int32], roots: NDArray[np.int32], ends: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return the depth of each tree, -1 for one that is not a tree."""
    depths = np.zeros(len(roots), dtype=np.int32)
    level = np.full(len(left), -1, dtype=np.int32)
    for tree in range(len(roots)):
        level[roots[tree]] = 0
        for node in range(roots[tree], ends[tree]):
            child = left[node]
            if level[node] >= 0 and child == node:
                depths[tree] = max(depths[tree], level[node])
            elif (
                level[node] < 0 or not node < child < ends[tree] - 1 or level[child] >= 0 or level[child + 1] >= 0
            ):
                depths[tree] = -1
                break
            else:
                level[child] = level[child + 1] = level[node] + 1
    return depths


def _whole(name: str, values: ArrayLike) -> NDArray[np.int32]:
    numbers = validation.numbers(name, values, ndim=1)
    whole = np.clip(numbers, -(2**31), 2**31 - 1).astype(np.int32)
    if (whole != numbers).any():
        raise InvalidInput(f"`{name}` must hold whole numbers.")
    return whole


def _rounded_down(threshold: ArrayLike) -> Matrix:
    """Return the largest float32 that is not above each threshold."""
    exact = np.clip(validation.numbers("threshold", threshold, ndim=1), -_LARGEST, _LARGEST)
    near: Matrix = exact.astype(np.float32)
    above = near > exact
    near[above] = np.nextafter(near[above], np.float32(-np.inf))
    return near
