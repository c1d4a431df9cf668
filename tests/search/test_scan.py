import numpy as np
import pytest

import mihash
import oracles
from mihash.codes import as_words
from mihash.search import nearest


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
