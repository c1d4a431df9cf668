"""Checksums of stored vectors, one for each row, as fast as memory is read.

The check of row i with id t is sum_j c_j v_ij + c_0 (t + 1) modulo 2^64, where v are the row's numbers as unsigned
integers and c odd constants. A row in which one number was changed never has the same check; any other damage goes
unseen once in 2^64.
"""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from ...kernels import jit

_GOLDEN = 0x9E3779B97F4A7C15


def row_checks(vectors: NDArray[np.float32] | NDArray[np.float16], ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a checksum for each row (n, d) and the id that it is stored under.

    Examples
    --------
    >>> X = np.ones((2, 3), dtype=np.float32)
    >>> same, moved = row_checks(X, np.array([1, 2])), row_checks(X, np.array([1, 3]))
    >>> (same == moved).tolist()
    [True, False]
    """
    kind = np.uint32 if vectors.dtype.itemsize == 4 else np.uint16
    checks = np.empty(len(vectors), dtype=np.uint64)
    _check(np.ascontiguousarray(vectors).view(kind), ids, _constants(vectors.shape[1] + 1), checks)
    return checks


@lru_cache(maxsize=8)
def _constants(n: int) -> NDArray[np.uint64]:
    """Return n odd numbers of 64 bits: the SplitMix64 sequence, with the last bit set."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    constants: NDArray[np.uint64] = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    constants.setflags(write=False)
    return constants


@jit
def _check(
    words: NDArray[np.uint32],
    ids: NDArray[np.int64],
    constants: NDArray[np.uint64],
    checks: NDArray[np.uint64],
) -> None:
    n, d = words.shape
    for i in range(n):
        total = constants[0] * np.uint64(ids[i] + 1)
        for j in range(d):
            total += constants[j + 1] * np.uint64(words[i, j])
        checks[i] = total
