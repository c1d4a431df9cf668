"""An index on Ray learns, decides and answers as one on SQLite does, and comes back as it was."""

import threading

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady, StoreLocked

rng = np.random.default_rng(3)
CENTRES = 3 * rng.standard_normal((4, 8))
Y = rng.integers(0, 4, size=1500)
X = (CENTRES[Y] + rng.standard_normal((1500, 8))).astype(np.float32)
OPTIONS = {
    "dtype": "float16",
    "n_bits": 16,
    "reservoir_size": 200,
    "trigger": mihash.TriggerUpdate(0.02, 50, relative=True),
}


def told(index):
    """Return what an index has decided, whatever was overtaken before it was built, and what it answers."""
    names = ("number", "kind", "seen", "accepted", "gain", "current", "snapshot", "reason")
    decisions = [[each[name] for name in names] for each in index.history()]
    hits, wide = index.search(X[:5], k=20, rescore=40), index.search(X[:5], radius=2)
    found = [(keys.tolist(), far.tolist()) for each in (hits, wide) for keys, far in zip(*each[:2], strict=True)]
    return decisions, found, hits.version, index.stats()["items"], index.evaluate(k=5, n_queries=20)


def work(index):
    for start in range(0, 1200, 300):
        part = slice(start, start + 300)
        index.add(X[part], Y[part], source=("stream", start + 300))
        index.wait()
    index.delete(range(0, 300, 7))
    index.update([1, 2], X[1200:1202], Y[1200:1202])
    index.rehash()
    index.wait()


def change(index):
    for number in range(30):
        index.add(X[number : number + 2], Y[number : number + 2], keys=[f"a{number}", f"b{number}"])
        index.delete([f"a{number}"])


def read_amid_changes(index, reader):
    """Search from a reader, which the writer does not wait for, while rows come and go."""
    thread = threading.Thread(target=change, args=(index,))
    thread.start()
    n = 0
    while thread.is_alive() or not n:
        hits = reader.search(X[:2], k=5, rescore=20)
        assert hits.keys.shape == (2, 5)
        n += 1
    thread.join()
    assert reader.search(X[29:31], k=len(index), rescore=1).keys.shape == (2, len(index))


def test_an_index_is_the_same_on_one_file_and_on_a_cluster(tmp_path, places):
    one = mihash.OnlineIndex.create(tmp_path / "one", **OPTIONS)
    many = mihash.OnlineIndex.create(tmp_path / "many", **OPTIONS, cluster=mihash.Cluster(shards=2, nodes=places))
    with one, many:
        for index in (one, many):
            work(index)
        before = told(one)
        assert told(many) == before
        assert len(many.versions()) > 2
        for index in (one, many):
            index.rollback(1)
            index.compact()
        assert told(many) == told(one)
        assert many.stats()["deleted"] == 0
        many.backup(tmp_path / "copy")
        copied = len(many)
        with pytest.raises(StoreLocked):
            mihash.OnlineIndex.open(tmp_path / "many")
        with mihash.OnlineIndex.open(tmp_path / "many", read_only=True) as reader:
            many.add(X[1202:1203], Y[1202:1203], keys=["new"])
            assert reader.search(X[1202:1203], k=1, rescore=2000).keys.tolist() == [["new"]]
            assert len(reader) == len(many) == many.count()
            assert many.count({"year": {"$exists": False}}) == len(many)
            with pytest.raises(NotReady, match="read_only"):
                reader.add(X[:1])
            read_amid_changes(many, reader)
        one.add(X[1202:1203], Y[1202:1203], keys=["new"])
        change(one)
        after = told(one)
    with mihash.OnlineIndex.open(tmp_path / "many") as again:
        assert told(again) == after
        assert again.position("stream") == 1200
        shards = again.stats()["shards"]
        assert [each["state"] for each in shards] == ["up", "up"]
        assert sum(each["items"] for each in shards) == len(again)
        again.add(X[1300:], Y[1300:])
    with mihash.OnlineIndex.open(tmp_path / "copy") as copy:
        assert copy.stats()["items"] == copied
        assert copy.verify()["items"] == copied
    with pytest.raises(NotReady, match="shards are not running"):
        mihash.OnlineIndex.open(tmp_path / "many", read_only=True)


def test_what_only_a_cluster_takes_is_refused_elsewhere(tmp_path, places):
    mihash.OnlineIndex.create(tmp_path / "here", n_bits=8).close()
    with pytest.raises(InvalidInput, match="is not on Ray: leave `cluster` out"):
        mihash.OnlineIndex.open(tmp_path / "here", cluster=mihash.Cluster(timeout_s=3))
    with pytest.raises(
        InvalidInput, match=r"`shards` is no longer an argument: pass cluster=Cluster\(shards=...\)"
    ):
        mihash.OnlineIndex.create(tmp_path / "b", shards=3)
    with pytest.raises(InvalidInput, match=r"No node of the cluster has .* 'store-z'; there are: .*store-a"):
        mihash.OnlineIndex.create(tmp_path / "c", cluster=mihash.Cluster(nodes=["store-z"]))
    with pytest.raises(InvalidInput, match="must be absolute"):
        mihash.OnlineIndex.create(tmp_path / "d", cluster=mihash.Cluster(nodes=dict.fromkeys(places, "here")))
    for wrong in (
        {"shards": 0},
        {"shards": 2.5},
        {"nodes": 5},
        {"nodes": []},
        {"address": 5},
        {"timeout_s": 0},
        {"timeout_s": "long"},
        {"allow_partial": "yes"},
    ):
        with pytest.raises(InvalidInput, match=f"`{next(iter(wrong))}` must be"):
            mihash.OnlineIndex.create(tmp_path / "e", cluster=mihash.Cluster(**wrong))
    assert [path.name for path in tmp_path.iterdir()] == ["here"]  # nothing is begun
