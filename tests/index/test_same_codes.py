"""Many items with one code: an item is found by its own vector, however many older ones share its code."""

import numpy as np
import pytest

import mihash
from mihash.mapping import LinearMapping
from mihash.store import nearest_codes
from mihash.store.nearest_codes import Reached, by_margins
from mihash.store.question import Question
from mihash.store.recall_target import MOST_TIED
from mihash.store.sqlite.sqlite_table import SQLiteTable


def rows(n, seed=0):
    """Return rows on one side of every hyperplane of `ONE_CODE`: they share a code."""
    return np.random.default_rng(seed).uniform(1, 2, (n, 6)).astype(np.float32)


ONE_CODE = LinearMapping(np.eye(6, 8, dtype=np.float32) + 0.1)


def test_the_first_and_those_that_tie_with_the_last_by_plain_loops():
    rng = np.random.default_rng(1)
    for _ in range(200):
        n, most, tied = (int(each) for each in rng.integers(1, 30, 3))
        sums = rng.integers(0, 4, n).astype(np.float32)
        ids = rng.permutation(n)
        ordered = sorted(range(n), key=lambda i: (sums[i], ids[i]))
        expected = ordered[:most]
        if len(expected) == most:
            expected += [i for i in ordered[most:] if sums[i] == sums[expected[-1]]][: max(0, tied - most)]
        apart = np.ones(n, dtype=np.int64)
        ((found, distances),) = by_margins(Reached([(ids, apart)], [sums]), most, tied)
        assert found.tolist() == [ids[i] for i in expected]
        assert distances.tolist() == [sums[i] for i in expected]


def test_other_codes_that_equal_the_query_come_behind_by_plain_loops():
    rng = np.random.default_rng(2)
    for _ in range(200):
        n, most, tied = (int(each) for each in rng.integers(1, 30, 3))
        sums, ids, apart = rng.standard_normal(n).astype(np.float32), np.arange(n), rng.integers(0, 3, n)
        first = sorted(range(n), key=lambda i: sums[i])[:most]
        own = sorted((i for i in range(n) if apart[i] == 0 and i not in first), key=lambda i: sums[i])
        ((found, distances),) = by_margins(Reached([(ids, apart)], [sums]), most, tied)
        assert found.tolist() == first + own[: max(0, tied - len(first)) if len(first) == most else 0]
        assert np.array_equal(distances, sums[found])


def test_a_stored_vector_of_few_numbers_finds_its_item(tmp_path):
    """Codes of more bits than numbers: the two bytes may say that others are nearer than the item itself."""
    X = np.random.default_rng(0).standard_normal((20_000, 2)).astype(np.float32)
    with mihash.open(tmp_path / "index") as index:
        index.add(X)
        index.wait()
        hits = index.search(X[:2000], k=1)
        queries = np.random.default_rng(1).standard_normal((200, 2)).astype(np.float32)
        found = index.search(queries).keys
    assert (hits.distances == 0).all()  # without this, 3 % of them are not found
    apart = ((queries[:, None].astype(np.float64) - X) ** 2).sum(axis=2)
    true = np.argsort(apart, axis=1, kind="stable")[:, :10]
    assert np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, true, strict=True)]) > 0.95


@pytest.mark.parametrize("labels", [True, False])
def test_a_stored_vector_finds_its_item_among_many_with_the_same_code(tmp_path, labels):
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(ONE_CODE)
    X = rows(MOST_TIED - 100)
    table.add(X, labels=np.zeros(len(X), dtype=np.int64) if labels else None)
    assert len(np.unique(table.edition.codes(), axis=0)) == 1
    newest = X[-50:]
    found = table.search(newest, k=1)
    assert found.keys[:, 0].tolist() == list(range(len(X) - 50, len(X)))
    assert not found.distances.any()
    named = table.nearest(Question(newest, 1, rescore=100), with_keys=False)
    assert all(ids[0] < 100 for ids, _ in named.found)  # `rescore` is obeyed: the 100 oldest are looked up
    table.close()


def test_a_labelled_index_with_short_codes_finds_what_it_stores(tmp_path):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 4, 3000)
    X = (4 * rng.standard_normal((4, 16))[y] + rng.standard_normal((3000, 16))).astype(np.float32)
    with mihash.open(tmp_path / "index", learner=mihash.online.MomentHash(16)) as index:
        index.add(X, y)
        index.wait()
        codes = index._table.edition.codes()
        assert np.unique(codes, axis=0, return_counts=True)[1].max() > 100
        found = index.search(X[-200:], k=1)
        assert (found.distances[:, 0] < 1e-3).mean() > 0.97


@pytest.mark.parametrize("options", [{}, {"margins": False}, {"rescore": 0}, {"recall": 0.9}])
def test_many_queries_are_answered_in_parts_as_together(tmp_path, options, monkeypatch):
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(ONE_CODE)
    own = np.random.default_rng(2)
    table.add(own.standard_normal((3000, 6)).astype(np.float32), labels=np.arange(3000) % 5)
    Q = own.standard_normal((50, 6)).astype(np.float32)
    whole = table.search(Q, 7, **options)
    sizes, reached = [], nearest_codes.reached

    def noted(edition, question, *others):
        sizes.append(len(question.queries))
        return reached(edition, question, *others)

    monkeypatch.setattr(nearest_codes, "reached", noted)
    monkeypatch.setattr(nearest_codes, "_REACHED", 100_000)  # 25 queries that rank 4,000 codes each
    parts = table.search(Q, 7, **options)
    assert sum(sizes) == 50
    assert (len(sizes) > 1) == (options.get("margins") is not False and options.get("rescore") != 0)
    np.testing.assert_array_equal(whole.keys, parts.keys)
    np.testing.assert_array_equal(whole.distances, parts.distances)
    table.close()
