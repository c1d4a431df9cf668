import numpy as np
import pytest

import mihash
import oracles
from mihash.codes import as_words
from mihash.search import nearest, within


@pytest.mark.parametrize("n_bits", [1, 8, 32, 64, 70, 200])
def test_nearest_is_exact_and_ordered(n_bits):
    rng = np.random.default_rng(n_bits)
    bits, queries = rng.random((150, n_bits)) > 0.5, rng.random((6, n_bits)) > 0.5
    for k in (1, 10, 150, 500):
        ids, distances = nearest(as_words(mihash.pack(queries)), as_words(mihash.pack(bits)), k)
        assert ids.shape == distances.shape == (6, min(k, 150))
        for query, row, found in zip(queries, ids, distances, strict=True):
            expected = oracles.nearest(np.where(query, 1, -1), np.where(bits, 1, -1), k)
            assert list(zip(found, row, strict=True)) == expected


def test_nothing_to_search():
    ids, distances = nearest(np.zeros((3, 1), np.uint64), np.zeros((0, 1), np.uint64), 5)
    assert ids.shape == distances.shape == (3, 0)


def random_codes(seed, n, n_bits, n_queries=4):
    rng = np.random.default_rng(seed)
    bits, queries = rng.random((n, n_bits)) > 0.5, rng.random((n_queries, n_bits)) > 0.5
    return rng, bits, queries, as_words(mihash.pack(bits)), as_words(mihash.pack(queries))


@pytest.mark.parametrize("n_bits", [1, 8, 64, 65, 200])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 1.0])
def test_dead_codes_are_passed_over(n_bits, share):
    rng, bits, queries, words, questions = random_codes(n_bits, 80, n_bits)
    dead = rng.random(80) < share
    alive = np.flatnonzero(~dead)
    for k in (1, 5, 79, 80, 200):
        ids, distances = nearest(questions, words, k, dead)
        assert ids.shape == distances.shape == (4, min(k, len(alive)))
        for query, row, found in zip(queries, ids, distances, strict=True):
            expected = oracles.nearest(np.where(query, 1, -1), np.where(bits[alive], 1, -1), k)
            assert list(zip(found, row, strict=True)) == [(distance, alive[i]) for distance, i in expected]


def test_a_dead_code_is_passed_over_at_the_largest_distance_too():
    words = as_words(mihash.pack(np.array([[True] * 64, [False] * 64, [True] * 64])))
    ids, distances = nearest(np.zeros((1, 1), np.uint64), words, 3, np.array([True, False, False]))
    assert (ids.tolist(), distances.tolist()) == ([[1, 2]], [[0, 64]])


@pytest.mark.parametrize("n_bits", [1, 8, 64, 65, 200])
@pytest.mark.parametrize("share", [None, 0.0, 0.5, 1.0])
def test_within_finds_all_up_to_the_radius_in_order(n_bits, share):
    rng, bits, queries, words, questions = random_codes(n_bits, 80, n_bits)
    dead = None if share is None else rng.random(80) < share
    alive = np.arange(80) if dead is None else np.flatnonzero(~dead)
    for radius in (0, 1, n_bits // 2, n_bits - 1, n_bits, 2**40):
        found = within(questions, words, radius, dead)
        assert len(found) == 4
        for query, (ids, distances) in zip(queries, found, strict=True):
            every = oracles.nearest(np.where(query, 1, -1), np.where(bits[alive], 1, -1), 80)
            expected = [(distance, alive[i]) for distance, i in every if distance <= radius]
            assert list(zip(distances, ids, strict=True)) == expected
            assert (ids.dtype, distances.dtype) == (np.int64, np.int32)


def test_within_nothing():
    ((ids, distances),) = within(np.zeros((1, 2), np.uint64), np.zeros((0, 2), np.uint64), 5)
    assert ids.shape == distances.shape == (0,)
    assert within(np.zeros((0, 1), np.uint64), np.zeros((3, 1), np.uint64), 5) == []


def test_searching_leaves_codes_and_mask_as_they_were():
    _, _, _, words, questions = random_codes(0, 30, 20)
    dead = np.arange(30) % 3 == 0
    before = words.copy(), questions.copy(), dead.copy()
    nearest(questions, words, 4, dead)
    within(questions, words, 9, dead)
    for array, copy in zip((words, questions, dead), before, strict=True):
        assert np.array_equal(array, copy)


def test_part_of_a_longer_array_is_searched_alone():
    rng = np.random.default_rng(3)
    longer = rng.integers(0, 2**60, (50, 2)).astype(np.uint64)
    words, dead = longer[:20], np.zeros(50, dtype=np.bool_)[:20]
    ids, _ = nearest(longer[:1], words, 100, dead)
    assert sorted(ids[0].tolist()) == list(range(20))


@pytest.mark.parametrize("n_words", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 7, 700])
def test_a_threshold_finds_what_sorting_finds(n_words, k):
    rng = np.random.default_rng(n_words * 1000 + k)
    n = 20_000
    words = rng.integers(0, 2**64, (n, n_words), dtype=np.uint64)
    words[rng.integers(0, n, n // 2)] = words[:1]  # ties without end
    words[-3000:] &= np.uint64(3)  # the nearest come last, so the threshold sinks to the end
    queries = np.concatenate([words[:2], words[-2:], rng.integers(0, 2**64, (15, n_words), dtype=np.uint64)])
    bits = mihash.hamming(queries.view(np.uint8), words.view(np.uint8))
    for dead in (None, rng.random(n) < 0.3, np.arange(n) < n - k - 5):
        ids, distances = nearest(queries, words, k, dead)
        live = bits if dead is None else np.where(dead, 10_000, bits)
        order = np.argsort(live, axis=1, kind="stable")[:, :k]
        assert np.array_equal(ids, order)
        assert np.array_equal(distances, np.take_along_axis(live, order, axis=1))
