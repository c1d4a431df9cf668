# %% [markdown]
# # A stream that changes
#
# Digits arrive; after a while they arrive turned by 90 degrees. What happens to the stored codes, and what does the index do?

# %%
import tempfile

import numpy as np

import mihash

data = mihash.datasets.digits()
rng = np.random.default_rng(0)
upright = data.X[rng.permutation(len(data.X))]
turned = np.rot90(upright.reshape(-1, 8, 8), axes=(1, 2)).reshape(len(upright), -1)

# %% [markdown]
# An index that keeps learning. `history` lists every decision of the trigger.

# %%
index = mihash.open(tempfile.mkdtemp(), n_bits=32)
index.add(upright)
before = len(index.history())
index.add(turned)
index.wait()
checks = index.history()
accepted = [check.seen for check in checks if check.accepted]
print(f"{len(checks)} decisions, {len(accepted)} rehashes")
print(f"rehashes after the change: {sum(seen > len(upright) for seen in accepted)}")

# %% [markdown]
# How well do the codes find the nearest turned digits? Compare with codes that stayed as they were before the change.

# %%
frozen = mihash.open(tempfile.mkdtemp(), n_bits=32)
frozen.add(upright)
frozen.wait()
frozen.pause()  # nothing is rebuilt from now on
frozen.add(turned)


def recall(index, k=10, n=100):
    queries = turned[:n]
    stored = np.concatenate([upright, turned])
    true = np.argsort(((queries[:, None] - stored) ** 2).sum(axis=2), axis=1, kind="stable")[:, :k]
    found = index.search(queries, k=k, rescore=30).keys
    return np.mean([len(set(a) & set(b)) / k for a, b in zip(found.tolist(), true.tolist(), strict=True)])


follows, stays = recall(index), recall(frozen)
print(f"true ten nearest among 30 candidates: {follows:.3f} with rehashes, {stays:.3f} without")
assert 0 < stays <= 1
assert 0 < follows <= 1
index.close()
frozen.close()
