"""Recall under filters that few rows match, by chance or because of where their vectors lie."""

import numpy as np
import pytest

import mihash

RNG = np.random.default_rng(0)
N, D, K = 6000, 48, 10
CENTRES = RNG.standard_normal((40, D)) / np.arange(1, D + 1) ** 0.5
X = (CENTRES[RNG.integers(0, 40, N)] + 0.6 * RNG.standard_normal((N, D)) / np.arange(1, D + 1) ** 0.4).astype("f4")
QUERIES = X[:60] + 0.1 * RNG.standard_normal((60, D)).astype("f4")
DISTANCE = ((X - X[7]) ** 2).sum(axis=1)
ORDERS = {"random": RNG.permutation(N), "near": np.argsort(DISTANCE), "far": np.argsort(-DISTANCE)}


def rank_in(order):
    return np.argsort(order)


RANKS = {name: rank_in(order) for name, order in ORDERS.items()}


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    metadata = [{name: int(ranks[row]) for name, ranks in RANKS.items()} for row in range(N)]
    with mihash.open(tmp_path_factory.mktemp("filtered") / "index", n_bits=64) as found:
        found.add(X, metadata=metadata)
        found.wait()
        yield found


@pytest.mark.parametrize("kind", ORDERS)
@pytest.mark.parametrize("n", [600, 60, 6])
def test_recall_is_kept_where_few_rows_match(index, kind, n):
    """10 %, 1 % and 0.1 % of the rows match; where they are no more than the candidates, the answer is exact."""
    rows = np.sort(ORDERS[kind][:n])
    distances = np.linalg.norm(QUERIES[:, None] - X[rows], axis=2)
    true = rows[np.argsort(distances, axis=1, kind="stable")[:, :K]]
    for options in ({}, {"recall": 0.95}):
        keys = index.search(QUERIES, k=K, where={kind: {"<": n}}, **options).keys
        assert keys.shape == true.shape == (60, min(K, n))
        recall = np.mean([np.isin(own, found).mean() for own, found in zip(true, keys, strict=True)])
        assert recall >= (1.0 if n <= 100 else 0.95)
