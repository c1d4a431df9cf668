import numpy as np
import pytest
from codes_under_test import clustered, live, pairs, random_codes, sorted_answer
from hypothesis import given, settings
from hypothesis import strategies as st

from mihash.search import MultiIndex, as_columns, nearest, within
from mihash.search.multi_index import BUCKET_CODE, PROBE, occupancy, work

LENGTHS = [1, 15, 16, 17, 32, 48, 64, 70, 150]


def same(a, b):
    return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize("n_bits", LENGTHS)
@pytest.mark.parametrize("n", [0, 1, 64, 200, 3000])
def test_the_same_answer_as_sorting(n_bits, n):
    codes = clustered(n, n_bits, n_bits)
    queries = np.concatenate([codes[:5], clustered(5, n_bits, n_bits), random_codes(2, n_bits, 0)])
    columns, questions = as_columns(codes), as_columns(queries)
    index, expected = MultiIndex(columns, n_bits), sorted_answer(queries, codes)
    for k in (1, 10, 100, n + 5):
        ids, distances = index.nearest(questions, columns, k)
        assert ids.shape == distances.shape == (len(queries), min(k, n))
        assert (ids.dtype, distances.dtype) == (np.int64, np.int32)
        for row, found, all_of_them in zip(ids, distances, expected, strict=True):
            assert pairs(row, found) == all_of_them[:k]
    for radius in (0, 2, n_bits, 2**40):
        found = index.within(questions, columns, radius)
        for each, all_of_them in zip(found, expected, strict=True):
            assert pairs(*each) == [pair for pair in all_of_them if pair[0] <= radius]


@pytest.mark.parametrize("n_bits", [32, 64, 70])
def test_large_and_really_by_its_tables(n_bits):
    codes = as_columns(clustered(60_000, n_bits, 1, n_centres=2000, flip=0.03))
    queries = codes[::601]
    index = MultiIndex(codes, n_bits)
    for k in (1, 10):
        assert same(index.nearest(queries, codes, k), nearest(queries, codes, k))
    radii = np.full(len(queries), 2, dtype=np.int32)
    assert (
        work(queries, occupancy(codes, n_bits), radii, n_bits, len(codes)) < len(codes)
    ).all()  # so no scan stands in
    for a, b in zip(index.within(queries, codes, 2), within(queries, codes, 2), strict=True):
        assert same(a, b)


def test_ties_without_end():
    codes = np.zeros((200_000, 1), np.uint64)
    codes[::1000] = 1
    codes = np.asfortranarray(codes)
    index = MultiIndex(codes, 64)
    for k in (1, 150, 5000):
        for query in (np.array([[0]], np.uint64), np.array([[3]], np.uint64)):
            assert same(index.nearest(query, codes, k), nearest(query, codes, k))


@pytest.mark.parametrize("share", [0.0, 0.1, 0.9, 0.999, 1.0])
def test_filtered(share):
    codes = as_columns(clustered(20_000, 32, 5, n_centres=300))
    mask = np.random.default_rng(0).random(20_000) >= share
    index = MultiIndex(codes, 32)
    for k in (1, 20, 5000):
        assert same(index.nearest(codes[:20], codes, k, live(mask)), nearest(codes[:20], codes, k, live(mask)))
    found = zip(
        index.within(codes[:20], codes, 3, live(mask)), within(codes[:20], codes, 3, live(mask)), strict=True
    )
    assert all(same(a, b) for a, b in found)


@pytest.mark.parametrize("n_before", [0, 1, 64, 999, 10_000])
def test_codes_that_come_later_are_found(n_before):
    codes = as_columns(clustered(12_000, 64, 2, n_centres=50))
    index = MultiIndex(codes[:n_before], 64)
    mask = np.arange(12_000) % 5 > 0
    for bits in (None, live(mask)):
        assert same(index.nearest(codes[::500], codes, 30, bits), nearest(codes[::500], codes, 30, bits))
        found = zip(index.within(codes[::500], codes, 6, bits), within(codes[::500], codes, 6, bits), strict=True)
        assert all(same(a, b) for a, b in found)


def test_threads_change_nothing():
    codes = as_columns(clustered(20_000, 32, 5, n_centres=300))
    index = MultiIndex(codes, 32)
    assert same(index.nearest(codes[:200], codes, 10, None, 3), nearest(codes[:200], codes, 10))
    found = zip(index.within(codes[:50], codes, 3, None, 3), within(codes[:50], codes, 3), strict=True)
    assert all(same(a, b) for a, b in found)


@settings(max_examples=60)
@given(
    n_bits=st.integers(1, 80),
    n=st.integers(1, 300),
    flip=st.floats(0, 0.5),
    k=st.integers(1, 300),
    seed=st.integers(0, 2**32),
)
def test_any_codes(n_bits, n, flip, k, seed):
    codes = as_columns(clustered(n, n_bits, seed, 3, flip))
    index = MultiIndex(codes, n_bits)
    assert same(index.nearest(codes[:7], codes, k), nearest(codes[:7], codes, k))


def test_work_counts_the_buckets_that_a_search_opens():
    n_bits, radius = 40, 7
    codes = clustered(500, n_bits, 3, 4)
    bits = np.unpackbits(codes, axis=1, bitorder="little")[:, :n_bits]
    expected = []
    for query in bits[:6]:
        cost = 0
        for step in range(radius + 1):
            piece, ones = step % 3, step // 3
            part = slice(16 * piece, min(16 * piece + 16, n_bits))
            width = part.stop - part.start
            differing = (bits[:, part] != query[part]).sum(axis=1)
            n_buckets = [sum(value.bit_count() == ones for value in range(2**width))][0]
            cost += PROBE * n_buckets + BUCKET_CODE * int((differing == ones).sum())
        expected.append(cost)
    columns = as_columns(codes)
    counted = work(columns[:6], occupancy(columns, n_bits), np.full(6, radius, dtype=np.int32), n_bits, 2**40)
    assert counted.tolist() == expected
