"""No row stops the log: what a learner raises, and what an outlier does to the codes."""

import warnings

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.loop.normalization import fit_normalization

rng = np.random.default_rng(0)
CENTRES = rng.standard_normal((30, 16))


def rows(n, seed=1):
    own = np.random.default_rng(seed)
    return CENTRES[own.integers(0, 30, n)] + 0.4 * own.standard_normal((n, 16))


def use(index):
    """Write, read and control; raise what they raise."""
    index.add(rows(300, seed=5))
    index.delete([3])
    index.rehash()
    index.pause()
    index.resume()
    index.wait()
    index.history()
    index.verify()
    index.compact()
    assert index.search(rows(2), k=3).keys.shape == (2, 3)


@pytest.mark.parametrize("value", [1e-40, 1e-30, 0.0])
def test_a_row_of_no_length_stops_nothing(tmp_path, value):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16, metric="cosine") as index:
        index.add(rows(1000))
        index.add(np.full((1, 16), value))
        use(index)
        assert index.stats()["learning_error"] is None
    with mihash.OnlineIndex.open(tmp_path / "index") as index:
        index.add(rows(300))
        assert index.stats()["learning_error"] is None


@pytest.fixture
def breaking(monkeypatch):
    """Have MomentHash raise an error of a library from its 700th example on."""
    learn = mihash.online.MomentHash.learn

    def fail(self, X, y, reservoir, slots):
        if breaking_now["on"] and reservoir.seen >= 700:
            raise np.linalg.LinAlgError("Eigenvalues did not converge")
        learn(self, X, y, reservoir, slots)

    breaking_now = {"on": True}
    monkeypatch.setattr(mihash.online.MomentHash, "learn", fail)
    return breaking_now


@pytest.mark.usefixtures("breaking")
def test_a_learner_that_raises_stops_learning_and_nothing_else(tmp_path):
    folder = tmp_path / "index"
    with mihash.OnlineIndex.create(folder, n_bits=16) as index:
        with pytest.warns(
            RuntimeWarning, match=r"learning has stopped: momenthash raised LinAlgError: Eigenvalues"
        ):
            index.add(rows(1000))
        use_while_stopped(index)
        crashed = tmp_path / "crashed"
        index.backup(crashed)
    for again in (folder, crashed):  # after a close, and in a replay of the same rows
        with mihash.OnlineIndex.open(again) as index:
            index.add(rows(10))
            assert "LinAlgError" in index.stats()["learning_error"]
            assert len(index) == 1309


def use_while_stopped(index):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        version = index.version
        index.add(rows(300, seed=5))
        index.delete([3])
        index.rehash()
        index.wait()
        index.pause()
        assert index.search(rows(2), k=3).keys.shape == (2, 3)
        index.verify()
        index.compact()
        assert index.version >= version
        assert "LinAlgError" in index.stats()["learning_error"]
        assert index.current.n_bits == 16


def test_learning_begins_anew_where_it_is_resumed(tmp_path, breaking):
    folder = tmp_path / "index"
    with (
        mihash.OnlineIndex.create(folder, n_bits=16, trigger=mihash.TriggerUpdate(0.0)) as index,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        index.add(rows(1000))
        stopped = index.stats()
        before = index.history()
        breaking["on"] = False
        index.resume()
        assert index.stats()["learning_error"] is None
        index.add(rows(1500, seed=7))
        index.wait()
        later = index.history()[len(before) :]
        assert [row["seen"] for row in later] == sorted(row["seen"] for row in later)
        assert later[0]["seen"] > before[-1]["seen"]
        assert index.version > stopped["version"], "what is learned anew is accepted once it is better"
        current, history = index.current, index.history()
        crashed = tmp_path / "crashed"
        index.backup(crashed)
    with mihash.OnlineIndex.open(crashed) as index:
        assert index.history() == history
        assert index.current == current


def test_an_outlier_does_not_decide_the_normalisation():
    X = rows(256).astype(np.float32)
    found = fit_normalization(X, "euclidean")
    X[100] *= 1e6
    again = fit_normalization(X, "euclidean")
    assert again.gain == pytest.approx(found.gain, rel=0.02)
    assert again.mean == pytest.approx(found.mean, abs=0.1)
    Z = again.apply(X)
    assert np.linalg.norm(Z[100]) == pytest.approx(10, rel=1e-4)
    assert Z[:100] == pytest.approx(again.wrap(mihash.mapping.LinearMapping(np.eye(16))).normalize(X[:100]))


@pytest.mark.parametrize("place", [10, 700])
def test_an_outlier_does_not_ruin_the_codes(tmp_path, place):
    X = rows(3000)
    near = np.argsort(((X[:100, None] - X) ** 2).sum(axis=2), axis=1)[:, :10]
    recalls = []
    for factor in (1.0, 1e6):
        Y = X.copy()
        Y[place] *= factor
        with mihash.OnlineIndex.create(tmp_path / f"index-{factor}", n_bits=32) as index:
            index.add(Y)
            index.wait()
            keys = index.search(X[:100], k=100).keys
            stats = index.stats()
        recalls.append(np.mean([np.isin(mine, found).mean() for mine, found in zip(near, keys, strict=True)]))
        assert stats["warning"] is None
        assert stats["codes_distinct"] > 1000
        assert stats["bit_entropy"] > 0.5
    assert recalls[1] > recalls[0] - 0.05


def test_degenerate_codes_are_told(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        assert index.stats()["warning"] is None
        index.add(np.ones((300, 16)))
        stats = index.stats()
        assert (stats["codes_sampled"], stats["codes_distinct"], stats["bit_entropy"]) == (300, 1, 0)
        assert stats["warning"].startswith("The codes are degenerate: 300 rows share 1 code(s)")
        assert stats["warning"].endswith("then request a rehash.")


@pytest.mark.parametrize("learner", ["lsh", "randomrotation"])
def test_degenerate_codes_of_a_fixed_mapping_need_other_features(tmp_path, learner):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16, learner=learner) as index:
        index.add(np.ones((300, 16)))
        warning = index.stats().warning
        assert f"A rehash does not help, because the hyperplanes of {learner} never change." in warning
        assert warning.endswith("scale the features to similar ranges, and add them to a new index.")


def test_degenerate_codes_of_exact_searches_need_nothing(tmp_path):
    rng = np.random.default_rng(0)
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16, learner="randomrotation") as index:
        index.add(rng.standard_normal((300, 16)))
        index.add(1000 + rng.standard_normal((30_000, 16)))  # on one side of all hyperplanes of the first rows
        index.wait()
        index.search(rng.standard_normal((1, 16)))
        wanted = "Searches are exact all the same: they compare all vectors, in memory."
        assert index.stats().warning.endswith(wanted)


def test_a_row_that_is_too_long_is_refused_and_nothing_is_stored(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        index.add(rows(300))
        with pytest.raises(InvalidInput, match=r"length below 1e\+15; row 1 is longer"):
            index.add(np.concatenate([rows(1), np.full((1, 16), 1e30)]))
        assert len(index) == 300
