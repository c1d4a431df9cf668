"""Margins: ranks candidates again by how far the query is from the hyperplanes that separate it from them.

A code tells on which side of each hyperplane an item is; for the query, the distance to each hyperplane is known,
too. A bit that differs says little where the query is close to its hyperplane. So candidates with about the same
Hamming distance are ranked by the sum of the query's margins over the bits that differ (asymmetric distance).

Sums are made in a fixed order in float32, byte by byte and in a byte from bit 0 on: the same on every machine.
"""

import numpy as np
from numpy.typing import NDArray

from ..kernels import jit
from .columns import Columns, Contiguous, Queries, contiguous
from .parallel import in_threads, tiles

REACH = 1000
"""How many of the nearest codes are ranked by margins, at least."""
_REACH_WITH_FACTORS = 4000  # estimates of distances find more among the farther codes
_TIMES = 10  # of what is wanted


def reach(n_wanted: int, with_factors: bool = False, of_products: int = 0) -> int:
    """Return how many of the nearest codes to rank by margins, for the best ``n_wanted`` of them.

    Codes do not contain the length of a vector. So by inner products it is at least half of all rows,
    ``of_products``.

    Examples
    --------
    >>> reach(10), reach(10, with_factors=True), reach(2000), reach(10, True, of_products=100_000)
    (1000, 4000, 20000, 50000)
    """
    return max(_REACH_WITH_FACTORS if with_factors else REACH, _TIMES * n_wanted, of_products // 2)


def margin_sums(
    queries: Columns,
    columns: Columns,
    rows: NDArray[np.int64],
    margins: NDArray[np.float32],
    n_threads: int = 1,
) -> NDArray[np.float32]:
    """Return for each query and candidate the sum of the query's margins over the bits that differ.

    Parameters
    ----------
    queries, columns
        Codes as words (`as_columns`).
    rows
        The candidates of each query (n_queries, n), as rows of ``columns``.
    margins
        How far each query is from the hyperplane of each bit (n_queries, b).
    n_threads
        How many threads share the queries; the answer is the same.

    Examples
    --------
    >>> codes = np.array([[0b011], [0b100]], dtype=np.uint64)
    >>> margins = np.array([[0.5, 0.25, 2.0]], dtype=np.float32)
    >>> margin_sums(np.array([[0]], dtype=np.uint64), codes, np.array([[0, 1]]), margins)
    array([[0.75, 2.  ]], dtype=float32)
    """
    out = np.zeros(rows.shape, dtype=np.float32)
    words, asked = contiguous(columns), np.ascontiguousarray(queries)

    def answer(tile: slice) -> None:
        _sums(asked[tile], words, rows[tile], margins[tile], out[tile])

    if out.size:
        in_threads(answer, tiles(len(queries), n_threads), n_threads)
    return out


def first_by(distances: NDArray[np.float32], ids: NDArray[np.int64], most: int | None) -> NDArray[np.int64]:
    """Return the places of the first ``most`` by (distance, id), in that order.

    Examples
    --------
    >>> first_by(np.array([2, 1, 1, 3], dtype=np.float32), np.array([5, 9, 4, 1]), 2).tolist()
    [2, 1]
    """
    if most is None or 4 * most >= len(distances):
        return np.lexsort((ids, distances))[:most]
    limit = np.partition(distances, most - 1)[most - 1]
    near = np.flatnonzero(distances <= limit)
    return near[np.lexsort((ids[near], distances[near]))[:most]]


@jit
def _sums(
    queries: Queries,
    columns: Contiguous,
    rows: NDArray[np.int64],
    margins: NDArray[np.float32],
    out: NDArray[np.float32],
) -> None:
    """Add to ``out`` what each byte that differs costs, looked up in a table of its 256 values.

    The words of all candidates are gathered first: looked up as they come, each would wait for the memory.
    """
    n_bits, word_bytes, n = margins.shape[1], columns[0].itemsize, rows.shape[1]
    table = np.zeros(256 * word_bytes, dtype=np.float32)
    words = np.empty(n, dtype=np.uint64)
    for q in range(len(queries)):
        for number, column in enumerate(columns):
            for byte in range(word_bytes):
                for bit in range(8):
                    place = 8 * (word_bytes * number + byte) + bit
                    margin = margins[q, place] if place < n_bits else np.float32(0)
                    for value in range(256 * byte, 256 * byte + (1 << bit)):
                        table[value + (1 << bit)] = table[value] + margin
            asked = np.uint64(queries[q, number])
            for i in range(n):
                words[i] = asked ^ np.uint64(column[np.uint64(rows[q, i])])
            for i in range(n):
                differing, total = words[i], out[q, i]
                for byte in range(word_bytes):
                    total += table[np.uint64(256 * byte) | (differing & np.uint64(255))]
                    differing >>= np.uint64(8)
                out[q, i] = total
