from dataclasses import asdict

import numpy as np
import pytest

import mihash
from mihash import state
from mihash.errors import InvalidInput
from mihash.loop.normalization import Normalization, fit_normalization
from mihash.mapping import KernelMapping, LinearMapping, NormalizedMapping, mapping_from_state

rng = np.random.default_rng(0)
D, B = 12, 20
CENTRE = rng.standard_normal(D) * 3
X = (rng.standard_normal((700, D)) + CENTRE).astype(np.float32)


def linear():
    return LinearMapping(rng.standard_normal((D, B)), rng.standard_normal(B))


def kernel():
    return KernelMapping(
        rng.standard_normal((30, D)), 4.0, rng.standard_normal((30, B)), rng.standard_normal(B) / 9
    )


def explicit(mapping, vectors):
    """What the docstring says, in float64: phi(gain (u - mean)), where u is x, or x at unit length."""
    u = vectors.astype(np.float64)
    if mapping.unit:
        lengths = np.linalg.norm(u, axis=1, keepdims=True)
        u = np.where(lengths > 0, u / np.where(lengths > 0, lengths, 1), 0)
    z = float(mapping.gain[0]) * (u - mapping.mean.astype(np.float64))
    arrays = mapping.inner.arrays()
    if mapping.inner.kind == "kernel":
        squares = ((z[:, None] - arrays["anchors"].astype(np.float64)) ** 2).sum(axis=2)
        z = np.exp(-squares / (2 * float(arrays["width"][0]) ** 2))
    return z @ arrays["weights"].astype(np.float64) + arrays["offset"]


def normalized(inner, unit):
    mean = CENTRE / np.linalg.norm(CENTRE) if unit else CENTRE
    return NormalizedMapping(inner, mean, 0.7, unit)


@pytest.mark.parametrize("inner", [linear, kernel])
@pytest.mark.parametrize("unit", [False, True])
def test_the_folded_form_is_the_explicit_one(inner, unit):
    mapping = normalized(inner(), unit)
    vectors = X.copy()
    vectors[5] = 0
    values, expected = mapping.project(vectors), explicit(mapping, vectors)
    assert values == pytest.approx(expected, abs=1e-4)
    bits = mihash.unpack(mapping.encode(vectors), B)
    clear = np.abs(expected) > 1e-3
    assert clear.mean() > 0.99
    assert (bits == (expected > 0))[clear].all()
    again = mapping.inner.project(mapping.normalize(vectors))
    assert values == pytest.approx(again, abs=1e-4)
    assert (mapping.n_bits, mapping.n_features) == (B, D)


@pytest.mark.identity
@pytest.mark.parametrize("inner", [linear, kernel])
@pytest.mark.parametrize("unit", [False, True])
def test_a_code_depends_on_its_vector_alone(inner, unit):
    mapping = normalized(inner(), unit)
    codes = mapping.encode(X)
    for size in (1, 2, 63, 64, 65, 300):
        rows = rng.permutation(700)[:size]
        assert np.array_equal(mapping.encode(X[rows]), codes[rows])
        assert np.array_equal(mapping.normalize(X[rows]), mapping.normalize(X)[rows])


@pytest.mark.parametrize("inner", [linear, kernel])
@pytest.mark.parametrize("unit", [False, True])
def test_round_trip(inner, unit):
    mapping = normalized(inner(), unit)
    again = mapping_from_state(state.load(state.dump(mapping.state())))
    assert isinstance(again, NormalizedMapping)
    assert again == mapping
    assert (again.unit, float(again.gain[0])) == (unit, float(mapping.gain[0]))
    assert np.array_equal(again.project(X), mapping.project(X))


def test_one_inside_another_comes_back_too():
    mapping = normalized(normalized(linear(), False), True)
    again = mapping_from_state(state.load(state.dump(mapping.state())))
    assert again == mapping
    assert np.array_equal(again.encode(X), mapping.encode(X))


@pytest.mark.parametrize("unit", [False, True])
def test_a_vector_of_zeros_is_a_vector_like_others(unit):
    mapping = normalized(linear(), unit)
    zero = np.zeros((2, D), dtype=np.float32)
    assert np.isfinite(mapping.project(zero)).all()
    assert np.isfinite(mapping.normalize(zero)).all()
    assert mapping.project(zero) == pytest.approx(explicit(mapping, zero), abs=1e-4)


@pytest.mark.parametrize("scale", [1e-12, 1e-3, 1e3, 1e12])
def test_at_unit_length_the_scale_does_not_matter(scale):
    mapping = normalized(linear(), True)
    assert mapping.project(X * np.float32(scale)) == pytest.approx(mapping.project(X), abs=1e-4)


def test_the_shortest_vectors_have_a_direction_too():
    mapping = normalized(linear(), True)
    assert mapping.project(X * np.float32(1e-25)) == pytest.approx(mapping.project(X), abs=1e-3)


def test_a_centre_far_away_costs_no_bits():
    vectors = (np.rint(rng.standard_normal((2000, 64)) * 4) + 4e6).astype(np.float32)  # exact in float32
    mean = vectors.astype(np.float64).mean(axis=0).astype(np.float32)
    mapping = NormalizedMapping(LinearMapping(rng.standard_normal((64, 32))), mean, 0.05)
    wrong = mihash.unpack(mapping.encode(vectors), 32) != (explicit(mapping, vectors) > 0)
    assert wrong.mean() < 0.001


def test_what_makes_two_mappings_different():
    inner = linear()
    same = [NormalizedMapping(inner, CENTRE, 0.7, False) for _ in range(2)]
    others = [
        NormalizedMapping(inner, CENTRE, 0.8, False),
        NormalizedMapping(inner, CENTRE, 0.7, True),
        NormalizedMapping(inner, 0 * CENTRE, 0.7, False),
        NormalizedMapping(linear(), CENTRE, 0.7, False),
        inner,
    ]
    assert same[0] == same[1]
    assert len({mapping.fingerprint for mapping in (*same, *others)}) == 6
    assert same[0].distance(same[1]) == 0
    moved = LinearMapping(inner.weights + 1, inner.offset)
    expected = inner.distance(moved)
    assert same[0].distance(NormalizedMapping(moved, CENTRE, 0.7, False)) == expected > 0
    for other in (*others[:3], inner):
        assert same[0].distance(other) == float("inf")
    assert inner.distance(same[0]) == float("inf")


def test_a_mapping_is_frozen():
    mean = CENTRE.copy()
    mapping = NormalizedMapping(linear(), mean)
    before = mapping.project(X)
    mean[:] = 9
    assert np.array_equal(mapping.project(X), before)
    with pytest.raises(ValueError, match="read-only"):
        mapping.mean[0] = 1


@pytest.mark.parametrize(
    ("mean", "gain"),
    [(np.zeros(D - 1), 1.0), (np.zeros((1, D)), 1.0), (np.full(D, np.nan), 1.0), (CENTRE, np.inf)],
)
def test_bad_normalization(mean, gain):
    with pytest.raises(InvalidInput):
        NormalizedMapping(linear(), mean, gain)


def order_of_pairs(vectors, metric):
    wide = vectors.astype(np.float64)
    if metric == "cosine":
        lengths = np.linalg.norm(wide, axis=1, keepdims=True)
        wide = wide / np.where(lengths > 0, lengths, 1)
    return np.linalg.norm(wide[:, None] - wide, axis=2)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_the_order_of_distances_is_kept(metric):
    found = fit_normalization(X[:256], metric)
    near = found.wrap(linear()).normalize(X[:80])
    before = order_of_pairs(X[:80], metric)
    after = order_of_pairs(near, "euclidean")
    upper = np.triu_indices(80, 1)
    assert after[upper] == pytest.approx(found.gain * before[upper], rel=1e-4)
    clear = np.argsort(before[upper])[:: len(upper[0]) // 50]
    assert (np.diff(after[upper][clear]) > 0).all()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_examples_are_centred_and_of_mean_square_length_one(metric):
    found = fit_normalization(X, metric)
    Z = found.wrap(linear()).normalize(X)
    assert Z.mean(axis=0) == pytest.approx(np.zeros(D), abs=1e-5)
    assert (Z**2).sum(axis=1).mean() == pytest.approx(1, abs=1e-4)
    assert found.unit == (metric == "cosine")


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("value", [0.0, 1e-20, 1.0, 1e10])
def test_examples_that_are_all_the_same(metric, value):
    found = fit_normalization(np.full((256, D), value, dtype=np.float32), metric)
    assert found.gain == 1
    mapping = found.wrap(linear())
    assert np.isfinite(mapping.project(X)).all()


def test_a_normalization_comes_back_from_its_state():
    found = fit_normalization(X[:256], "cosine")
    again = Normalization(**state.load(state.dump(asdict(found))))
    inner = linear()
    assert again.wrap(inner) == found.wrap(inner)
    assert (again.gain, again.unit) == (found.gain, found.unit)
    assert np.array_equal(again.mean, found.mean)


def test_fitting_leaves_the_examples_as_they_were():
    before = X.copy()
    for metric in ("euclidean", "cosine"):
        assert fit_normalization(X, metric).mean.dtype == np.float32
    assert np.array_equal(X, before)
