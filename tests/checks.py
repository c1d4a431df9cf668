"""What must be true of every online learner; `tests/online/test_learners.py` runs each check on each learner.

A check takes a function that makes a fresh learner. To exempt a learner, name it there, with the reason.
"""

import copy

import numpy as np
import pytest
import threadpoolctl

import mihash
from mihash import state
from mihash.errors import InvalidInput

RESERVOIR = 100


def clusters(n=1200, d=12, n_classes=5, spread=1.0, seed=0):
    """Labelled clusters with a common, correlated noise."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    noise = rng.standard_normal((n, d)) @ (rng.standard_normal((d, d)) / np.sqrt(d))
    return (rng.standard_normal((n_classes, d))[y] + spread * noise).astype(np.float32), y


def system(make, **options):
    options.setdefault("reservoir_size", RESERVOIR)
    return mihash.OnlineHashing(make(), **options)


def fed(make, X, y, sizes=None, **options):
    loop = system(make, **options)
    start = 0
    for size in sizes or [len(X)]:
        loop.feed(X[start : start + size], None if y is None else y[start : start + size])
        start += size
    assert start >= len(X)
    return loop


def input_is_untouched(make):
    X, y = clusters()
    X_before, y_before = X.copy(), y.copy()
    X.setflags(write=False)
    y.setflags(write=False)
    fed(make, X, y)
    assert np.array_equal(X, X_before)
    assert np.array_equal(y, y_before)


def learning_changes_the_state(make):
    X, y = clusters()
    loop = system(make)
    loop.feed(X[:600], y[:600])
    middle, learned = loop.current, copy.deepcopy(loop.learner.learned())
    loop.feed(X[600:], y[600:])
    assert loop.current != middle
    assert state.dump(loop.learner.learned()) != state.dump(learned)


def handed_out_mappings_never_change(make):
    X, y = clusters()
    loop = system(make)
    loop.feed(X[:600], y[:600])
    mapping = loop.current
    codes, arrays = mapping.encode(X), copy.deepcopy(mapping.arrays())
    loop.feed(X[600:], y[600:])
    assert np.array_equal(mapping.encode(X), codes)
    assert all(np.array_equal(mapping.arrays()[name], arrays[name]) for name in arrays)


def same_seed_and_stream_same_bits(make):
    X, y = clusters()
    first, second = fed(make, X, y), fed(make, X, y)
    assert first.current == second.current
    assert first.snapshot == second.snapshot
    assert first.history() == second.history()


def kinds_of_labels(y, make):
    """Class labels, several labels, and none, as far as the learner takes them."""
    several = np.eye(5, dtype=int)[y]
    several[::3, 0] = 1
    return [y, several] if make().needs_labels else [y, several, None]


def chunking_does_not_matter(make):
    X, classes = clusters()
    X = np.rint(X)  # with distances that tie
    for y in kinds_of_labels(classes, make):
        whole = fed(make, X, y)
        for sizes in ([1] * 1200, [37] * 33, [250, 1, 949]):
            parts = fed(make, X, y, sizes)
            assert parts.current == whole.current
            assert parts.snapshot == whole.snapshot
            assert parts.history() == whole.history()


def learning_does_not_depend_on_the_trigger(make):
    X, y = clusters()
    expected = fed(make, X, y).current
    for trigger in (mihash.FixedRate(7), mihash.TriggerUpdate(0.1, 130), mihash.TriggerUpdate(float("inf"), 3)):
        assert fed(make, X[:700], y[:700], trigger=trigger).current == fed(make, X[:700], y[:700]).current
    assert fed(make, X, y, trigger=mihash.FixedRate(50)).current == expected


def resumes_in_mid_stream(make, folder):
    X, classes = clusters()
    X = np.rint(X)
    for y in kinds_of_labels(classes, make):
        whole = fed(make, X, y)
        for cut in (0, 1, 555, 1100):
            loop = system(make)
            if cut:
                loop.feed(X[:cut], None if y is None else y[:cut])
            loop.save(folder / "loop")
            again = mihash.OnlineHashing.load(folder / "loop")
            again.feed(X[cut:], None if y is None else y[cut:])
            assert again.current == whole.current
            assert again.snapshot == whole.snapshot
            assert (again.updates, again.seen) == (whole.updates, whole.seen)
            assert again.history() == whole.history()


def memory_is_bounded(make):
    X, y = clusters(n=4000)
    loop = system(make)
    loop.feed(X[:1000], y[:1000])
    before = len(state.dump(loop.learner.state()))
    loop.feed(X[1000:], y[1000:])
    assert len(state.dump(loop.learner.state())) <= 1.1 * before + 1000


def threads_do_not_matter(make):
    X, y = clusters(n=400, d=1030)
    fingerprints = []
    for threads in (1, 2):
        with threadpoolctl.threadpool_limits(threads, user_api="blas"):
            loop = fed(make, X[:350], y[:350])
            fingerprints.append((loop.current.fingerprint, loop.snapshot.fingerprint))
    assert fingerprints[0] == fingerprints[1]


def odd_features_are_no_error(make):
    X, y = clusters(n=400)
    constant = np.ones((400, 3), dtype=np.float32)
    for features in (X + 100, X * 1000, X * 1e-6, constant, X[:, :1], np.repeat(X[:40], 10, axis=0)):
        loop = fed(make, features, y, reservoir_size=2)
        assert np.isfinite(loop.current.project(features.astype(np.float32))).all()


def one_class_is_no_error(make):
    X, _ = clusters(n=300)
    loop = fed(make, X, np.zeros(300, dtype=int))
    free = [check.decision for check in loop.history()[1:] if "first blocks" not in check.reason]
    assert all(decision.gain == 0 for decision in free)
    assert loop.search(X[:2]) is not None


def labels_may_grow(make):
    X, y = clusters(n_classes=8)
    order = np.argsort(y, kind="stable")
    labels = y[order] * 1000 - 3
    loop = fed(make, X[order], labels)
    renamed = fed(make, X[order], y[order])
    assert loop.current == renamed.current  # a label is a name, not a number


def several_labels(make):
    X, y = clusters()
    one, several = np.eye(5, dtype=int)[y], kinds_of_labels(y, make)[1]
    mappings = [fed(make, X, labels).current for labels in (one, one, several)]
    assert mappings[0] == mappings[1]
    follows_labels = fed(make, X, y).current != fed(make, X, np.roll(y, 1)).current
    assert (mappings[0] != mappings[2]) == follows_labels


def no_labels(make):
    X, _ = clusters()
    if make().needs_labels:
        loop = system(make)
        with pytest.raises(InvalidInput, match="give `y`"):
            loop.feed(X)
        assert loop.seen == 0
    else:
        assert fed(make, X, None).current != fed(make, X[:100], None).current


def plain_clusters(seed, n=2000, d=64, n_classes=3):
    """Few classes in equal noise, of unit length: what even the weakest method learns."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_classes, n)
    X = rng.standard_normal((n_classes, d))[y] + 1.5 * rng.standard_normal((n, d))
    X -= X.mean(axis=0)
    return (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32), y


def beats_random_hyperplanes(make):
    """On the mean of three streams, by a margin: the last bits of learning are not those of every machine."""
    gains = []
    for seed in range(3):
        X, y = plain_clusters(seed)
        start = mihash.online.LSH(make().n_bits, seed=make().seed)
        start.start(X.shape[1])
        learned, first = (
            mihash.mean_average_precision(
                mapping.encode(X[1500:]), mapping.encode(X[:1500]), (y[1500:], y[:1500]), mapping.n_bits
            )
            for mapping in (fed(make, X[:1500], y[:1500]).snapshot, start.mapping)
        )
        gains.append(learned - first)
    assert np.mean(gains) > 0.1  # 0.24 for the weakest method, AdaptHash


def longer_codes_work(make_with):
    X, y = clusters(n=300)
    for n_bits in (1, 64, 128):
        loop = fed(lambda n_bits=n_bits: make_with(n_bits), X, y)
        assert loop.current.encode(X).shape == (300, -(-n_bits // 8))
