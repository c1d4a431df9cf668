import numpy as np
import pytest

import mihash
import oracles_batch as oracle
from checks import clusters
from mihash.batch.batch_method import FIRST, ORDER
from mihash.batch.batch_mihash import CHOSEN, MIHash, minibatch_gradient
from mihash.batch.features import Features
from mihash.errors import InvalidInput
from mihash.mapping import KernelMapping, LinearMapping
from mihash.neighbors import label_neighborhood

rng = np.random.default_rng(0)


def minibatch(n=12, n_bits=5, seed=0):
    source = np.random.default_rng(seed)
    y = source.integers(0, 3, n)
    return (0.1 * source.standard_normal((n, n_bits))).astype(np.float32), y[:, None] == y


@pytest.mark.parametrize("n_bins", [None, 3, 8])
@pytest.mark.parametrize("scale", [5.0, 40.0])
def test_value_and_gradient_are_the_equations(n_bins, scale):
    for seed in range(3):
        projections, near = minibatch(seed=seed)
        value, gradient = minibatch_gradient(projections, near, scale, n_bins)
        expected = oracle.batch_gradient(projections, near, scale, n_bins)
        codes = oracle.relaxed(projections, scale)
        assert value == pytest.approx(oracle.batch_information(codes, near, n_bins), abs=1e-5)
        assert np.abs(gradient - expected).max() < 1e-4 * np.abs(expected).max()


def test_the_gradient_is_that_of_central_differences():
    projections, near = minibatch(n=9, n_bits=4)
    projections = projections.astype(np.float64)
    gradient = minibatch_gradient(projections.astype(np.float32), near, 10.0)[1]
    h, found = 1e-5, np.empty_like(projections)
    for place in np.ndindex(projections.shape):
        up, down = projections.copy(), projections.copy()
        up[place] += h
        down[place] -= h
        ends = [oracle.batch_information(oracle.relaxed(p, 10.0), near) for p in (up, down)]
        found[place] = (ends[0] - ends[1]) / (2 * h)
    assert np.abs(gradient - found).max() < 1e-3 * np.abs(found).max()


def test_the_gradient_flows_through_both_codes():
    """With one anchor only, the codes of its neighbours and of the others move too."""
    projections, _ = minibatch(n=5)
    near = np.zeros((5, 5), dtype=bool)
    near[0, 1:3] = True  # the other items have no neighbours, and give nothing
    gradient = minibatch_gradient(projections, near, 10.0)[1]
    assert (np.abs(gradient).max(axis=1) > 0).all()


def test_an_item_without_neighbors_or_without_others_gives_nothing():
    projections, _ = minibatch(n=6)
    for near in (np.zeros((6, 6), dtype=bool), np.eye(6, dtype=bool), np.ones((6, 6), dtype=bool)):
        value, gradient = minibatch_gradient(projections, near, 10.0)
        assert value == 0
        assert not gradient.any()


def test_the_self_pair_is_left_out():
    projections, near = minibatch()
    for diagonal in (False, True):
        changed = near.copy()
        np.fill_diagonal(changed, diagonal)
        found = minibatch_gradient(projections, changed, 10.0)
        assert found[0] == minibatch_gradient(projections, near, 10.0)[0]
        assert np.array_equal(found[1], minibatch_gradient(projections, near, 10.0)[1])


def test_codes_at_the_ends_of_the_range():
    """Distances 0 and b, where the histogram has its first and its last bin."""
    projections = np.array([[9, 9], [9, 9], [-9, -9], [-9, -9]], dtype=np.float32)
    near = np.kron(np.eye(2), np.ones((2, 2))).astype(bool)
    value, gradient = minibatch_gradient(projections, near, 50.0)
    assert value == pytest.approx(mihash.mutual_information([0, 2, 2], [1, 0, 0], n_bits=2) * np.log(2), abs=1e-6)
    assert np.isfinite(gradient).all()


@pytest.mark.parametrize("several", [False, True], ids=["classes", "several labels"])
@pytest.mark.parametrize("unit_length", [False, True])
def test_an_ascent_is_the_equations_step_by_step(unit_length, several):
    X, y = clusters(n=45, d=6, n_classes=3)
    if several:
        y = np.stack([y == 0, y <= 1, y == 2], axis=1).astype(np.uint8)
    options = {"scale": 8.0, "n_bins": 4, "momentum": 0.7, "unit_length": unit_length}
    method = MIHash(
        5,
        batch_size=20,
        epochs=2,
        learning_rate=0.1,
        decay=0.5,
        decay_every=1,
        whiten=None,
        patience=None,
        **options,
    )
    Z = X - X.mean(axis=0)
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    start = method.generator(FIRST).standard_normal((6, 5), dtype=np.float32)
    start /= np.linalg.norm(start, axis=0)
    order, batches = method.generator(ORDER), []
    for _ in range(2):
        batches += np.array_split(order.permutation(45), 3)
    near = label_neighborhood(y).between(None, y, None, y)
    expected = oracle.mihash(Z, near, start, batches, [0.1] * 3 + [0.05] * 3, **options)
    mapping = method.fit(X, y)
    moved = np.linalg.norm(expected - start)
    assert moved > 0.05
    assert np.linalg.norm(mapping.weights - expected) < 1e-3 * moved
    assert mapping.offset == pytest.approx(-X.mean(axis=0) @ mapping.weights, abs=1e-5)


def test_without_labels_neighbors_are_the_closest():
    X, _ = clusters(n=600, d=8, n_classes=12, spread=0.3)
    method = MIHash(16, epochs=20)
    method.fit(X)
    assert method.history[-1] > 1.1 * method.history[0]


@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_information_rises(kernel):
    X, y = clusters(n=1000, d=20)
    method = MIHash(16, epochs=30, kernel=kernel, n_anchors=200)
    mapping = method.fit(X, y)
    assert isinstance(mapping, LinearMapping if kernel == "linear" else KernelMapping)
    assert method.history[-1] > method.history[0] + 0.1
    assert mihash.quality(mapping.encode(X), y, 16) > method.history[-1] - 0.1  # the codes keep what was learned


def test_functions_have_unit_length_among_the_whitened():
    X, y = clusters(n=400)
    W = MIHash(8, epochs=3, whiten=None).fit(X, y).weights
    assert np.linalg.norm(W, axis=0) == pytest.approx(1, abs=1e-5)
    grown = MIHash(8, epochs=30, whiten=None, unit_length=False).fit(X, y).weights
    assert np.linalg.norm(grown, axis=0).min() > 1.5


def test_whitening_helps_correlated_features():
    """On the mean of three sets."""

    def precision(whiten, seed):
        source = np.random.default_rng(seed)
        y = source.integers(0, 6, 2000)
        noise = source.standard_normal((2000, 24)) * np.geomspace(16, 0.3, 24)  # classes differ where it is least
        X = source.standard_normal((6, 24))[y] + noise
        codes = MIHash(16, whiten=whiten, epochs=20).fit(X[:1500], y[:1500]).encode(X)
        return mihash.mean_average_precision(codes[1500:], codes[:1500], (y[1500:], y[:1500]), 16)

    assert np.mean([precision("auto", seed) - precision(None, seed) for seed in range(3)]) > 0.1  # it is 0.25


def test_it_stops_when_information_saturates():
    X, y = clusters(n=300)
    kept, whole = MIHash(8, decay_every=5), MIHash(8, decay_every=5, patience=None)
    kept.fit(X, y)
    whole.fit(X, y)
    assert len(whole.history) == 100
    assert len(kept.history) < 100
    assert len(kept.history) % 5 == 0
    assert kept.history == whole.history[: len(kept.history)]


def test_a_minibatch_larger_than_the_data():
    X, y = clusters(n=40)
    assert MIHash(8, batch_size=1000, epochs=2).fit(X, y) == MIHash(8, batch_size=40, epochs=2).fit(X, y)


def test_chosen_parameters_follow_the_map():
    X, y = clusters(n=200)
    for kernel, values in CHOSEN.items():
        options = {"kernel": kernel, "epochs": 2, "n_anchors": 50}
        assert MIHash(8, **options, **values).fit(X, y) == MIHash(8, **options).fit(X, y)


def test_whitened_features_have_the_shrunk_covariance():
    X = (rng.standard_normal((400, 5)) * [9, 3, 1, 1, 0.1] + 4).astype(np.float32)
    for kernel in ("linear", "rbf"):
        for shrinkage in (1e-5, 0.5):
            plain = Features(X, kernel, 20, 1.0, rng=np.random.default_rng(0))
            white = Features(X, kernel, 20, 1.0, shrinkage, rng=np.random.default_rng(0))
            C = plain.Z.T.astype(float) @ plain.Z / 400
            shrunk = C + shrinkage * C.diagonal().mean() * np.eye(len(C))
            got = white.Z.astype(float) @ white.Z.T
            expected = plain.Z @ np.linalg.solve(shrunk, plain.Z.T.astype(float))
            assert np.abs(got - expected).max() < 1e-2 * np.abs(expected).max()
            W = rng.standard_normal((len(C), 3)).astype(np.float32)
            projected = white.mapping(W, np.ones(3)).project(X)
            assert np.abs(projected - (white.Z @ W + 1)).max() < 1e-2 * np.abs(projected).max()


def test_the_kernel_map_is_gaussian():
    X, _ = clusters(n=60, d=4)
    features = Features(X, "rbf", 10, 0.8, rng=np.random.default_rng(0))
    arrays = features.mapping(np.eye(10, dtype=np.float32)).arrays()
    anchors, width = arrays["anchors"], float(arrays["width"][0])
    assert all((anchor == X).all(axis=1).any() for anchor in anchors)
    distances = np.sqrt(((X[:, None] - anchors) ** 2).sum(axis=2))
    assert width == pytest.approx(0.8 * distances.mean(), rel=1e-5)
    expected = oracle.gaussian_features(X, anchors, width)
    assert np.abs(features.Z - (expected - expected.mean(axis=0))).max() < 1e-5


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("batch_size", 2),
        ("epochs", 0),
        ("learning_rate", 0),
        ("learning_rate", "fast"),
        ("decay", 0),
        ("decay", 1.5),
        ("decay_every", 0),
        ("momentum", -0.1),
        ("momentum", 1.1),
        ("scale", 0),
        ("scale", "sharp"),
        ("n_bins", 0),
        ("unit_length", "no"),
        ("whiten", 0),
        ("whiten", "much"),
        ("patience", 0),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        MIHash(8, **{name: value})
