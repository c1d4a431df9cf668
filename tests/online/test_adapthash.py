import numpy as np
import pytest

import mihash
import oracles_pairs as oracles
from checks import clusters
from mihash.errors import InvalidInput
from mihash.online.adapthash import AdaptHash
from mihash.online.online_learner import hyperplanes


def stream(n=400, d=12, seed=0, spread=1.5):
    X, y = clusters(n, d, seed=seed, spread=spread)
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def started(n_bits, n_features, W=None, **options):
    learner = AdaptHash(n_bits, **options)
    learner.start(n_features)
    if W is not None:
        learner._W = W.astype(np.float32)
    return learner


def learn(learner, X, y, reservoir=None):
    reservoir = mihash.Reservoir(50) if reservoir is None else reservoir
    learner.learn(X, y, reservoir, reservoir.plan(len(X)))
    return learner._W


def literal(W, X, similar, alpha, lambda_, eta):
    """The hash functions after the pairs of the rows, one at a time, and how many took a step."""
    W, n_steps = W.astype(float), 0
    for pair, near in enumerate(similar):
        x_i, x_j = X[2 * pair].astype(float), X[2 * pair + 1].astype(float)
        moved = oracles.adapthash_step(W, x_i, x_j, near, alpha, lambda_, eta)
        n_steps += moved is not W
        W = moved
    return W, n_steps


@pytest.mark.parametrize(("alpha", "lambda_", "eta"), [(0.9, 0.01, 0.1), (0.5, 0.1, 0.1), (0.7, 0.0, 0.01)])
@pytest.mark.parametrize(("n_bits", "d"), [(1, 5), (8, 12), (33, 200)])
def test_a_block_is_the_rule_one_pair_at_a_time(n_bits, d, alpha, lambda_, eta):
    X, y = stream(100, d)
    learner = started(n_bits, d, alpha=alpha, lambda_=lambda_, eta=eta)
    W, n_steps = literal(learner._W, X, y[::2] == y[1::2], alpha, lambda_, eta)
    assert n_steps > 5
    assert np.linalg.norm(W - learner._W) > 1e-2
    assert np.abs(learn(learner, X, y) - W).max() < 2e-5


@pytest.mark.parametrize("kind", ["several labels", "distance"])
def test_similarity_is_the_reservoirs(kind):
    X, y = stream(200)
    target = None if kind == "distance" else np.stack([y == 0, y <= 2, y >= 2], axis=1).astype(np.uint8)
    reservoir = mihash.Reservoir(50)
    reservoir.add(X[:100], None if target is None else target[:100])
    if kind == "distance":
        similar = np.linalg.norm(X[100::2] - X[101::2], axis=1) <= reservoir.neighborhood.threshold
    else:
        similar = (target[100::2] & target[101::2]).any(axis=1)
    learner = started(8, 12)
    W, _ = literal(learner._W, X[100:], similar, 0.9, 0.01, 0.1)
    got = learn(learner, X[100:], None if target is None else target[100:], reservoir)
    assert np.abs(got - W).max() < 2e-5


def test_no_step_before_similarity_is_known():
    X, _ = stream(100)
    learner = started(8, 12)
    assert np.array_equal(learn(learner, X[:1], None), hyperplanes(12, 8, seed=0))
    assert not np.array_equal(learn(learner, X, None), hyperplanes(12, 8, seed=0))  # a block measures itself


def test_a_step_has_the_exact_gradient():
    """At the same state, deep in the stream, the float32 step equals the float64 equations."""
    X, y = stream(1600, d=40)
    learner = AdaptHash(16)
    system = mihash.OnlineHashing(learner, reservoir_size=100)
    system.feed(X[:1400], y[:1400])
    for t in range(1400, 1600, 2):
        before = learner._W.copy()
        expected, _ = literal(before, X[t : t + 2], [y[t] == y[t + 1]], 0.9, 0.01, 0.1)
        ahead = learn(learner.copy(), X[t : t + 2], y[t : t + 2])
        assert np.abs(ahead - expected).max() < 1e-6


def test_the_gradient_is_that_of_the_squared_error():
    X, y = stream(40)
    W, X = hyperplanes(12, 6, seed=0).astype(float), X.astype(float)
    n_checked = 0
    for t in range(0, 40, 2):
        similar = y[t] == y[t + 1]
        gradient = oracles.adapthash_gradient(W, X[t], X[t + 1], similar, 0.9)
        if gradient is None:
            continue
        for k in np.flatnonzero(gradient.any(axis=0)):
            for a in (0, 5):
                shift = np.zeros_like(W)
                shift[a, k] = 1e-5
                pair = (X[t], X[t + 1], similar)
                slope = (oracles.relaxed_error(W + shift, *pair) - oracles.relaxed_error(W - shift, *pair)) / 2e-5
                assert slope == pytest.approx(gradient[a, k], rel=1e-5, abs=1e-8)
                n_checked += 1
    assert n_checked > 50


def test_hash_functions_keep_unit_length():
    X, y = stream(1000)
    system = mihash.OnlineHashing(AdaptHash(16), reservoir_size=50)
    for start in range(0, 1000, 100):
        system.feed(X[start : start + 100], y[start : start + 100])
        assert np.allclose(np.linalg.norm(system.learner._W, axis=0), 1, atol=1e-5)


def test_without_a_loss_nothing_moves():
    X, y = stream()
    learner = started(8, 12, alpha=0.0)  # every distance is good enough for every pair
    learn(learner, X, y)
    assert np.array_equal(learner._W, hyperplanes(12, 8, seed=0))
    # Far apart in every bit, close in every bit: as it should be, also for the strictest alpha.
    W = np.eye(3)
    pairs = np.array([[1, 1, 1], [-1, -1, -1], [1, 1, 1], [2, 1, 2]], dtype=np.float32)
    learner = started(3, 3, W, alpha=1.0)
    assert np.array_equal(learn(learner, pairs, np.array([0, 1, 0, 0])), W)
    assert not np.array_equal(learn(learner, pairs, np.array([0, 0, 0, 1])), W)


def test_a_pair_with_a_loss_comes_right():
    """Repeated, similar examples end with one code and others with opposite ones."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((2, 20)).astype(np.float32)
    for labels, distance in (([0, 0], 0), ([0, 1], 16)):
        learner = started(16, 20, alpha=1.0, lambda_=0.001)
        learn(learner, np.tile(x, (100, 1)), np.tile(labels, 100))
        bits = mihash.unpack(learner.mapping.encode(x), 16)
        assert (bits[0] != bits[1]).sum() == distance


@pytest.mark.parametrize("lambda_", [0.01, 0.03, 0.04])
def test_hash_functions_along_each_other_are_followed_exactly(lambda_):
    """Pulling them apart loses digits; a new span is begun before that shows."""
    X, y = stream(40, d=20)
    similar = y[::2] == y[1::2]
    rng = np.random.default_rng(1)
    W = np.tile(rng.standard_normal((20, 1)), 24) + 1e-3 * rng.standard_normal((20, 24))
    W = (W / np.linalg.norm(W, axis=0)).astype(np.float32)
    learner = started(24, 20, W, lambda_=lambda_, eta=0.001)
    expected, _ = literal(W, X, similar, 0.9, lambda_, 0.001)
    apart = np.linalg.norm(expected - expected.mean(axis=1, keepdims=True))
    assert apart > 10 * np.linalg.norm(W - W.mean(axis=1, keepdims=True))
    assert 0 < learner.copy()._learn_from(X, similar) < 20
    assert np.linalg.norm(learn(learner, X, y) - expected) < 1e-3 * apart


@pytest.mark.parametrize("lambda_", [0.0, 0.1, 1.0])
@pytest.mark.parametrize("scale", [1e-6, 30.0, 1e6])
def test_features_of_any_size_are_no_error(scale, lambda_):
    X, y = clusters(n=600)
    X[:50] = 0
    X[100:150] = X[100]
    system = mihash.OnlineHashing(AdaptHash(24, lambda_=lambda_), reservoir_size=50)
    system.feed(X * np.float32(scale), y)
    assert np.isfinite(system.current.weights).all()
    assert np.allclose(np.linalg.norm(system.current.weights, axis=0), 1, atol=1e-3)


def test_block_size_is_a_matter_of_speed_only():
    X, y = stream(200)
    weights = []
    for block_size in (2, 10, 100):
        learner = AdaptHash(8)
        learner.block_size = block_size
        system = mihash.OnlineHashing(learner, reservoir_size=50)
        system.feed(X[:100], y[:100])
        weights.append(system.current.weights)
    assert np.abs(weights[0] - weights[2]).max() < 1e-4
    assert np.abs(weights[1] - weights[2]).max() < 1e-4


def test_an_odd_example_is_left_out():
    X, y = stream()
    odd, even, one = (learn(started(8, 12), X[:n], y[:n]) for n in (11, 10, 1))
    assert np.array_equal(odd, even)
    assert np.array_equal(one, hyperplanes(12, 8, seed=0))


def test_it_beats_random_hyperplanes_on_features_of_unit_length():
    X, y = stream(4000, d=16)
    system = mihash.OnlineHashing(AdaptHash(16), reservoir_size=100)
    system.feed(X[:3500], y[:3500])
    start = mihash.online.LSH(16)
    start.start(16)

    def precision(mapping):
        queries, base = mapping.encode(X[3500:]), mapping.encode(X[:3500])
        return mihash.mean_average_precision(queries, base, (y[3500:], y[:3500]), 16)

    assert precision(system.snapshot) > precision(start.mapping) + 0.05


@pytest.mark.parametrize(
    ("name", "value"),
    [("alpha", -0.1), ("alpha", 1.1), ("alpha", "high"), ("lambda_", -1), ("eta", 0), ("seed", -1)],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        AdaptHash(8, **{name: value})
