"""Many rows are learned from while they are stored: the same bits, and nothing is lost where either fails."""

import threading

import numpy as np
import pytest

import mihash
from mihash import state as saved
from mihash.errors import DuplicateKey, StoreError
from mihash.index import bulk_learning

N = 2600
CASES = {
    "rotation": {"d": 70},
    "labelled": {"d": 20, "labelled": True, "n_bits": 16},
    "float16": {"d": 20, "n_bits": 16, "learner": "okh", "labelled": True, "dtype": "float16"},
    "keyed": {"d": 20, "n_bits": 16, "keyed": True},
}


def rows(d, labelled=False, **_):
    """Return rows of 12 clusters, which move after three quarters of the stream."""
    rng = np.random.default_rng(5)
    own = rng.integers(12, size=N)
    X = rng.standard_normal((12, d))[own] + 0.4 * rng.standard_normal((N, d))
    X[3 * N // 4 :] += 3
    return X.astype(np.float32), own % 5 if labelled else None


def filled(folder, case, size):
    """Return an index with the rows of a case, added so many in a call."""
    X, y = rows(**case)
    options = {name: value for name, value in case.items() if name not in ("d", "labelled", "keyed")}
    keys = [f"key {i}" for i in range(N)] if "keyed" in case else None
    index = mihash.open(folder, seed=3, **options)
    for start in range(0, N, size):
        part = slice(start, start + size)
        index.add(X[part], None if y is None else y[part], None if keys is None else keys[part])
    return index


def learned(index):
    """Return all that an index has learned, decided and stored, as one comparable value."""
    index.rehash()
    index.wait()
    with index._table.database.read() as connection:
        versions = connection.execute("SELECT number, fingerprint FROM version").fetchall()
    edition = index._table.edition
    checks = [(each.number, each.kind, each.seen, each.gain, each.reason) for each in index.history()]
    stored = edition.ids.tolist(), edition.columns.tobytes(), edition.factors.tobytes()
    vectors = index._table.fetch(edition.ids).tobytes()
    return saved.dump(index._durable.loop.state()), checks, versions, stored, vectors


def begun(monkeypatch):
    """Return a list that gets the number of rows of each thread that is started."""
    counts, run = [], bulk_learning.BulkLearning._run

    def counted(self, vectors, last):
        counts.append(len(vectors))
        run(self, vectors, last)

    monkeypatch.setattr(bulk_learning.BulkLearning, "_run", counted)
    return counts


@pytest.mark.parametrize("name", CASES)
def test_the_same_bits_as_one_after_the_other(tmp_path, monkeypatch, name):
    monkeypatch.setattr(bulk_learning, "_n_cores", lambda: 1)
    with filled(tmp_path / "after", CASES[name], N) as index:
        expected = learned(index)
    assert len(expected[1]) > 3
    monkeypatch.setattr(bulk_learning, "_n_cores", lambda: 2)
    monkeypatch.setattr(bulk_learning, "_PART_ROWS", 333)
    counts = begun(monkeypatch)
    for size in (N, 700):
        with filled(tmp_path / str(size), CASES[name], size) as index:
            assert learned(index) == expected
        with mihash.open(tmp_path / str(size)) as again:
            assert saved.dump(again._durable.loop.state()) == expected[0]
    assert counts == [N, 700, 700, 700]  # the last rows are few
    assert not [each for each in threading.enumerate() if each.name == "mihash-learn"]


def test_a_key_that_is_stored_costs_no_replay(tmp_path, monkeypatch):
    counts = begun(monkeypatch)
    X, _ = rows(20)
    with mihash.open(tmp_path, n_bits=16) as index:
        index.add(X[:900], keys=[f"a{i}" for i in range(900)])
        loop = index._durable.known
        with pytest.raises(DuplicateKey):
            index.add(X[900:1800], keys=["b", *(f"a{i}" for i in range(899))])
        assert (len(index), index.seen, counts) == (900, 900, [900])
        assert index._durable.known is loop


def test_a_full_disk_takes_back_what_was_learned(tmp_path):
    case = CASES["labelled"]
    with filled(tmp_path / "whole", case, 1300) as index:
        expected = learned(index)
    X, y = rows(**case)
    with mihash.open(tmp_path / "full", seed=3, n_bits=16) as index:
        index.add(X[:1300], y[:1300])
        writer = index._table.database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="disk is full"):
            index.add(X[1300:], y[1300:])
        assert len(index) == 1300
        writer.execute("PRAGMA max_page_count = 1000000")
        index.add(X[1300:], y[1300:])
        assert learned(index) == expected


def test_an_error_while_learning_reaches_the_caller_and_loses_nothing(tmp_path, monkeypatch):
    case = CASES["labelled"]
    with filled(tmp_path / "whole", case, 1300) as index:
        expected = learned(index)
    X, y = rows(**case)
    learn, calls = mihash.online.MomentHash.learn, []

    def failing(self, *arguments):
        calls.append(threading.current_thread().name)
        if len(calls) == 8:
            raise MemoryError("no room")
        learn(self, *arguments)

    with mihash.open(tmp_path / "broken", seed=3, n_bits=16) as index:
        monkeypatch.setattr(mihash.online.MomentHash, "learn", failing)
        with pytest.raises(MemoryError, match="no room"):
            index.add(X[:1300], y[:1300])
        assert calls[-1] == "mihash-learn"
        assert len(index) == 1300
        index.add(X[1300:], y[1300:])
        assert learned(index) == expected


def test_a_system_without_threads_learns_afterwards(tmp_path, monkeypatch):
    def refused(_):
        raise RuntimeError("can't start new thread")

    X, _ = rows(20)
    with mihash.open(tmp_path, n_bits=16) as index:
        index.add(X[:300])  # starts the thread of rehashes
        index.wait()
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refused)
            index.add(X[300:1000])
        assert (len(index), index.seen) == (1000, 1000)


@pytest.mark.parametrize("how", ["few", "later", "unlabelled", "new names", "replay"])
def test_rows_that_are_learned_from_after_they_are_stored(tmp_path, monkeypatch, how):
    counts = begun(monkeypatch)
    X, y = rows(20, labelled=True)
    options = {"learner": mihash.online.MomentHash(16, replay=2)} if how == "replay" else {"n_bits": 16}
    with mihash.open(tmp_path, **options) as index:
        index.add(X[:500], ["a", "b"] * 250 if how == "new names" else y[:500])
        if how == "few":
            index.add(X[500:1000], y[500:1000])
        elif how == "later":
            index.add(X[500:1200], y[500:1200], at_once=100)
        elif how == "unlabelled":
            index.add(X[500:1200])
        elif how == "new names":
            index.add(X[500:1200], ["b", "c"] * 350)
        else:
            index.add(X[500:1200], y[500:1200])
        assert counts == []
