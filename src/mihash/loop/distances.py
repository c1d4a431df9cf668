"""The distributions of Hamming distances to neighbours and to others, p(D|+) and p(D|-), on the reservoir.

They are what Fig. 1 and 6 show. Quality (Eq. 6) is the information that a distance gives about being a neighbour.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..information import distance_counts, mean_information
from ..mapping import HashMapping, NormalizedMapping
from ..reservoir import Reservoir
from .normalization import Normalization
from .quality import sample_neighbors

Floats = NDArray[np.float64]


class Distances(NamedTuple):
    """The distances within a sample, under one mapping.

    Attributes
    ----------
    n_bits
        The code length b.
    neighbors, others
        The shares (b + 1,) of neighbours, and of others, at each Hamming distance: the mean over the examples that
        have such; zeros if none has.
    information
        Quality (Eq. 6), in bits.
    sample
        How many examples it was taken on.
    version
        The version whose mapping it is; None for the current mapping.
    """

    n_bits: int
    neighbors: Floats
    others: Floats
    information: float
    sample: int
    version: int | None = None


def reservoir_distances(
    reservoir: Reservoir, mapping: HashMapping, normalization: Normalization | None = None
) -> Distances:
    """Return the distances within a reservoir under a mapping of features as they came.

    Parameters
    ----------
    reservoir
        The sample.
    mapping
        What makes the codes.
    normalization
        How the features in the reservoir were normalised; None for not at all.

    Examples
    --------
    >>> import mihash
    >>> reservoir = mihash.Reservoir(4)
    >>> reservoir.add([[-2.0, 1.0], [-1.0, -1.0], [1.0, 1.0], [2.0, -1.0]], [0, 0, 1, 1])
    >>> found = reservoir_distances(reservoir, mihash.mapping.LinearMapping([[1.0], [0.0]]))
    >>> found.neighbors.tolist(), found.others.tolist(), round(found.information, 3)
    ([1.0, 0.0], [0.0, 1.0], 0.918)
    """
    n_bits = mapping.n_bits
    if len(reservoir) < 2:
        nothing = np.zeros(n_bits + 1)
        return Distances(n_bits, nothing, nothing, 0.0, len(reservoir))
    counts = distance_counts(_codes(reservoir, mapping, normalization), sample_neighbors(reservoir), n_bits)
    others, neighbors = (_mean_share(part) for part in np.split(counts, 2, axis=1))
    return Distances(n_bits, neighbors, others, mean_information(counts), len(reservoir))


def _codes(reservoir: Reservoir, mapping: HashMapping, normalization: Normalization | None) -> NDArray[np.uint8]:
    """Return the codes; a mapping from before the features were normalised sees them as they were then."""
    X = reservoir.X
    if normalization is None:
        return mapping.encode_rows(X)
    if isinstance(mapping, NormalizedMapping) and _is_of(mapping, normalization):
        return mapping.inner.encode_rows(X)
    return mapping.encode_rows(X / np.float32(normalization.gain) + normalization.mean)


def _is_of(mapping: NormalizedMapping, normalization: Normalization) -> bool:
    same = np.array_equal(mapping.mean, normalization.mean) and mapping.unit == normalization.unit
    return bool(same and mapping.gain[0] == np.float32(normalization.gain))


def _mean_share(counts: NDArray[np.int32]) -> Floats:
    sums = counts.sum(axis=1, keepdims=True)
    some = sums[:, 0] > 0
    shares: Floats = counts[some] / sums[some]
    return shares.mean(axis=0) if len(shares) else np.zeros(counts.shape[1])
