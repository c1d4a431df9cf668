"""Quantizers of any kind, compared by mutual information or recall on a sample."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mihash
from mihash.comparison import _BINS, _counts, recall_at
from mihash.errors import InvalidInput
from oracles_quantizers import binned_counts, recall

rng = np.random.default_rng(0)
X = rng.standard_normal((120, 6)).astype(np.float32)
y = (X[:, 0] > 0).astype(int)


def exact(rows):
    return np.linalg.norm(rows[:, None] - rows[None], axis=2)


def rounded(step):
    return mihash.Quantizer(lambda rows: np.linalg.norm(rows[:, None] - step * np.round(rows / step), axis=2))


@given(st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 40), st.integers(1, 6))
@settings(max_examples=60)
def test_recall_is_that_of_the_plain_loops(seed, n, k, n_values):
    draw = np.random.default_rng(seed)
    distances = draw.integers(0, n_values, (n, n)).astype(float)
    distances[draw.random((n, n)) < 0.2] = np.inf
    true = draw.random((n, n)) < 0.3
    assert recall_at(k, distances, true) == pytest.approx(recall(k, distances, true))


@given(st.integers(0, 10**6), st.integers(2, 40))
@settings(max_examples=30)
def test_counts_are_those_of_the_plain_loops(seed, n):
    draw = np.random.default_rng(seed)
    distances = draw.random((n, n)).astype(np.float32).round(draw.integers(1, 4))
    distances[draw.random((n, n)) < 0.2] = np.inf
    true = draw.random((n, n)) < 0.3
    assert np.array_equal(_counts(distances, true), binned_counts(distances, true, _BINS))


def test_exact_distances_find_everything():
    for quality in ("recall@1", "recall@10", "recall@1000"):
        decision = mihash.TriggerUpdate(0.01).decide(mihash.Quantizer(exact), rounded(1.0), X, quality=quality)
        assert decision.current == 1.0
    coarse = mihash.TriggerUpdate(0.01).decide(mihash.Quantizer(exact), rounded(1.0), X, quality="recall@10")
    assert coarse.update
    assert 0.3 < coarse.snapshot < 0.99
    assert coarse.reason == f"the gain of {coarse.gain:+.4f} in recall@10 is above theta = 0.01"


def test_information_is_that_of_the_distances_order():
    """Squared or not, shifted or not: only the order counts."""
    plain = mihash.TriggerUpdate().decide(mihash.Quantizer(exact), rounded(1.0), X, y)
    squared = mihash.TriggerUpdate().decide(mihash.Quantizer(lambda r: 3 + exact(r) ** 2), rounded(1.0), X, y)
    assert plain.current == pytest.approx(squared.current)
    assert plain.current > plain.snapshot > 0
    same = mihash.TriggerUpdate().decide(rounded(1.0), rounded(1.0), X, y)
    assert same.reason == "the mapping has not moved since the last update"


def test_codes_and_quantizers_are_compared():
    signs = lambda rows: rows > 0  # noqa: E731
    hashed = mihash.TriggerUpdate().decide(mihash.Quantizer(exact), signs, X, quality="recall@10")
    assert hashed.current == 1.0
    assert hashed.snapshot == pytest.approx(
        recall(10, mihash.hamming(mihash.pack(signs(X)), mihash.pack(signs(X))), _nearest(10)).mean()
    )
    by_label = mihash.TriggerUpdate().decide(lambda rows: rows[:, :1] > 0, signs, X, y, quality="recall@5")
    assert by_label.current == 1.0


def _nearest(k):
    distances = exact(X.astype(np.float64))
    np.fill_diagonal(distances, np.inf)
    true = np.zeros((len(X), len(X)), dtype=bool)
    np.put_along_axis(true, np.argsort(distances, axis=1)[:, :k], True, axis=1)
    return true


def test_a_price_in_recall():
    """A quantizer that misses half of the ten nearest of 120 queries has missed the worth of 60."""
    half = mihash.Quantizer(lambda rows: np.where(np.arange(len(rows)) % 2, exact(rows), np.inf))
    decision = mihash.PriceUpdate(40).decide(mihash.Quantizer(exact), half, X, quality="recall@10")
    assert decision.update
    assert 50 < (decision.current - decision.snapshot) * len(X) < 70


@pytest.mark.parametrize(
    ("quantizer", "quality", "told"),
    [
        (exact, "recall", "`quality` must be"),
        (exact, "recall@0", "`quality` must be"),
        (exact, "recall@-1", "`quality` must be"),
        (exact, 10, "`quality` must be"),
        (lambda rows: exact(rows)[:5], "recall@10", "the distances of 120 rows to each other"),
        (lambda rows: np.where(exact(rows) > 1, np.nan, 1.0), "recall@10", "got NaN"),
    ],
)
def test_refused(quantizer, quality, told):
    with pytest.raises(InvalidInput, match=told):
        mihash.TriggerUpdate().decide(mihash.Quantizer(quantizer), rounded(1.0), X, quality=quality)


@pytest.mark.needs("faiss")
def test_a_faiss_index_as_a_quantizer():
    """An inverted file finds nothing in lists that it does not probe; the index itself stays as it is."""
    import faiss

    from mihash.io.adapters.faiss_quantizers import faiss_quantizer

    index = faiss.index_factory(6, "IVF4,Flat")
    index.train(X)
    index.add(X[:7])
    found = faiss_quantizer(index).between(X)
    assert index.ntotal == 7
    _, lists = index.quantizer.search(X, 1)
    same = lists == lists.T
    assert np.array_equal(np.isfinite(found), same)
    assert found[same] == pytest.approx(exact(X)[same] ** 2, abs=1e-4)
    index.nprobe = 4
    assert np.isfinite(faiss_quantizer(index).between(X)).all()
    with pytest.raises(InvalidInput, match="trained"):
        faiss_quantizer(faiss.index_factory(6, "IVF4,Flat"))
