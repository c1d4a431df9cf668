"""Average precision as most public hashing code computes it: sort the database for each query."""

import numpy as np
from numpy.typing import NDArray

Signs = NDArray[np.float32]
Labels = NDArray[np.int64]


def average_precisions(
    queries: Signs, signs: Signs, y_queries: Labels, y: Labels, kind: str | None = None
) -> NDArray[np.float64]:
    """Return AP of each query (codes as -1/+1); ``kind`` is argsort's, which orders equal distances."""
    values = np.full(len(queries), np.nan)
    n_bits = signs.shape[1]
    for i, query in enumerate(queries):
        distances = 0.5 * (n_bits - query @ signs.T)
        relevant = (y == y_queries[i])[np.argsort(distances, kind=kind)]
        found = np.cumsum(relevant)
        if found[-1]:
            precision = found / np.arange(1, len(relevant) + 1)
            values[i] = precision[relevant].mean()
    return values
