import numpy as np
import pytest

from mihash.mapping import LinearMapping
from mihash.store.filters import compile_filter
from mihash.store.question import Answers, Question
from mihash.store.sqlite.sqlite_table import SQLiteTable
from oracles_tables import PlainTable, assert_answers

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 5)).astype(np.float32)
Q = rng.standard_normal((3, 5)).astype(np.float32)
MAPPING = LinearMapping(rng.standard_normal((5, 10)))
EVEN = compile_filter({"even": True})


@pytest.fixture
def table(tmp_path):
    made = SQLiteTable.create(tmp_path / "index")
    made.rebuild(MAPPING)
    yield made
    made.close()


def filled(table, n=20):
    plain = PlainTable()
    keys, metadata = [f"key {i}" for i in range(n)], [{"even": i % 2 == 0} for i in range(n)]
    for each in (table, plain):
        each.add(X[:n], keys, metadata=metadata)
    return plain, Answers(table.database, table.segments, "euclidean")


def expected(plain, question, where=False):
    accepts = (lambda metadata: metadata["even"]) if where else (lambda _: True)
    return [
        plain.search(query, MAPPING, question.k, accepts, question.rescore, question.radius)
        for query in question.queries
    ]


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"rescore": 8}, {"radius": 4}, {"radius": 4, "rescore": 1}, {"radius": 0}]
)
@pytest.mark.parametrize("k", [1, 7, 100])
def test_an_answer_is_that_of_brute_force(table, where, options, k):
    plain, answers = filled(table)
    question = Question(Q, k, EVEN if where else None, **options)
    hits = answers.hits(table.edition, question, plain_keys=False)
    assert hits.version == table.edition.version
    assert_answers(hits, expected(plain, question, where), "rescore" in options)
    if "radius" not in options:
        assert hits.keys.shape == hits.distances.shape == (3, min(k, 10 if where else 20))
        assert hits.distances.dtype == (np.float32 if "rescore" in options else np.int32)


def test_no_item_matches(table):
    _, answers = filled(table)
    nothing = compile_filter({"even": "neither"})
    for options in ({}, {"rescore": 5}):
        hits = answers.hits(table.edition, Question(Q, 5, nothing, **options), plain_keys=False)
        assert hits.keys.shape == hits.distances.shape == (3, 0)
    hits = answers.hits(table.edition, Question(Q, 5, nothing, radius=10), plain_keys=False)
    assert [len(keys) for keys in hits.keys] == [0, 0, 0]


def test_the_answer_of_a_table_without_items():
    hits = Question(Q, 5).nothing(-1)
    assert hits.keys.shape == hits.distances.shape == (3, 0)
    assert hits.version == -1
    hits = Question(Q, 5, radius=3).nothing(2)
    assert [len(keys) for keys in hits.keys] == [len(each) for each in hits.distances] == [0, 0, 0]


def test_keys_that_are_all_numbers_come_as_numbers(table):
    table.add(X[:3], keys=[30, 10, 20])
    hits = table.search(X[:1], k=3)
    assert hits.keys.dtype == np.int64
    table.add(X[3:4], keys=["text"])
    hits = table.search(X[:1], k=4)
    assert hits.keys.dtype == object
    assert {type(key) for key in hits.keys[0]} == {int, str}


def test_a_held_edition_answers_as_it_was_or_not_at_all(table):
    plain, answers = filled(table)
    held, before = table.edition, expected(plain, Question(Q, 20))
    table.add(X[20:30], keys=range(20, 30))
    assert_answers(answers.hits(held, Question(Q, 20), plain_keys=False), before)
    table.delete("key 3")
    assert answers.hits(held, Question(Q, 20), plain_keys=False) is None
    ids = [[number for _, number, _ in each] for each in before]
    found = answers.nearest(held, Question(Q, 20))
    assert [ids.tolist() for ids, _ in found] == ids
    with table.database.write() as connection:
        fresh = table.compact(connection)
    table.compacted(fresh)
    assert answers.nearest(held, Question(Q, 20, rescore=20)) is None
    assert answers.hits(table.edition, Question(Q, 20, rescore=20), plain_keys=False) is not None


def test_an_item_that_is_updated_meanwhile_is_not_lost_by_a_filter(table):
    _, answers = filled(table)
    held = table.edition  # a search has begun ...
    table.update(["key 4"], X[30:31])  # ... and another thread is faster
    hits = answers.hits(held, Question(Q, 20, EVEN), plain_keys=False)
    assert hits is None or "key 4" in hits.keys[0]


def test_a_deletion_meanwhile_is_seen_by_all_of_a_filtered_search_or_by_nothing(table):
    """A search that has seen the deletion of 'key 4' must not miss the addition before it."""
    _, answers = filled(table)
    held = table.edition
    table.add(X[30:31], keys=["before"], metadata=[{"even": True}])
    table.delete("key 4")
    hits = answers.hits(held, Question(Q, 30, EVEN), plain_keys=False)
    found = set() if hits is None else set(hits.keys[0].tolist())
    assert hits is None or "key 4" in found or "before" in found


def test_a_filter_is_remembered_and_follows_every_change(table):
    plain, _ = filled(table)
    for turn in range(12):
        if turn % 3 == 0:
            for each in (table, plain):
                each.delete([f"key {turn}"])
        elif turn % 3 == 1:
            for each in (table, plain):
                each.update([f"key {turn}"], X[20 + turn : 21 + turn], metadata=[{"even": True}])
        else:
            for each in (table, plain):
                each.add(X[turn : turn + 1], [f"new {turn}"], metadata=[{"even": turn % 2 == 0}])
        for _ in range(2):
            hits = table.search(Q, 30, where={"even": True})
            assert_answers(hits, expected(plain, Question(Q, 30), where=True))
        if turn == 6:
            with table.database.write() as connection:
                fresh = table.compact(connection)
            table.compacted(fresh)
    assert len(table._answers._matches) <= 8


def test_two_filters_that_differ_in_a_value_only(table):
    filled(table)
    even, odd = (table.search(Q, 30, where={"even": value}).keys for value in (True, False))
    assert not set(even[0]) & set(odd[0])
    assert table.search(Q, 30, where={}).keys.shape == (3, 20)
