import math
from itertools import pairwise

import numpy as np
import pytest

from mihash.store.rescoring import distances_to, nearest_rows, rescored
from mihash.store.sqlite.database import Database
from mihash.store.sqlite.segments import Segment, Segments

rng = np.random.default_rng(0)


def distance(a, b, metric):
    a, b = [float(value) for value in a], [float(value) for value in b]
    if metric == "euclidean":
        return math.sqrt(sum((x - y) ** 2 for x, y in zip(a, b, strict=True)))
    lengths = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(x * x for x in b))
    return 1 - (sum(x * y for x, y in zip(a, b, strict=True)) / lengths if lengths else 0)


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("d", [1, 2, 17, 128])
@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_distances_are_those_of_plain_loops(metric, d, scale):
    X = (rng.standard_normal((20, d)) * scale).astype(np.float32)
    X[3] = 0
    for query in (*X[:4], np.zeros(d, np.float32)):
        found = distances_to(query, X, metric)
        assert found.dtype == np.float32
        assert np.isfinite(found).all()
        expected = [distance(query, row, metric) for row in X]
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-6 * (scale if metric == "euclidean" else 1))


def test_a_vector_of_zeros_has_no_direction():
    X, zero = np.eye(3, dtype=np.float32), np.zeros(3, dtype=np.float32)
    assert distances_to(zero, X, "cosine").tolist() == [1, 1, 1]
    assert distances_to(X[0], zero[None], "cosine").tolist() == [1]
    assert distances_to(zero, zero[None], "cosine").tolist() == [1]
    assert distances_to(zero, zero[None], "euclidean").tolist() == [0]


@pytest.mark.parametrize(
    "metric",
    [
        "euclidean",
        pytest.param("cosine"),
    ],
)
def test_equal_vectors_are_equally_far_wherever_they_stand(metric):
    for d in (3, 17, 128, 300):
        query = rng.standard_normal(d).astype(np.float32)
        for n in (1, 2, 3, 5, 8, 33):
            for vector in (query, 2 * query, rng.standard_normal(d).astype(np.float32)):
                assert len(set(distances_to(query, np.tile(vector, (n, 1)), metric).tolist())) == 1


def test_no_distance_is_negative():
    for d in (3, 8, 17, 128, 300):
        X = rng.standard_normal((50, d)).astype(np.float32)
        for query in X:
            assert distances_to(query, X, "cosine").min() >= 0


@pytest.fixture(params=["float32", "float16"])
def stored(request, tmp_path):
    database = Database.create(tmp_path / "index", {})
    segments = Segments(database, request.param)
    X = rng.standard_normal((50, 4)).astype(np.float32)
    X[10] = X[20] = X[5]
    X[30] = 0
    small = segments.cast(X)
    with database.write() as connection:
        for start in range(0, 50, 13):
            ids = np.arange(start, min(start + 13, 50))
            segments.append(connection, Segment(2 * ids, small[ids], None))
    yield segments, small.astype(np.float32)
    database.close()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("k", [1, 3, 50, 1000, None])
def test_candidates_are_ordered_by_distance_and_then_by_id(stored, metric, k):
    segments, X = stored
    queries = np.concatenate([X[[5, 7]], rng.standard_normal((3, 4)).astype(np.float32)])
    lists = [(2 * np.sort(rng.permutation(50)[:n]), np.zeros(n, np.int32)) for n in (50, 1, 0, 7, 20)]
    lists = [(rng.permutation(ids), distances) for ids, distances in lists]
    found = rescored(segments, queries, lists, k, metric)
    for query, (ids, _), (names, distances) in zip(queries, lists, found, strict=True):
        expected = sorted((np.float32(distance(query, X[i // 2], metric)), i) for i in ids.tolist())[:k]
        assert distances == pytest.approx([each for each, _ in expected], rel=1e-5, abs=1e-6)
        assert len(names) == len(expected)
        assert set(names.tolist()) <= set(ids.tolist())
        for (_, before), (_, after) in pairwise(expected):
            if np.array_equal(X[before // 2], X[after // 2]) and metric == "euclidean":
                assert names.tolist().index(before) + 1 == names.tolist().index(after)
        gaps = np.diff([each for each, _ in expected], prepend=-9, append=9) > 1e-5
        for place, (_, number) in enumerate(expected):
            if gaps[place] and gaps[place + 1]:
                assert names[place] == number


def test_a_candidate_that_is_gone_is_said(stored):
    segments, X = stored
    there, gone = np.array([0, 2]), np.array([0, 3])
    assert rescored(segments, X[:1], [(there, there)], 2, "euclidean") is not None
    assert rescored(segments, X[:1], [(gone, gone)], 2, "euclidean") is None


def test_nothing_to_rescore(stored):
    segments, X = stored
    nothing = np.empty(0, dtype=np.int64)
    ((ids, distances),) = rescored(segments, X[:1], [(nothing, nothing)], 5, "cosine")
    assert ids.shape == distances.shape == (0,)
    assert rescored(segments, X[:0], [], 5, "cosine") == []


@pytest.fixture
def rows_on_disk(tmp_path):
    database = Database.create(tmp_path / "index", {"dtype": "float32"})
    segments = Segments(database, "float32")
    X = (rng.standard_normal((300, 6)) * [1, 1, 1, 1, 1, 30]).astype(np.float32)
    X[7] = 0
    X[100:103] = X[50]  # ties
    with database.write() as connection:
        for start in range(0, 300, 40):
            part = np.arange(start, min(start + 40, 300))
            segments.append(connection, Segment(2 * part, X[part], None))
    yield segments, X
    database.close()


@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
@pytest.mark.parametrize("chunk", [1, 1000, 1 << 21])
def test_the_nearest_rows_are_those_of_brute_force(rows_on_disk, metric, chunk, monkeypatch):
    monkeypatch.setattr("mihash.store.rescoring._CHUNK_FLOATS", chunk)
    segments, X = rows_on_disk
    own, dead = np.array([100, 14, 3]), np.array([102, 20])
    queries = np.concatenate([X[[50, 7]], rng.standard_normal((1, 6)).astype(np.float32)])
    for k in (1, 5, 400):
        found = nearest_rows(segments, queries, own, k, dead, metric)
        for query, mine, (ids, distances) in zip(queries, own, found, strict=True):
            all_of = distances_to(query, X, metric)
            left = [i for i in range(300) if 2 * i not in (mine, *dead)]
            expected = sorted((float(all_of[i]), 2 * i) for i in left)[:k]
            assert list(zip(distances.tolist(), ids.tolist(), strict=True)) == expected


def test_many_queries_are_rescored_in_parts(rows_on_disk, monkeypatch):
    segments, X = rows_on_disk
    lists = [(2 * rng.permutation(300)[: 10 * i], None) for i in range(6)]
    whole = rescored(segments, X[:6], lists, 7, "euclidean")
    monkeypatch.setattr("mihash.store.rescoring._HELD_FLOATS", 6 * 25)
    for (ids, distances), (others, apart) in zip(
        whole, rescored(segments, X[:6], lists, 7, "euclidean"), strict=True
    ):
        assert ids.tolist() == others.tolist()
        assert distances.tolist() == apart.tolist()
    assert rescored(segments, X[:1], [(np.array([1]), None)], 7, "euclidean") is None
