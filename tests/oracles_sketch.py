"""Online Sketching Hashing as plain loops in float64: a row at a time, an SVD when the sketch is full."""

import numpy as np


def centred_rows(X, batch_size):
    """The rows that enter the sketch: each batch about its mean, and from the second one on, its correction."""
    rows, mean, n = [], np.zeros(X.shape[1]), 0
    for start in range(0, len(X), batch_size):
        batch = X[start : start + batch_size].astype(np.float64)
        m, batch_mean = len(batch), batch.mean(axis=0)
        for x in batch:
            rows.append(x - batch_mean)
        if n > 0:
            rows.append(np.sqrt(n * m / (n + m)) * (batch_mean - mean))
        mean = (n * mean + m * batch_mean) / (n + m)
        n += m
    return np.array(rows), mean


def frequent_directions(rows, size):
    """The sketch (size, d) of a stream of rows: each takes the next free one; shrinking frees half or more."""
    B = np.zeros((size, rows.shape[1]))
    used = 0
    for row in rows:
        if used == size:
            _, s, Vt = np.linalg.svd(B, full_matrices=False)
            squares = np.zeros(size)
            squares[: len(s)] = s**2
            B = np.zeros_like(B)
            used = 0
            for i in range(len(s)):
                kept = squares[i] - squares[size // 2]
                if kept > 0 and squares[i] > 1e-13 * squares[0]:
                    B[i] = np.sqrt(kept) * Vt[i]
                    used = i + 1
        B[used] = row
        used += 1
    return B


def directions(B, n_bits):
    """The top right singular vectors as columns, the largest component of each positive."""
    V = np.linalg.svd(B, full_matrices=False)[2][:n_bits].T
    for i in range(V.shape[1]):
        if V[np.abs(V[:, i]).argmax(), i] < 0:
            V[:, i] *= -1
    return V
