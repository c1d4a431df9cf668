import os
import signal
import time

import numpy as np
import pytest
from codes_under_test import clustered, live, pairs, random_codes, sorted_answer

import mihash
import oracles
from mihash.search import as_columns, nearest, within
from mihash.search.parallel import in_threads

LENGTHS = [1, 12, 32, 33, 64, 100, 150, 256, 1024]


@pytest.mark.parametrize("n_bits", [1, 8, 32, 64, 70, 200])
def test_nearest_is_what_the_plain_loop_finds(n_bits):
    rng = np.random.default_rng(n_bits)
    bits, queries = rng.random((150, n_bits)) > 0.5, rng.random((6, n_bits)) > 0.5
    for k in (1, 10, 150, 500):
        ids, distances = nearest(as_columns(mihash.pack(queries)), as_columns(mihash.pack(bits)), k)
        assert ids.shape == distances.shape == (6, min(k, 150))
        assert (ids.dtype, distances.dtype) == (np.int64, np.int32)
        for query, row, found in zip(queries, ids, distances, strict=True):
            assert pairs(row, found) == oracles.nearest(np.where(query, 1, -1), np.where(bits, 1, -1), k)


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 1000, 5000])
def test_every_length_and_every_number_of_codes(n_bits, n):
    codes, queries = clustered(n, n_bits, n_bits + n), random_codes(3, n_bits, 1)
    expected = sorted_answer(queries, codes)
    for k in (1, 10, n):
        ids, distances = nearest(as_columns(queries), as_columns(codes), k)
        for row, found, all_of_them in zip(ids, distances, expected, strict=True):
            assert pairs(row, found) == all_of_them[:k]


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("share", [0.0, 0.01, 0.5, 0.95, 0.999, 1.0])
def test_codes_that_are_filtered_out_are_passed_over(n_bits, share):
    codes, queries = clustered(3000, n_bits, n_bits), clustered(3, n_bits, 9)
    mask = np.random.default_rng(n_bits).random(3000) >= share
    expected = sorted_answer(queries, codes, mask)
    for k in (1, 7, 3000):
        ids, distances = nearest(as_columns(queries), as_columns(codes), k, live(mask))
        assert ids.shape == distances.shape == (3, min(k, mask.sum()))
        for row, found, all_of_them in zip(ids, distances, expected, strict=True):
            assert pairs(row, found) == all_of_them[:k]
    for radius in (0, n_bits // 8, n_bits // 2):
        found = within(as_columns(queries), as_columns(codes), radius, live(mask))
        for each, all_of_them in zip(found, expected, strict=True):
            assert pairs(*each) == [pair for pair in all_of_them if pair[0] <= radius]


@pytest.mark.parametrize("n_bits", LENGTHS)
def test_within_finds_all_up_to_the_radius_in_order(n_bits):
    codes, queries = clustered(700, n_bits, n_bits), clustered(20, n_bits, n_bits)
    expected = sorted_answer(queries, codes)
    for radius in (0, 1, n_bits // 2, n_bits - 1, n_bits, 2**40):
        found = within(as_columns(queries), as_columns(codes), radius)
        assert len(found) == 20
        for (ids, distances), all_of_them in zip(found, expected, strict=True):
            assert pairs(ids, distances) == [pair for pair in all_of_them if pair[0] <= radius]
            assert (ids.dtype, distances.dtype) == (np.int64, np.int32)


def test_a_code_at_the_largest_distance_is_found():
    columns = as_columns(mihash.pack(np.array([[True] * 64, [False] * 64, [True] * 64])))
    query = np.zeros((1, 1), np.uint64)
    ids, distances = nearest(query, columns, 3, live(np.array([False, True, True])))
    assert (ids.tolist(), distances.tolist()) == ([[1, 2]], [[0, 64]])


def test_nothing_to_search():
    ids, distances = nearest(np.zeros((3, 1), np.uint64), np.zeros((0, 1), np.uint64), 5)
    assert ids.shape == distances.shape == (3, 0)
    ids, distances = nearest(np.zeros((0, 1), np.uint64), np.zeros((9, 1), np.uint64), 5)
    assert ids.shape == distances.shape == (0, 5)
    ((ids, distances),) = within(np.zeros((1, 2), np.uint64), np.zeros((0, 2), np.uint64), 5)
    assert ids.shape == distances.shape == (0,)
    assert within(np.zeros((0, 1), np.uint64), np.zeros((3, 1), np.uint64), 5) == []


def test_searching_leaves_codes_and_bitmap_as_they_were():
    columns, queries = as_columns(random_codes(300, 20, 0)), as_columns(random_codes(4, 20, 1))
    bits = live(np.arange(300) % 3 > 0)
    before = columns.copy(), queries.copy(), bits.copy()
    nearest(queries, columns, 4, bits)
    within(queries, columns, 9, bits)
    for array, copy in zip((columns, queries, bits), before, strict=True):
        assert np.array_equal(array, copy)


def test_part_of_a_longer_array_is_searched_alone():
    longer = as_columns(random_codes(200, 128, 3))
    ids, _ = nearest(longer[:1], longer[:70], 100)
    assert sorted(ids[0].tolist()) == list(range(70))
    rows_first = np.ascontiguousarray(longer)  # laid out row by row: slower, and right
    assert np.array_equal(nearest(rows_first[:1], rows_first[:70], 100)[0], ids)


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
    for mask in (None, rng.random(n) >= 0.3, np.arange(n) >= n - k - 5):
        ids, distances = nearest(queries, words, k, live(mask))
        found = bits if mask is None else np.where(mask, bits, 10_000)
        order = np.argsort(found, axis=1, kind="stable")[:, :k]
        assert np.array_equal(ids, order)
        assert np.array_equal(distances, np.take_along_axis(found, order, axis=1))


@pytest.mark.parametrize("n_queries", [1, 5, 100])
@pytest.mark.parametrize("n_bits", [32, 64, 128])
def test_threads_change_nothing(n_queries, n_bits):
    codes, queries = as_columns(clustered(10_000, n_bits, 0)), as_columns(clustered(n_queries, n_bits, 0))
    for mask in (None, np.arange(10_000) % 7 > 0, np.arange(10_000) > 9_990):
        for k in (1, 10, 2000):
            one = nearest(queries, codes, k, live(mask))
            for n_threads in (2, 3, 8):
                several = nearest(queries, codes, k, live(mask), n_threads)
                assert all(np.array_equal(a, b) for a, b in zip(one, several, strict=True))
        one = within(queries, codes, n_bits // 8, live(mask))
        several = within(queries, codes, n_bits // 8, live(mask), 3)
        for a, b in zip(one, several, strict=True):
            assert np.array_equal(a, b)


def test_an_error_in_a_thread_is_not_lost():
    def fail(part):
        raise RuntimeError(f"part {part.start}")

    for n_threads in (1, 2):
        with pytest.raises(RuntimeError, match="part 0"):
            in_threads(fail, [slice(0, 1)], n_threads)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_threads_work_after_a_fork():
    codes = as_columns(clustered(10_000, 64, 0))
    expected = nearest(codes[:40], codes, 3, None, 2)
    child = os.fork()
    if child == 0:
        found = nearest(codes[:40], codes, 3, None, 2)
        os._exit(0 if np.array_equal(found[0], expected[0]) else 1)
    for _ in range(200):
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            break
        time.sleep(0.05)
    else:
        os.kill(child, signal.SIGKILL)
    assert done == child
    assert status == 0


def test_a_guess_that_is_too_low_is_made_good():
    """The codes that are sampled for the first threshold are the query itself; all others are far."""
    n, k = 40_000, 1500
    codes = np.random.default_rng(3).integers(0, 256, (n, 8), dtype=np.uint8)
    codes[:: n // 2048] = 0
    query = np.zeros((1, 8), dtype=np.uint8)
    n_zeros = len(codes[:: n // 2048])
    for wanted in (k, n_zeros + 200):
        ids, distances = nearest(as_columns(query), as_columns(codes), wanted)
        expected = np.unpackbits(codes, axis=1).sum(axis=1)
        order = np.lexsort((np.arange(n), expected))[:wanted]
        assert np.array_equal(ids[0], order)
        assert np.array_equal(distances[0], expected[order])
