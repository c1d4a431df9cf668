"""Each equation of the paper once more, as plain loops in float64: what the fast forms are compared with."""

import math

import numpy as np


def hamming(a, b):
    """Eq. 1 on +-1 codes."""
    return sum((1 - int(x) * int(y)) // 2 for x, y in zip(a, b, strict=True))


def triangular(distance, k, n_bits, n_bins):
    """Eq. 9: the share of bin k in one distance."""
    width = n_bits / n_bins
    centre = k * width
    if centre - width <= distance <= centre:
        return (distance - (centre - width)) / width
    if centre <= distance <= centre + width:
        return (centre + width - distance) / width
    return 0.0


def histogram(distances, n_bits, n_bins):
    """Eq. 8."""
    return [
        sum(triangular(d, k, n_bits, n_bins) for d in distances) / max(len(distances), 1)
        for k in range(n_bins + 1)
    ]


def entropy(p):
    return -sum(x * math.log2(x) for x in p if x > 0)


def information(distances, is_neighbor, n_bits, n_bins=None):
    """Eq. 3, H(D) - H(D|C), in bits."""
    n_bins = n_bins or n_bits
    pos = [d for d, c in zip(distances, is_neighbor, strict=True) if c]
    neg = [d for d, c in zip(distances, is_neighbor, strict=True) if not c]
    if not pos or not neg:
        return 0.0
    p_pos, p_neg = histogram(pos, n_bits, n_bins), histogram(neg, n_bits, n_bins)
    prior = len(pos) / len(distances)
    p = [prior * a + (1 - prior) * b for a, b in zip(p_pos, p_neg, strict=True)]
    return entropy(p) - prior * entropy(p_pos) - (1 - prior) * entropy(p_neg)


def quality(codes, neighbors):
    """Eq. 6 on +-1 codes (n, b); an item is not its own neighbour."""
    n, n_bits = codes.shape
    total = 0.0
    for i in range(n):
        others = [j for j in range(n) if j != i]
        distances = [hamming(codes[i], codes[j]) for j in others]
        total += information(distances, [neighbors[i][j] for j in others], n_bits)
    return total / n


def information_gradient(code, codes, is_neighbor, n_bins=None):
    """Eq. 11-17, bin by bin and item by item, in bits."""
    n_bits = len(code)
    n_bins = n_bins or n_bits
    width = n_bits / n_bins
    distances = [(n_bits - float(np.dot(code, other))) / 2 for other in codes]
    sides = [[r for r, c in enumerate(is_neighbor) if bool(c) == side] for side in (True, False)]
    gradient = np.zeros(n_bits)
    if not sides[0] or not sides[1]:
        return gradient
    priors = [len(side) / len(distances) for side in sides]
    p_sides = [histogram([distances[r] for r in side], n_bits, n_bins) for side in sides]
    p = [priors[0] * a + priors[1] * b for a, b in zip(*p_sides, strict=True)]
    for side, prior, p_side in zip(sides, priors, p_sides, strict=True):
        for k in range(n_bins + 1):
            if p_side[k] == 0:
                continue
            weight = prior * (math.log2(p_side[k]) - math.log2(p[k]))
            for r in side:
                lower = min(int(distances[r] / width), n_bins - 1)
                slope = {lower: -1 / width, lower + 1: 1 / width}.get(k, 0.0)
                gradient += weight * slope / len(side) * (-np.asarray(codes[r]) / 2)
    return gradient


def mihash_step(W, x, X_reservoir, is_neighbor, learning_rate, scale, n_bins=None):
    """One step of online MIHash (Sec. 4.3.1): W after gradient ascent on I in nats, float64."""
    relaxed = 2 / (1 + np.exp(-scale * (W.T @ x))) - 1
    others = 2 / (1 + np.exp(-scale * (X_reservoir @ W))) - 1
    by_code = information_gradient(relaxed, others, is_neighbor, n_bins) * math.log(2)
    by_projection = by_code * scale / 2 * (1 - relaxed**2)
    return W + learning_rate * np.outer(x, by_projection)


def released_step(W, x, X_reservoir, is_neighbor, learning_rate, scale):
    """The step of the authors' release: sigmoids in (0, 1) in place of codes, and the factor 2 dropped."""
    s_x = 1 / (1 + np.exp(-scale * (W.T @ x)))
    s_r = 1 / (1 + np.exp(-scale * (X_reservoir @ W)))
    n_bits = len(s_x)
    distances = (n_bits - (2 * s_r - 1) @ (2 * s_x - 1)) / 2
    slopes = np.array(information_slopes(distances, is_neighbor, n_bits))
    by_projection = (slopes @ (-s_r / 2)) * scale * s_x * (1 - s_x)
    return W + learning_rate * math.log(2) * np.outer(x, by_projection)


def information_slopes(distances, is_neighbor, n_bits, h=1e-6):
    """dI/dd for each distance, by differences."""
    slopes = []
    for r in range(len(distances)):
        up, down = list(distances), list(distances)
        up[r] += h
        down[r] -= h
        slopes.append((information(up, is_neighbor, n_bits) - information(down, is_neighbor, n_bits)) / (2 * h))
    return slopes


def reservoir(uniforms, size):
    """Algorithm R: the index of the example in each slot."""
    slots = []
    for t, u in enumerate(uniforms):
        if t < size:
            slots.append(t)
        else:
            j = int(u * (t + 1))
            if j < size:
                slots[j] = t
    return slots


def nearest(query, codes, k):
    """The k nearest +-1 codes by (distance, id)."""
    ranked = sorted((hamming(query, code), i) for i, code in enumerate(codes))
    return ranked[:k]


def ordered_bit(x, w, offset, unit=False):
    """The bit of one linear function: the sign of a float64 sum in the order of the features."""
    total, square = 0.0, 0.0
    for value, weight in zip(x.tolist(), w.tolist(), strict=True):
        total += value * weight
        square += value * value
    scale = square**0.5 if unit else 1.0
    return offset > 0 if unit and scale == 0 else total + float(offset) * scale > 0
