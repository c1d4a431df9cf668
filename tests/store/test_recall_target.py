import threading
from dataclasses import replace

import numpy as np
import pytest

import mihash
from mihash.mapping import LinearMapping
from mihash.store.candidate_choice import Choice
from mihash.store.change import Change
from mihash.store.held_vectors import EVERY
from mihash.store.question import Question
from mihash.store.recall_target import _SEED
from mihash.store.sqlite.sqlite_table import SQLiteTable

rng = np.random.default_rng(0)
CENTRES = rng.standard_normal((40, 12))
FIRST, SECOND = (LinearMapping(rng.standard_normal((12, 24))) for _ in range(2))


def rows(n, seed=1):
    own = np.random.default_rng(seed)
    return (CENTRES[own.integers(0, 40, n)] + 0.3 * own.standard_normal((n, 12))).astype(np.float32)


@pytest.fixture
def table(tmp_path):
    made = SQLiteTable.create(tmp_path / "index")
    made.rebuild(FIRST)
    made.add(rows(6000))
    yield made
    made.close()


@pytest.fixture
def scans(table, monkeypatch):
    """Count how often all vectors are read."""
    counted, exact = [], table.exact

    def counting(*arguments):
        counted.append(arguments)
        return exact(*arguments)

    monkeypatch.setattr(table, "exact", counting)
    return counted


def recall_of(table, **options):
    X, Q = rows(6000), rows(200, seed=2)
    found = table.search(Q, **options).keys
    true = np.argsort(((Q[:, None] - X[None]) ** 2).sum(axis=2), axis=1)[:, : found.shape[1]]
    return np.mean([len(np.intersect1d(*pair)) for pair in zip(found, true, strict=True)]) / found.shape[1]


def test_a_search_looks_up_as_many_candidates_as_reach_the_target(table):
    chosen = [table.target.choice(10, recall) for recall in (0.5, 0.9, 0.97)]
    numbers = [each.rescore for each in chosen]
    assert numbers == sorted(set(numbers))
    assert all(each.recall >= recall for each, recall in zip(chosen, (0.5, 0.9, 0.97), strict=True))
    assert recall_of(table, recall=0.9) > 0.87
    assert recall_of(table) > recall_of(table, rescore=0) + 0.1
    assert table.target.known() == table.target.choice(10)


@pytest.fixture
def nothing_held(monkeypatch):
    """Let no table be so small that its vectors are held in memory."""
    monkeypatch.setattr("mihash.store.recall_target.MOST_NUMBERS", 0)


@pytest.mark.usefixtures("nothing_held")
@pytest.mark.parametrize("lengths_decide", [False, True])
def test_searches_find_what_was_measured(tmp_path, lengths_decide):
    own, X = np.random.default_rng(5), rows(6000)
    if lengths_decide:
        X = own.standard_normal((6000, 12)) * np.exp(2 * own.standard_normal((6000, 1)))
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(FIRST)
    table.add(X)
    choice = table.target.choice(10)
    ids, queries = table.sample(100, _SEED)
    asked = table.target.chosen(Question(queries))
    assert (asked.rescore, asked.n_ranked) == (choice.rescore, choice.n_ranked)
    # One more than is wanted: each query finds itself.
    true = [ids for ids, _ in table.exact(queries, ids, 10)]
    shares = []
    for most_tied in (0, asked.most_tied):
        more = replace(asked, k=11, rescore=choice.rescore + 1, most_tied=most_tied)
        found = table.nearest(more, with_keys=False).found
        both = zip(found, true, strict=True)
        shares.append(np.mean([len(np.intersect1d(one, other)) / 10 for (one, _), other in both]))
    assert shares[0] == pytest.approx(choice.recall)
    assert shares[1] >= shares[0]
    assert choice.recall >= 0.95
    assert (choice.n_ranked > 1000) == lengths_decide  # then more codes are ranked
    table.close()


def test_more_results_need_more_candidates(table):
    assert table.target.choice(40, 0.9).rescore > table.target.choice(10, 0.9).rescore
    assert table.target.choice(3, 0.9) == table.target.choice(10, 0.9)


@pytest.mark.usefixtures("nothing_held")
def test_a_small_table_reaches_the_target_and_a_large_one_keeps_the_limit(table, monkeypatch):
    reached = table.target.choice(10)
    assert 120 < reached.rescore <= 2000
    assert reached.recall >= 0.95
    monkeypatch.setattr("mihash.store.recall_target._CHEAP", 0)
    assert table.target.choice(20).rescore <= 200  # ten for each result, which is more than a fiftieth
    assert table.target.choice(10, 1.0).rescore <= 600


def test_what_was_measured_is_kept_for_a_version_and_its_vectors_are_read_once(table, scans):
    assert table.target.known() is None
    first = table.target.choice(10)
    assert table.target.choice(10) == first
    assert len(scans) == 1
    table.rebuild(SECOND)
    assert table.target.choice(10) != first  # measured again, with the neighbours that are known
    assert len(scans) == 1
    table.add(rows(1000, seed=3))
    table.target.choice(10)
    assert len(scans) == 1
    table.add(rows(500, seed=4))
    table.target.choice(10)
    assert len(scans) == 2
    table.delete(range(200))
    table.rebuild(FIRST)
    table.target.choice(10)
    assert len(scans) == 3


def test_rows_that_are_replaced_are_measured_again(tmp_path):
    near, far = rows(6000), np.random.default_rng(7).standard_normal((6000, 12)).astype(np.float32)
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(FIRST)
    table.add(near)
    first = table.target.choice(10)
    table.write(Change.upsert(far[:1000], range(1000)))
    assert table.target.choice(10) == first
    table.write(Change.upsert(far[1000:], range(1000, 6000)))
    again = table.target.choice(10)
    assert len(table) == 6000
    assert again.rescore > first.rescore  # these have no near neighbours
    table.close()


@pytest.mark.usefixtures("nothing_held")
def test_a_search_by_default_finds_as_many_as_one_that_names_its_candidates(tmp_path):
    own = np.random.default_rng(2)
    centres = own.standard_normal((4, 32))
    X, Q = (
        (centres[own.integers(0, 4, n)] + 0.3 * own.standard_normal((n, 32))).astype("f4") for n in (8000, 100)
    )
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(LinearMapping(own.standard_normal((32, 64))))
    table.add(X)
    true = np.argsort((X**2).sum(axis=1) - 2 * Q @ X.T, axis=1)[:, :10]

    def found(**options):
        return np.mean([np.isin(*pair).mean() for pair in zip(true, table.search(Q, **options).keys, strict=True)])

    choice = table.target.choice(10)
    assert choice.n_ranked >= choice.rescore > 1000
    assert found() == pytest.approx(found(rescore=choice.rescore), abs=0.02)
    assert found() == pytest.approx(choice.recall, abs=0.04)
    table.close()


def test_it_is_the_same_in_a_process_that_only_reads(table):
    reader = SQLiteTable(table.database.folder, read_only=True)
    assert reader.target.choice(10, 0.8) == table.target.choice(10, 0.8)
    reader.close()


def test_a_small_table_is_searched_by_its_vectors(tmp_path, scans):
    made = SQLiteTable.create(tmp_path / "small")
    assert made.target.choice(10) == Choice(100, None)
    made.rebuild(FIRST)
    made.add(rows(90))
    Q = rows(5, seed=2)
    true = np.argsort(((Q[:, None] - rows(90)[None]) ** 2).sum(axis=2), axis=1)[:, :10]
    assert made.search(Q).keys.tolist() == true.tolist()
    assert made.search(Q, k=200).keys.shape == (5, 90)
    assert made.target.known() is None
    assert scans == []
    made.close()


def test_few_items_match_a_filter(table):
    odd = rows(30, seed=9)
    table.add(odd, keys=[f"odd {i}" for i in range(30)], metadata=[{"odd": True}] * 30)
    Q = rows(4, seed=2)
    hits = table.search(Q, where={"odd": True})
    true = np.argsort(((Q[:, None] - odd[None]) ** 2).sum(axis=2), axis=1)[:, :10]
    assert hits.keys.tolist() == [[f"odd {i}" for i in each] for each in true]


def test_a_large_table_is_measured_in_the_background(table, monkeypatch):
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 0)
    first = table.target.choice(10)
    assert first == Choice(1000, None, 32_000)  # safe numbers, at once
    table.target.wait()
    found = table.target.choice(10)
    assert found.recall >= 0.95
    assert found == table.target.choice(10, wait=True) == table.target.known()
    table.rebuild(SECOND)
    between = table.target.choice(10)
    assert between.recall is None
    assert between.rescore >= max(1000, found.rescore)
    table.target.wait()
    assert table.target.choice(10).recall is not None
    table.target.stop()
    table.rebuild(FIRST)
    assert table.target.choice(10).recall is None
    table.target.wait()
    assert table.target.choice(10).recall is None  # a table that is closed measures nothing


def test_what_was_measured_is_stored(table, tmp_path):
    found, more = table.target.choice(10), table.target.choice(10, 0.9, margins=False)
    with table.database.write() as connection:
        table.target.store(connection)
        table.target.store(connection)
    table.close()
    for read_only in (False, True):
        again = SQLiteTable(tmp_path / "index", read_only=read_only)
        again.exact = None  # nothing may be measured
        assert again.target.known() == found
        assert again.target.choice(10) == found
        assert again.target.choice(10, 0.9, margins=False) == more
        again.close()


@pytest.mark.usefixtures("nothing_held")
def test_more_codes_are_not_ranked_where_that_finds_no_more(tmp_path):
    table = SQLiteTable.create(tmp_path / "index")
    table.rebuild(LinearMapping(rng.standard_normal((12, 2))))  # far too short to reach any target
    table.add(rows(6000))
    choice = table.target.choice(10)
    assert (choice.rescore, choice.n_ranked) == (2000, 2000)
    assert choice.recall < 0.95
    table.close()


def test_waiting_measures_also_where_something_else_is_measured(table, monkeypatch):
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 0)  # a large table
    assert table.target.settle(0)
    assert table.target.known() is None
    table.target.choice(80)  # measured in the background
    assert table.target.settle()
    assert table.target.known().recall is not None
    assert table.target.settle(0)


def test_a_filter_doubles_the_candidates(table):
    choice = table.target.choice(10)
    plain = table.target.chosen(Question.of(rows(1), 12, k=10))
    assert (plain.rescore, plain.n_ranked) == (choice.rescore, choice.n_ranked)
    filtered = table.target.chosen(Question.of(rows(1), 12, k=10, where={"kind": 3}))
    assert (filtered.rescore, filtered.n_ranked) == (2 * choice.rescore, choice.n_ranked and 2 * choice.n_ranked)
    named = table.target.chosen(Question.of(rows(1), 12, k=10, where={"kind": 3}, rescore=7))
    assert named.rescore == 7
    assert Choice(EVERY, 1.0).for_filters() == Choice(EVERY, 1.0)


def test_a_recall_of_the_default_or_more_reads_no_fewer_candidates(table):
    default = table.target.choice(10).rescore
    assert default >= 100
    for recall in (0.95, 0.97, 0.99):
        assert table.target.choice(10, recall).rescore >= default


def test_a_table_that_is_searched_exactly_stays_so_while_it_is_measured_again(tmp_path, monkeypatch):
    """Else every rehash and every alarm would let searches miss what codes do not find, for a while."""
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 1)  # all is measured in the background
    rng = np.random.default_rng(0)
    X = rng.standard_normal((20_000, 24)).astype(np.float32)
    X[:, 0] = np.sort(rng.uniform(0, 20_000, 20_000))
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        target = index._table.target
        assert target.known().rescore == EVERY
        measured, held_up = target._measured, threading.Event()
        monkeypatch.setattr(target, "_measured", lambda *about: (held_up.wait(60), measured(*about))[1])
        target.expire()
        assert target.choice(10).rescore == EVERY
        held_up.set()
        assert target.wait(60)
