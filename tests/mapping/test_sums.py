import numpy as np
import pytest

from mihash.mapping import ordered_sums as sums

rng = np.random.default_rng(0)


@pytest.mark.identity
@pytest.mark.parametrize(("n", "d", "b"), [(1, 1, 1), (5, 7, 3), (6, 8, 17), (9, 130, 40)])
def test_product_is_the_sum_in_order(n, d, b):
    X = rng.standard_normal((n, d)).astype(np.float32)
    W = rng.standard_normal((d, b)).astype(np.float32)
    expected = np.zeros((n, b), dtype=np.float32)
    for k in range(d):
        expected = expected + X[:, k : k + 1] * W[k]  # each product and each sum rounded to float32
    assert np.array_equal(sums.product(X, W), expected)


@pytest.mark.identity
@pytest.mark.parametrize("n", [1, 7, 8, 9, 30])
def test_lengths_are_the_sums_in_order(n):
    X = (rng.standard_normal((n, 33)) * 10.0 ** rng.integers(-30, 18, (n, 33))).astype(np.float32)
    expected = []
    for row in X.tolist():
        total = 0.0
        for value in row:
            total += value * value
        expected.append(total**0.5)
    assert sums.lengths(X).tolist() == expected


def test_unit_length_of_tiny_and_huge_rows():
    X = np.array([[3e-45, 0], [1e-40, 1e-40], [3e38, 3e38], [0, 0]], dtype=np.float32)
    Z = sums.to_unit_length(X)
    assert np.linalg.norm(Z[:3].astype(float), axis=1) == pytest.approx(1, abs=1e-6)
    assert not Z[3].any()


@pytest.mark.identity
@pytest.mark.parametrize("work", [lambda X: sums.product(X, np.eye(20, 6, dtype=np.float32)), sums.to_unit_length])
def test_a_row_depends_on_itself_alone(work):
    X = rng.standard_normal((50, 20)).astype(np.float32)
    whole = work(X)
    for rows in (slice(0, 1), slice(3, 40), np.arange(49, -1, -1)):
        assert np.array_equal(work(X[rows]), whole[rows])
