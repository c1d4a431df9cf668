"""Two coordinators of one index, by a copy of the folder: one is refused, and no acknowledged row is lost."""

import os
import shutil
import signal
import threading
from contextlib import closing

import numpy as np
import pytest
import ray

from mihash.errors import StoreLocked, Superseded
from mihash.store.ray import RayTable
from stored import FIRST, D

X = np.random.default_rng(9).standard_normal((200, D)).astype(np.float32)


@pytest.fixture
def first(tmp_path, places):
    """Return a table with 100 rows, as its first coordinator."""
    table = RayTable.create(tmp_path / "first", 2, nodes=places)
    table.rebuild(FIRST)
    table.add(X[:100])
    table.search(X[:1])
    yield table
    table.close()


def pids(table):
    return [member.about["pid"] for member in table.members.all]


def found(table):
    return sorted(table.search(X[:1], k=1000).keys[0].tolist())


def end_shards(table):
    """Have the shards of a coordinator end, as Ray does where it takes that process for dead."""
    for member in table.members.all:
        ray.kill(member.actor, no_restart=True)


def test_a_copy_is_refused_while_the_first_coordinator_lives_and_nothing_is_killed(tmp_path, first):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    before = pids(first)
    first.add(X[100:120])
    for options in ({}, {"allow_partial": True}):
        with pytest.raises(StoreLocked, match="Another process has this index open"):
            RayTable(tmp_path / "copy", **options)
    first.add(X[120:130])
    assert found(first) == list(range(130))
    with closing(RayTable(tmp_path / "first", read_only=True)) as reader:
        assert found(reader) == list(range(130))
    assert pids(first) == before


def test_a_change_is_acknowledged_once_a_shard_knows_of_it_so_a_log_without_it_is_refused(tmp_path, first):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    stopped, done = pids(first), threading.Event()
    adding = threading.Thread(target=lambda: (first.add(X[100:101]), done.set()))
    for pid in stopped:
        os.kill(pid, signal.SIGSTOP)
    try:
        adding.start()
        assert not done.wait(2)
    finally:
        for pid in stopped:
            os.kill(pid, signal.SIGCONT)
    adding.join()
    assert done.is_set()
    end_shards(first)
    first.close()
    for options in ({}, {"allow_partial": True}):
        with pytest.raises(Superseded, match=r"Shard \d on .* knows of entry 3, which this log lacks"):
            RayTable(tmp_path / "copy", **options)
    with closing(RayTable(tmp_path / "first")) as again:
        assert found(again) == list(range(101))


def test_a_coordinator_that_was_superseded_acknowledges_and_answers_nothing(tmp_path, first):
    shutil.copytree(tmp_path / "first", tmp_path / "copy")
    end_shards(first)
    with closing(RayTable(tmp_path / "copy")) as second:
        for change in (lambda: first.add(X[100:110]), lambda: first.delete([0]), lambda: first.search(X[:1])):
            with pytest.raises(Superseded, match="Another coordinator has taken over this index"):
                change()
        with (
            closing(RayTable(tmp_path / "first", read_only=True)) as reader,
            pytest.raises(Superseded, match="Another coordinator"),
        ):
            reader.search(X[:1])
        second.add(X[110:130])
        assert found(second) == list(range(120))
        first.close()
        assert found(second) == list(range(120))  # whose shards it has left alone
    with pytest.raises(Superseded, match=r"Shard \d on .* knows of entry 3, which this log lacks"):
        RayTable(tmp_path / "first")  # its own third entry is another one
    with closing(RayTable(tmp_path / "copy")) as second:
        assert second.verify()["items"] == len(second) == 120
        assert second.get(100).vector.tolist() == X[110].tolist()
