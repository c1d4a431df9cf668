"""The measures of quantizers as plain loops."""

import numpy as np


def recall(k, distances, true):
    """Return the share of each item's neighbours among its k nearest others, expected over the order of ties."""
    n, found = len(distances), []
    k = min(k, n - 1)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        n_true = sum(true[i, j] for j in others)
        if not n_true:
            continue
        hits, left = 0.0, k
        for value in sorted({distances[i, j] for j in others if np.isfinite(distances[i, j])}):
            level = [j for j in others if distances[i, j] == value]
            taken = min(left, len(level))
            hits += taken * sum(true[i, j] for j in level) / len(level)
            left -= taken
        found.append(hits / min(n_true, k))
    return np.array(found)


def binned_counts(distances, true, n_bins):
    """Return how many others of each item are in each bin of equal frequency, those not found in a last one."""
    n = len(distances)
    known = [distances[i, j] for i in range(n) for j in range(n) if i != j and np.isfinite(distances[i, j])]
    edges = [np.quantile(known, b / n_bins) for b in range(1, n_bins)] if known else []
    counts = np.zeros((n, 2 * (n_bins + 1)), dtype=int)
    for i in range(n):
        for j in range(n):
            if i != j:
                at = sum(edge <= distances[i, j] for edge in edges) if np.isfinite(distances[i, j]) else n_bins
                counts[i, at + (n_bins + 1) * true[i, j]] += 1
    return counts
