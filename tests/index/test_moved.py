"""An index goes on where it was, also where learning comes to other last bits than on the machine that made it."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

import mihash
from mihash.loop import learning_loop as loop
from mihash.loop.normalization import fit_normalization
from mihash.trigger import Decision

rng = np.random.default_rng(0)
CENTRES = rng.standard_normal((4, 12))


def rows(n, seed):
    own = np.random.default_rng(seed)
    y = own.integers(0, 4, n)
    return (CENTRES[y] + 0.7 * own.standard_normal((n, 12))).astype(np.float32), y


@pytest.fixture
def left_behind(tmp_path):
    """The folder of an index whose writer died before it wrote a checkpoint, and what it had decided."""
    index = mihash.OnlineIndex.create(
        tmp_path / "made", n_bits=16, reservoir_size=200, trigger=mihash.TriggerUpdate(0.0)
    )
    index.add(*rows(900, seed=1))
    index.rehash()
    index.add(*rows(450, seed=2))
    index.wait()
    history, mapping = index.history(), index._durable.loop.accepted
    shutil.copytree(tmp_path / "made", tmp_path / "moved")
    index.close()
    return tmp_path / "moved", history, mapping


def reopened(folder):
    index = mihash.OnlineIndex.open(folder)
    return index, index._durable.loop  # the replay


def test_the_log_is_followed_by_a_trigger_that_would_decide_otherwise(left_behind, monkeypatch):
    folder, history, mapping = left_behind
    assert {row["kind"] for row in history} == {"start", "normalization", "trigger", "request"}
    assert {row["accepted"] for row in history if row["kind"] == "trigger"} == {True, False}
    real = loop.decide

    def contrary(*arguments, **options):
        decision = real(*arguments, **options)
        return Decision(not decision.update, decision.gain, "on another machine")

    monkeypatch.setattr(loop, "decide", contrary)
    index, learned = reopened(folder)
    with index:
        assert learned.accepted == mapping
        assert index.history() == history
        index.add(*rows(300, seed=3))
        later = index.history()
        assert later[: len(history)] == history
        assert [row["number"] for row in later] == list(range(len(later)))
        assert later[-1]["reason"] == "on another machine"
        index.verify()


def test_the_normalisation_is_that_of_the_stored_version(left_behind, monkeypatch):
    folder, history, mapping = left_behind
    monkeypatch.setattr(
        loop,
        "fit_normalization",
        lambda X, metric: replace(found := fit_normalization(X, metric), mean=found.mean * np.float32(1.0001)),
    )
    index, learned = reopened(folder)
    with index:
        stored = index._table.mapping_of(history[-1]["number"] if history[-1]["accepted"] else index.version)
        assert np.array_equal(learned.normalization.mean, stored.mean)
        assert learned.accepted == mapping


def test_where_learning_comes_to_another_point_it_goes_on_behind_the_log(left_behind, monkeypatch):
    folder, history, _ = left_behind
    monkeypatch.setattr(mihash.online.MomentHash, "block_size", 70)
    monkeypatch.setattr(mihash.online.MomentHash, "forced_until", 70)  # a decision that the log does not have
    index, _ = reopened(folder)
    with index:
        assert index.history()[: len(history)] == history
        before = index.stats()["updates"]
        index.add(*rows(500, seed=3))
        index.rehash()
        index.wait()
        assert index.stats()["updates"] > before
        assert [row["number"] for row in index.history()] == list(range(len(index.history())))
        assert index.search(rows(5, seed=4)[0], k=3).keys.shape == (5, 3)
        index.verify()
