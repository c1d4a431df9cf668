import numpy as np
import pytest
from codes_under_test import clustered, live, random_codes

import mihash
from mihash.errors import InvalidInput
from mihash.search import Searcher, as_columns, as_method, nearest, within

N, N_BITS = 300_000, 32
MANY = 1100  # queries, as many as are scanned before anything is counted


@pytest.fixture(scope="module")
def learned():
    return as_columns(clustered(N, N_BITS, 0, n_centres=5000, flip=0.03))


@pytest.fixture(scope="module")
def random():
    return as_columns(random_codes(N, N_BITS, 0))


def same(a, b):
    return all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


def test_tables_are_made_where_they_pay_and_once_they_are_worth_it(learned):
    searcher = Searcher(N_BITS)
    first = searcher.nearest(learned[:10], learned, 10)
    assert searcher.index is None  # too early to know that many will ask
    searcher.nearest(learned[:MANY], learned, 10)
    assert searcher.index is not None
    assert same(searcher.nearest(learned[:10], learned, 10), first)


def test_no_tables_for_random_codes():
    searcher = Searcher(64)
    long = as_columns(random_codes(300_000, 64, 0))
    found = searcher.nearest(long[:MANY], long, 10)
    assert searcher.index is None
    assert same(found, nearest(long[:MANY], long, 10))


def test_no_tables_for_many_neighbours_or_a_wide_radius(learned):
    searcher = Searcher(N_BITS)
    searcher.nearest(learned[:MANY], learned, 500)
    searcher.within(learned[:MANY], learned, 12)
    assert searcher.index is None
    searcher.within(learned[:MANY], learned, 1)
    assert searcher.index is not None


def test_a_filter_that_leaves_little_is_scanned(learned):
    searcher = Searcher(N_BITS)
    few = live(np.arange(N) % 1000 == 0)
    searcher.nearest(learned[:MANY], learned, 10, few)
    assert searcher.index is None


def test_by_request(learned, random):
    for codes in (learned[:1000], random):
        searcher = Searcher(N_BITS)
        assert same(searcher.nearest(codes[:3], codes, 5, None, "multi-index"), nearest(codes[:3], codes, 5))
        assert searcher.index is not None
        (found,) = searcher.within(codes[:1], codes, 3, None, "multi-index")
        assert same(found, within(codes[:1], codes, 3)[0])
        searcher = Searcher(N_BITS)
        searcher.nearest(codes[:MANY], codes, 10, None, "scan")
        assert searcher.index is None


@pytest.mark.parametrize("method", ["auto", "multi-index"])
def test_an_older_reader_does_not_see_what_the_tables_know(learned, method):
    searcher, before = Searcher(N_BITS), learned[: N - 20_000]
    searcher.nearest(learned[:MANY], learned, 1)
    searcher.within(learned[:MANY], learned, 1)
    assert searcher.index.n > len(before)
    query, mask = learned[-5:], np.arange(len(before)) % 3 > 0
    for bits in (None, live(mask)):
        assert same(searcher.nearest(query, before, 1, bits, method), nearest(query, before, 1, bits))
        found = zip(searcher.within(query, before, 1, bits, method), within(query, before, 1, bits), strict=True)
        assert all(same(a, b) for a, b in found)


def test_a_wide_radius_is_judged_without_collecting_it(learned, monkeypatch):
    collected = []

    def counted(queries, columns, *rest):
        collected.append(len(queries) * len(columns))
        return within(queries, columns, *rest)

    monkeypatch.setattr("mihash.search.scan.within", counted)
    searcher = Searcher(N_BITS)
    searcher._asked["within", 32] = MANY
    searcher.within(learned[:1], learned, 32)
    assert collected == [len(learned)]  # the one that was asked


def test_few_questions_of_a_new_kind_are_not_worth_a_judgement(learned):
    searcher = Searcher(N_BITS)
    searcher.nearest(learned[:MANY], learned, 1)
    for k in (2, 4, 8):
        searcher.nearest(learned[:1], learned, k)
    assert list(searcher._pays) == [("nearest", 1)]


def test_long_codes_are_scanned():
    codes = as_columns(random_codes(200, 300, 0))
    searcher = Searcher(300)
    assert same(searcher.nearest(codes[:3], codes, 5, None, "multi-index"), nearest(codes[:3], codes, 5))
    assert searcher.index is None


@pytest.mark.parametrize(("n_bits", "made"), [(128, True), (136, False)])
def test_tables_of_longer_codes_are_made_by_request_alone(monkeypatch, n_bits, made):
    monkeypatch.setattr("mihash.search.searcher._SMALL", 64)
    monkeypatch.setattr(Searcher, "_cheaper", lambda *_: True)
    codes, searcher = as_columns(random_codes(200, n_bits, 0)), Searcher(n_bits)
    searcher.nearest(np.tile(codes[:11], (100, 1)), codes, 1)
    assert (searcher.index is not None) == made
    searcher.nearest(codes[:1], codes, 1, None, "multi-index")
    assert searcher.index is not None


def test_the_tables_grow_with_the_codes(learned, monkeypatch):
    searcher = Searcher(N_BITS)
    half = learned[: N // 2]
    monkeypatch.setattr("mihash.search.searcher._SMALL", 1000)
    searcher.nearest(half[:MANY], half, 1)
    before = searcher.index
    assert same(searcher.nearest(learned[-5:], learned, 1), nearest(learned[-5:], learned, 1))
    assert searcher.index is before  # the rest is scanned until making them again is worth it
    searcher.nearest(learned[:MANY], learned, 1)
    assert searcher.index.n > before.n
    assert same(searcher.nearest(learned[-5:], learned, 1), nearest(learned[-5:], learned, 1))


def test_an_unknown_method_lists_the_known_ones():
    with pytest.raises(InvalidInput, match=r"'scan'.*'multi-index'"):
        as_method("graph")
    table = mihash.MemoryTable.from_codes(random_codes(5, 8, 0), 8)
    with pytest.raises(InvalidInput, match="method"):
        table.search_codes(random_codes(1, 8, 0), method="graph")
    with pytest.raises(InvalidInput, match="n_threads"):
        table.search_codes(random_codes(1, 8, 0), n_threads=0)
