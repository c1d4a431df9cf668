"""Arrays that grow at their end."""

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray


def appended(buffer: NDArray[Any], n: int, rows: NDArray[Any], order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Return a buffer that holds its first n rows and then the new ones, grown by half when it is full.

    It lies in memory row by row, or column by column for the order "F".
    The first n rows are never written to, so others can go on reading them.

    Examples
    --------
    >>> appended(np.array([1, 2, 0]), 2, np.array([3]))
    array([1, 2, 3])
    """
    needed = n + len(rows)
    if needed > len(buffer):
        shape = (max(needed, len(buffer) + len(buffer) // 2), *buffer.shape[1:])
        grown = np.empty(shape, dtype=buffer.dtype, order=order)
        grown[:n] = buffer[:n]
        buffer = grown
    buffer[n:needed] = rows
    return buffer
