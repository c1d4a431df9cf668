"""Which searches the event loop makes itself; all others are made by worker threads."""

import threading

import numpy as np
import pytest

import mihash
from mihash.service import inline_searches
from over_http import OPTIONS, Caller, rows

X, _ = rows(400)
PLAIN = {"vectors": X[:1].tolist(), "k": 5, "rescore": 0}


@pytest.fixture
def threads(monkeypatch):
    """The names of the threads that have searched an index."""
    seen, search = [], mihash.OnlineIndex.search

    def noted(self, *arguments, **options):
        seen.append(threading.current_thread().name.rpartition("-")[0])
        return search(self, *arguments, **options)

    monkeypatch.setattr(mihash.OnlineIndex, "search", noted)
    return seen


@pytest.fixture(scope="module")
def plain(running):
    """A service with 400 items whose keys are numbers, without labels."""
    with running() as service:
        call = Caller(service).ready()
        call.post("/v1/items", {"vectors": X.tolist()})
        settle(service.service.index)
        yield call


@pytest.fixture
def patient(monkeypatch):
    """Let every measured search count as short."""
    monkeypatch.setattr(inline_searches, "MOST_S", 1e9)


def settle(index):
    index.catch_up()
    index.wait()
    index.search(X[:1], rescore=0)  # what it measures, it has measured then


WORKER, LOOP = "mihash-read", "mihash"  # the second is the thread of `Running`


@pytest.mark.usefixtures("patient")
def test_a_short_search_is_made_by_the_event_loop(plain, threads):
    plain.running.service.inline_searches = inline_searches.InlineSearches()
    answers = [plain.post("/v1/search", PLAIN).body for _ in range(3)]
    assert threads == [WORKER, LOOP, LOOP]  # the first one is measured
    assert answers[0] == answers[1] == answers[2]
    assert answers[0]["results"][0]["keys"][0] == 0


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize(
    "options",
    [
        {"rescore": 10},
        {"rescore": None},
        {"where": {"row": 3}},
        {"metadata": True},
        {"radius": 3},
        {"k": inline_searches.MOST_K + 1},
        {"vectors": X[:2].tolist()},
    ],
)
def test_other_searches_are_not(plain, threads, options):
    for _ in range(2):
        assert plain.post("/v1/search", PLAIN | options).status == 200
    assert LOOP not in threads


@pytest.mark.usefixtures("patient")
def test_an_error_is_answered_as_by_a_worker(plain, threads):
    plain.post("/v1/search", PLAIN)
    for vectors, message in (([[1.0, 2.0]], "8 features"), ([[1e30] * 8], "length below")):
        threads.clear()
        answer = plain.post("/v1/search", PLAIN | {"vectors": vectors})
        assert (answer.status, answer.code) == (422, "invalid_input")
        assert message in answer.message
        assert threads == [LOOP]
    assert plain.post("/v1/search", PLAIN).status == 200


@pytest.mark.usefixtures("patient")
def test_not_while_a_change_is_made(plain, threads):
    plain.post("/v1/search", PLAIN)
    release = threading.Event()
    changing = plain.running.service.writes.submit(release.wait)
    plain.post("/v1/search", PLAIN)
    release.set()
    changing.result()
    plain.running.service.writes.submit(lambda: None).result()
    assert threads[-1] == WORKER


def test_not_where_it_takes_long(plain, threads, monkeypatch):
    monkeypatch.setattr(inline_searches, "MOST_S", 0.0)
    for _ in range(3):
        plain.post("/v1/search", PLAIN)
    assert threads == [WORKER] * 3


def test_more_requests_and_more_items_count(monkeypatch):
    short = inline_searches.InlineSearches()
    short.timed(lambda: sum(range(1000)), (3, 400), None)
    seconds = short._measured[None].seconds
    monkeypatch.setattr(inline_searches, "MOST_S", 3.5 * seconds)
    assert [short.are_short((3, 400), None, n_requests) for n_requests in (1, 3, 4)] == [True, True, False]
    assert [short.are_short((3, n_items), None, 1) for n_items in (0, 1200, 1600)] == [True, True, False]
    assert not short.are_short((3, 400), False, 1)  # Hamming distances were not measured
    assert not short.are_short((4, 400), None, 1)


def test_the_longest_of_the_last_searches_counts():
    short = inline_searches.InlineSearches()
    short.timed(lambda: None, (3, 400), None)
    short._measured[None] = short._measured[None]._replace(seconds=1e6)
    short.timed(lambda: None, (3, 400), None)
    assert short._measured[None].seconds == pytest.approx(0.8e6)
    short.timed(lambda: None, (4, 400), None)  # a new version
    assert short._measured[None].seconds < 1e5


def test_what_an_index_answers_from_memory(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index:
        assert index.codes_in_memory() is None
        index.add(X)
        index.wait()
        assert index.codes_in_memory(False) == (index.version, 400)
        assert index.codes_in_memory() is None  # whether the two bytes pay is measured by the first search
        index.search(X[:1], rescore=0)
        assert index.codes_in_memory() == (index.version, 400)
        index.add(X[:300])  # so it is measured again
        index.wait()
        assert index.codes_in_memory() is None
        index.search(X[:1], rescore=0)
        assert index.codes_in_memory() == (index.version, 700)
        with mihash.OnlineIndex.open(tmp_path / "index", read_only=True) as reader:
            assert reader.codes_in_memory(False) is None
        index.add(X[:100], at_once=1)
        assert index.behind
        assert index.codes_in_memory(False) is None
        index.catch_up()
        index.wait()
        index.add(X[:1], keys=["named"])
        index.wait()
        assert index.codes_in_memory(False) is None


def test_not_while_a_version_waits(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index:
        index.add(X)
        settle(index)
        building = index._builder.building
        with building:
            index.rehash()
            assert index.codes_in_memory(False) is None
        index.wait()
        assert index.codes_in_memory(False) is not None
        np.testing.assert_array_equal(index.search(X[:1], rescore=0).keys[:, 0], [0])
