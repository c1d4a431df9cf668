"""When versions are built, and what is said of builds that failed.

What failed for want of shards is built once they are back; other failures wait for the next version.
"""

import threading
import time

import numpy as np
import pytest

import mihash
from mihash.errors import NotReady, PartialFailure, StoreError

X = np.random.default_rng(0).standard_normal((300, 8))


@pytest.mark.parametrize(("failure", "built"), [(PartialFailure, True), (StoreError, False), (NotReady, False)])
def test_a_build_that_lacked_shards_is_tried_again(tmp_path, monkeypatch, failure, built):
    monkeypatch.setattr("mihash.index.background_rehash._RETRY_S", 0.01)
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        before, build = index.version, index._table.build

        def failing(*_):
            monkeypatch.setattr(index._table, "build", build)
            raise failure("Shard 1 is away.")

        monkeypatch.setattr(index._table, "build", failing)
        index.rehash()
        with pytest.raises(failure, match="away"):
            index.wait()
        until = time.monotonic() + (20 if built else 1.5)
        while index.version == before and time.monotonic() < until:
            time.sleep(0.02)
        assert (index.version > before) == built
        assert index.wait(20)
        index.rehash()  # the thread is there, whatever has failed
        assert index.wait(20)
        assert index.version > before


def test_a_build_that_succeeds_clears_the_error_of_the_one_before(tmp_path, monkeypatch):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        before, build, failed = index.version, index._table.build, threading.Event()

        def failing(*_):
            monkeypatch.setattr(index._table, "build", build)
            failed.set()
            raise StoreError("The disk is full.")

        monkeypatch.setattr(index._table, "build", failing)
        index.rehash()
        assert failed.wait(60)
        index.rehash()
        assert index.wait(60)  # and does not raise
        assert index.version > before
        assert index.stats()["rehash_error"] is None


def test_a_thread_that_could_not_start_is_started_again(tmp_path, monkeypatch):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        index._builder.stop()
        index._builder._stopped, index._builder._thread = False, None
        before, start = index.version, threading.Thread.start

        def failing(_):
            monkeypatch.setattr(threading.Thread, "start", start)
            raise RuntimeError("can't start new thread")

        monkeypatch.setattr(threading.Thread, "start", failing)
        with pytest.raises(RuntimeError, match="new thread"):
            index.rehash()
        assert index.wait(20)  # which starts it
        assert index.version > before


class WatchedLock:
    """A lock that says when somebody comes to take it in a `with`."""

    def __init__(self):
        self.lock, self.awaited = threading.Lock(), threading.Event()

    def __enter__(self):
        self.awaited.set()
        self.lock.acquire()

    def __exit__(self, *_):
        self.lock.release()


def test_nothing_is_built_after_a_pause_that_came_while_the_build_waited_for_its_turn(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(X)
        index.wait()
        before = index.version
        building = index._builder.building = WatchedLock()
        with building.lock:  # as while the index is compacted
            index.rehash()
            assert building.awaited.wait(60)
            index.pause()
        assert index.wait(60)
        assert index.version == before
        index.resume()
        assert index.wait(60)
        assert index.version > before
