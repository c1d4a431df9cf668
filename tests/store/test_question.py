import inspect
from contextlib import closing

import numpy as np
import pytest

from mihash.errors import InvalidInput
from mihash.index.online_index import OnlineIndex
from mihash.mapping import KernelMapping, LinearMapping
from mihash.store.change import Change
from mihash.store.filters import compile_filter
from mihash.store.question import Question
from mihash.store.sqlite.answers import Answers
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


def asked(answers, edition, question):
    nearest = answers.nearest(edition, question, with_keys=True)
    return None if nearest is None else question.hits(nearest)


def expected(plain, question, where=False):
    accepts = (lambda metadata: metadata["even"]) if where else (lambda _: True)
    return [
        plain.search(query, MAPPING, question.k, accepts, question.rescore or 0, question.radius, question.margins)
        for query in question.queries
    ]


@pytest.mark.parametrize("where", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"margins": False}, {"rescore": 8}, {"rescore": 8, "margins": False}, {"radius": 4}, {"radius": 0}],
)
@pytest.mark.parametrize("k", [1, 7, 100])
def test_an_answer_is_that_of_brute_force(table, where, options, k):
    plain, answers = filled(table)
    question = Question(Q, k, EVEN if where else None, **options)
    hits = asked(answers, table.edition, question)
    assert hits.version == table.edition.version
    assert_answers(hits, expected(plain, question, where), "rescore" in options)
    if "radius" not in options:
        assert hits.keys.shape == hits.distances.shape == (3, min(k, 10 if where else 20))
        measure = "euclidean" if "rescore" in options else "hamming" if "margins" in options else "margin"
        assert hits.measure == measure
        assert hits.distances.dtype == (np.int32 if measure == "hamming" else np.float32)


def test_no_item_matches(table):
    _, answers = filled(table)
    nothing = compile_filter({"even": "neither"})
    for options in ({}, {"rescore": 5}):
        hits = asked(answers, table.edition, Question(Q, 5, nothing, **options))
        assert hits.keys.shape == hits.distances.shape == (3, 0)
    hits = asked(answers, table.edition, Question(Q, 5, nothing, radius=10))
    assert [len(keys) for keys in hits.keys] == [0, 0, 0]


def test_the_answer_of_a_table_without_items():
    hits = Question(Q, 5).hits(Question(Q, 5).nothing())
    assert hits.keys.shape == hits.distances.shape == (3, 0)
    assert hits.version is None
    hits = Question(Q, 5, radius=3).hits(Question(Q, 5).nothing(2))
    assert [len(keys) for keys in hits.keys] == [len(each) for each in hits.distances] == [0, 0, 0]


def test_distances_of_no_queries_are_of_the_type_of_others(table):
    _, answers = filled(table)
    for options, kind in (({"rescore": 5}, np.float32), ({"margins": False}, np.int32)):
        hits = asked(answers, table.edition, Question(Q[:0], 5, **options))
        assert (hits.distances.shape, hits.distances.dtype) == ((0, 0), kind)


def test_one_query_vector_gives_answers_without_a_dimension_for_queries(table):
    filled(table)
    for options in ({"k": 4}, {"radius": 5}, {"k": 4, "rescore": 10}, {"k": 4, "where": {"even": True}}):
        one, many = table.search(Q[1], **options), table.search(Q, **options)
        assert one.keys.tolist() == many.keys[1].tolist()
        assert one.distances.tolist() == many.distances[1].tolist()
        assert (one.version, one.measure) == (many.version, many.measure)
    assert table.search(Q[1], where={"even": "neither"}).keys.shape == (0,)


def test_an_answer_names_the_measure_of_its_distances(table, tmp_path):
    filled(table)
    measures = [table.search(Q, rescore=rescore).measure for rescore in (None, 0, 5)]
    assert measures == ["euclidean", "margin", "euclidean"]
    for how in ({"rescore": 0, "margins": False}, {"radius": 3}):
        assert table.search(Q, **how).measure == "hamming"
    cosine = SQLiteTable.create(tmp_path / "cosine", metric="cosine")
    assert cosine.search(Q, rescore=5).measure == "cosine"
    cosine.close()


def test_a_radius_is_never_ranked_again(table):
    filled(table)
    for options in ({"rescore": 5}, {"margins": True}, {"recall": 0.9}):
        with pytest.raises(InvalidInput, match="With `radius` items are ranked by Hamming distance"):
            table.search(Q, radius=4, **options)
    with pytest.raises(InvalidInput, match="`margins` must be True, False or None"):
        table.search(Q, margins=1)
    with pytest.raises(InvalidInput, match="Give `recall` or `rescore`, not both"):
        table.search(Q, rescore=5, recall=0.9)
    for recall in (0, 1.5, "high"):
        with pytest.raises(InvalidInput, match="`recall` must be"):
            table.search(Q, recall=recall)


def test_a_mapping_without_hyperplanes_is_searched_by_hamming_distance(tmp_path):
    kernel = KernelMapping(X[:4], 0.5, rng.standard_normal((4, 8)))
    with closing(SQLiteTable.create(tmp_path / "kernel")) as table:
        table.rebuild(kernel)
        table.add(X)
        assert table.search(Q, rescore=0).measure == "hamming"
        with pytest.raises(InvalidInput, match="has no margins"):
            table.search(Q, margins=True)


def test_every_search_takes_the_options_of_a_question():
    stated = {option.name: option.default for option in Question.options()}
    assert all(
        option.description.endswith(".") and "\n" not in option.description for option in Question.options()
    )
    parameters = inspect.signature(OnlineIndex.search).parameters
    assert {name: parameters[name].default for name in stated} == stated
    for option in Question.options():
        if option.type == "integer":
            assert Question.of(Q, 5, **{option.name: option.minimum}) is not None
            with pytest.raises(InvalidInput, match=f"`{option.name}` must be"):
                Question.of(Q, 5, **{option.name: option.minimum - 1})


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
    assert_answers(asked(answers, held, Question(Q, 20)), before)
    table.delete("key 3")
    assert asked(answers, held, Question(Q, 20)) is None
    ids = [[number for _, number, _ in each] for each in before]
    nearest = answers.nearest(held, Question(Q, 20), with_keys=False)
    assert [ids.tolist() for ids, _ in nearest.found] == ids
    with table.database.write() as connection:
        fresh = table.compact(connection)
    table.compacted(fresh)
    assert answers.nearest(held, Question(Q, 20, rescore=20), with_keys=False) is None
    assert asked(answers, table.edition, Question(Q, 20, rescore=20)) is not None


def test_an_item_that_is_updated_meanwhile_is_not_lost_by_a_filter(table):
    _, answers = filled(table)
    held = table.edition  # a search has begun ...
    table.write(Change.update(["key 4"], X[30:31]))  # ... and another thread is faster
    hits = asked(answers, held, Question(Q, 20, EVEN))
    assert hits is None or "key 4" in hits.keys[0]


def test_a_deletion_meanwhile_is_seen_by_all_of_a_filtered_search_or_by_nothing(table):
    """A search that has seen the deletion of 'key 4' must not miss the addition before it."""
    _, answers = filled(table)
    held = table.edition
    table.add(X[30:31], keys=["before"], metadata=[{"even": True}])
    table.delete("key 4")
    hits = asked(answers, held, Question(Q, 30, EVEN))
    found = set() if hits is None else set(hits.keys[0].tolist())
    assert hits is None or "key 4" in found or "before" in found


def test_a_filter_is_remembered_and_follows_every_change(table):
    plain, _ = filled(table)
    for turn in range(12):
        if turn % 3 == 0:
            for each in (table, plain):
                each.delete([f"key {turn}"])
        elif turn % 3 == 1:
            fresh = [f"key {turn}"], X[20 + turn : 21 + turn], None, [{"even": True}]
            table.write(Change.update(*fresh))
            plain.update(*fresh)
        else:
            for each in (table, plain):
                each.add(X[turn : turn + 1], [f"new {turn}"], metadata=[{"even": turn % 2 == 0}])
        for _ in range(2):
            hits = table.search(Q, 30, where={"even": True}, rescore=0)
            assert_answers(hits, expected(plain, Question(Q, 30), where=True))
        if turn == 6:
            with table.database.write() as connection:
                fresh = table.compact(connection)
            table.compacted(fresh)
    assert len(table.answers._matches) <= 8


def test_two_filters_that_differ_in_a_value_only(table):
    filled(table)
    even, odd = (table.search(Q, 30, where={"even": value}).keys for value in (True, False))
    assert not set(even[0]) & set(odd[0])
    assert table.search(Q, 30, where={}).keys.shape == (3, 20)
