"""An index whose mapping was learned elsewhere: in batch, or as a network."""

import shutil
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady, Renamed
from mihash.mapping import LinearMapping

DATA = mihash.datasets.digits()
X, Y = DATA.X, DATA.y


def linear(seed, n_bits=16, n_features=64):
    return LinearMapping(np.random.default_rng(seed).standard_normal((n_features, n_bits)))


def network():
    built = mihash.deep.build_network("resnet", 16, width=2, n_channels=1, scale=2.0)
    return mihash.deep.ModuleMapping(built.eval(), input_shape=(1, 8, 8))


MAKERS = {
    "linear": lambda: mihash.batch.MIHash(16, epochs=2).fit(X[:300], Y[:300]),
    "kernel": lambda: mihash.batch.SDH(16, n_anchors=50).fit(X[:300], Y[:300]),
    "forest": lambda: mihash.batch.FastHash(16, iterations=3, n_starts=1).fit(X[:300], Y[:300]),
    "network": network,
}


@pytest.mark.parametrize(
    "kind", ["linear", "kernel", "forest", pytest.param("network", marks=pytest.mark.needs("torch"))]
)
def test_every_kind_of_mapping_makes_the_codes_of_an_index(kind, tmp_path):
    mapping = MAKERS[kind]()
    with mihash.OnlineIndex.create(tmp_path / "index", learner=mapping) as index:
        index.add(X[:600], Y[:600])
        assert index.options.n_bits == 16
        assert index.options.learner == "given"
        assert [event["kind"] for event in index.history() if event["accepted"]] == ["start"]
    table = mihash.MemoryTable()
    table.add(X[:600])
    table.rebuild(mapping)
    expected = table.search(X[600:620], k=5)
    code = f"""
        import numpy as np, mihash
        X = mihash.datasets.digits().X
        {"import mihash.deep" if kind == "network" else ""}
        with mihash.OnlineIndex.open({str(tmp_path / "index")!r}) as index:
            index.add(X[700:710], mihash.datasets.digits().y[700:710])
            index.delete(list(range(600, 610)))
            hits = index.search(X[600:620], k=5, rescore=0)
            np.savez({str(tmp_path / "hits.npz")!r}, keys=hits.keys, distances=hits.distances)
    """
    subprocess.run([sys.executable, "-c", textwrap.dedent(code)], check=True, timeout=120)
    with np.load(tmp_path / "hits.npz") as hits:
        assert np.array_equal(hits["distances"], expected[1])
        assert np.array_equal(hits["keys"], expected[0])


def test_the_trigger_says_whether_another_mapping_is_worth_a_rehash(tmp_path):
    good = MAKERS["linear"]()
    with mihash.OnlineIndex.create(tmp_path, learner=linear(0)) as index:
        with pytest.raises(NotReady, match="add vectors first"):
            index.offer(good)
        index.add(X, Y)
        decision = index.offer(good)
        assert decision.update
        expected = mihash.TriggerUpdate(0.02, relative=True).decide(good, linear(0), X, Y)
        assert decision.gain == pytest.approx(expected.gain)  # the sample has room for all rows
        index.wait()
        assert index.snapshot == good
        worse = index.offer(linear(1))
        assert not worse.update
        index.wait()
        assert index.snapshot == good
        assert index.current == linear(1)
        assert index.offer(linear(1), force=True).update
        index.wait()
        assert index.snapshot == linear(1)
        events = [(event["kind"], event["accepted"]) for event in index.history() if event["kind"] != "trigger"]
        assert events == [("start", True), ("offer", True), ("offer", False), ("request", True)]
        assert index.verify()


def test_what_was_given_survives_a_crash(tmp_path):
    good, path = MAKERS["linear"](), tmp_path / "index"
    index = mihash.OnlineIndex.create(path, learner=linear(0))
    shutil.copytree(path, tmp_path / "empty")
    index.add(X[:500], Y[:500])
    index.offer(good)
    index.add(X[500:700], Y[500:700])
    index.wait()
    expected, history = index.search(X[900:920], k=3), index.history()
    shutil.copytree(path, tmp_path / "crashed")
    index.close()
    with mihash.OnlineIndex.open(tmp_path / "crashed") as again:
        assert again.current == again.snapshot == good
        hits = again.search(X[900:920], k=3)
        assert np.array_equal(hits.keys, expected.keys)
        assert np.array_equal(hits.distances, expected.distances)
        assert [event["number"] for event in again.history()] == [event["number"] for event in history]
        again.add(X[700:], Y[700:])
    with mihash.OnlineIndex.open(tmp_path / "empty") as again:
        again.add(X[:10])
        assert again.snapshot == linear(0)


def test_mappings_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(InvalidInput, match="`learner` must be"):
        mihash.OnlineIndex.create(tmp_path / "a", learner=np.eye(3))
    with pytest.raises(InvalidInput, match="pass learner=mapping"):
        mihash.OnlineIndex.create(tmp_path / "a", mapping=linear(0))
    with pytest.raises(InvalidInput, match="give the mapping itself"):
        mihash.OnlineIndex.create(tmp_path / "a", learner="given")
    assert not (tmp_path / "a").exists()
    with mihash.OnlineIndex.create(tmp_path / "b", learner=linear(0)) as index:
        with pytest.raises(InvalidInput, match="64 features"):
            index.add(X[:10, :5])
        index.add(X[:300])
        with pytest.raises(InvalidInput, match="must give 16 bits"):
            index.offer(linear(0, n_bits=8))
        with pytest.raises(InvalidInput, match="must take 64 features"):
            index.offer(linear(0, n_features=5))
        with pytest.raises(InvalidInput, match="must be a hash mapping"):
            index.offer("network.npz")
        assert index.current == linear(0)
        assert len(index) == 300
    with mihash.OnlineIndex.create(tmp_path / "c", n_bits=16) as index:
        index.add(X[:300])
        with pytest.raises(InvalidInput, match="learns its mapping with momenthash"):
            index.offer(linear(0))
    with pytest.raises(NotReady, match=r"no mapping yet: call `give"):
        mihash.online.ExternalMapping(8).start(4)


def test_in_memory_the_trigger_decides_too():
    learner = mihash.online.ExternalMapping(16)
    learner.give(linear(0))
    system = mihash.OnlineHashing(learner, mihash.TriggerUpdate(0.01))
    system.feed(X[:1000], Y[:1000])
    assert system.updates == 1
    learner.give(MAKERS["linear"]())
    system.feed(X[1000:1200], Y[1000:1200])
    assert system.updates == 2


def test_the_earlier_name_says_the_new_one():
    with pytest.raises(Renamed, match="ExternalMapping"):
        _ = mihash.online.Given
