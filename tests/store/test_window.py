"""Windows: what is kept, what expires, and that nothing expired is ever found."""

import datetime
import json

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.store.expiry import Ages
from mihash.store.window import Window

rng = np.random.default_rng(2)
X = rng.standard_normal((400, 6)).astype(np.float32)
DAY = 86_400


@pytest.mark.parametrize("keep", [0, -1, 2.5, "30", "d", "30x", {}, {"a": "1d", "b": "2d"}, {"a": 3}, [1]])
def test_a_bad_window_is_refused(keep):
    with pytest.raises(InvalidInput):
        Window.of(keep)


@pytest.mark.parametrize("keep", [5, "90s", "1.5h", {"created": "2w"}])
def test_a_window_is_stored_and_read(keep):
    assert Window.of(json.loads(Window.of(keep).text)) == Window.of(keep)


def test_times_in_metadata():
    window = Window.of("1d")
    assert window.time_of('{"time": 12.5}') == 12.5
    assert window.time_of('{"time": "1970-01-02"}') == DAY
    assert window.time_of('{"time": "1970-01-02T01:00:00+01:00"}') == DAY
    for text in (None, "{}", '{"time": true}', '{"time": "yesterday"}', '{"time": null}'):
        assert np.isnan(window.time_of(text))


def test_ages_give_what_is_older_than_a_limit():
    times = rng.uniform(0, 100, 3000)
    ages = Ages(np.arange(500), times[:500])
    limit, gone = -1.0, set()
    for start in range(500, 3000, 100):
        ages.add(np.arange(start, start + 100), times[start : start + 100])
        limit += 1.5
        expected = {i for i in range(start + 100) if times[i] < limit} - gone
        assert set(ages.before(limit)) == expected
        ages.drop(limit)
        gone |= expected


@pytest.mark.parametrize("sizes", [[400], [90, 10, 250, 50], [1] * 30 + [370]])
def test_the_newest_are_kept_by_number(tmp_path, sizes):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16, keep=100) as index:
        at = 0
        for n in sizes:
            index.add(X[at : at + n])
            at += n
            assert index.keys() == list(range(max(0, at - 100), at))
        hits = index.search(X[:20], k=100)
        assert hits.keys.min() == 300
        index.verify()
    with mihash.open(tmp_path / "index") as index:
        assert index.keys() == list(range(300, 400))


def test_an_upsert_replaces_and_does_not_push_out(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16, keep=50) as index:
        index.add(X[:50])
        index.upsert(X[50:60], list(range(10)))
        assert sorted(index.keys()) == list(range(50))
        index.add(X[60:65])
        assert sorted(index.keys()) == [*range(10), *range(15, 50), *range(60, 65)]


def test_items_expire_by_the_time_in_their_metadata(tmp_path):
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    times = [{"created": (day + datetime.timedelta(days=i)).isoformat()} for i in range(100)]
    with mihash.open(tmp_path / "index", n_bits=16, keep={"created": "30d"}) as index:
        for start in range(0, 100, 20):
            index.add(X[start : start + 20], metadata=times[start : start + 20])
        assert index.keys() == list(range(69, 100))
        index.add(X[100:101], metadata=[times[3]], keys=["late"])
        assert "late" not in index
        index.update(99, metadata={"created": "2020-01-05"})
        assert 99 not in index
        index.update(69, metadata=times[98])
        index.add(X[101:102], metadata={"created": "2020-04-12"}, keys=["new"])
        assert index.keys() == [69, *range(72, 99), "new"]
        with pytest.raises(InvalidInput, match="must have a time in 'created'"):
            index.add(X[102:103])
        assert len(index) == 29


def test_a_date_in_the_future_makes_nothing_expire(tmp_path):
    today = datetime.datetime.now(datetime.UTC).isoformat()
    with mihash.open(tmp_path / "index", n_bits=16, keep="30d") as index:
        index.add(X[:10], metadata=[{"time": today}] * 10)
        index.add(X[10:11], metadata={"time": "2999-01-01"})
        assert len(index) == 11


def test_the_window_changes_and_goes(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        index.add(X[:200])
        assert index.set_window(150) == 50
        assert index.keys(limit=1) == [50]
        assert index.set_window(None) == 0
        index.add(X[200:300])
        assert len(index) == 250
    with pytest.raises(InvalidInput, match="has another window, keep=None:"):
        mihash.open(tmp_path / "index", keep=3)


def test_the_disk_does_not_grow(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.index.index_state._EXPIRED", 50)
    sizes = []
    with mihash.open(tmp_path / "index", n_bits=16, learner="lsh", keep=100, reservoir_size=50) as index:
        for _ in range(30):
            index.add(rng.standard_normal((100, 64)))
            index.wait()
            with index._table.database.read() as connection:  # without SQLite's log, which is cut at 64 MiB
                sizes.append(connection.execute("PRAGMA page_count").fetchone()[0])
        assert index.stats().deleted <= 150
        index.verify()
    assert max(sizes[10:]) - max(sizes[:10]) <= 8  # pages of 16 KiB: decisions; the rows alone would take 31


def test_learning_is_the_same_with_and_without_kills_and_purges(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.index.index_state._EXPIRED", 30)
    fingerprints = []
    for name, step in (("a", 37), ("b", 100)):
        index = mihash.open(tmp_path / name, n_bits=16, keep=120)
        for start in range(0, 400, step):
            index.add(X[start : start + step])
            if name == "a":
                index.close()
                index = mihash.open(tmp_path / name)
        fingerprints.append(index.current.fingerprint)
        assert index.keys() == list(range(280, 400))
        index.close()
    assert fingerprints[0] == fingerprints[1]
