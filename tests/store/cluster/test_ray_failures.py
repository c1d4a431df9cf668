"""Processes are killed, nodes go away, folders are lost: nothing acknowledged is, and nobody is misled."""

import os
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
import ray

from mihash.errors import PartialFailure, StoreError, Superseded
from mihash.store.ray import RayTable
from mihash.store.sqlite.sqlite_table import SQLiteTable
from stored import FIRST, SECOND, THIRD, D, answer

rng = np.random.default_rng(5)
X = rng.standard_normal((4000, D)).astype(np.float32)


def kill(table, shard):
    os.kill(table.members.all[shard].about["pid"], signal.SIGKILL)


def test_a_killed_shard_comes_back_amid_everything(tmp_path, places):
    table, one = RayTable.create(tmp_path / "index", 2, nodes=places), SQLiteTable.create(tmp_path / "one")
    try:
        for each in (table, one):
            each.rebuild(FIRST)
            each.add(X[:2000])
        kill(table, 0)
        table.add(X[2000:2100])  # acknowledged while it is away
        one.add(X[2000:2100])
        assert answer(table) == answer(one)
        kill(table, 1)
        for each in (table, one):  # the shard is away when the rehash begins
            each.rebuild(SECOND)
            each.delete([5, 2050])
        assert answer(table) == answer(one)
        rehash = threading.Thread(target=table.rebuild, args=(THIRD,))
        rehash.start()
        kill(table, 0)
        answers = [table.search(X[:1], k=3) for _ in range(20)]
        rehash.join()
        assert {hits.version for hits in answers} <= {1, 2}
        one.rebuild(THIRD)
        assert answer(table) == answer(one)
        assert table.verify()["items"] == 2098
        restarts = [each["restarts"] for each in table.about()["shards"]]
        assert restarts[0] >= 1
        assert restarts[1] >= 1
    finally:
        table.close()
        one.close()


def test_a_shard_whose_node_is_gone_is_missed_by_name_until_it_is_back_with_its_folder(tmp_path, nodes, places):
    table = RayTable.create(tmp_path / "index", 2, nodes=places, timeout_s=4)
    table.rebuild(FIRST)
    table.add(X[:490])
    assert table.add(X[490:500], keys=range(1490, 1500))[0][-1] == 1499
    whole = answer(table)
    nodes.take("store-b")
    try:
        with pytest.raises(
            PartialFailure, match="1 of the shards cannot be reached: shard 1 on store-b"
        ) as caught:
            table.search(X[:1])
        assert caught.value.missing == (1,)
        with pytest.raises(PartialFailure):
            table.rebuild(SECOND)
        with pytest.raises(PartialFailure):
            table.add(X[:20], keys=[f"k{i}" for i in range(20)])  # which may be there already
        assert table.add(X[500:600])[0] == list(range(1500, 1600))  # sequential numbers need nobody's word
        assert len(table) == 600
        assert [each["state"] for each in table.about()["shards"]] == ["up", "lost"]
        assert table.about()["shards"][1]["lag"] == 1
        table.close()
        with pytest.raises(PartialFailure, match=r"shard 1 on store-b \(no such node is in the cluster\)"):
            RayTable(tmp_path / "index", timeout_s=4)
        table = RayTable(tmp_path / "index", timeout_s=4, allow_partial=True)
        hits = table.search(X[:3], k=1000)
        assert hits.missing == (1,)
        assert hits.keys.shape[1] == table.about()["shards"][0]["items"] < 600
        with pytest.raises(PartialFailure, match="shard 1 on store-b"):
            table.add(X[600:610])  # another coordinator may have that shard
    finally:
        nodes.bring("store-b")
    until = time.monotonic() + 30
    while table.members.all[1].state != "up" and time.monotonic() < until:
        time.sleep(0.05)
    found = table.search(X[:3], k=1000)
    assert found.missing == ()
    assert found.keys.shape[1] == 600
    table.delete(range(1500, 1600))
    assert answer(table) == whole
    table.close()
    shutil.move(tmp_path / "store-a" / "shard-0", tmp_path / "kept")
    with pytest.raises(PartialFailure, match="was replaced by an older one"):
        RayTable(tmp_path / "index")


def test_tables_share_the_cluster_that_was_joined_and_an_older_log_is_refused(tmp_path, nodes, places):
    ray.shutdown()
    try:
        first = RayTable.create(tmp_path / "first", 1, nodes=places, address=nodes.address)
        second = RayTable.create(tmp_path / "second", 1, nodes=["store-a"], address=nodes.address)
        first.add(X[:300])
        first.close()
        shutil.copytree(tmp_path / "first", tmp_path / "older")
        second.rebuild(FIRST)
        second.add(X[:20])
        assert second.search(X[:1], k=100).keys.shape == (1, 20)
        shutil.move(tmp_path / "first", tmp_path / "moved")
        first = RayTable(tmp_path / "moved", address=nodes.address)
        second.close()
        first.add(X[300:400])
        assert first.verify()["items"] == len(first) == 400
        first.close()
        assert not ray.is_initialized()
        with pytest.raises(Superseded, match=r"Shard \d on .*the coordinator's folder was replaced by an older"):
            RayTable(tmp_path / "older", address=nodes.address)  # its new rows would be taken for known ones
        assert not ray.is_initialized()
        with pytest.raises(StoreError, match="There is no Ray cluster at"):
            RayTable(tmp_path / "moved", address="127.0.0.1:1")
    finally:
        ray.init(address=nodes.address, namespace="mihash", log_to_driver=False, logging_level="ERROR")


WRITER = """
import os, signal, sys
import numpy as np
from mihash.mapping import LinearMapping
from mihash.store.ray import RayTable

table = RayTable.create(sys.argv[1], 2, nodes=dict(zip(sys.argv[3::2], sys.argv[4::2])), address=sys.argv[2])
table.rebuild(LinearMapping(np.eye(4)))
for number in range(100):
    table.add(np.full((10, 4), number))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_coordinator_acknowledged_before_it_was_killed_is_there(tmp_path, nodes, places):
    named = [word for pair in places.items() for word in pair]
    command = [sys.executable, "-c", WRITER, str(tmp_path / "index"), nodes.address, *named]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == -signal.SIGKILL, done.stderr
    table = RayTable(tmp_path / "index")
    assert len(table) == table.verify()["items"] == 1000
    hits = table.search(np.eye(4)[:1], k=2000, rescore=2000)
    assert sorted(hits.keys[0].tolist()) == list(range(1000))
    assert table.get(995).vector.tolist() == [99] * 4
    table.close()
