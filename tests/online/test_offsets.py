"""The offsets of MomentHash's hyperplanes: where they start, how they move, and streams with unequal classes."""

import numpy as np
import pytest

import mihash
from mihash.online import HMOH, MIHash, MomentHash
from mihash.online.information_step import information_step
from mihash.online.moment_basis import Basis, factor
from mihash.online.moments import Moments, indicators
from mihash.online.planes import Planes
from mihash.ranking import mean_average_precision


def classes(shares, seed, *, n=4000, d=40, apart=1.0, spread=1.5):
    rng = np.random.default_rng(seed)
    y = rng.choice(len(shares), n, p=shares)
    X = apart * rng.standard_normal((len(shares), d))[y] + spread * rng.standard_normal((n, d))
    return X.astype(np.float32), y


def learned(learner, X, y):
    system = mihash.OnlineHashing(learner, mihash.FixedRate(1000), reservoir_size=500)
    system.feed(X, y)
    return system.current


def retrieval(learner, X, y, n_queries=400):
    mapping = learned(learner, X[n_queries:], y[n_queries:])
    codes = mapping.encode(X)
    relevant = y[:n_queries, None] == y[n_queries:]
    return mean_average_precision(codes[:n_queries], codes[n_queries:], relevant, mapping.n_bits)


@pytest.mark.parametrize("memory", [None, 150])
def test_the_centre_is_the_mean_of_class_means_by_plain_loops(memory):
    rng = np.random.default_rng(1)
    moments, rows = Moments(3, memory), []
    for n_classes in (1, 2, 4):
        X = (5 + rng.standard_normal((60, 3))).astype(np.float32)
        y = rng.integers(-1, n_classes, 60)
        moments = moments.after(X, indicators(y, n_classes))
        kept = 1.0 if memory is None else np.exp(-60 / memory)
        rows = [(x, label, weight * kept) for x, label, weight in rows]
        rows += [(x.astype(float), label, 1.0) for x, label in zip(X, y, strict=True)]
    total, weights = np.zeros(3), 0.0
    for c in range(4):
        n = sum(weight for _, label, weight in rows if label == c)
        mean = sum(weight * x for x, label, weight in rows if label == c) / n
        total, weights = total + n / (n + 20) * mean, weights + n / (n + 20)
    assert np.allclose(moments.centre, total / weights, atol=1e-5)


def test_without_classes_the_centre_is_the_mean():
    X = np.arange(6, dtype=np.float32).reshape(3, 2)
    none = np.zeros((3, 0), dtype=np.float32)
    for moments in (Moments(2, None).after(X), Moments(2, None).after(X, none)):
        assert np.array_equal(moments.centre, moments.mean)


def test_an_offset_moves_along_the_gradient_of_finite_differences():
    rng = np.random.default_rng(2)
    Z = rng.standard_normal((30, 4)).astype(np.float32)
    near = (rng.integers(0, 3, 12)[:, None] == rng.integers(0, 3, 30)).astype(np.uint8)
    M, c = rng.standard_normal((4, 6)).astype(np.float32), rng.standard_normal(6).astype(np.float32)
    eye, spread = np.eye(4, dtype=np.float32), np.full(6, 2, dtype=np.float32)
    basis = Basis(np.zeros(4, np.float32), eye, eye, *factor(eye, 1.0))
    gradient = information_step(Z @ M + c, near, 2.0, 5.0).gradient
    planes = Planes.at(M, c, 4)
    for momentum in (1.0, 1.9):  # the second step keeps 0.9 of the first
        before = planes.c
        planes = planes.moved(
            basis,
            spread,
            np.zeros_like(M),
            np.zeros_like(M),
            gradient.sum(axis=0),
            rate=0.5,
            correction=0.0,
            every=1,
            least_weight=0.0,
        )
        moved = before + 0.5 * momentum * gradient.sum(axis=0) * spread * spread
        assert np.allclose(planes.c, moved / spread, rtol=1e-5)
    step = 1e-2  # the mean of an anchor's information grows along it
    ends = [
        information_step(Z @ M + c + s * gradient.sum(axis=0), near, 2.0, 5.0).information for s in (step, -step)
    ]
    assert ends[0].mean() > ends[1].mean()


def test_without_labels_hyperplanes_have_no_offset_from_the_mean():
    X, _ = classes([0.9, 0.1], seed=3)
    system = mihash.OnlineHashing(MomentHash(16), reservoir_size=500)
    system.feed(X)
    planes = system.learner._planes
    assert not planes.c.any()
    assert not planes.mean_c.any()


def test_a_state_from_before_offsets_is_read():
    X, y = classes([0.5, 0.5], seed=4, n=600)
    system = mihash.OnlineHashing(MomentHash(8), reservoir_size=50)
    system.feed(X, y)
    saved = system.learner.state()
    for name in ("c", "momentum_c", "mean_c"):
        del saved["learned"]["planes"][name]
    again = MomentHash(8)
    again.restore(saved)
    assert not again._planes.mean_c.any()
    assert np.array_equal(again.mapping.weights, system.current.weights)


@pytest.mark.parametrize(
    ("shares", "options"),
    [
        pytest.param([0.95] + [0.05 / 9] * 9, {}, id="one class in 95 of 100 rows"),
        pytest.param(
            np.arange(1, 31) ** -1.5 / (np.arange(1, 31) ** -1.5).sum(), {}, id="thirty very unequal classes"
        ),
        pytest.param([0.5, 0.5], {"d": 100, "apart": 0.15, "spread": 1.0}, id="two classes that overlap"),
    ],
)
def test_it_keeps_up_with_its_rivals_on_few_or_unequal_classes(shares, options):
    scores = {}
    for make in (MomentHash, HMOH, MIHash):
        found = [retrieval(make(32, seed=seed), *classes(shares, seed, **options)) for seed in (11, 12, 13)]
        scores[make.__name__] = float(np.mean(found))
    assert scores["MomentHash"] > max(scores["HMOH"], scores["MIHash"]) - 0.02, scores
