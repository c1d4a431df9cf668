# %% [markdown]
# # When do I retrain my FAISS index?
#
# You have binary codes in FAISS, made by ITQ on the data of last month. Data keep coming. Should you fit ITQ again and recompute
# every code? The trigger answers it: measure both hashes on a sample of what arrives now.

# %%
import faiss
import numpy as np

import mihash


def month(number, n=600):
    """Return vectors that vary in eight directions; every second month these are others."""
    spread = np.roll(np.repeat([3.0, 0.3], [8, 24]), 8 * (number // 2))
    return spread * np.random.default_rng(number).standard_normal((n, 32))


first = mihash.batch.ITQ(8).fit(month(0))
codes = faiss.IndexBinaryFlat(8)
codes.add(first.encode(month(0)))

# %% [markdown]
# Each month: fit a candidate, and let the trigger compare both on the new data. `relative=True` makes theta a share: here a rehash
# must improve the quality by a fifth.

# %%
trigger = mihash.TriggerUpdate(theta=0.2, relative=True)
current, updates = first, []
for number in range(1, 5):
    X = month(number)
    candidate = mihash.batch.ITQ(8).fit(X[300:])
    decision = trigger.decide(candidate, current, X[:300])
    print(f"month {number}: {'recompute' if decision.update else 'keep'}, {decision.reason}")
    if decision.update:
        current = candidate
        updates.append(number)
        codes = faiss.IndexBinaryFlat(8)
        codes.add(current.encode(np.concatenate([month(each) for each in range(number + 1)])))

# %%
queries = month(4)[:5]
print(f"recomputed after the months {updates}; nearest codes of five queries:")
print(codes.search(current.encode(queries), 3)[0])
assert updates == [2, 4]  # the months in which the data changed
