"""A sweep of VDSH's alternating form once more, as plain loops over examples and nodes in float64."""

import numpy as np


def made_of(x, W):
    """[x, 1] W of one example."""
    return [sum(x[r] * W[r, k] for r in range(len(x))) + W[-1, k] for k in range(W.shape[1])]


def solved(below, wanted, W, weight):
    """argmin over x of ||[x, 1] W - wanted||^2 + weight ||x - below||^2, by the normal equations."""
    n, m = W.shape[0] - 1, W.shape[1]
    A, right = np.zeros((n, n)), np.zeros(n)
    for r in range(n):
        for s in range(n):
            A[r, s] = sum(W[r, k] * W[s, k] for k in range(m)) + (weight if r == s else 0.0)
        right[r] = sum((wanted[k] - W[-1, k]) * W[r, k] for k in range(m)) + weight * below[r]
    return np.linalg.solve(A, right)


def element(q, s):
    """The z with the least (z - q)^2 + (relu(z) - s)^2."""
    candidates = [max(0.0, (q + s) / 2), min(0.0, q)]
    return min(candidates, key=lambda z: (z - q) ** 2 + (max(z, 0.0) - s) ** 2)


def fitted(W, rows, wanted, rho):
    """The layer that fits what is wanted and stays near W."""
    inputs = [[*row, 1.0] for row in rows]
    n = W.shape[0]
    held = rho * sum(value**2 for row in inputs for value in row) / n
    A, right = np.zeros((n, n)), np.zeros(W.shape)
    for r in range(n):
        for s in range(n):
            A[r, s] = sum(row[r] * row[s] for row in inputs) + (held if r == s else 0.0)
        for k in range(W.shape[1]):
            right[r, k] = sum(row[r] * aim[k] for row, aim in zip(inputs, wanted, strict=True)) + held * W[r, k]
    return np.linalg.solve(A, right)


def sweep(matrices, classes, z, a, u, v, X, Y, mu, beta, rho, dual):
    """Return matrices, classes and variables after one sweep; ``matrices`` has the codes' layer last."""
    n, depth = len(X), len(a)
    matrices, z, a, u, v = ([np.array(each) for each in group] for group in (matrices, z, a, u, v))
    below = [np.array(X), *(each.copy() for each in a)]
    made = [np.array([made_of(row, W) for row in rows]) for rows, W in zip(below, matrices, strict=True)]
    for i in range(n):
        sign = [1.0 if value > 0 else -1.0 for value in z[-1][i]]
        near = [made[-1][i, k] - u[-1][i, k] for k in range(len(sign))]
        centre = [(mu * b + beta * p) / (mu + beta) for b, p in zip(sign, near, strict=True)]
        z[-1][i] = solved(centre, Y[i], classes, mu + beta)
    for m in range(depth - 1, -1, -1):
        for i in range(n):
            centre = [max(z[m][i, k], 0.0) - v[m][i, k] for k in range(z[m].shape[1])]
            a[m][i] = solved(centre, z[m + 1][i] + u[m + 1][i], matrices[m + 1], 1.0)
            for k in range(z[m].shape[1]):
                z[m][i, k] = element(made[m][i, k] - u[m][i, k], a[m][i, k] + v[m][i, k])
    below = [np.array(X), *a]
    new = [fitted(W, below[m], z[m] + u[m], rho) for m, W in enumerate(matrices)]
    classes = fitted(classes, z[-1], Y, rho)
    for m in range(depth + 1):
        for i in range(n):
            u[m][i] += dual * (z[m][i] - np.array(made_of(below[m][i], new[m])))
    for m in range(depth):
        v[m] += dual * (a[m] - np.maximum(z[m], 0.0))
    return new, classes, z, a, u, v
