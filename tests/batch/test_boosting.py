import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

import oracles_fasthash as oracle
from mihash.batch.boosting import LOSSES, boost
from mihash.batch.fasthash import _forest


def problem(n=60, d=4, seed=0):
    source = np.random.default_rng(seed)
    X = source.standard_normal((n, d)).astype(np.float32)
    X[:, 1] = source.integers(0, 3, n)
    return X, (X[:, 0] + X[:, 1] * X[:, 2] > 0.5) ^ (source.random(n) < 0.1)


def outputs(trees, X):
    return _forest([trees], X.shape[1]).project(X)[:, 0]


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("depth", [1, 3])
def test_trees_are_those_of_plain_loops(loss, depth):
    for seed in range(3):
        X, z = problem(seed=seed)
        options = {"n_trees": 3, "depth": depth, "rate": 0.3, "min_leaf": 4, "loss": loss}
        expected = oracle.boosted(X, z, **options)
        assert np.abs(outputs(boost(X, z, **options), X) - expected).max() < 1e-4


def test_logistic_trees_are_as_good_as_those_of_scikit_learn():
    X, z = problem(2000, 8)
    train, test = slice(0, 1000), slice(1000, None)
    model = HistGradientBoostingClassifier(max_iter=40, max_depth=4, max_leaf_nodes=None, early_stopping=False)
    theirs = model.fit(X[train], z[train]).score(X[test], z[test])
    trees = boost(X[train], z[train], n_trees=40, depth=4, rate=0.1, min_leaf=20)
    assert ((outputs(trees, X[test]) > 0) == z[test]).mean() > theirs - 0.02


def test_more_values_than_bins_and_a_constant_feature():
    X, z = problem(500, 3)
    X[:, 2] = 7.0
    z = X[:, 0] > 0.3
    trees = boost(X, z, n_trees=30, depth=2, rate=0.5, min_leaf=1)
    assert set(trees["feature"][trees["left"] != np.arange(len(trees["left"]))].tolist()) <= {0, 1}
    assert ((outputs(trees, X) > 0) == z).mean() > 0.98
