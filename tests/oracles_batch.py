"""The batch methods once more, as plain loops in float64, one pair, one bit or one example at a time."""

import math

import numpy as np

import oracles


def relaxed(projections, scale):
    return 2 / (1 + np.exp(-scale * np.asarray(projections, dtype=np.float64))) - 1


def batch_information(codes, near, n_bins=None):
    """The mean over all items of I with the others, in nats."""
    n, n_bits = codes.shape
    total = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        distances = [(n_bits - float(np.dot(codes[i], codes[j]))) / 2 for j in others]
        total += oracles.information(distances, [near[i][j] for j in others], n_bits, n_bins)
    return total * math.log(2) / n


def batch_gradient(projections, near, scale, n_bins=None):
    """Its gradient by the projections: each pair's slope moves both codes (Eq. 11-17, twice)."""
    codes = relaxed(projections, scale)
    n, n_bits = codes.shape
    n_bins = n_bins or n_bits
    width = n_bits / n_bins
    by_code = np.zeros_like(codes)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        distances = {j: (n_bits - float(np.dot(codes[i], codes[j]))) / 2 for j in others}
        sides = [[j for j in others if bool(near[i][j]) == side] for side in (True, False)]
        if not sides[0] or not sides[1]:
            continue
        p_sides = [oracles.histogram([distances[j] for j in side], n_bits, n_bins) for side in sides]
        priors = [len(side) / len(others) for side in sides]
        p = [priors[0] * a + priors[1] * b for a, b in zip(*p_sides, strict=True)]
        for side, prior, p_side in zip(sides, priors, p_sides, strict=True):
            weights = [prior * math.log(a / b) if a > 0 else 0.0 for a, b in zip(p_side, p, strict=True)]
            for j in side:
                lower = min(int(distances[j] / width), n_bins - 1)
                slope = (weights[lower + 1] - weights[lower]) / width / len(side)
                by_code[i] -= slope * codes[j] / 2
                by_code[j] -= slope * codes[i] / 2
    return by_code / n * scale / 2 * (1 - codes**2)


def mihash(Z, near, W, batches, rates, scale, momentum, n_bins=None, *, unit_length=False):
    """Minibatch gradient ascent with momentum; ``batches`` are lists of rows, ``rates`` their learning rates."""
    W, step = W.astype(np.float64), np.zeros(W.shape)
    for rows, rate in zip(batches, rates, strict=True):
        X = Z[rows].astype(np.float64)
        gradient = X.T @ batch_gradient(X @ W, near[np.ix_(rows, rows)], scale, n_bins)
        step = momentum * step + gradient
        W = W + rate * step
        if unit_length:
            W = W / np.sqrt((W**2).sum(axis=0))
    return W


def pair_misfit(H, S):
    """||H H' - b S||^2 as a share of ||b S||^2, pair by pair."""
    n, b = H.shape
    total = 0.0
    for i in range(n):
        for j in range(n):
            total += (float(np.dot(H[i], H[j])) - b * S[i][j]) ** 2
    return total / (b * b * n * n)


def residual(H, S, b):
    """R = b S less the products of the bits so far."""
    R = b * np.asarray(S, dtype=np.float64)
    for h in H.T:
        R = R - np.outer(h, h)
    return R


def sdh_objective(Y, B, W, Z, P, offset, lambda_, nu, rho):
    """||Y - B W||^2 + lambda ||W||^2 + nu (||B - F||^2 + n rho ||P||^2), example by example."""
    total = lambda_ * float((W**2).sum()) + nu * len(Y) * rho * float((P**2).sum())
    for y, b, z in zip(Y, B, Z, strict=True):
        total += sum((y[c] - float(np.dot(b, W[:, c]))) ** 2 for c in range(Y.shape[1]))
        total += nu * sum((b[k] - float(np.dot(z, P[:, k])) - offset[k]) ** 2 for k in range(len(b)))
    return total / len(Y)


def sdh_codes(B, W, Q):
    """Discrete cyclic coordinate descent, example by example and bit by bit, until nothing changes."""
    B = B.copy()
    for i in range(len(B)):
        changed = True
        while changed:
            changed = False
            for k in range(B.shape[1]):
                rest = sum(B[i, m] * float(np.dot(W[m], W[k])) for m in range(B.shape[1]) if m != k)
                pull = Q[i, k] - rest
                bit = B[i, k] if pull == 0 else math.copysign(1.0, pull)
                changed |= bit != B[i, k]
                B[i, k] = bit
    return B


def quantization_error(V, R):
    """The mean over examples and bits of (b - v R)^2, b the sign."""
    total = 0.0
    for v in V:
        for k in range(R.shape[1]):
            value = sum(v[m] * R[m, k] for m in range(len(v)))
            total += ((1 if value > 0 else -1) - value) ** 2
    return total / V.shape[0] / R.shape[1]


def gaussian_features(X, anchors, width):
    return np.array([[math.exp(-float(((x - a) ** 2).sum()) / (2 * width**2)) for a in anchors] for x in X])
