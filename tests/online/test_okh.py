import numpy as np
import pytest

import mihash
import oracles_pairs as oracles
from checks import clusters
from mihash.errors import InvalidInput
from mihash.mapping import KernelMapping, LinearMapping
from mihash.neighbors import WithinDistance, within_fraction
from mihash.online.anchors import Anchors
from mihash.online.okh import OKH
from mihash.online.online_learner import hyperplanes
from mihash.online.similar_pairs import loss_margin, similar_pairs

WARM_UP = 100


def stream(n=400, seed=0, spread=1.5):
    X, y = clusters(n, seed=seed, spread=spread)
    X = X - X.mean(axis=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), y


def warmed(X, y=None, n_bits=12, **options):
    """A system whose learner has just drawn its anchors, and the features of all of the stream."""
    learner = OKH(n_bits, n_anchors=30, warm_up=WARM_UP, **options)
    system = mihash.OnlineHashing(learner, reservoir_size=50)
    system.feed(X[:WARM_UP], None if y is None else y[:WARM_UP])
    return system, learner, learner._anchors.transform(X).astype(float)


def after(system, X, y):
    """The hash functions after some more of the stream, learned by a copy."""
    learner = system.learner.copy()
    learner.learn(X, y, system.reservoir, system.reservoir.plan(len(X)))
    return learner._W.astype(float)


@pytest.mark.parametrize(("C", "alpha"), [(0.001, 0.3), (0.01, 0.6), (1e3, 0.5)])
@pytest.mark.parametrize("n_bits", [1, 8, 33])
def test_a_block_is_the_rule_one_pair_at_a_time(n_bits, C, alpha):
    X, y = stream()
    system, learner, K = warmed(X, y, n_bits, C=C, alpha=alpha)
    W, taus = learner._W.astype(float), []
    for t in range(100, 200, 2):
        W, tau = oracles.okh_step(W, K[t], K[t + 1], y[t] == y[t + 1], C, alpha)
        taus.append(tau)
    assert np.count_nonzero(taus) > 5
    assert np.abs(after(system, X[100:200], y[100:200]) - W).max() < 1e-6


@pytest.mark.parametrize("kind", ["several labels", "distance"])
def test_similarity_is_the_reservoirs(kind):
    X, y = stream()
    target = None if kind == "distance" else np.stack([y == 0, y <= 2, y >= 2], axis=1).astype(np.uint8)
    system, learner, K = warmed(X, target, alpha=0.5)
    W = learner._W.astype(float)
    for t in range(100, 200, 2):
        if kind == "distance":
            similar = np.linalg.norm(X[t] - X[t + 1]) <= system.reservoir.neighborhood.threshold
        else:
            similar = (target[t] & target[t + 1]).any()
        W, _ = oracles.okh_step(W, K[t], K[t + 1], similar, 0.001, 0.5)
    got = after(system, X[100:200], None if target is None else target[100:200])
    assert np.abs(got - learner._W).max() > 1e-3
    assert np.abs(got - W).max() < 1e-6


@pytest.mark.parametrize("C", [1e-4, 1e3])
def test_a_step_lowers_the_prediction_loss_by_as_much_as_its_bound_allows(C):
    X, y = stream()
    alpha, n_steps = 0.5, 0
    system, learner, K = warmed(X, y, C=C, alpha=alpha)
    W = learner._W.astype(float)
    for t in range(100, 300, 2):
        pair = slice(t, t + 2)
        moved = after(system, X[pair], y[pair])
        f_i, f_j = K[t] @ W, K[t + 1] @ W
        targets = oracles.okh_targets(f_i, f_j, y[t] == y[t + 1], alpha)
        if targets[-1] == 0:
            assert np.array_equal(moved, W)
            continue
        n_steps += 1
        h_i, h_j, g_i, g_j = (np.array(codes) for codes in targets[:-1])
        before = oracles.okh_prediction_loss(W, K[t], K[t + 1], *targets)
        now = oracles.okh_prediction_loss(moved, K[t], K[t + 1], *targets)
        G = oracles.okh_direction(K[t], K[t + 1], *targets[:-1])
        tau = np.linalg.norm(moved - W) / np.linalg.norm(G)
        assert 0 < tau <= C * (1 + 1e-4)
        assert now < before
        assert now == pytest.approx(before - tau * (G**2).sum(), abs=1e-4)
        if C == 1e3:
            assert now == pytest.approx(0, abs=1e-5)
        # Each flipped bit's value moves towards the code that it should have.
        assert (((g_i - h_i) * (K[t] @ moved - f_i))[g_i != h_i] > 0).all()
        assert (((g_j - h_j) * (K[t + 1] @ moved - f_j))[g_j != h_j] > 0).all()
    assert 20 < n_steps < 100


def test_the_codes_that_it_moves_to_have_no_loss():
    rng = np.random.default_rng(0)
    for _ in range(200):
        n_bits, alpha = int(rng.integers(1, 20)), float(rng.integers(0, 11) / 10)
        f_i, f_j, similar = rng.standard_normal(n_bits), rng.standard_normal(n_bits), bool(rng.integers(2))
        h_i, h_j, g_i, g_j, loss = oracles.okh_targets(f_i, f_j, similar, alpha)
        flips = sum(a != b for a, b in zip(h_i + h_j, g_i + g_j, strict=True))
        assert oracles.hamming_loss(g_i, g_j, similar, alpha)[0] == 0
        assert loss <= flips < loss + 1


@pytest.mark.parametrize("alpha", [0.1, 0.3, 0.7, 0.9])
@pytest.mark.parametrize("n_bits", [10, 20, 30])
def test_a_loss_of_nothing_is_nothing(alpha, n_bits):
    margin = loss_margin(alpha, n_bits)
    assert margin == round(alpha * 10) * n_bits // 10
    assert n_bits - margin == int(n_bits - margin)


def test_without_a_loss_nothing_moves():
    X, y = stream()
    system, learner, _ = warmed(X, y, alpha=0.0)  # every distance is good enough for every pair
    system.feed(X[100:], y[100:])
    assert np.array_equal(learner._W, hyperplanes(31, 12, seed=0))


def test_the_first_examples_become_anchors():
    X, y = stream()
    learner = OKH(8, n_anchors=30, warm_up=150)
    system = mihash.OnlineHashing(learner, reservoir_size=50)
    system.feed(X[:199], y[:199])
    assert system.learner.mapping == LinearMapping(hyperplanes(12, 8, seed=0))
    system.feed(X[199:200], y[199:200])  # the block that completes the warm-up is set aside wholly
    assert isinstance(learner.mapping, KernelMapping)
    arrays = learner.mapping.arrays()
    assert all((X[:200] == anchor).all(axis=1).any() for anchor in arrays["anchors"])
    assert np.array_equal(np.vstack([arrays["weights"], arrays["offset"]]), hyperplanes(31, 8, seed=0))
    system.feed(X[200:300], y[200:300])
    assert learner.mapping.distance(system.current) == 0
    assert not np.array_equal(learner._W, hyperplanes(31, 8, seed=0))


def test_the_mapping_has_the_values_that_were_learned_with():
    X, y = stream()
    system, learner, K = warmed(X, y)
    system.feed(X[100:], y[100:])
    assert np.abs(learner.mapping.project(X) - K @ learner._W).max() < 1e-5


def test_an_odd_example_is_left_out():
    X, y = stream()
    system, _, _ = warmed(X, y, alpha=0.6)
    assert np.array_equal(after(system, X[100:111], y[100:111]), after(system, X[100:110], y[100:110]))
    assert np.array_equal(after(system, X[100:101], y[100:101]), system.learner._W)


def test_pairs():
    X, _ = stream()
    assert similar_pairs(X[:1], None, mihash.Reservoir(10)).shape == (0,)  # no threshold is known yet
    first = within_fraction(X[:40]).threshold  # the first block is measured on itself
    expected = [np.linalg.norm(X[t] - X[t + 1]) <= first for t in range(0, 40, 2)]
    assert similar_pairs(X[:40], None, mihash.Reservoir(10)).tolist() == expected
    near = mihash.Reservoir(10, neighbors=WithinDistance(1.0))
    expected = [np.linalg.norm(X[t] - X[t + 1]) <= 1 for t in range(0, 8, 2)]
    assert similar_pairs(X[:9], None, near).tolist() == expected
    assert similar_pairs(X[:1], None, near).shape == (0,)


@pytest.mark.parametrize(
    ("name", "value"),
    [("C", 0), ("C", "large"), ("alpha", -0.1), ("alpha", 1.1), ("n_anchors", 0), ("warm_up", 0), ("seed", -1)],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        OKH(8, **{name: value})


def test_the_width_is_the_mean_distance_to_the_anchors():
    X, _ = stream()
    anchors = Anchors(n_anchors=7, warm_up=30, seed=0)
    anchors.absorb(X[:30])
    distances = [np.linalg.norm(x.astype(float) - point) for x in X[:30] for point in anchors.points]
    assert anchors.width == pytest.approx(np.mean(distances))
    assert {tuple(point) for point in anchors.points} <= {tuple(x) for x in X[:30]}


def test_a_look_ahead_never_draws_anchors():
    X, y = stream(400)
    system = mihash.OnlineHashing(OKH(8, n_anchors=20, warm_up=130), mihash.FixedRate(10), 50)
    system.feed(X, y)
    assert not any(check.accepted for check in system.history() if 0 < check.seen < 200)
    assert system.current.arrays()["anchors"].shape == (20, X.shape[1])
