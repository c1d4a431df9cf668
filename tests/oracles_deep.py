"""The losses of the deep room once more, as plain loops over pairs and triplets in float64."""

import math

import numpy as np

import oracles


def near(labels, i, j):
    """Same class, or a shared label."""
    if np.ndim(labels) == 1:
        return bool(labels[i] == labels[j])
    return any(a and b for a, b in zip(labels[i], labels[j], strict=True))


def information_loss(codes, labels, n_bins=None, kept=(), kept_labels=()):
    """Eq. 7 over a minibatch; kept codes are further neighbours and non-neighbours."""
    n, n_bits = codes.shape
    everything = np.concatenate([codes, np.reshape(kept, (-1, n_bits))])
    everyone = np.concatenate([labels, kept_labels]) if len(kept_labels) else np.asarray(labels)
    total = 0.0
    for i in range(n):
        others = [j for j in range(len(everything)) if j != i]
        distances = [(n_bits - float(codes[i] @ everything[j])) / 2 for j in others]
        total += oracles.information(distances, [near(everyone, i, j) for j in others], n_bits, n_bins)
    return -total / n


def information_loss_gradient(codes, labels, n_bins=None):
    """Eq. 11-17 for each anchor, through its own code and through the other one of each pair."""
    n, n_bits = codes.shape
    n_bins = n_bins or n_bits
    gradient = np.zeros_like(codes)
    for i in range(n):
        others = [j for j in range(n) if j != i]
        mask = [near(labels, i, j) for j in others]
        gradient[i] -= oracles.information_gradient(codes[i], codes[others], mask, n_bins)
        for place, j in enumerate(others):
            # I depends on the code of j through one distance; a second use of Eq. 15-17, with the roles exchanged.
            slope = distance_slope(codes[i], codes[others], mask, n_bins, place)
            gradient[j] -= slope * (-codes[i] / 2)
    return gradient / n


def distance_slope(code, codes, mask, n_bins, place):
    """dI / dd of one distance, Eq. 10 and 12-14."""
    n_bits = len(code)
    if all(mask) or not any(mask):
        return 0.0
    distances = [(n_bits - float(code @ other)) / 2 for other in codes]
    side = [d for d, c in zip(distances, mask, strict=True) if c == mask[place]]
    other_side = [d for d, c in zip(distances, mask, strict=True) if c != mask[place]]
    p_side = oracles.histogram(side, n_bits, n_bins)
    p_other = oracles.histogram(other_side, n_bits, n_bins)
    prior = len(side) / len(distances)
    width = n_bits / n_bins
    lower = min(int(distances[place] / width), n_bins - 1)
    total = 0.0
    for k, step in ((lower, -1 / width), (lower + 1, 1 / width)):
        if p_side[k] > 0:
            p = prior * p_side[k] + (1 - prior) * p_other[k]
            total += prior * (math.log2(p_side[k]) - math.log2(p)) * step / len(side)
    return total


def quantization(outputs):
    """The mean of (sgn(u) - u)^2."""
    return float(np.mean([((1 if u > 0 else -1) - u) ** 2 for u in outputs.ravel()]))


def dpsh_loss(outputs, labels, eta):
    """The pairwise likelihood, pair by pair."""
    n = len(outputs)
    terms = []
    for i in range(n):
        for j in range(n):
            if i != j:
                theta = float(outputs[i] @ outputs[j]) / 2
                terms.append(math.log1p(math.exp(theta)) - near(labels, i, j) * theta)
    return sum(terms) / max(1, len(terms)) + eta * quantization(outputs)


def dtsh_loss(outputs, labels, alpha, lambda_):
    """The triplet likelihood, triplet by triplet."""
    n = len(outputs)
    theta = outputs @ outputs.T / 2
    terms = []
    for q in range(n):
        for p in range(n):
            for r in range(n):
                if p != q and near(labels, q, p) and not near(labels, q, r):
                    margin = theta[q, p] - theta[q, r] - alpha
                    terms.append(-(margin - math.log1p(math.exp(margin))))
    return sum(terms) / max(1, len(terms)) + lambda_ * quantization(outputs)


def classification_loss(codes, labels, W):
    """The mean cross-entropy in nats of the scores W h, and its gradient with respect to the codes."""
    total, gradient = 0.0, np.zeros_like(codes)
    for i, code in enumerate(codes):
        scores = [math.exp(float(row @ code)) for row in W]
        shares = [score / sum(scores) for score in scores]
        total -= math.log(shares[labels[i]])
        for k, row in enumerate(W):
            gradient[i] += (shares[k] - (k == labels[i])) * row
    return total / len(codes), gradient / len(codes)
