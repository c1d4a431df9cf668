import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import oracles
from mihash.histogram import bin_positions, histogram, histogram_slope

problems = st.integers(1, 24).flatmap(
    lambda b: st.tuples(st.just(b), st.integers(1, 24), st.lists(st.floats(0, b), min_size=1, max_size=20))
)


@given(problems)
def test_mass_is_one_and_equals_the_equation(problem):
    n_bits, n_bins, distances = problem
    p = histogram(distances, n_bits, n_bins)
    assert np.isclose(p.sum(), 1, atol=1e-12)
    assert np.allclose(p, oracles.histogram(distances, n_bits, n_bins), atol=1e-9)


@pytest.mark.parametrize("n_bins", [1, 3, 8])
def test_both_ends_fall_into_their_bins(n_bins):
    p = histogram([0, 8], n_bits=8, n_bins=n_bins)
    assert p[0] == p[-1] == 0.5


def test_whole_distances_are_counted():
    assert (histogram([0, 1, 1, 4], n_bits=4) * 4).tolist() == [1, 2, 0, 0, 1]


def test_nothing_gives_zeros():
    assert histogram([], n_bits=4).tolist() == [0, 0, 0, 0, 0]


def test_slope_is_the_derivative():
    rng = np.random.default_rng(0)
    weights, distances = rng.standard_normal(9), rng.uniform(0.01, 15.9, 30)
    _, share = bin_positions(distances, 16, 8)
    inside = np.flatnonzero((share > 1e-3) & (share < 1 - 1e-3))
    assert len(inside) > 20
    slope = histogram_slope(weights, distances, 16, 8)
    for r in inside:
        step = np.zeros(30)
        step[r] = 1e-6
        numeric = weights @ (histogram(distances + step, 16, 8) - histogram(distances - step, 16, 8)) / 2e-6
        assert np.isclose(slope[r], numeric, rtol=1e-6)
