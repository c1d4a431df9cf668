from itertools import pairwise

import numpy as np
import pytest

import mihash
import oracles_batch as oracle
from checks import clusters
from mihash.batch.features import leading_eigenvectors
from mihash.batch.itq import ITQ, _quantize, closest_rotation
from mihash.errors import InvalidInput

rng = np.random.default_rng(0)


def components(X, n_bits):
    """Principal components by the eigenvectors of the covariance, with a mean square of 1."""
    Z = X - X.mean(axis=0)
    V = Z @ np.linalg.eigh(np.cov(Z.T))[1][:, ::-1][:, :n_bits]
    return V / np.sqrt((V**2).mean())


def test_the_error_never_rises():
    X, _ = clusters(n=500, d=20)
    method = ITQ(12, tolerance=0.0)
    method.fit(X)
    assert len(method.history) > 5
    assert all(after <= before + 1e-12 for before, after in pairwise(method.history))
    assert method.history[-1] < 0.9 * method.history[0]


def test_the_error_is_that_of_the_mapping():
    X, _ = clusters(n=80, d=9)
    method = ITQ(5)
    mapping = method.fit(X)
    V = components(X.astype(np.float64), 5)
    projected = mapping.project(X).astype(np.float64)
    scaled = projected / np.sqrt((projected**2).mean())
    R = np.linalg.lstsq(V, scaled, rcond=None)[0]
    assert pytest.approx(np.eye(5), abs=1e-4) == R.T @ R  # a rotation of the components, nothing else
    assert pytest.approx(scaled, abs=1e-4) == V @ R
    assert method.history[-1] == pytest.approx(oracle.quantization_error(V, R), abs=1e-4)


def test_the_rotation_is_the_best_one():
    V, B = rng.standard_normal((50, 4)), np.sign(rng.standard_normal((50, 4)))
    R = closest_rotation(V, B)
    assert pytest.approx(np.eye(4)) == R.T @ R
    least = ((B - V @ R) ** 2).sum()
    for _ in range(200):
        other = np.linalg.qr(R + 0.3 * rng.standard_normal((4, 4)))[0]
        assert ((B - V @ other) ** 2).sum() >= least


def test_the_codes_are_the_nearest():
    rotated = rng.standard_normal((20, 3))
    B, error = _quantize(rotated)
    assert error == pytest.approx(oracle.quantization_error(rotated, np.eye(3)))
    assert np.array_equal(B, np.sign(rotated))


def test_it_stops_when_nothing_is_gained():
    X, _ = clusters(n=200)
    quick, slow = ITQ(8, tolerance=0.01), ITQ(8, iterations=200, tolerance=0.0)
    quick.fit(X)
    slow.fit(X)
    assert len(quick.history) < len(slow.history) < 200


def test_it_beats_plain_components():
    X, y = mihash.datasets.digits().X, mihash.datasets.digits().y
    X = X[:1200] - X[:1200].mean(axis=0)

    def precision(codes):
        return mihash.mean_average_precision(codes[1000:], codes[:1000], (y[1000:1200], y[:1000]), 16)

    plain = mihash.pack(components(X, 16) > 0)
    assert precision(ITQ(16).fit(X[:1000]).encode(X)) > precision(plain) + 0.05


def test_more_bits_than_components():
    X, _ = clusters(n=10, d=12)
    for rows, n_bits in ((X, 10), (X[:, :4], 5)):
        with pytest.raises(InvalidInput, match=f"got `n_bits` = {n_bits}"):
            ITQ(n_bits).fit(rows)
    assert ITQ(9).fit(X).n_bits == 9


@pytest.mark.parametrize(("m", "k"), [(5, 5), (6, 2), (300, 3)])
def test_leading_eigenvectors(m, k):
    A = rng.standard_normal((m, m))
    C = A @ A.T
    V = leading_eigenvectors(C, k)
    expected = np.linalg.eigvalsh(C)[::-1][:k]
    assert pytest.approx(np.eye(k), abs=1e-8) == V.T @ V
    assert pytest.approx(np.diag(expected), rel=1e-8, abs=1e-6 * expected[0]) == V.T @ C @ V
    assert np.array_equal(V, leading_eigenvectors(C, k))


@pytest.mark.parametrize(("name", "value"), [("iterations", 0), ("tolerance", -1), ("tolerance", "low")])
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        ITQ(8, **{name: value})
