import numpy as np
import pytest

from mihash.errors import InvalidInput
from mihash.neighbors import (
    SameLabel,
    SharedLabel,
    WithinDistance,
    label_neighborhood,
    nearest_fraction,
    squared_distances,
    within_fraction,
)

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 6)).astype(np.float32)


def brute_distances(A, B):
    return np.array([[np.sqrt(((a.astype(float) - b) ** 2).sum()) for b in B] for a in A])


def test_squared_distances():
    assert np.allclose(squared_distances(X, X[:7]), brute_distances(X, X[:7]) ** 2, atol=1e-5)


def test_squared_distances_far_from_the_origin():
    far = X + 1000
    assert np.allclose(squared_distances(far, far), squared_distances(X, X), rtol=1e-3, atol=1e-2)


def test_rules_by_label():
    y = np.array([0, 1, 0])
    assert SameLabel().between(X[:3], y, X[:3], y).tolist() == [[1, 0, 1], [0, 1, 0], [1, 0, 1]]
    Y = np.array([[1, 1, 0], [0, 1, 1], [0, 0, 0]], dtype=np.uint8)
    assert SharedLabel().between(X[:3], Y, X[:3], Y).tolist() == [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
    assert label_neighborhood(y) == SameLabel()
    assert label_neighborhood(Y) == SharedLabel()


@pytest.mark.parametrize("rule", [SameLabel(), SharedLabel()])
def test_rules_by_label_need_labels(rule):
    with pytest.raises(InvalidInput, match="need labels"):
        rule.between(X, None, X, None)


def test_within_distance():
    assert np.array_equal(WithinDistance(2.5).between(X, None, X, None), brute_distances(X, X) <= 2.5)
    with pytest.raises(InvalidInput, match="threshold"):
        WithinDistance(-1.0)


def test_copies_are_at_distance_0():
    copies = np.repeat(X, 2, axis=0) + 30
    assert WithinDistance(0.0).between(copies, None, copies, None).sum(axis=1).tolist() == [2] * 80


@pytest.mark.parametrize("fraction", [0, -3, 5, "much"])
def test_bad_fractions(fraction):
    for call in (lambda: within_fraction(X, fraction), lambda: nearest_fraction(X, X, fraction)):
        with pytest.raises(InvalidInput, match="fraction"):
            call()


def test_threshold_is_the_quantile_of_pairs():
    pairs = brute_distances(X, X)[np.triu_indices(len(X), 1)]
    threshold = within_fraction(X, 0.05).threshold
    assert np.isclose((pairs <= threshold).mean(), 0.05, atol=1 / len(pairs))
    with pytest.raises(InvalidInput, match="at least 2"):
        within_fraction(X[:1])


def test_nearest_fraction_takes_exactly_its_share():
    near = nearest_fraction(X[:5], X, 0.25)
    order = np.argsort(brute_distances(X[:5], X), axis=1)[:, :10]
    for row, expected in zip(near, order, strict=True):
        assert set(np.flatnonzero(row)) == set(expected)


def test_nearest_fraction_breaks_ties_by_index():
    near = nearest_fraction(np.zeros((1, 1)), np.ones((8, 1)), 0.5)
    assert np.flatnonzero(near[0]).tolist() == [0, 1, 2, 3]
