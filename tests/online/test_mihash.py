import numpy as np
import pytest

import mihash
import oracles
from checks import clusters
from mihash.errors import InvalidInput
from mihash.mapping import LinearMapping
from mihash.neighbors import SameLabel, SharedLabel, WithinDistance
from mihash.online import MIHash
from mihash.online.mihash import _tanh
from mihash.online.online_learner import hyperplanes
from mihash.online.whitening import Whitening

TARGETS = {
    "labels": lambda y: y,
    "several labels": lambda y: np.stack([y == 0, y <= 2, y >= 2], axis=1).astype(np.uint8),
    "distance": lambda y: None,  # noqa: ARG005
}


def unit(X):
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def rule_of(y):
    if y is None:
        return WithinDistance(0.9)
    return SameLabel() if y.ndim == 1 else SharedLabel()


def stream(n=260, d=10, seed=0, spread=1.0):
    X, y = clusters(n, d, seed=seed, spread=spread)
    return unit(X - X.mean(axis=0)).astype(np.float32), y


def literal(X, y, n_bits, size, learning_rate, scale, n_bins, rule, decay, warm_up):
    """Online MIHash one example at a time, straight from the equations, float64: the last W and each step."""
    W = hyperplanes(X.shape[1], n_bits, seed=0).astype(np.float64)
    reservoir = mihash.Reservoir(size, seed=0)
    steps = []
    for t in range(len(X)):
        x, target = X[t : t + 1], None if y is None else y[t : t + 1]
        if len(reservoir):
            near = rule.between(x, target, reservoir.X, reservoir.y)[0]
            rate = learning_rate * min(1, len(reservoir) / warm_up) / (1 + decay * t)
            after = oracles.mihash_step(
                W, x[0].astype(float), reservoir.X.astype(float), near, rate, scale, n_bins
            )
            steps.append(np.linalg.norm(after - W))
            W = after
        reservoir.add(x, target)
    return W, steps


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("n_bins", [None, 5])
def test_a_block_is_the_equations_one_example_at_a_time(kind, n_bins):
    X, y = stream()
    target = TARGETS[kind](y)
    rule = rule_of(target)
    # Small steps: large ones are chaotic.
    options = {"learning_rate": 0.02, "scale": 6.0, "decay": 0.001, "warm_up": 20}
    expected, steps = literal(X, target, 12, 40, n_bins=n_bins, rule=rule, **options)
    assert sum(step > 0 for step in steps) > 200
    learner = MIHash(12, n_bins=n_bins, whiten=None, **options)
    system = mihash.OnlineHashing(learner, reservoir_size=40, neighbors=rule)
    system.feed(X, target)
    start = hyperplanes(10, 12, seed=0)
    moved = np.linalg.norm(expected - start)
    assert moved > 0.1
    assert np.linalg.norm(system.current.weights - expected) < 2e-3 * moved


def test_a_step_has_the_exact_gradient():
    """At the same state, the float32 block step equals the float64 equations.

    Not where a distance all but equals a bin's centre: the slope follows the logarithm of the mass that it leaves
    to the next bin, and of a mass near 0 a float32 distance keeps no digit.
    """
    X, y = stream(n=600, d=40, seed=3, spread=3.0)
    learner = MIHash(16, whiten=None)
    system = mihash.OnlineHashing(learner, reservoir_size=200)
    system.feed(X[:500], y[:500])
    before, R = learner.current().weights.astype(float), system.reservoir.X.astype(float)
    codes, others = (np.tanh(5 * (vectors @ before)) for vectors in (X[500:].astype(float), R))
    distances = (16 - codes @ others.T) / 2
    smooth = np.abs(distances - np.rint(distances)).min(axis=1) > 1e-3
    assert smooth.sum() > 30
    errors, lengths = [], []
    for t in 500 + np.flatnonzero(smooth):
        expected = oracles.mihash_step(before, X[t].astype(float), R, system.reservoir.y == y[t], 1.0, 10.0)
        ahead = learner.copy()
        ahead.learn(X[t : t + 1], y[t : t + 1], system.reservoir, system.reservoir.plan(1))
        step, wanted = ahead.current().weights - before, expected - before
        errors.append(np.linalg.norm(step - wanted))
        lengths.append(np.linalg.norm(wanted))
    # The rounding of W does not shrink with the step: errors are measured against the typical step.
    assert np.median(errors) < 1e-5 * np.median(lengths)
    assert max(errors) < 1e-3 * np.median(lengths)


@pytest.mark.parametrize("whiten", [None, 3.0])
def test_block_size_is_a_matter_of_speed_only(whiten):
    X, y = stream(n=300, seed=1)
    codes = []
    for block_size in (1, 7, 100):
        learner = MIHash(16, learning_rate=0.02, whiten=whiten)
        learner.block_size = block_size
        system = mihash.OnlineHashing(learner, reservoir_size=50)
        system.feed(X[:250], y[:250])
        codes.append(mihash.unpack(system.current.encode(X), 16))
    assert (codes[0] == codes[1]).mean() > 0.99
    assert (codes[0] == codes[2]).mean() > 0.99


def test_warm_up_ends_with_a_full_reservoir():
    X, y = stream()

    def learned(warm_up):
        system = mihash.OnlineHashing(MIHash(8, warm_up=warm_up), reservoir_size=20)
        system.feed(X, y)
        return system.current

    assert learned(20) == learned(100) == learned(10**9)
    assert learned(20) != learned(10)


def test_one_class_takes_no_step():
    X, _ = stream()
    for whiten in (None, 3.0):
        system = mihash.OnlineHashing(MIHash(8, whiten=whiten), reservoir_size=50)
        system.feed(X, np.full(len(X), 4))
        assert np.array_equal(system.current.weights, hyperplanes(10, 8, seed=0))
        assert system.updates == 1


def test_the_first_mapping_is_seeded_hyperplanes():
    learner = MIHash(8, seed=3)
    learner.start(5)
    assert np.array_equal(learner.mapping.weights, hyperplanes(5, 8, seed=3))
    assert not learner.mapping.offset.any()


def test_the_codes_do_not_jump_when_whitening_is_estimated_anew():
    X, y = clusters(n=600)
    X = X + 20  # far from centred, so that the mean matters
    learner = MIHash(16)
    reservoir = mihash.Reservoir(100)
    learner.start(X.shape[1])
    for start in range(0, 500, 100):
        part = slice(start, start + 100)
        slots = reservoir.plan(100)
        learner.learn(X[part], y[part], reservoir, slots)
        reservoir.apply(X[part], y[part], slots)
    before = learner.current()
    space = learner._space
    learner._rewhiten(reservoir, X[500:600], reservoir.plan(100))  # the stream passes 512
    assert learner._space is not space
    assert learner.current() == before


def test_hyperplanes_that_miss_the_data_are_brought_to_it():
    X, y = clusters(n=1500)
    far = X + 50  # every hyperplane through the origin has all of it on one side
    system = mihash.OnlineHashing(MIHash(16), reservoir_size=100)
    system.feed(far[:1200], y[:1200])
    shares = mihash.unpack(system.snapshot.encode(far), 16).mean(axis=0)
    assert ((shares > 0.02) & (shares < 0.98)).all()

    def precision(mapping):
        codes = mapping.encode(far)
        return mihash.mean_average_precision(codes[1200:], codes[:1200], (y[1200:], y[:1200]), 16)

    assert precision(system.snapshot) > precision(LinearMapping(hyperplanes(12, 16, seed=0))) + 0.4


def test_whitening_helps_correlated_features():
    """On the mean of eight streams, while they are short: later the plain features have caught up."""

    def precision(whiten, seed):
        rng = np.random.default_rng(seed)
        y = rng.integers(0, 6, 1100)
        noise = rng.standard_normal((1100, 24)) * np.geomspace(6, 0.3, 24)  # classes differ where it varies least
        X = rng.standard_normal((6, 24))[y] + noise
        X = unit(X - X.mean(axis=0))
        system = mihash.OnlineHashing(MIHash(16, whiten=whiten), reservoir_size=200)
        system.feed(X[:600], y[:600])
        codes = system.snapshot.encode(X)
        return mihash.mean_average_precision(codes[600:], codes[:600], (y[600:], y[:600]), 16)

    assert np.mean([precision(0.3, seed) - precision(None, seed) for seed in range(8)]) > 0.05  # it is 0.14


def test_whitening_is_the_inverse_root_of_the_shrunk_covariance():
    rng = np.random.default_rng(0)
    for n, d in ((500, 8), (30, 60)):
        X = (rng.standard_normal((n, d)) * np.geomspace(10, 0.5, d) + 3).astype(np.float32)
        space = Whitening.fit(X, shrinkage=0.5)
        C = np.cov(X.T.astype(float), bias=True)
        eigenvalues, V = np.linalg.eigh(C)
        rho = 0.5 * eigenvalues.mean()
        A = np.sqrt(rho) * (V / np.sqrt(np.maximum(eigenvalues, 0) + rho)) @ V.T
        Z, lengths = space.transform(X)
        expected = (X - X.mean(axis=0)) @ A
        assert np.linalg.norm(Z * lengths[:, None] - expected) < 0.05 * np.linalg.norm(expected)
        assert np.allclose(np.linalg.norm(Z, axis=1), 1, atol=1e-5)
        W = rng.standard_normal((d, 3)).astype(np.float32)
        assert np.allclose(space.push(space.pull(W)), W, atol=1e-4)
        assert np.allclose(space.pull(W), A @ W, atol=0.05 * np.abs(W).max())


@pytest.mark.identity
def test_whitening_rows_are_independent():
    X, _ = clusters(n=200, d=30)
    space = Whitening.fit(X, 3.0)
    Z, lengths = space.transform(X)
    for rows in (slice(0, 1), slice(13, 90), np.arange(199, -1, -1)):
        part, part_lengths = space.transform(X[rows])
        assert np.array_equal(part, Z[rows])
        assert np.array_equal(part_lengths, lengths[rows])


def test_constant_features_are_harmless():
    X, y = clusters(n=600)
    X[:, 3] = 7
    X[50] = X.mean(axis=0)
    X[60] = 0
    system = mihash.OnlineHashing(MIHash(8), reservoir_size=50)
    system.feed(X, y)
    assert np.isfinite(system.current.weights).all()
    same = np.tile(X[:1], (300, 1))
    still = mihash.OnlineHashing(MIHash(8), reservoir_size=50)
    still.feed(same, np.arange(300) % 3)
    assert np.isfinite(still.current.weights).all()


def test_the_released_gradient_is_another_one():
    X, y = stream()
    exact, released = (MIHash(8, whiten=None, gradient=kind) for kind in ("exact", "released"))
    steps = []
    for learner in (exact, released):
        system = mihash.OnlineHashing(learner, reservoir_size=50)
        system.feed(X[:100], y[:100])
        learner._W, learner._mapping = hyperplanes(10, 8, seed=0), None
        ahead = learner.copy()
        ahead.learn(X[100:101], y[100:101], system.reservoir, system.reservoir.plan(1))
        steps.append((ahead.current().weights - learner._W).ravel())
    cosine = steps[0] @ steps[1] / np.linalg.norm(steps[0]) / np.linalg.norm(steps[1])
    assert 0.1 < abs(cosine) < 0.99
    W, x, R = hyperplanes(10, 8, seed=0).astype(float), X[100].astype(float), system.reservoir.X.astype(float)
    expected = oracles.released_step(W, x, R, system.reservoir.y == y[100], 1.0, 10.0) - W
    assert np.linalg.norm(steps[1] - expected.ravel()) < 1e-3 * np.linalg.norm(expected)


def test_tanh():
    x = np.linspace(0, 12, 10001, dtype=np.float32)
    got = np.array([_tanh(value) for value in x])
    assert np.abs(got - np.tanh(x.astype(float))).max() < 4e-7
    assert np.array_equal(got, [-_tanh(-value) for value in x])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("learning_rate", 0),
        ("learning_rate", "fast"),
        ("decay", -1),
        ("scale", 0),
        ("n_bins", 0),
        ("warm_up", -1),
        ("whiten", 0),
        ("gradient", "best"),
        ("seed", -1),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        MIHash(8, **{name: value})
