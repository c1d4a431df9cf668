import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mihash
import oracles
from mihash.errors import InvalidInput
from mihash.histogram import bin_positions
from mihash.information import mean_information, mutual_information, mutual_information_gradient, quality
from mihash.neighbors import SharedLabel, WithinDistance

items = st.integers(1, 20).flatmap(
    lambda b: st.tuples(
        st.just(b),
        st.lists(st.tuples(st.floats(0, b) | st.integers(0, b), st.booleans()), min_size=1, max_size=30),
    )
)


def entropy_of(mask):
    p = np.mean(mask)
    return oracles.entropy([p, 1 - p])


@given(items)
def test_both_forms_agree_with_the_equation_and_its_bounds(problem):
    n_bits, pairs = problem
    distances, mask = map(list, zip(*pairs, strict=True))
    by_distance = mutual_information(distances, mask, n_bits)
    by_class = mutual_information(distances, mask, n_bits, form="neighborhood")
    assert abs(by_distance - by_class) <= 1e-12
    assert abs(by_distance - max(0.0, oracles.information(distances, mask, n_bits))) <= 1e-9
    assert 0 <= by_distance <= entropy_of(mask) + 1e-12


def test_separated_distributions_reach_the_entropy_of_the_classes():
    mask = np.array([True] * 3 + [False] * 9)
    assert np.isclose(mutual_information(np.where(mask, 0, 8), mask, 8), entropy_of(mask))


def test_equal_distributions_tell_nothing():
    assert mutual_information([0, 3, 8, 0, 3, 8], [True] * 3 + [False] * 3, 8) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("mask", [[True, True], [False, False]])
def test_one_side_only_has_no_information(mask):
    assert mutual_information([0, 8], mask, 8) == 0
    assert not mutual_information_gradient([0.1, 0.2], [[0.5, 0.5], [-0.5, 0.1]], mask).any()


def test_the_last_two_distances_have_bins_of_their_own():
    assert mutual_information([7, 7, 8, 8], [True, True, False, False], 8) == 1


@pytest.mark.parametrize(
    ("distances", "mask", "n_bits"),
    [
        ([9.0], [True], 8),
        ([-1.0], [True], 8),
        ([np.nan], [True], 8),
        ([], [], 8),
        ([1.0], [True, False], 8),
        ([1.0], [True], 0),
        (["a"], [True], 8),
    ],
)
def test_bad_input(distances, mask, n_bits):
    with pytest.raises(InvalidInput):
        mutual_information(distances, mask, n_bits)


def random_problem(rng, rule):
    n_bits, n_bins, n = int(rng.integers(4, 33)), int(rng.integers(3, 33)), int(rng.integers(20, 80))
    X = rng.standard_normal((n + 1, 5)).astype(np.float32)
    if rule == "labels":
        y = rng.integers(0, 3, n + 1)
        mask = y[1:] == y[0]
    else:
        mask = WithinDistance(2.5).between(X[:1], None, X[1:], None)[0]
    codes = np.tanh(rng.standard_normal((n + 1, n_bits)))
    return codes[0], codes[1:], mask, n_bins


def central_difference(value, axis, h=1e-5):
    """Fourth order, so that what is left is the rounding of float64."""
    near = value(h * axis) - value(-h * axis)
    far = value(2 * h * axis) - value(-2 * h * axis)
    return (8 * near - far) / (12 * h)


@pytest.mark.parametrize("rule", ["labels", "distance"])
def test_gradient_is_the_derivative(rule):
    rng = np.random.default_rng(7)
    tried = 0
    while tried < 40:
        code, codes, mask, n_bins = random_problem(rng, rule)
        n_bits = len(code)
        _, share = bin_positions((n_bits - codes @ code) / 2, n_bits, n_bins)
        if mask.all() or not mask.any() or min(share.min(), (1 - share).min()) < 1e-3:
            continue  # on a bin's edge there is a corner, not a derivative
        tried += 1
        gradient = mutual_information_gradient(code, codes, mask, n_bins)

        def value(shift, code=code, codes=codes, mask=mask, n_bins=n_bins):
            return mutual_information((len(code) - codes @ (code + shift)) / 2, mask, len(code), n_bins)

        numeric = np.array([central_difference(value, axis) for axis in np.eye(n_bits)])
        assert np.linalg.norm(gradient - numeric) <= 1e-6 * np.linalg.norm(numeric)
        assert np.allclose(gradient, oracles.information_gradient(code, codes, mask, n_bins), atol=1e-12)


def test_gradient_on_the_centres_of_bins():
    """Saturated codes: every distance is whole, and Eq. 10 is taken to the right."""
    rng = np.random.default_rng(0)
    for _ in range(20):
        codes, code = np.sign(rng.standard_normal((12, 6))), np.sign(rng.standard_normal(6))
        mask = rng.random(12) > 0.5
        if mask.all() or not mask.any():
            continue
        expected = oracles.information_gradient(code, codes, mask)
        assert np.allclose(mutual_information_gradient(code, codes, mask), expected, atol=1e-12)


@pytest.mark.parametrize(
    ("code", "codes", "mask"),
    [
        ([np.nan, 0], [[0, 0]], [True]),
        ([2, 0], [[0, 0]], [True]),
        ([0, 0], [[0, 0, 0]], [True]),
        ([0, 0], [[0, 0]], [True, False]),
        (["a", "b"], [[0, 0]], [True]),
    ],
)
def test_gradient_refuses(code, codes, mask):
    with pytest.raises(InvalidInput):
        mutual_information_gradient(code, codes, mask)


@pytest.mark.parametrize(("n", "n_bits"), [(2, 1), (23, 7), (40, 64), (31, 130)])
def test_quality_equals_the_equation(n, n_bits):
    rng = np.random.default_rng(n)
    bits, y = rng.random((n, n_bits)) > 0.4, rng.integers(0, 3, n)
    same = y[:, None] == y
    expected = oracles.quality(np.where(bits, 1, -1), same)
    assert quality(mihash.pack(bits), y, n_bits) == pytest.approx(expected, abs=1e-12)
    assert quality(mihash.pack(bits), same, n_bits) == pytest.approx(expected, abs=1e-12)
    np.fill_diagonal(same, False)
    assert quality(mihash.pack(bits), same, n_bits) == pytest.approx(expected, abs=1e-12)


def test_quality_of_an_asymmetric_neighbourhood():
    rng = np.random.default_rng(0)
    bits, matrix = rng.random((20, 16)) > 0.5, rng.random((20, 20)) > 0.7
    assert quality(mihash.pack(bits), matrix, 16) == pytest.approx(oracles.quality(np.where(bits, 1, -1), matrix))


@given(st.integers(0, 2**31))
def test_quality_ignores_the_order_and_the_sign_of_bits(seed):
    rng = np.random.default_rng(seed)
    bits, y = rng.random((15, 9)) > 0.5, rng.integers(0, 3, 15)
    value = quality(mihash.pack(bits), y, 9)
    changed = bits[:, rng.permutation(9)] ^ (rng.random(9) > 0.5)
    assert quality(mihash.pack(changed), y, 9) == pytest.approx(value, abs=1e-12)
    order = rng.permutation(15)
    assert quality(mihash.pack(bits[order]), y[order], 9) == pytest.approx(value, abs=1e-12)
    assert 0 <= value <= 1


def test_quality_of_one_class_is_zero():
    codes = mihash.pack(np.random.default_rng(0).random((10, 8)) > 0.5)
    assert quality(codes, np.zeros(10, dtype=int), 8) == 0
    assert quality(codes, np.arange(10), 8) == 0
    assert quality(codes[:1], [0], 8) == 0


def test_quality_without_information_is_not_below_zero():
    for a in range(1, 13):
        for b in range(1, 13):
            counts = np.tile(np.array([a, b, a, b], dtype=np.int32), (2 * (a + b) + 1, 1))
            assert 0 <= mean_information(counts) < 1e-12  # both sides alike, but for rounding


def test_quality_with_several_labels():
    rng = np.random.default_rng(3)
    bits, Y = rng.random((25, 12)) > 0.5, (rng.random((25, 4)) > 0.6).astype(np.uint8)
    matrix = SharedLabel().between(None, Y, None, Y)
    assert quality(mihash.pack(bits), matrix, 12) == pytest.approx(oracles.quality(np.where(bits, 1, -1), matrix))


def test_quality_refuses():
    codes = np.zeros((3, 1), np.uint8)
    with pytest.raises(InvalidInput, match=r"`is_neighbor` must have shape \(2,\); got \(1,\)"):
        mihash.mutual_information([1, 2], [1], 8)
    with pytest.raises(InvalidInput, match="one label for each"):
        quality(codes, [0, 1], 8)
    with pytest.raises(InvalidInput, match="shape"):
        quality(codes, np.zeros((3, 2)), 8)
    with pytest.raises(InvalidInput, match="empty"):
        quality(codes[:0], [], 8)
    with pytest.raises(InvalidInput, match="1 to 32767"):
        quality(np.zeros((2, 5000), np.uint8), [0, 1], 40_000)
