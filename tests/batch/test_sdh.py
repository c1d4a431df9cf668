from itertools import pairwise

import numpy as np
import pytest

import mihash
import oracles_batch as oracle
from checks import clusters
from mihash.batch.batch_method import ANCHORS, FIRST, indicators
from mihash.batch.features import Features
from mihash.batch.sdh import SDH, _classify, _descend, _regress
from mihash.errors import InvalidInput

rng = np.random.default_rng(0)


def several(y):
    return np.stack([y == 0, y <= 2, y >= 2, y == 4], axis=1).astype(np.uint8)


@pytest.mark.parametrize("labels", [lambda y: y, several], ids=["classes", "several labels"])
@pytest.mark.parametrize("kernel", ["linear", "rbf"])
@pytest.mark.parametrize("nu", [1e-5, 0.1])
def test_the_objective_never_rises(kernel, nu, labels):
    X, y = clusters(n=300)
    method = SDH(16, nu=nu, iterations=20, tolerance=0.0, kernel=kernel, n_anchors=60)
    method.fit(X, labels(y))
    assert len(method.history) > 1
    assert all(after <= before * (1 + 1e-6) for before, after in pairwise(method.history))


def test_turns_are_those_of_the_equations():
    X, y = clusters(n=40, d=5, n_classes=3)
    method = SDH(4, nu=0.05, ridge=0.1, iterations=2, tolerance=0.0, kernel="linear")
    mapping = method.fit(X, y)
    Z = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    C = Z.T @ Z / 40
    rho = 0.1 * C.diagonal().mean()
    Y = np.eye(3)[y]
    B = np.where(method.generator(FIRST).standard_normal((40, 4)) > 0, 1.0, -1.0)

    def regress(B):
        return np.linalg.solve(Z.T @ Z + 40 * rho * np.eye(5), Z.T @ B), B.mean(axis=0)

    P, offset = regress(B)
    for turn in range(2):
        W = np.linalg.solve(B.T @ B + np.eye(4), B.T @ Y)
        B = oracle.sdh_codes(B, W, Y @ W.T + 0.05 * (Z @ P + offset))
        P, offset = regress(B)
        expected = oracle.sdh_objective(Y, B, W, Z, P, offset, 1.0, 0.05, rho)
        assert method.history[turn] == pytest.approx(expected, rel=1e-5)
    assert mapping.weights == pytest.approx(P, abs=1e-4)
    assert mapping.offset == pytest.approx(offset - X.mean(axis=0) @ P, abs=1e-3)


def test_no_single_bit_helps():
    B, W = np.sign(rng.standard_normal((30, 6))), rng.standard_normal((6, 4))
    Q = rng.standard_normal((30, 6))
    before = B.copy()

    def misfit(B):
        return ((B @ W) ** 2).sum() - 2 * (B * Q).sum()

    _descend(B, W, Q)
    least = misfit(B)
    assert least < misfit(before)
    assert np.array_equal(B, oracle.sdh_codes(before, W, Q))
    for place in np.ndindex(B.shape):
        B[place] *= -1
        assert misfit(B) >= least - 1e-9
        B[place] *= -1


def test_regressions_are_the_closed_forms():
    B, Y = np.sign(rng.standard_normal((30, 6))), rng.standard_normal((30, 3))
    W = _classify(B, Y, 0.5)
    assert pytest.approx(W * 0.5, abs=1e-9) == B.T @ (Y - B @ W)  # the gradient is 0
    X, _ = clusters(n=100, d=7)
    features = Features(X, "linear", shrinkage=0.2, rng=rng)
    C = (X - X.mean(axis=0)).astype(np.float64)
    B = np.sign(rng.standard_normal((100, 6)))
    U, offset = _regress(features.Z, B)
    rho = 0.2 * (C**2).mean(axis=0).mean()
    P = np.linalg.solve(C.T @ C + 100 * rho * np.eye(7), C.T @ B)
    assert features.weights(U) == pytest.approx(P, abs=1e-4)
    assert offset == pytest.approx(B.mean(axis=0))


def test_a_class_has_one_code():
    """With the published nu, codes of examples of one class agree, up to bits that their class does not decide."""
    X, y = clusters(n=400, n_classes=4, spread=0.5)
    mapping = SDH(16).fit(X, y)
    bits = mihash.unpack(mapping.encode(X), 16)
    shares = np.array([bits[y == label].mean(axis=0) for label in range(4)])
    assert np.abs(shares - 0.5).mean() > 0.45
    assert len(np.unique(shares > 0.5, axis=0)) == 4


def test_all_examples_are_anchors_where_there_are_fewer():
    X, y = clusters(n=50)
    mapping = SDH(8, n_anchors=1000).fit(X, y)
    assert len(mapping.arrays()["anchors"]) == 50
    chosen = Features(X, "rbf", 20, rng=SDH(8).generator(ANCHORS)).mapping(np.ones((20, 1), dtype=np.float32))
    assert np.array_equal(chosen.arrays()["anchors"], SDH(8, n_anchors=20).fit(X, y).arrays()["anchors"])


def test_indicators():
    assert indicators(np.array([4, -1, 4])).tolist() == [[0, 1], [1, 0], [0, 1]]
    assert indicators(np.array([[1, 0], [1, 1]], dtype=np.uint8)).tolist() == [[1, 0], [1, 1]]


@pytest.mark.parametrize(
    ("name", "value"),
    [("lambda_", 0), ("nu", -1), ("ridge", 0), ("iterations", 0), ("tolerance", -1), ("width", "wide")],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        SDH(8, **{name: value})
