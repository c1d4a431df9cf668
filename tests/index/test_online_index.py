import gc
import inspect
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from contextlib import suppress

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

import damage
import mihash
from mihash import online
from mihash.errors import (
    CorruptStore,
    DuplicateKey,
    InvalidInput,
    NotReady,
    StoreError,
    StoreLocked,
    UnknownField,
    UnknownName,
)
from mihash.index import durable_loop
from mihash.online import LEARNERS
from mihash.store.sqlite.database import Database


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "index"


def stream(n=1500, d=8, seed=0, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    centres = 3 * np.random.default_rng(99).standard_normal((classes, d))
    return (centres[y] + rng.standard_normal((n, d)) + 5).astype(np.float32), y


def brute_force(mapping, X, keys, queries, k):
    """The k nearest by (Hamming distance, age), from the vectors alone."""
    distances = mihash.hamming(mapping.encode(queries), mapping.encode(X))
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]
    return [[keys[j] for j in row] for row in order], np.take_along_axis(distances, order, axis=1)


def decisions(index):
    names = ("number", "kind", "seen", "accepted", "gain", "current", "snapshot", "reason")
    return [tuple(row[name] for name in names) for row in index.history()]


def test_no_hit_has_keys_of_the_type_of_the_others(folder):
    with mihash.OnlineIndex.create(folder, n_bits=8) as index:
        index.add(np.eye(3), keys=["a", "b", "c"], metadata=[{"n": 1}, {"n": 2}, {"n": 2}])
        assert [index.search(np.eye(3), where={"n": n}).keys.dtype for n in (1, 2, 3)] == [object] * 3


def test_a_life(folder):
    X, _ = stream()
    with mihash.OnlineIndex.create(folder, n_bits=24) as index:
        assert index.search(X[:3]).keys.shape == (3, 0)
        assert (index.version, index.n_features, len(index)) == (None, None, 0)
        with pytest.raises(NotReady, match="add vectors first"):
            _ = index.snapshot
        assert index.add(X[:500]) == list(range(500))
        index.add(X[500:])
        assert index.wait(60)
        hits = index.search(X[:5], k=7, rescore=0, margins=False)
        assert hits.version == index.version
        keys, distances = brute_force(index.snapshot, X, range(1500), X[:5], 7)
        assert hits.keys.tolist() == keys
        assert hits.distances.tolist() == distances.tolist()
        assert hits.keys.dtype == np.int64
        assert index.stats()["items"] == len(index) == 1500
        assert index.version >= 1  # the first mapping, and something learned
    assert repr(index) == "OnlineIndex(closed)"
    with pytest.raises(NotReady):
        index.search(X[:1])
    with pytest.raises(NotReady):
        index.add(X[:1])


@pytest.mark.identity
def test_what_is_learned_does_not_depend_on_chunks_or_reopening(folder, tmp_path, monkeypatch):
    X, y = stream()
    with mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0)) as whole:
        whole.add(X, y)
        expected, fingerprint = decisions(whole), whole.current.fingerprint
    assert sum(row[3] for row in expected) > 3
    monkeypatch.setattr(durable_loop, "CHECKPOINT_ROWS", 300)
    mihash.OnlineIndex.create(tmp_path / "b", n_bits=16, trigger=mihash.TriggerUpdate(0.0)).close()
    rng, start = np.random.default_rng(1), 0
    while start < len(X):
        with mihash.OnlineIndex.open(tmp_path / "b") as part:
            for _ in range(2):
                end = start + int(rng.integers(1, 200))
                part.add(X[start:end], y[start:end])
                start = end
                if start >= len(X):
                    break
    with mihash.OnlineIndex.open(tmp_path / "b") as part:
        assert decisions(part) == expected
        assert part.current.fingerprint == fingerprint
        part.wait()
        assert part.version == max(row[0] for row in expected if row[3])


def test_without_close_everything_acknowledged_is_there(folder, tmp_path):
    X, _ = stream()
    index = mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0))
    index.add(X[:700])
    index.rehash()
    index.add(X[700:1100])
    index.delete([3, 5])
    index._builder.stop()
    shutil.copytree(folder, tmp_path / "crashed")  # as a kill would leave it: a log, no checkpoint
    expected, fingerprint = decisions(index), index.current.fingerprint
    index.close()
    with mihash.OnlineIndex.open(tmp_path / "crashed") as again:
        assert len(again) == 1098
        assert np.array_equal(again.get(1099).vector, X[1099])
        assert again.current.fingerprint == fingerprint
        assert decisions(again) == expected
        again.wait()
        assert again.version == max(row[0] for row in expected if row[3])
        again.verify()


@pytest.mark.identity
def test_learning_in_pieces_is_learning(folder, tmp_path, monkeypatch):
    """Rows left for later are stored and found; in whatever pieces, and after a crash, it is one stream."""
    X, y = stream()
    with mihash.OnlineIndex.create(tmp_path / "whole", n_bits=16, trigger=mihash.TriggerUpdate(0.0)) as whole:
        whole.add(X[:1000], y[:1000])
        whole.add(X[1000:1050])  # without labels: not learned from
        whole.add(X[1050:], y[1050:])
        expected, fingerprint = decisions(whole), whole.current.fingerprint
    monkeypatch.setattr(durable_loop, "CHECKPOINT_ROWS", 250)
    with mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0)) as index:
        assert index.add(X[:1000], y[:1000], at_once=300) == list(range(1000))
        assert (len(index), index.seen, index.behind) == (1000, 300, 700)
        assert index.search(X[999:1000], k=1, rescore=1000).keys.tolist() == [[999]]
        index.add(X[1000:1050], at_once=10)
        index.add(X[1050:], y[1050:], at_once=1)
        assert (index.seen, index.behind) == (311, 1139)  # without the rows that are not learned from
        assert index.catch_up(0) == 1139
        index._builder.stop()
        shutil.copytree(folder, tmp_path / "crashed")
        assert index.catch_up(600) == 539
        shutil.copytree(folder, tmp_path / "later")
        assert index.catch_up(100) == 439
        assert index.seen == 1011
    for name in ("crashed", "later", "index"):
        with mihash.OnlineIndex.open(tmp_path / name) as again:
            assert again.current.fingerprint == fingerprint
            assert decisions(again) == expected
            assert again.behind == 0
            again.verify()


def test_compacting_learns_from_what_is_purged(folder):
    X, _ = stream(600)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X, at_once=100)
        index.delete(list(range(300, 600)))
        index.compact()
        assert (index.seen, index.behind) == (600, 0)
        with pytest.raises(InvalidInput, match="at_once"):
            index.add(X, at_once=0)


@pytest.mark.identity
def test_a_learner_that_was_interrupted_is_read_again(folder, monkeypatch):
    X, y = stream(1000)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:400], y[:400])
        learn = mihash.online.MomentHash.learn

        def interrupted(self, *arguments):
            learn(self, *arguments)
            raise KeyboardInterrupt

        monkeypatch.setattr(mihash.online.MomentHash, "learn", interrupted)
        with pytest.raises(KeyboardInterrupt):
            index.add(X[400:700], y[400:700])
        monkeypatch.undo()
        assert len(index) == 700
        index.add(X[700:], y[700:])
        fingerprint = index.current.fingerprint
    whole = mihash.OnlineIndex.create(folder.with_name("whole"), n_bits=16)
    whole.add(X, y)
    assert whole.current.fingerprint == fingerprint
    whole.close()


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_every_learner_works_in_an_index(folder, name):
    X, y = stream(600)
    y = y if LEARNERS[name].needs_labels else None
    with mihash.OnlineIndex.create(folder, n_bits=16, learner=name, trigger=mihash.TriggerUpdate(-1.0)) as index:
        index.add(X, y)
        index.wait()
        assert index.search(X[:20], k=1, rescore=50).keys.ravel().tolist() == list(range(20))
        fingerprint = index.current.fingerprint
    with mihash.OnlineIndex.open(folder) as index:
        assert index.current.fingerprint == fingerprint
        index.verify()


def test_labels(folder):
    X, y = stream(800)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:400], y[:400])
        before = index.current.fingerprint
        index.add(X[400:500])  # stored and found, not learned from
        assert index.current.fingerprint == before
        assert index.search(X[450:451], k=1, rescore=500).keys.tolist() == [[450]]
        assert (index.get(399).label, index.get(450).label) == (y[399], None)
        index.add(X[500:], y[500:])
        after = index.current.fingerprint
        assert after != before
    with mihash.OnlineIndex.open(folder) as index:
        assert index.current.fingerprint == after
        with pytest.raises(InvalidInput, match="integers"):
            index.add(X[:2], [[1, 0], [0, 1]])
        assert len(index) == 800
    with mihash.OnlineIndex.create(folder.with_name("none"), n_bits=16) as index:
        index.add(X[:300])
        with pytest.raises(InvalidInput, match="began without labels"):
            index.add(X[:2], y[:2])


def test_multi_labels(folder):
    X, y = stream(600)
    Y = np.eye(4, dtype=int)[y]
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:300], Y[:300])
        fingerprint = None
        index.add(X[300:], Y[300:])
        fingerprint = index.current.fingerprint
        assert index.get(5).label.tolist() == Y[5].tolist()
    with mihash.OnlineIndex.open(folder) as index:
        assert index.current.fingerprint == fingerprint


def test_nothing_is_stored_of_a_refused_call(folder):
    X, _ = stream(300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X, keys=[f"k{i}" for i in range(300)])
        fingerprint = index.current.fingerprint
        bad = X[:3].copy()
        bad[1, 2] = np.nan
        for error, arguments, named in (
            (InvalidInput, {"X": bad}, "row 1"),
            (InvalidInput, {"X": X[:3, :5]}, "8 features"),
            (DuplicateKey, {"X": X[:2], "keys": ["new", "k7"]}, "'k7'"),
            (DuplicateKey, {"X": X[:2], "keys": ["new", "new"]}, "'new'"),
            (InvalidInput, {"X": X[:2], "keys": ["new"]}, "2 keys"),
            (InvalidInput, {"X": X[:2], "keys": ["a", 1.5]}, "1.5"),
            (InvalidInput, {"X": X[:2], "metadata": [{"a": 1}]}, "2 dictionaries"),
            (InvalidInput, {"X": X[:1], "metadata": {"a": {1, 2}}}, "a"),
        ):
            with pytest.raises(error, match=named):
                index.add(**arguments)
        with pytest.raises(UnknownName, match="'nobody'"):
            index.delete(["k1", "nobody"])
        with pytest.raises(UnknownName, match="'nobody'"):
            index.update("nobody", X[:1])
        assert len(index) == 300
        assert index.current.fingerprint == fingerprint
        index.verify()


def test_keys(folder):
    X, _ = stream(300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:2], keys=[1, "1"])
        assert index.get(1).vector.tolist() == X[0].tolist()
        assert index.get("1").vector.tolist() == X[1].tolist()
        index.delete(1)
        with pytest.raises(UnknownName):
            index.get(1)
        index.add(X[2:3], keys=[1])
        assert index.get(1).vector.tolist() == X[2].tolist()
        hits = index.search(X[:3], k=5)
        assert hits.keys.shape == (3, 2)
        assert set(hits.keys.ravel()) == {1, "1"}


def test_update_and_metadata(folder):
    X, _ = stream(300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X, keys=[f"k{i}" for i in range(300)], metadata=[{"n": i} for i in range(300)])
        index.update("k3", -X[:1])
        assert index.get("k3").vector.tolist() == (-X[0]).tolist()
        assert index.get("k3").metadata == {"n": 3}
        index.update(["k4", "k5"], -X[1:3], metadata=[None, {"n": "five"}])
        assert (index.get("k4").metadata, index.get("k5").metadata) == (None, {"n": "five"})
        assert len(index) == 300
        assert index.search(-X[:1], k=1, rescore=300).keys.tolist() == [["k3"]]
        found = index.search(X[:2], k=300, where={"n": {"$lt": 10}}).keys
        assert sorted(found[0]) == sorted(f"k{i}" for i in (0, 1, 2, 3, 6, 7, 8, 9))
        with pytest.raises(InvalidInput, match="given twice"):
            index.update(["k1", "k1"], X[:2])
        index.verify()


def test_pause_rollback_and_resume(folder):
    X, y = stream(1200)
    with mihash.OnlineIndex.create(
        folder, n_bits=16, trigger=mihash.TriggerUpdate(-1.0)
    ) as index:  # every check accepts a version
        index.add(X[:600], y[:600])
        index.wait()
        old, mapping = index.version, index.snapshot
        index.pause()
        index.add(X[600:], y[600:])
        assert index.wait()
        assert index.version == old
        newest = max(row["number"] for row in index.history() if row["accepted"])
        index.resume()
        index.wait()
        assert index.version == newest > old
        index.rollback(old)
        assert index.version == old
        assert index.snapshot == mapping != index.current
        assert np.array_equal(  # more rows, the same mapping
            index.search(X[:9], k=1200, rescore=0, margins=False).distances,
            brute_force(mapping, X, range(1200), X[:9], 1200)[1],
        )
    with mihash.OnlineIndex.open(folder) as index:
        assert index.version == old
        assert index.stats()["paused"]
        index.rehash()
        index.wait()
        assert index.version == newest + 1
        assert not index.stats()["paused"]
        with pytest.raises(UnknownName, match="no version 999"):
            index.rollback(999)
        statuses = {row["number"]: row["status"] for row in index.history() if row["accepted"]}
        assert statuses[newest + 1] == "published"
        assert set(statuses.values()) <= {"published", "superseded"}


def test_readers_follow(folder):
    X, _ = stream(1500)
    writer = mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0))
    reader = mihash.OnlineIndex.open(folder, read_only=True)
    assert reader.search(X[:2]).keys.shape == (2, 0)
    for start in range(0, 1500, 250):
        writer.add(X[start : start + 250])
        writer.delete([start, start + 1])
        writer.wait()
        ours, theirs = reader.search(X[:10], k=9), writer.search(X[:10], k=9)
        assert ours.version == theirs.version
        assert np.array_equal(ours.keys, theirs.keys)
    writer.compact()
    assert np.array_equal(reader.search(X[:10], k=9).keys, writer.search(X[:10], k=9).keys)
    for forbidden in (lambda: reader.add(X[:1]), reader.rehash, reader.compact, lambda: reader.delete([9])):
        with pytest.raises(NotReady, match="read_only"):
            forbidden()
    assert len(reader.history()) == len(writer.history())
    assert reader.verify()["items"] == len(writer)
    reader.close()
    writer.close()


def test_one_writer(folder):
    with mihash.OnlineIndex.create(folder) as index:
        with pytest.raises(StoreLocked, match="read_only=True"):
            mihash.OnlineIndex.open(folder)
        with pytest.raises(StoreLocked):
            mihash.OnlineIndex.create(folder)
        assert len(index) == 0
    with pytest.raises(InvalidInput, match="holds an index already"):
        mihash.OnlineIndex.create(folder)
    with pytest.raises(StoreError, match="no index"):
        mihash.OnlineIndex.open(folder.with_name("nowhere"))


def test_compact_and_backup(folder, tmp_path):
    X, _ = stream(1200)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        for start in range(0, 1200, 100):
            index.add(X[start : start + 100])
        index.delete(list(range(0, 1200, 3)))
        index.wait()
        before = index.search(X[:20], k=10)
        fingerprint = index.current.fingerprint
        index.compact()
        after = index.search(X[:20], k=10)
        assert np.array_equal(before.keys, after.keys)
        assert index.stats()["deleted"] == 0
        index.verify()
        index.backup(tmp_path / "copy")
        with pytest.raises(InvalidInput, match="new or empty"):
            index.backup(tmp_path / "copy")
        index.add(X[:1], keys=["later"])
    for place, n in ((folder, 801), (tmp_path / "copy", 800)):
        with mihash.OnlineIndex.open(place) as index:
            assert len(index) == n
            index.verify()
            found = index.search(X[:20], k=4).keys.tolist()  # one more: "later" may be among them
            assert [[key for key in row if key != "later"][:3] for row in found] == before.keys[:, :3].tolist()
            if n == 800:
                assert index.current.fingerprint == fingerprint


def test_a_rehash_that_failed_does_not_happen_later(folder, monkeypatch):
    X, _ = stream(300)

    def fail(*_):
        raise sqlite3.OperationalError("disk I/O error")

    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        before = decisions(index)
        with monkeypatch.context() as patched:
            patched.setattr(durable_loop.DurableLoop, "_write", fail)
            with pytest.raises(StoreError, match="I/O error"):
                index.rehash()
        index.stats()  # writes decisions that are only in memory
        assert decisions(index) == before
        index.rehash()
        assert len(decisions(index)) == len(before) + 1


def test_a_full_disk_loses_nothing(folder):
    X, _ = stream(3000, d=64)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:500])
        index.wait()
        fingerprint = index.current.fingerprint
        writer = index._table.database._writer
        (pages,) = writer.execute("PRAGMA page_count").fetchone()
        writer.execute(f"PRAGMA max_page_count = {pages + 2}")
        with pytest.raises(StoreError, match="disk is full"):
            index.add(X[500:])
        assert len(index) == 500
        assert index.search(X[:3], k=2).keys.shape == (3, 2)
        writer.execute("PRAGMA max_page_count = 1000000")
        assert index.current.fingerprint == fingerprint
        index.add(X[500:])
        assert len(index) == 3000
        index.verify()


def test_a_build_that_fails_is_told_and_made_again(folder):
    X, y = stream(1000)
    with mihash.OnlineIndex.create(
        folder, n_bits=16, trigger=mihash.TriggerUpdate(-1.0)
    ) as index:  # every check accepts a version
        index.add(X[:500], y[:500])
        index.wait()
        old = index.version
        build, index._table.build = (
            index._table.build,
            lambda *_: (_ for _ in ()).throw(StoreError("the disk is full")),
        )
        index.rehash()
        with pytest.raises(StoreError, match="full"):
            index.wait()
        assert index.version == old
        index._table.build = build
        index.add(X[500:], y[500:])
        index.wait()
        assert index.version > old


def test_a_learner_that_diverges_stops_learning_and_keeps_the_rows(folder):
    X, y = stream(900)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with mihash.OnlineIndex.create(
            folder, learner=online.MIHash(8, learning_rate=1e38), normalize=False
        ) as index:
            index.add(1e13 * X, y)
            assert len(index) == 900
            error = index.stats()["learning_error"]
            assert "diverged" in error
    assert any("learning has stopped" in str(each.message) for each in caught)
    with mihash.OnlineIndex.open(folder) as index:
        index.add(X[:5], y[:5])
        assert index.stats()["learning_error"] == error
        assert len(index) == 905


def test_evaluate(folder):
    X, _ = stream(1000)
    with mihash.OnlineIndex.create(folder, n_bits=32) as index:
        with pytest.raises(NotReady):
            index.evaluate()
        index.add(X)
        index.wait()
        index.delete(list(range(100)))
        found = index.evaluate(k=5, n_queries=50, rescore=899)
        assert found.rescored == found.candidates == 1.0  # every item is a candidate
        assert 0 < found.recall < 1
        few = index.evaluate(k=5, n_queries=50, rescore=20)
        assert few.recall <= few.rescored <= few.candidates < 1 or few.rescored == few.candidates


def test_source_positions(folder):
    X, _ = stream(100)
    with mihash.OnlineIndex.create(folder) as index:
        assert index.position("a.npy") is None
        index.add(X[:50], source=("a.npy", 50))
        with pytest.raises(DuplicateKey):
            index.add(X[50:], keys=[*range(49, 99)], source=("a.npy", 100))
        assert index.position("a.npy") == 50
    with mihash.OnlineIndex.open(folder) as index:
        assert index.position("a.npy") == 50


def test_float16_is_what_is_learned_from(folder):
    X, _ = stream(700)
    small = X.astype(np.float16).astype(np.float32)
    with mihash.OnlineIndex.create(folder, n_bits=16, dtype="float16") as half:
        half.add(X)
        assert np.array_equal(half.get(7).vector, small[7])
        with mihash.OnlineIndex.create(folder.with_name("full"), n_bits=16) as full:
            full.add(small)
            assert full.current.fingerprint == half.current.fingerprint
        with pytest.raises(InvalidInput, match="float16"):
            half.add(1e6 * X[:1])


def test_options_are_checked(folder):
    for arguments in (
        {"learner": "nothing"},
        {"metric": "manhattan"},
        {"n_bits": 0},
        {"trigger": "high"},
        {"dtype": "int8"},
        {"trigger": 0.02},
        {"learner": 5},
        {"learner": online.MIHash(16), "n_bits": 8},
    ):
        with pytest.raises((InvalidInput, UnknownName)):
            mihash.OnlineIndex.create(folder, **arguments)
    assert not (folder / "index.db").exists()


def test_cosine(folder):
    rng = np.random.default_rng(0)
    X = (rng.standard_normal((800, 8)) + 1) * rng.uniform(0.1, 10, size=(800, 1))
    with mihash.OnlineIndex.create(folder, n_bits=16, metric="cosine") as index:
        index.add(X)
        index.wait()
        codes, scaled = index.snapshot.encode(X), index.snapshot.encode(X * rng.uniform(0.5, 2, size=(800, 1)))
        assert (codes != scaled).any(axis=1).mean() < 0.01  # rounding at most
        hits = index.search(X[:5] * 3, k=3, rescore=800)
        unit = X / np.linalg.norm(X, axis=1, keepdims=True)
        truth = 1 - unit[:5] @ unit.T
        assert np.allclose(hits.distances, np.sort(truth, axis=1)[:, :3], atol=1e-6)


def test_damaged_codes_are_made_again(folder):
    X, _ = stream(600)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        index.wait()
        expected = index.search(X[:10], k=5)
    connection = sqlite3.connect(folder / "index.db")
    connection.execute("UPDATE code SET codes = zeroblob(length(codes))")
    connection.commit()
    connection.close()
    with pytest.warns(RuntimeWarning, match="made again"):
        index = mihash.OnlineIndex.open(folder)
    assert np.array_equal(index.search(X[:10], k=5).keys, expected.keys)
    index.compact()
    index.verify()
    index.close()


def test_a_damaged_mapping_is_refused(folder):
    X, _ = stream(600)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        index.wait()
    connection = sqlite3.connect(folder / "index.db")
    connection.execute(
        "UPDATE version SET mapping = CAST(substr(mapping, 1, 200) || x'00' || substr(mapping, 202) AS BLOB)"
    )
    connection.commit()
    connection.close()
    with pytest.raises(CorruptStore):
        mihash.OnlineIndex.open(folder)


def test_searches_in_threads_while_everything_changes(folder):
    X, y = stream(3000)
    index = mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(-1.0))
    index.add(X[:600], y[:600], keys=[f"k{i}" for i in range(600)])
    problems, stop = [], threading.Event()

    def search():
        while not stop.is_set():
            try:
                hits = index.search(X[:3], k=4, rescore=8)
                if hits.keys.shape != (3, 4) or (np.diff(hits.distances, axis=1) < 0).any():
                    problems.append(hits)
            except Exception as error:
                problems.append(error)

    threads = [threading.Thread(target=search) for _ in range(3)]
    for thread in threads:
        thread.start()
    for start in range(600, 3000, 200):
        keys = [f"k{i}" for i in range(start, start + 200)]
        index.add(X[start : start + 200], y[start : start + 200], keys=keys)
        index.delete(keys[:50])
        index.update(keys[50:60], X[:10], y[:10])
    index.compact()
    index.wait()
    stop.set()
    for thread in threads:
        thread.join()
    assert problems == []
    assert index.stats()["updates"] > 5
    index.verify()
    index.close()


class Model(RuleBasedStateMachine):
    """An index behaves as a dictionary with brute-force search does, whatever is done to it in whatever order."""

    @initialize(folder=st.just(None), dtype=st.sampled_from(["float32", "float16"]))
    def begin(self, folder, dtype):
        self.rng = np.random.default_rng(0)
        self.folder = folder or __import__("pathlib").Path(__import__("tempfile").mkdtemp()) / "index"
        self.index = mihash.OnlineIndex.create(
            self.folder, n_bits=12, reservoir_size=40, dtype=dtype, trigger=mihash.TriggerUpdate(-1.0, 40)
        )
        self.dtype, self.items, self.fresh = dtype, {}, 0

    def vectors(self, n):
        return self.rng.standard_normal((n, 5)).astype(self.dtype).astype(np.float32)

    @rule(n=st.integers(1, 90), named=st.booleans(), at_once=st.none() | st.integers(1, 50))
    def add(self, n, named, at_once):
        X, colours = self.vectors(n), self.rng.integers(0, 3, n).tolist()
        names = [f"n{i}" if named else 10**6 + i for i in range(self.fresh, self.fresh + n)]
        self.fresh += n
        metadata = [{"colour": c} for c in colours]
        assert self.index.add(X, keys=names, metadata=metadata, at_once=at_once) == names
        self.items |= {name: (x, c) for name, x, c in zip(names, X, colours, strict=True)}

    @rule(share=st.floats(0, 1))
    def delete(self, share):
        names = list(self.items)[: int(share * len(self.items))][::2]
        assert self.index.delete(names) == len(names)
        for name in names:
            del self.items[name]

    @rule(n=st.integers(1, 5))
    def update(self, n):
        names = list(self.items)[:n]
        X = self.vectors(len(names)) if names else np.empty((0, 5))
        if names:
            self.index.update(names, X)
            for name, x in zip(names, X, strict=True):
                _, colour = self.items.pop(name)  # a new vector is the newest row
                self.items[name] = (x, colour)

    @rule(n=st.integers(1, 5), n_new=st.integers(0, 3), described=st.booleans())
    def upsert(self, n, n_new, described):
        names = [*list(self.items)[:n], *(f"n{i}" for i in range(self.fresh, self.fresh + n_new))]
        self.fresh += n_new
        X, metadata = self.vectors(len(names)), [{"colour": 1} for _ in names] if described else None
        if names:
            self.index.upsert(X, names, metadata=metadata)
        for name, x in zip(names, X, strict=True):
            _, colour = self.items.pop(name, (None, None))
            self.items[name] = (x, 1 if described else colour)

    @rule(n=st.integers(0, 5), colour=st.integers(0, 3))
    def describe(self, n, colour):
        names = list(self.items)[-n:]
        self.index.update(names, metadata=[{"colour": colour} for _ in names])
        self.items |= {name: (self.items[name][0], colour) for name in names}

    @rule(colour=st.integers(0, 3), half=st.booleans())
    def delete_by_filter(self, colour, half):
        chosen = [name for name, (_, c) in self.items.items() if c == colour]
        assert self.index.keys({"colour": colour}) == chosen
        if half and chosen:
            assert self.index.delete(where={"colour": colour}) == len(chosen)
            for name in chosen:
                del self.items[name]

    @rule(k=st.integers(1, 30), colour=st.integers(0, 3) | st.none(), rescored=st.booleans())
    def search(self, k, colour, rescored):
        queries = self.vectors(3)
        where = None if colour is None else {"colour": colour}
        self.index.wait()
        rescore = 10**6 if rescored else 0
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnknownField)  # no item may have a colour at the moment
            hits = self.index.search(queries, k, where=where, rescore=rescore, margins=False)
        chosen = {name: x for name, (x, c) in self.items.items() if colour is None or c == colour}
        if not chosen:
            assert hits.keys.shape == (3, 0)
            return
        X = np.stack(list(chosen.values()))
        if rescored:
            distances = np.sqrt(((queries[:, None].astype(float) - X[None]) ** 2).sum(axis=2)).astype(np.float32)
        else:
            mapping = self.index.snapshot
            distances = mihash.hamming(mapping.encode(queries), mapping.encode(X))
        order = np.argsort(distances, axis=1, kind="stable")[:, :k]
        names = list(chosen)
        assert hits.keys.tolist() == [[names[j] for j in row] for row in order]
        assert np.allclose(hits.distances, np.take_along_axis(distances, order, axis=1), atol=1e-6)

    @rule()
    def reopen(self):
        self.index.close()
        self.index = mihash.OnlineIndex.open(self.folder)

    @rule()
    def compact(self):
        self.index.compact()

    @rule()
    def rehash(self):
        if self.index.version is not None:
            self.index.rehash()
            self.index.wait()

    @invariant()
    def holds_what_the_dictionary_holds(self):
        if hasattr(self, "index"):
            assert len(self.index) == len(self.items)
            assert list(self.index) == list(self.items)
            for name in list(self.items)[:2]:
                assert np.array_equal(self.index.get(name).vector, self.items[name][0])

    def teardown(self):
        if hasattr(self, "index"):
            self.index.wait()
            self.index.verify()
            self.index.close()
            shutil.rmtree(self.folder.parent)


Model.TestCase.settings = settings(
    max_examples=12, stateful_step_count=20, suppress_health_check=list(HealthCheck)
)
TestModel = Model.TestCase


def test_copying_the_folder_does_not_let_a_second_writer_in(folder, tmp_path):
    X, _ = stream(300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        shutil.copytree(folder, tmp_path / "copy")  # closes descriptors of every file of the index
        program = f"import mihash; mihash.OnlineIndex.open({str(folder)!r})"
        second = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        assert "StoreLocked" in second.stderr
        index.add(X[:5], keys=list("abcde"))
    with mihash.OnlineIndex.open(folder) as index:
        assert index.verify()["items"] == 305


def test_somebody_who_wrote_against_the_lock_is_noticed(folder):
    X, _ = stream(300)
    index = mihash.OnlineIndex.create(folder, n_bits=16)
    index.add(X)
    connection = sqlite3.connect(folder / "index.db")
    connection.execute("INSERT INTO source VALUES ('a', 1, 1)")
    connection.commit()
    connection.close()
    with pytest.raises(StoreLocked, match="open it again"):
        index.add(X[:1])
    with pytest.warns(RuntimeWarning, match="rows are stored"):
        index.close()
    with mihash.OnlineIndex.open(folder) as index:
        index.add(X[:1])
        assert len(index) == 301


def test_a_relative_path_is_that_of_the_beginning(tmp_path, monkeypatch):
    X, _ = stream(20)
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        monkeypatch.chdir(tmp_path / name)
        with mihash.OnlineIndex.create("index", n_bits=16) as index:
            index.add(X, keys=[f"{name} {i}" for i in range(20)])
    monkeypatch.chdir(tmp_path / "one")
    index = mihash.OnlineIndex.open("index")
    monkeypatch.chdir(tmp_path / "two")
    found = []
    thread = threading.Thread(target=lambda: found.append(index.search(X[:1], k=20).keys[0]))
    thread.start()
    thread.join()
    assert all(key.startswith("one") for key in found[0])
    index.close()


def test_stats_from_another_thread_lose_no_decision_and_do_not_hang(folder):
    X, y = stream(3000)
    with mihash.OnlineIndex.create(
        folder, n_bits=8, reservoir_size=50, trigger=mihash.TriggerUpdate(0.0, 5)
    ) as index:
        stop = threading.Event()

        def look():
            while not stop.is_set():
                index.stats()

        thread = threading.Thread(target=look)
        thread.start()
        for start in range(0, 3000, 100):
            index.add(X[start : start + 100], y[start : start + 100])
            index.rehash()
        stop.set()
        thread.join(60)
        assert not thread.is_alive()
        numbers = [row["number"] for row in index.history()]
        assert numbers == list(range(len(numbers)))
        assert sum(row["kind"] == "trigger" for row in index.history()) == 600
        accepted = {row["number"] for row in index.history() if row["accepted"]}
        assert {row["number"] for row in index.history() if row["status"]} == accepted


def test_waiting_for_a_closed_index_ends(folder):
    X, _ = stream(300)
    index = mihash.OnlineIndex.create(folder, n_bits=16)
    index.add(X)
    index.rehash()
    index.close()
    assert index.wait(30)
    index.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_is_told_to_open_it_again(folder):
    X, _ = stream(300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        index.wait()
        child = os.fork()
        if not child:
            refused = 0
            for call in (lambda: index.add(X[:1]), lambda: index.search(X[:1])):
                try:
                    call()
                except NotReady:
                    refused += 1
            os._exit(0 if refused == 2 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        index.add(X[:1], keys=["later"])


def test_an_index_that_is_dropped_frees_its_lock(folder):
    X, _ = stream(300)
    index = mihash.OnlineIndex.create(folder, n_bits=16)
    index.add(X)
    index.wait()
    del index
    for _ in range(50):  # the thread that builds looks once a second
        gc.collect()
        with suppress(StoreLocked):
            mihash.OnlineIndex.open(folder).close()
            return
        time.sleep(0.1)
    pytest.fail("the lock was not freed")


def test_a_full_disk_after_the_rows_were_stored_is_a_warning(folder, monkeypatch):
    X, y = stream(600)
    with mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0)) as index:
        index.add(X[:300], y[:300])
        flush = durable_loop.DurableLoop.flush

        def full(_):
            raise StoreError("The disk is full.")

        monkeypatch.setattr(durable_loop.DurableLoop, "flush", full)
        with pytest.warns(RuntimeWarning, match="rows are stored"):
            index.add(X[300:], y[300:])
        monkeypatch.setattr(durable_loop.DurableLoop, "flush", flush)
        assert len(index) == 600
        fingerprint = index.current.fingerprint
        index.wait()
    with mihash.OnlineIndex.create(
        folder.with_name("whole"), n_bits=16, trigger=mihash.TriggerUpdate(0.0)
    ) as whole:
        whole.add(X, y)
        assert whole.current.fingerprint == fingerprint


def test_a_damaged_checkpoint_is_passed_over(folder):
    X, y = stream(900)
    for part in range(3):
        with (
            mihash.OnlineIndex.create(folder, n_bits=16) if not part else mihash.OnlineIndex.open(folder) as index
        ):
            index.add(X[300 * part : 300 * part + 300], y[300 * part : 300 * part + 300])
            fingerprint = index.current.fingerprint
    connection = sqlite3.connect(folder / "index.db")
    connection.execute("UPDATE checkpoint SET state = zeroblob(9) WHERE through = 899")
    connection.commit()
    connection.close()
    with mihash.OnlineIndex.open(folder) as index:
        with pytest.raises(CorruptStore, match="checkpoint at row 899"):
            index.verify()
        with pytest.warns(RuntimeWarning, match="skipped"):
            assert index.current.fingerprint == fingerprint


def test_a_damaged_checkpoint_is_passed_over_after_rows_were_purged(folder):
    X, y = stream(900)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:600], y[:600])
        index.delete(range(0, 600, 2))
        index.compact()  # a replay from the first row is no longer possible
        index.add(X[600:], y[600:])
        fingerprint = index.current.fingerprint
    connection = sqlite3.connect(folder / "index.db")
    connection.execute("UPDATE checkpoint SET state = zeroblob(9) WHERE through = 899")
    connection.commit()
    connection.close()
    with mihash.OnlineIndex.open(folder) as index, pytest.warns(RuntimeWarning, match="row 899 is skipped"):
        assert index.current.fingerprint == fingerprint


def crashed(index, target):
    """Copy an index as a kill would leave it, and return the copy, opened."""
    index.wait()
    shutil.copytree(index.folder, target)
    return mihash.OnlineIndex.open(target)


@pytest.mark.parametrize("n_requests", [1, 2])
def test_requests_on_both_sides_of_a_checkpoint_are_replayed_once(folder, tmp_path, n_requests):
    X, y = stream()
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:650], y[:650])
        index.rehash()
    with mihash.OnlineIndex.open(folder) as index:
        for _ in range(n_requests):
            index.rehash()
        with crashed(index, tmp_path / "crashed") as again:
            assert decisions(again) == decisions(index)
            for each in (index, again):
                each.add(X[650:], y[650:])
            assert decisions(again) == decisions(index)
            assert again.current.fingerprint == index.current.fingerprint
        kinds = [row["kind"] for row in index.history()]
        assert kinds.count("request") == 1 + n_requests
        assert kinds[-1] == "trigger"


def test_replayed_rows_count_towards_the_next_checkpoint(folder, tmp_path, monkeypatch):
    X, y = stream(400)
    monkeypatch.setattr(durable_loop, "CHECKPOINT_ROWS", 300)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X[:250], y[:250])
        with crashed(index, tmp_path / "crashed") as again:
            again.add(X[250:299], y[250:299])
            assert again.verify()["checkpoints"] == 0
            again.add(X[299:300], y[299:300])
            assert again.verify()["checkpoints"] == 1


def test_running_numbers_pass_over_keys_that_are_taken(folder):
    X, _ = stream(20)
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(np.empty((0, 3)))  # says nothing about the width
        index.add(X[:2], keys=[1, "a"])
        assert index.add(X[2:5]) == [2, 3, 4]
        index.add(X[5:6], keys=[100])
        assert index.add(X[6:7]) == [101]
        index.verify()
        assert index.search(X[6:7], k=1, rescore=20).keys.tolist() == [[101]]
        index.add(X[7:9], keys=[2**63 - 1, 2**62])  # from there on keys do not move the numbers
        assert index.add(X[9:12]) == [104, 105, 106]
        index.verify()


def test_the_ways_to_search_agree_and_are_chosen_anew_for_each_version(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.search.searcher._SMALL", 64)
    monkeypatch.setattr("mihash.search.searcher.NEIGHBOR", 0)
    rng = np.random.default_rng(0)
    centres = rng.standard_normal((30, 8))
    X = (centres[rng.integers(0, 30, 8_000)] + 0.05 * rng.standard_normal((8_000, 8))).astype(np.float32)
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=32, learner="lsh") as index:
        index.add(X, metadata=[{"even": i % 2 == 0} for i in range(len(X))])
        index.delete(list(range(0, 8_000, 7)))
        index.wait()
        for options in ({}, {"where": {"even": True}}, {"radius": 1}, {"where": {"even": True}, "radius": 1}):
            scanned = index.search(X[:20], method="scan", **options)
            for how in ({"method": "multi-index"}, {"n_threads": 2}, {"method": "multi-index", "n_threads": 2}):
                hits = index.search(X[:20], **options, **how)
                for ours, theirs in zip(
                    (*hits.keys, *hits.distances), (*scanned.keys, *scanned.distances), strict=True
                ):
                    assert np.array_equal(ours, theirs)
        before = index._table.edition.searcher
        index.search(X[:1100], k=1, rescore=0, margins=False)
        assert before.index is not None
        index.rehash()
        index.wait()
        after = index._table.edition.searcher
        assert after is not before
        assert after.index is None
        index.compact()
        assert np.array_equal(
            index.search(X[:20], method="multi-index").keys, index.search(X[:20], method="scan").keys
        )
        with pytest.raises(InvalidInput, match="method"):
            index.search(X[:1], method="graph")


def test_which_keys_are_stored(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=8, learner="lsh") as index:
        assert index.contains([]).tolist() == index.contains(["a"]).tolist()[:0]
        index.add(np.eye(3, dtype=np.float32), keys=["a", "b", 7])
        index.delete("b")
        assert index.contains(["a", "b", 7, "7", "c"]).tolist() == [True, False, True, False, False]
        assert index.contains("a").tolist() == [True]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_compacting_without_room_says_what_was_done_and_writes_go_on(folder, monkeypatch):
    import resource

    X = np.random.default_rng(0).standard_normal((2000, 32)).astype(np.float32)
    vacuum = Database.vacuum

    def without_room(database):
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
        try:
            vacuum(database)
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))

    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        index.add(X)
        index.delete(list(range(1500)))
        with monkeypatch.context() as limited:
            limited.setattr(Database, "vacuum", without_room)
            with pytest.raises(StoreError, match="rows are removed, but the file is not smaller") as caught:
                index.compact()
        assert "nothing was changed" not in str(caught.value)
        assert index.stats()["deleted"] == 0
        before = index.stats()["bytes_on_disk"]
        index.add(X[:5])
        index.compact()
        assert index.stats()["bytes_on_disk"] < before
        assert index.verify()["rows"] == 505


def test_mappings_are_dropped_and_made_again_where_no_checkpoint_can_be_read(folder, monkeypatch):
    monkeypatch.setattr(durable_loop, "CHECKPOINT_ROWS", 200)
    X = np.random.default_rng(0).standard_normal((1400, 6)).astype(np.float32)
    options = {"n_bits": 16, "reservoir_size": 50, "trigger": mihash.TriggerUpdate(-1.0, 20)}
    with mihash.OnlineIndex.create(folder, **options) as index:
        for start in range(0, 1400, 100):
            index.add(X[start : start + 100])
            index.wait()
        before, last = index.history(), index.version
        fingerprint = index.current.fingerprint
        index.rollback(last - 1)
        with pytest.raises(UnknownName, match="The mapping of version 0 was dropped"):
            index.rollback(0)
        index.resume()
    kept = [blob for blob in damage.values(folder, "version", "mapping") if blob]
    assert len(kept) < len(before) / 2
    for state in damage.values(folder, "checkpoint", "state"):
        damage.replace(folder, "checkpoint", "state", state, b"damaged")
    with mihash.OnlineIndex.open(folder) as index:
        with pytest.warns(RuntimeWarning, match="skipped"):
            index.catch_up()
        assert index.current.fingerprint == fingerprint
        assert [row["number"] for row in index.history()] == [row["number"] for row in before]
        index.add(X[:100])
        assert len(index) == 1500


def test_labels_that_are_strings_are_given_back_and_learned_from_as_classes(folder):
    X, y = stream(600)
    names = np.array(["ape", "bee", "cat", "dog"])
    with mihash.open(folder, n_bits=16) as named, mihash.open(folder.with_name("numbers"), n_bits=16) as numbered:
        order = list(dict.fromkeys(y.tolist()))
        numbered.add(X, [order.index(each) for each in y])
        named.add(X[:100], names[y[:100]])
        named.add(X[100:], names[y[100:]].tolist())
        assert named.current.fingerprint == numbered.current.fingerprint
        assert named.get(5).label == names[y[5]]
        with pytest.raises(InvalidInput, match="must be strings"):
            named.add(X[:3], y[:3])
        with pytest.raises(InvalidInput, match="must be integers"):
            numbered.add(X[:3], names[y[:3]])
        with pytest.raises(InvalidInput, match="X"):
            named.add(X[:3] * np.nan, ["emu"] * 3)
        assert len(named) == 600
    with mihash.open(folder) as named:
        assert named.get(5).label == names[y[5]]
        named.add(X[:2], ["dog", "emu"], keys=["a", "b"])
        assert (named.get("a").label, named.get("b").label, named.get(5).label) == ("dog", "emu", names[y[5]])
    with mihash.open(folder, read_only=True) as reader:
        assert reader.get("b").label == "emu"


def test_one_vector_is_one_row(folder):
    X, _ = stream(300)
    with mihash.open(folder, n_bits=16) as index:
        assert index.add(X[0], y=1, keys="a", metadata={"n": 1}) == ["a"]
        assert index.add(X[1:3], y=[1, 2], keys=["b", "c"]) == ["b", "c"]
        assert (index.get("a").label, index.get("a").metadata) == (1, {"n": 1})
        index.update("b", X[5], y=3)
        assert np.array_equal(index.get("b").vector, X[5])
        hits = index.search(X[0], k=2)
        assert hits.keys.shape == hits.distances.shape == (2,)
        assert hits.keys[0] == "a"
        assert np.array_equal(index.search(X[:1], k=2).keys[0], hits.keys)
        with pytest.raises(InvalidInput, match="features"):
            index.add(X[0, :3], y=1)


def test_search_by_key_leaves_the_item_itself_out(folder):
    X, _ = stream(300)
    with mihash.open(folder, n_bits=16) as index:
        index.add(X)
        index.wait()
        everything = index.search(X[7], k=300)
        others = index.search(key=7, k=299)
        assert 7 not in others.keys
        assert sorted(others.keys.tolist()) == [i for i in range(300) if i != 7]
        kept = everything.keys != 7
        assert np.array_equal(others.keys, everything.keys[kept])
        rescored = index.search(key=7, k=5, rescore=299)
        true = np.argsort(np.linalg.norm(X - X[7], axis=1), kind="stable")
        assert rescored.keys.tolist() == [i for i in true.tolist() if i != 7][:5]
        assert 7 not in index.search(key=7, radius=16).keys
        with pytest.raises(InvalidInput, match="exactly one of `X` and `key`"):
            index.search()
        with pytest.raises(InvalidInput, match="exactly one of `X` and `key`"):
            index.search(X[:1], key=7)
        with pytest.raises(UnknownName):
            index.search(key="nobody")


def test_open_makes_an_index_and_comes_back_to_it(folder):
    X, y = stream(300)
    trigger = mihash.TriggerUpdate(0.01, 50)
    with mihash.open(folder, learner=online.HMOH(16, lr=0.5), trigger=trigger, metric="cosine") as index:
        index.add(X, y)
        assert (index.options.learner, index.options.parameters["lr"]) == ("hmoh", 0.5)
        index.wait()
        codes = index.search(X[:5]).keys
    with mihash.open(folder) as index:
        assert index.options.trigger == trigger
        assert np.array_equal(index.search(X[:5]).keys, codes)
    same = {"n_bits": 16, "learner": "hmoh", "trigger": trigger, "metric": "cosine", "dtype": "float32"}
    for name, value in same.items():
        mihash.open(folder, **{name: value}).close()
    others = {"n_bits": 32, "learner": "lsh", "trigger": "FixedRate", "metric": "euclidean", "dtype": "float16"}
    for name, value in others.items():
        with pytest.raises(InvalidInput, match=f"was created with {name}="):
            mihash.open(folder, **{name: value})
    with pytest.raises(InvalidInput, match=r"was created with learner=.*HMOH"):
        mihash.open(folder, learner=online.HMOH(16, lr=0.25))
    with pytest.raises(InvalidInput, match=r"pass trigger=TriggerUpdate\(theta, interval\)"):
        mihash.open(folder, theta=0.1)
    with pytest.raises(InvalidInput, match="`bits` is not an option"):
        mihash.open(folder, bits=16)
    with pytest.raises(StoreError):
        mihash.open(folder.with_name("nowhere"), read_only=True)
    assert not folder.with_name("nowhere").exists()


@pytest.mark.parametrize(
    "trigger", [mihash.FixedRate(30), mihash.TriggerUpdate(0.05, 40, relative=True), mihash.TriggerUpdate(0.0, 70)]
)
def test_a_trigger_is_kept_with_the_index(folder, trigger):
    X, y = stream(600)
    with mihash.open(folder, n_bits=16, trigger=trigger) as index:
        index.add(X[:300], y[:300])
    with mihash.open(folder) as index:
        assert index.options.trigger == trigger
        index.add(X[300:], y[300:])
        seen = [check["seen"] for check in index.history() if check["kind"] == "trigger"]
    assert seen
    assert all(each % trigger.interval == 0 for each in seen)


def test_create_has_few_parameters_and_names_those_that_have_gone(folder):
    assert len(inspect.signature(mihash.OnlineIndex.create).parameters) <= 10
    with pytest.raises(InvalidInput, match="`colour` is not an option"):
        mihash.OnlineIndex.create(folder, colour="red")
    for name in ("theta", "interval", "parameters", "mapping", "table", "shards"):
        with pytest.raises(InvalidInput, match=f"`{name}` is no longer an argument: pass "):
            mihash.OnlineIndex.create(folder, **{name: 1})
    with mihash.open(folder, n_bits=8) as index, pytest.raises(AttributeError, match="catch_up"):
        index.learn()
    assert not folder.with_name("other").exists()


def test_a_refused_add_leaves_no_class_names(folder):
    X, _ = stream(10)
    with mihash.open(folder, n_bits=16) as index:
        with pytest.raises(DuplicateKey):
            index.add(X[:2], ["a", "b"], keys=["k", "k"])
        index.add(X[:2], [0, 7])
        assert index.get(1).label == 7


def test_a_mapping_is_opened_with_itself_alone(folder):
    X, _ = stream(400)
    first, other = (
        mihash.mapping.LinearMapping(np.random.default_rng(i).standard_normal((8, 16))) for i in (0, 1)
    )
    mihash.open(folder, learner=first).close()
    with mihash.open(folder, learner=first) as index:
        index.add(X)
        index.wait()
    mihash.open(folder, learner=first).close()
    with pytest.raises(InvalidInput, match="then call `offer`"):
        mihash.open(folder, learner=other)


def test_the_default_learner_may_be_given_as_an_object(folder):
    mihash.open(folder, n_bits=32).close()
    mihash.open(folder, learner=online.MomentHash(32)).close()
    with pytest.raises(InvalidInput, match="was created with learner="):
        mihash.open(folder, learner=online.MomentHash(32, rate=0.5))


@pytest.mark.parametrize("rescore", [-5, 2.5, "5"])
def test_rescore_is_checked_with_a_key_too(folder, rescore):
    X, _ = stream(300)
    with mihash.open(folder, n_bits=16) as index:
        index.add(X)
        with pytest.raises(InvalidInput, match="`rescore` must be"):
            index.search(key=3, rescore=rescore)


def test_a_reopened_index_counts_what_it_has_seen_without_an_add(folder):
    with mihash.open(folder, n_bits=16) as index:
        index.add(*stream(700))
    with mihash.open(folder) as index:
        assert index.seen is None
        index.rehash()
        assert (index.seen, index.behind, index.history()[-1].seen) == (700, 0, 700)


def test_a_history_that_only_learns_decides_on_request(folder):
    with mihash.open(folder, n_bits=16) as index:
        index._durable = durable_loop.DurableLoop(index._table, index.options, learn_only=True)
        index.add(*stream(1000))
        index.rehash()
        assert [check.kind for check in index.history()] == ["start", "normalization", "request"]


@pytest.mark.parametrize("path", [3, None, b"index"])
def test_a_path_that_is_none_is_refused(path):
    for call in (mihash.open, mihash.OnlineIndex.create, mihash.OnlineIndex.open, mihash.load_mapping):
        with pytest.raises(InvalidInput, match="`path` must be a string or a Path"):
            call(path)


def test_wait_measures_the_recall_of_a_large_index_before_the_first_search(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 0)
    X = np.random.default_rng(0).standard_normal((3000, 96)).astype(np.float32)
    with mihash.open(tmp_path / "index") as index:
        index.add(X)
        assert index.stats().recall is None
        assert index.wait()
        known = index.stats()
        assert known.recall >= 0.95
        index.search(X[0])
        assert index.stats().rescore == known.rescore
    with mihash.open(tmp_path / "index") as index:
        assert index.stats().recall == known.recall
        assert index.wait(timeout=0)  # nothing is left to measure


def test_what_an_index_measures_is_stored_though_nothing_else_changes(tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((3000, 96)).astype(np.float32)
    with mihash.open(tmp_path / "index") as index:
        index.add(X)
        assert index.stats().recall is None
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 0)
    with mihash.open(tmp_path / "index") as index:
        assert index.wait()
        known = index.stats().recall
    with mihash.open(tmp_path / "index", read_only=True) as index:
        assert index.stats().recall == known >= 0.95


def test_waiting_ends_when_another_thread_closes_the_index(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.store.recall_target._AT_ONCE", 0)
    index, begun, ended = mihash.open(tmp_path / "index"), threading.Event(), []
    index.add(np.random.default_rng(0).standard_normal((3000, 96)).astype(np.float32))
    exact = index._table.exact

    def closed_meanwhile(*arguments):
        begun.set()
        while not index._closed:
            time.sleep(0.01)
        return exact(*arguments)

    monkeypatch.setattr(index._table, "exact", closed_meanwhile)
    waiting = threading.Thread(target=lambda: ended.append(index.wait()))
    waiting.start()
    assert begun.wait(60)
    index.close()
    waiting.join(60)
    assert ended == [True]
