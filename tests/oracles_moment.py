"""The equations of MomentHash as plain loops, in float64."""

from math import exp, log, tanh

import numpy as np


def moments(blocks, n_features, n_classes, memory):
    """Return n, mean, covariance and cross-covariance after blocks of (rows, 0/1 classes), row by row."""
    n, total = 0.0, np.zeros(n_features)
    squares = np.zeros((n_features, n_features))
    by_class, counts = np.zeros((n_features, n_classes)), np.zeros(n_classes)
    for X, Y in blocks:
        kept = 1.0 if memory is None else exp(-len(X) / memory)
        n, total, squares, by_class, counts = (
            n * kept,
            total * kept,
            squares * kept,
            by_class * kept,
            counts * kept,
        )
        for x, classes in zip(X.astype(float), Y, strict=True):
            n += 1
            total = total + x
            squares = squares + np.outer(x, x)
            for c, has in enumerate(classes):
                if has:
                    by_class[:, c] += x
                    counts[c] += 1
    mean = total / n
    return n, mean, squares / n - np.outer(mean, mean), by_class / n - np.outer(mean, counts / n)


def histograms(V, near, n_bins):
    """Return each anchor's soft histograms of distances to others and to neighbours, and how many there are."""
    b = V.shape[1]
    mass, counts = np.zeros((len(near), 2, n_bins + 1)), np.zeros((len(near), 2))
    for i in range(len(near)):
        for j in range(len(V)):
            if i == j:
                continue
            place = (b - V[i] @ V[j]) / 2 * n_bins / b
            low = min(max(int(place), 0), n_bins - 1)
            mass[i, near[i, j], low] += 1 - (place - low)
            mass[i, near[i, j], low + 1] += place - low
            counts[i, near[i, j]] += 1
    return mass, counts


def log_ratios(mass, counts, smoothing):
    """Return log p(D|side) / p(D) of each anchor, smoothed by the pooled histograms; 0 where a side is empty."""
    pool = mass.sum(axis=0) / np.maximum(counts.sum(axis=0), 1)[:, None]
    found = np.zeros_like(mass)
    for i in range(len(mass)):
        if counts[i].min() == 0:
            continue
        p = [(mass[i, side] + smoothing * pool[side]) / (counts[i, side] + smoothing) for side in (0, 1)]
        shares = counts[i] / counts[i].sum()
        for k in range(mass.shape[2]):
            both = shares[0] * p[0][k] + shares[1] * p[1][k]
            for side in (0, 1):
                if p[side][k] > 0:
                    found[i, side, k] = log(p[side][k] / both)
    return found


def information(P, near, steep, n_bins, smoothing=0.0, ratios=None):
    """Return I of each anchor in nats; with ``ratios`` given, these are held fixed."""
    V = np.array([[tanh(value * f) for value, f in zip(row, steep, strict=True)] for row in P])
    mass, counts = histograms(V, near, n_bins)
    ratios = log_ratios(mass, counts, smoothing) if ratios is None else ratios
    found = np.zeros(len(near))
    for i in range(len(near)):
        if counts[i].min() > 0:
            found[i] = (mass[i] * ratios[i]).sum() / counts[i].sum()
    return found


def turned_apart(W):
    """Return U S^a V' of W = U S V' with unit columns, each column as long as it was; a by the number of bits."""
    power = min(1, max(0.5, 1.5 - W.shape[1] / 64))
    sizes = [float(np.sqrt(sum(value**2 for value in column))) for column in W.T.astype(float)]
    columns = np.stack(
        [column / (size or 1) for column, size in zip(W.T.astype(float), sizes, strict=True)], axis=1
    )
    left, values, right = np.linalg.svd(columns, full_matrices=False)
    found = sum(value**power * np.outer(u, v) for u, value, v in zip(left.T, values, right, strict=True))
    for j, size in enumerate(sizes):
        length = float(np.sqrt((found[:, j] ** 2).sum()))
        found[:, j] *= size / (length or 1)
    return found
