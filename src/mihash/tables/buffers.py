"""Arrays that grow at their end."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["appended"]


def appended(buffer: NDArray[Any], n: int, rows: NDArray[Any]) -> NDArray[Any]:
    """Return a buffer that holds its first n rows and then the new ones, grown by half when it is full.

    The first n rows are never written to, so whoever knows of no more can go on reading them.

    Examples
    --------
    >>> appended(np.array([1, 2, 0]), 2, np.array([3]))
    array([1, 2, 3])
    """
    needed = n + len(rows)
    if needed > len(buffer):
        grown = np.empty((max(needed, len(buffer) + len(buffer) // 2), *buffer.shape[1:]), dtype=buffer.dtype)
        grown[:n] = buffer[:n]
        buffer = grown
    buffer[n:needed] = rows
    return buffer
