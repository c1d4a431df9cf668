# %% [markdown]
# # The paper in 100 lines
#
# *MIHash: Online Hashing with Mutual Information* (ICCV 2017), with NumPy alone: codes, their quality, a learner, and the
# trigger. mihash does the same with exact gradients, blocks and kernels; at the end we compare the measure with its own.

# %%
import numpy as np
from sklearn.datasets import load_digits

import mihash

rng = np.random.default_rng(0)
X, y = load_digits(return_X_y=True)
X = (X - X.mean(axis=0)) / (X.std(axis=0) + 1e-6)
order = rng.permutation(len(X))
X, y = X[order], y[order]
stream, sample = slice(0, 1200), slice(1200, 1797)
n_bits = 16


# %% [markdown]
# A code is the sign of a projection (Section 3). The Hamming distance counts different bits.


# %%
def encode(W, X):
    return X @ W > 0


def distances(A, B):
    return (A[:, None, :] != B[None, :, :]).sum(axis=2)


# %% [markdown]
# Quality is the mutual information between the distance of two codes and whether they are neighbours (Eq. 1 and 2): the entropy of
# all distances, minus the mean entropy of those to neighbours and to others.


# %%
def entropy(p):
    p = p[p > 0]
    return -(p * np.log2(p)).sum()


def quality(W, X, y):
    D, same = distances(encode(W, X), encode(W, X)), y[:, None] == y
    np.fill_diagonal(same, False)
    total = 0.0
    for i in range(len(X)):
        others = np.arange(len(X)) != i
        share = same[i, others].mean()
        parts = [np.bincount(D[i, others & (same[i] == near)], minlength=n_bits + 1) for near in (True, False)]
        near, far = (part / part.sum() for part in parts)
        total += entropy(share * near + (1 - share) * far) - share * entropy(near) - (1 - share) * entropy(far)
    return total / len(X)


W = rng.standard_normal((X.shape[1], n_bits))
ours = quality(W, X[sample], y[sample])
theirs = mihash.quality(mihash.pack(encode(W, X[sample])), y[sample, None] == y[sample], n_bits)
print(f"random hyperplanes: {ours:.4f} bits; mihash.quality says {theirs:.4f}")
assert abs(ours - theirs) < 1e-9

# %% [markdown]
# The learner climbs a smooth form of it. Here the poor man's version: a step towards neighbours and away from others, through
# tanh instead of sign. Every 100 examples, the trigger asks whether the stored codes, which an earlier mapping made, are worth
# recomputing: is the gain in quality on a sample above theta (Eq. 6)?

# %%
theta, stored, updates, curve = 0.02, W.copy(), 0, []
for start in range(0, 1200, 100):
    rows = slice(start, start + 100)
    soft = np.tanh(X[rows] @ W / 4)
    same = np.where(y[rows, None] == y[rows], 1.0, -0.12)
    np.fill_diagonal(same, 0)
    W = W + 0.02 * X[rows].T @ ((same @ soft) * (1 - soft**2)) / 10
    now, then = (quality(mapping, X[sample][:200], y[sample][:200]) for mapping in (W, stored))
    if now - then > theta:
        stored, updates = W.copy(), updates + 1
    curve.append((start + 100, then, now))
print(f"{updates} updates of the codes instead of {len(curve)}")
print(
    f"quality on the sample: {curve[0][1]:.3f} at the start, {quality(stored, X[sample], y[sample]):.3f} of the stored codes now"
)
assert updates < len(curve)
assert quality(stored, X[sample], y[sample]) > ours + 0.03

# %% [markdown]
# The same with the library: exact gradients, a reservoir sample, and a hash table that it recomputes.

# %%
system = mihash.OnlineHashing(mihash.online.MIHash(n_bits), mihash.TriggerUpdate(theta=0.02, interval=100))
system.table.add(X[stream])
system.feed(X[stream], y[stream])
learned = mihash.quality(system.snapshot.encode(X[sample]), y[sample, None] == y[sample], n_bits)
print(f"MIHash: {learned:.3f} bits after {system.updates} updates")
assert learned > ours
