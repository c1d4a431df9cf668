"""An index that compares by inner products: vectors of different lengths, about a mean that is not zero."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.store.rescoring import distances_to

RNG = np.random.default_rng(0)
N, D, K = 5000, 32, 10


def made(n, seed):
    rng = np.random.default_rng(seed)
    centres = np.random.default_rng(9).standard_normal((30, D)) / np.arange(1, D + 1) ** 0.3
    return centres[rng.integers(0, 30, n)] + 0.6 * rng.standard_normal((n, D)) / np.arange(1, D + 1) ** 0.3


ITEMS = made(N, 0)
ITEMS = ITEMS / np.linalg.norm(ITEMS, axis=1, keepdims=True) * np.exp(0.4 * RNG.standard_normal((N, 1)))
X = (ITEMS + 2 * RNG.standard_normal(D) / np.sqrt(D)).astype(np.float32)
QUERIES = made(100, 1).astype(np.float32)
PRODUCTS = QUERIES.astype(np.float64) @ X.astype(np.float64).T
TRUE = np.argsort(-PRODUCTS, axis=1, kind="stable")[:, :K]


@pytest.fixture(scope="module")
def index(tmp_path_factory):
    with mihash.open(tmp_path_factory.mktemp("ip") / "index", n_bits=64, metric="ip") as found:
        found.add(X, metadata=[{"even": i % 2 == 0} for i in range(N)])
        found.wait()
        yield found


def recall(keys, true=TRUE):
    return np.mean([np.isin(own, found).mean() for own, found in zip(true, keys, strict=True)])


def test_the_largest_inner_products_come_first(index):
    hits = index.search(QUERIES, k=K)
    assert hits.measure == "ip"
    assert (np.diff(hits.distances, axis=1) >= 0).all()
    np.testing.assert_allclose(-hits.distances, np.take_along_axis(PRODUCTS, hits.keys, axis=1), rtol=1e-5)
    assert recall(hits.keys) >= 0.95
    assert index.stats().metric == "ip"
    np.testing.assert_array_equal(index.search(QUERIES, k=K, rescore=N).keys, TRUE)


def test_codes_of_another_metric_find_fewer(index, tmp_path):
    found = recall(index.search(QUERIES, k=K, rescore=0).keys)
    with mihash.open(tmp_path / "a", n_bits=64, metric="cosine") as other:
        other.add(X)
        other.wait()
        assert recall(other.search(QUERIES, k=K, rescore=0).keys) < found - 0.1


def test_without_vectors_and_by_a_filter(index):
    assert index.search(QUERIES, rescore=0).measure == "margin"
    assert recall(index.search(QUERIES, k=K, rescore=0).keys) > 0.5
    plain = index.search(QUERIES, k=N, rescore=0, margins=False)
    assert plain.measure == "hamming"
    codes = index.snapshot.encode(X)
    apart = mihash.hamming(index.snapshot.encode(QUERIES), codes)
    assert np.array_equal(np.take_along_axis(apart, plain.keys, axis=1), plain.distances)
    hits = index.search(QUERIES[:9], k=K, where={"even": True})
    true = np.argsort(-PRODUCTS[:9, ::2], axis=1, kind="stable")[:, :K] * 2
    assert recall(hits.keys, true) >= 0.95
    assert len(index.search(QUERIES[0], radius=5).keys) < N
    one = index.search(QUERIES[0], k=3)
    assert one.keys.tolist() == index.search(QUERIES[:1], k=3).keys[0].tolist()
    assert index.search(QUERIES[:0]).keys.shape == (0, 0)


def test_recall_is_measured_by_inner_products(index):
    measured = index.evaluate(K, n_queries=50)
    assert measured.rescored >= 0.9
    ids, queries = index._table.sample(20, 3)
    for own, query, (found, distances) in zip(ids, queries, index._table.exact(queries, ids, 5), strict=True):
        products = X.astype(np.float64) @ query.astype(np.float64)
        products[own] = -np.inf
        assert found.tolist() == np.argsort(-products, kind="stable")[:5].tolist()
        np.testing.assert_allclose(-distances, products[found], rtol=1e-5)


def test_answers_do_not_depend_on_how_many_queries_come_together(index, monkeypatch):
    expected = index.search(QUERIES, k=K)
    monkeypatch.setattr("mihash.store.nearest_codes._REACHED", 7 * N)
    again = index.search(QUERIES, k=K)
    np.testing.assert_array_equal(again.keys, expected.keys)
    np.testing.assert_array_equal(again.distances, expected.distances)


@pytest.mark.parametrize("learner", ["mihash", "lsh", mihash.mapping.LinearMapping(RNG.standard_normal((D, 40)))])
def test_other_learners_and_reopening(tmp_path, learner):
    with mihash.open(tmp_path / "a", learner=learner, metric="ip", dtype="float16") as index:
        index.add(X[:700])
        index.wait()
        found = index.search(QUERIES, k=3, rescore=700)
    assert recall(found.keys, np.argsort(-PRODUCTS[:, :700], axis=1)[:, :3]) > 0.98  # but for rounding
    with mihash.open(tmp_path / "a", read_only=True) as index:
        np.testing.assert_array_equal(index.search(QUERIES, k=3, rescore=700).keys, found.keys)
        index.verify()


def test_classes(tmp_path):
    y = RNG.integers(0, 3, size=600)
    with mihash.open(tmp_path / "a", metric="ip") as index:
        index.add(X[:600] + 3 * np.eye(3, D)[y], y)
        index.wait()
        assert index.search(QUERIES[:5]).measure == "ip"


def test_a_product_is_the_sum_in_a_fixed_order():
    query, vectors = RNG.standard_normal(13).astype("f4"), RNG.standard_normal((5, 13)).astype("f4")
    expected = [-sum(float(a) * float(b) for a, b in zip(query, row, strict=True)) for row in vectors]
    np.testing.assert_allclose(distances_to(query, vectors, "ip"), expected, rtol=1e-6)
    assert distances_to(query, np.zeros((1, 13), dtype="f4"), "ip").tolist() == [0.0]


def test_it_is_refused_on_ray(tmp_path):
    with pytest.raises(InvalidInput, match="on Ray cannot compare by inner products"):
        mihash.open(tmp_path / "a", metric="ip", cluster=mihash.Cluster(shards=2))
