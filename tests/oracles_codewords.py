"""The methods that predict a label's codeword once more, as plain loops in float64, one example at a time.

An example's labels come as the list of their codewords: one for a class, several or none for a multi-label.
"""

import math

import numpy as np

from checks import clusters


def stream(n=230, d=10):
    """Labelled examples, centred and of unit length."""
    X, y = clusters(n, d)
    X = X - X.mean(axis=0)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


def several(y):
    """Up to three labels for each example, and none for every seventh."""
    Y = np.stack([y == 0, y <= 2, y >= 2, y == 2, y == 3], axis=1).astype(np.uint8)
    Y[::7] = 0
    return Y


def codewords_of(y, codebook):
    """The list of each example's codewords."""
    owners, codewords = codebook.look_up(np.asarray(y))
    return [codewords[owners == t] for t in range(len(y))]


def sylvester(size):
    """The Hadamard matrix by Sylvester's doubling."""
    H = [[1]]
    while len(H) < size:
        H = [row + row for row in H] + [row + [-entry for entry in row] for row in H]
    return np.array(H)


def inner(w, x):
    return sum(float(a) * float(b) for a, b in zip(w, x, strict=True))


def sign_of_sum(codewords, n_bits):
    sums = [sum(int(codeword[k]) for codeword in codewords) for k in range(n_bits)]
    return [(total > 0) - (total < 0) for total in sums]


def osh(X, codewords_of, W, eta, loss="exponential", steepest=10.0, *, stale=False):
    """OSH; with ``stale``, boosting weighs a bit by the functions before it as they were before their step."""
    W = W.astype(np.float64)
    for x, codewords in zip(X.astype(np.float64), codewords_of, strict=True):
        for c in codewords:
            old = W.copy()
            for j in range(W.shape[1]):
                margin = c[j] * inner(W[:, j], x)
                if loss == "hinge":
                    if margin < 1:
                        W[:, j] += eta * c[j] * x
                    continue
                earlier = old if stale else W
                exponent = -sum(c[k] * inner(earlier[:, k], x) for k in range(j)) - margin
                W[:, j] += eta * math.exp(min(exponent, steepest)) * c[j] * x
    return W


def hcoh_loss(W, x, target):
    """Half the squared error between the relaxed bits and the target."""
    return sum((math.tanh(inner(W[:, k], x)) - target[k]) ** 2 for k in range(W.shape[1])) / 2


def hcoh(X, codewords_of, W, eta):
    """HCOH."""
    W = W.astype(np.float64)
    n_bits = W.shape[1]
    for x, codewords in zip(X.astype(np.float64), codewords_of, strict=True):
        target = sign_of_sum(codewords, n_bits)
        for k in range(n_bits):
            if target[k]:
                f = math.tanh(inner(W[:, k], x))
                W[:, k] += eta * (target[k] - f) * (1 - f * f) * x
    return W


def hmoh(X, codewords_of, W, lr):
    """HMOH: every W there was, the first one and one after each example."""
    W = W.astype(np.float64)
    history = [W.copy()]
    for x, codewords in zip(X.astype(np.float64), codewords_of, strict=True):
        target = sign_of_sum(codewords, W.shape[1])
        for k in range(W.shape[1]):
            if target[k] * inner(W[:, k], x) <= 0:
                W[:, k] += lr * target[k] * x
        history.append(W.copy())
    return history
