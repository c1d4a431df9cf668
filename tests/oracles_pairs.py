"""Hashing by pairs once more, as plain loops in float64: what OKH and AdaptHash are compared with."""

import math
from fractions import Fraction

import numpy as np


def codes(W, x):
    """Projections and their signs in -1, 1; zero has the sign -1."""
    projections = [sum(float(W[a, k]) * float(x[a]) for a in range(len(x))) for k in range(W.shape[1])]
    return projections, [1 if value > 0 else -1 for value in projections]


def hamming_loss(h_i, h_j, similar, alpha):
    """The loss of a pair's codes, as an exact fraction, and the bits that are wrong."""
    n_bits = len(h_i)
    differing = [k for k in range(n_bits) if h_i[k] != h_j[k]]
    agreeing = [k for k in range(n_bits) if h_i[k] == h_j[k]]
    share = Fraction(str(alpha))
    if similar:
        return max(Fraction(0), len(differing) - (1 - share) * n_bits), differing
    return max(Fraction(0), share * n_bits - len(differing)), agreeing


def okh_targets(f_i, f_j, similar, alpha):
    """The codes h and the nearest codes g without a loss, and the loss R."""
    h_i, h_j = ([1 if value > 0 else -1 for value in f] for f in (f_i, f_j))
    loss, wrong = hamming_loss(h_i, h_j, similar, alpha)
    g_i, g_j = list(h_i), list(h_j)
    wrong.sort(key=lambda k: min(abs(f_i[k]), abs(f_j[k])))
    for k in wrong[: math.ceil(loss)]:
        if abs(f_i[k]) <= abs(f_j[k]):
            g_i[k] = -g_i[k]
        else:
            g_j[k] = -g_j[k]
    return h_i, h_j, g_i, g_j, float(loss)


def okh_prediction_loss(W, k_i, k_j, h_i, h_j, g_i, g_j, loss):
    """l = (h_i - g_i).f_i + (h_j - g_j).f_j + sqrt(R)."""
    f_i, f_j = codes(W, k_i)[0], codes(W, k_j)[0]
    total = math.sqrt(loss)
    for k in range(len(h_i)):
        total += (h_i[k] - g_i[k]) * f_i[k] + (h_j[k] - g_j[k]) * f_j[k]
    return total


def okh_direction(k_i, k_j, h_i, h_j, g_i, g_j):
    """G = k_i (g_i - h_i)' + k_j (g_j - h_j)'."""
    G = np.zeros((len(k_i), len(h_i)))
    for a in range(len(k_i)):
        for k in range(len(h_i)):
            G[a, k] = k_i[a] * (g_i[k] - h_i[k]) + k_j[a] * (g_j[k] - h_j[k])
    return G


def okh_step(W, k_i, k_j, similar, C, alpha):
    """W after one pair, and the step's size tau (0 where there is none)."""
    targets = okh_targets(codes(W, k_i)[0], codes(W, k_j)[0], similar, alpha)
    if targets[-1] == 0:
        return W, 0.0
    G = okh_direction(k_i, k_j, *targets[:-1])
    tau = min(C, okh_prediction_loss(W, k_i, k_j, *targets) / float((G**2).sum()))
    return W + tau * G, tau


def relaxed_error(W, x_i, x_j, similar):
    """AdaptHash's objective for a pair: (f_i.f_j - b s)^2 with f = 2 sigma(W'x) - 1."""
    inner = 0.0
    for v_i, v_j in zip(codes(W, x_i)[0], codes(W, x_j)[0], strict=True):
        inner += (2 / (1 + math.exp(-v_i)) - 1) * (2 / (1 + math.exp(-v_j)) - 1)
    return (inner - W.shape[1] * (1 if similar else -1)) ** 2


def adapthash_gradient(W, x_i, x_j, similar, alpha):
    """The gradient of `relaxed_error` on the bits that are picked, zero elsewhere; None without a loss."""
    (v_i, h_i), (v_j, h_j) = codes(W, x_i), codes(W, x_j)
    loss, wrong = hamming_loss(h_i, h_j, similar, alpha)
    if loss == 0:
        return None
    wrong.sort(key=lambda k: -max(abs(v_i[k]), abs(v_j[k])))
    sigma_i, sigma_j = ([1 / (1 + math.exp(-value)) for value in v] for v in (v_i, v_j))
    f_i, f_j = ([2 * value - 1 for value in sigma] for sigma in (sigma_i, sigma_j))
    error = sum(a * b for a, b in zip(f_i, f_j, strict=True)) - len(h_i) * (1 if similar else -1)
    gradient = np.zeros(W.shape)
    for k in wrong[: math.ceil(loss)]:
        slope_i, slope_j = sigma_i[k] * (1 - sigma_i[k]), sigma_j[k] * (1 - sigma_j[k])
        for a in range(len(x_i)):
            gradient[a, k] = 2 * error * (x_i[a] * 2 * f_j[k] * slope_i + x_j[a] * 2 * f_i[k] * slope_j)
    return gradient


def adapthash_step(W, x_i, x_j, similar, alpha, lambda_, eta):
    """W after one pair."""
    gradient = adapthash_gradient(W, x_i, x_j, similar, alpha)
    if gradient is None:
        return W
    after = W - eta * gradient - lambda_ * W @ (W.T @ W - np.eye(W.shape[1]))
    return after / np.sqrt((after**2).sum(axis=0))
