"""The values of a block of examples by a minimum cut: the published inference of FastHash (Sec. 4.3.2).

A block's energy is 1/2 sum_ij a_ij z_i z_j + sum_i u_i z_i over values z of -1 and 1. Where all a_ij <= 0, it is
submodular, and its minimum is a minimum cut between a source (z = 1) and a sink (z = -1).
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

Matrix = NDArray[np.float32]
Values = NDArray[np.floating[Any]]
Capacities = NDArray[np.int32]

_LARGEST = float(np.iinfo(np.int32).max // 4)


def settle_by_cut(inside: Matrix, pulls: Matrix, Z: Matrix) -> Matrix:
    """Return the values (k, starts) of a block with the least energy, for each start.

    A term with a_ij > 0, which no cut can have, is taken with z_j as it is, for both i and j: it goes into u.

    Parameters
    ----------
    inside
        a_ij of the block (k, k), symmetric, with a diagonal of 0.
    pulls
        sum_j a_ij z_j over all examples (k, starts).
    Z
        The values of the block as they are (k, starts).
    """
    attracting = np.minimum(inside, 0)
    outside = pulls - attracting @ Z
    found = np.empty_like(Z)
    for start in range(Z.shape[1]):
        found[:, start] = minimum_cut(attracting, outside[:, start])
        better = _energy(attracting, outside[:, start], found[:, start])
        if better > _energy(attracting, outside[:, start], Z[:, start]):
            found[:, start] = Z[:, start]  # capacities are rounded
    return found


def minimum_cut(attracting: Matrix, outside: Values) -> Matrix:
    """Return z (k,) of -1 and 1 with the least 1/2 z'Az + u'z, where no entry of A is above 0.

    Examples
    --------
    >>> A = np.array([[0, -3, 0], [-3, 0, -1], [0, -1, 0]], dtype=np.float32)
    >>> minimum_cut(A, np.array([-4.0, 1.0, 2.0], dtype=np.float32)).tolist()  # the second follows the first
    [1.0, 1.0, -1.0]
    """
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import breadth_first_order, maximum_flow

    k = len(attracting)
    capacities = np.zeros((k + 2, k + 2))
    capacities[:k, :k] = -2 * attracting  # what a pair costs that is cut: z_i z_j goes from 1 to -1
    source, sink = k, k + 1
    capacities[source, :k] = np.maximum(-2 * outside, 0)
    capacities[:k, sink] = np.maximum(2 * outside, 0)
    largest = capacities.max()
    scale = 1.0 if largest == 0 else min(_LARGEST / (k * largest), 2.0**20)
    whole: Capacities = np.round(capacities * (1.0 if _is_whole(capacities) else scale)).astype(np.int32)
    graph = csr_matrix(whole)
    left = csr_matrix(whole - maximum_flow(graph, source, sink).flow.toarray())
    left.eliminate_zeros()
    reached = breadth_first_order(left, source, return_predecessors=False)
    z = np.full(k + 2, -1, dtype=np.float32)
    z[reached] = 1
    return z[:k]


def _is_whole(capacities: NDArray[np.float64]) -> bool:
    return bool((capacities == np.round(capacities)).all()) and float(capacities.sum(axis=1).max()) < _LARGEST


def _energy(attracting: Matrix, outside: Values, z: Matrix) -> float:
    return float(0.5 * z @ (attracting @ z) + outside @ z)
