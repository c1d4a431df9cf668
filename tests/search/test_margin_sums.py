import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mihash.search import as_columns, first_by, margin_sums, reach
from oracles_tables import margin_sum


def whole(code):
    return int.from_bytes(code.tobytes(), "little")


@pytest.mark.identity
@pytest.mark.parametrize("n_bits", [1, 8, 30, 32, 33, 64, 100, 192])
@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_sum_of_margins_is_that_of_plain_loops(n_bits, n_threads):
    rng = np.random.default_rng(n_bits)
    codes = np.packbits(rng.integers(0, 2, (50, n_bits)), axis=1, bitorder="little")
    queries = np.packbits(rng.integers(0, 2, (37, n_bits)), axis=1, bitorder="little")
    margins = rng.exponential(size=(37, n_bits)).astype(np.float32)
    rows = np.stack([rng.permutation(50)[:20] for _ in queries])
    found = margin_sums(as_columns(queries), as_columns(codes), rows, margins, n_threads)
    for q, query in enumerate(queries):
        expected = [margin_sum(margins[q], whole(query) ^ whole(codes[row])) for row in rows[q]]
        assert found[q].tolist() == expected


def test_no_candidates_and_no_queries():
    columns, margins = as_columns(np.zeros((3, 4), np.uint8)), np.ones((2, 32), np.float32)
    assert margin_sums(columns[:2], columns, np.empty((2, 0), np.int64), margins).shape == (2, 0)
    assert margin_sums(columns[:0], columns, np.empty((0, 3), np.int64), margins[:0]).shape == (0, 3)


@given(st.lists(st.integers(0, 4), max_size=40), st.integers(1, 45) | st.none())
def test_the_first_are_those_of_a_sort_by_distance_and_age(levels, most):
    distances = np.array(levels, dtype=np.float32)
    ids = np.random.default_rng(len(levels)).permutation(len(levels))
    expected = sorted(range(len(levels)), key=lambda place: (levels[place], ids[place]))[:most]
    assert first_by(distances, ids, most).tolist() == expected


def test_more_codes_are_ranked_where_more_are_wanted():
    assert reach(1) == reach(100) == 1000
    assert reach(500) == 5000
