from itertools import pairwise

import numpy as np
import pytest
import scipy.linalg

import mihash
import oracles_batch as oracle
from checks import clusters
from mihash.batch.batch_method import ANCHORS
from mihash.batch.features import Features, leading_eigenvectors
from mihash.batch.shk import SHK, _fit, _refine, _similarity, _smooth
from mihash.errors import InvalidInput
from mihash.neighbors import label_neighborhood

rng = np.random.default_rng(0)


def several(y):
    return np.stack([y == 0, y <= 2, y >= 2, y == 4], axis=1).astype(np.uint8)


LABELS = pytest.mark.parametrize("labels", [lambda y: y, several], ids=["classes", "several labels"])


def similarities(y):
    return 2.0 * label_neighborhood(y).between(None, y, None, y) - 1


def signs(mapping, X):
    return np.where(mihash.unpack(mapping.encode(X), mapping.n_bits), 1.0, -1.0)


@LABELS
def test_similarity_is_1_for_neighbors_and_less_1_for_others(labels):
    _, y = clusters(n=50)
    y = labels(y)
    V = rng.standard_normal((50, 3)).astype(np.float32)
    assert _similarity(y)(V) == pytest.approx(similarities(y) @ V, abs=1e-4)
    assert _similarity(y)(V[:, 0]) == pytest.approx(similarities(y) @ V[:, 0], abs=1e-4)


@LABELS
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
def test_the_misfit_falls_with_each_bit(kernel, labels):
    X, y = clusters(n=120)
    y = labels(y)
    method = SHK(10, kernel=kernel, n_anchors=40)
    mapping = method.fit(X, y)
    assert all(after < before for before, after in pairwise([1.0, *method.history]))
    assert method.history[-1] == pytest.approx(oracle.pair_misfit(signs(mapping, X), similarities(y)), abs=1e-5)


def test_a_bit_is_learned_with_those_before_it_fixed():
    X, y = clusters(n=120)
    method = SHK(6, n_anchors=40)
    H, S = signs(method.fit(X, y), X), similarities(y)
    left = 1.0
    for k in range(6):
        fit = H[:, k] @ oracle.residual(H[:, :k], S, 6) @ H[:, k]
        left += (1 - 2 * fit / 120**2) / 36
        assert method.history[k] == pytest.approx(left, abs=1e-5)


def test_the_start_is_the_published_eigenproblem():
    """K' R K a = lambda K' K a, on centred kernel features."""
    X, y = clusters(n=100)
    plain = Features(X, "rbf", 12, 0.5, rng=SHK().generator(ANCHORS))
    K = plain.Z.astype(np.float64)
    mapping = SHK(1, iterations=0, n_anchors=12, ridge=1e-6).fit(X, y)
    R = oracle.residual(np.zeros((100, 0)), similarities(y), 1)
    a = scipy.linalg.eigh(K.T @ R @ K, K.T @ K)[1][:, -1]
    projected, expected = mapping.project(X)[:, 0], K @ a
    cosine = projected @ expected / np.linalg.norm(projected) / np.linalg.norm(expected)
    assert abs(cosine) > 0.9999
    assert np.square(projected).mean() == pytest.approx(1, abs=1e-3)


def make_residual(n=40, n_before=3):
    y = rng.integers(0, 3, n)
    before = np.sign(rng.standard_normal((n, n_before)))
    R = oracle.residual(before, similarities(y), 8)
    return R, lambda v: (R @ v).astype(np.float32)


def test_the_gradient_is_that_of_central_differences():
    R, residual = make_residual()
    p = rng.standard_normal(40)
    value, gradient = _smooth(p.astype(np.float32), residual, 0.01)

    def exact(p):
        v = 2 / (1 + np.exp(-p)) - 1
        return 0.01 * v @ R @ v

    found = [(exact(p + h) - exact(p - h)) / 2e-5 for h in 1e-5 * np.eye(40)]
    assert value == pytest.approx(exact(p), rel=1e-4)
    assert gradient == pytest.approx(np.array(found), abs=1e-4 * np.abs(found).max())


def test_the_ascent_never_falls():
    R, residual = make_residual()
    Z = rng.standard_normal((40, 6)).astype(np.float32)
    a = leading_eigenvectors(Z.T @ R @ Z, 1)[:, 0].astype(np.float32)
    start = a.copy()
    refined, projected, values = _refine(Z, a, Z @ a, residual, 1 / (40 * 40 * 8), 50)
    assert len(values) > 3
    assert all(after >= before for before, after in pairwise(values))
    assert values[-1] > values[0] + 0.01
    assert projected == pytest.approx(Z @ refined, rel=1e-4, abs=1e-4)
    assert np.array_equal(a, start)
    assert values[-1] == pytest.approx(_smooth(projected, residual, 1 / (40 * 40 * 8))[0])


def test_the_better_of_the_two_codes_is_kept():
    X, y = clusters(n=200)
    R = oracle.residual(np.zeros((200, 0)), similarities(y), 1)
    for seed in range(3):
        refined, spectral = (SHK(1, iterations=n, n_anchors=30, seed=seed) for n in (20, 0))
        fits = [method.fit(X, y) for method in (refined, spectral)]
        values = [
            _fit(signs(mapping, X)[:, 0].astype(np.float32), lambda v: (R @ v).astype(np.float32))
            for mapping in fits
        ]
        assert values[0] >= values[1]


def test_steps_help():
    X, y = clusters(n=400, d=16, spread=1.5)
    few, many = SHK(16, iterations=0, n_anchors=100), SHK(16, iterations=20, n_anchors=100)
    few.fit(X, y)
    many.fit(X, y)
    assert many.history[-1] < few.history[-1]


@pytest.mark.parametrize(
    ("name", "value"), [("iterations", -1), ("ridge", 0), ("ridge", "none"), ("kernel", None)]
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        SHK(8, **{name: value})
