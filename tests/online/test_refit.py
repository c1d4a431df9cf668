"""A batch method that is fitted now and then, as a learner."""

import numpy as np
import pytest

import mihash
from checks import clusters
from mihash.batch import lacking, method_names
from mihash.errors import InvalidInput, UnknownName
from mihash.online import Refit
from mihash.online.online_learner import hyperplanes

QUICK = {
    "mihash": {"epochs": 5},
    "shk": {"n_anchors": 20},
    "sdh": {"n_anchors": 20},
    "fasthash": {"iterations": 2, "n_starts": 1},
    "itq": {},
    "dpsh": {"epochs": 2},
    "dtsh": {"epochs": 2},
    "vdsh": {"n_layers": 1, "n_nodes": 16, "epochs": 20},
}
X, Y = clusters(n=700)


def system(learner, theta=-1.0, size=100):
    return mihash.OnlineHashing(learner, mihash.TriggerUpdate(theta, 50), size)


def test_the_mapping_is_that_of_a_fit_to_the_reservoir():
    loop = system(Refit(8, every=300, options={"epochs": 5}, seed=3))
    loop.feed(X[:299], Y[:299])
    assert np.array_equal(loop.current.weights, hyperplanes(12, 8, seed=3))
    for seen in (300, 600):
        loop.feed(X[loop.seen : seen], Y[loop.seen : seen])
        sample = loop.reservoir
        expected = mihash.batch.MIHash(8, epochs=5, seed=3).fit(sample.X, sample.y)
        assert loop.current == expected
        loop.feed(X[seen : seen + 50], Y[seen : seen + 50])
        assert loop.current == expected


def test_an_interval_between_hundreds_ends_at_the_next():
    loop = system(Refit(8, every=170, options={"epochs": 2}))
    fitted = []
    for seen in range(10, 701, 10):
        before = loop.current if loop.seen else None
        loop.feed(X[seen - 10 : seen], Y[seen - 10 : seen])
        if before is not None and loop.current != before:
            fitted.append(seen)
    assert fitted == [200, 400, 600, 700]


def test_every_method_is_tried():
    assert set(QUICK) == set(method_names())


@pytest.mark.parametrize("method", QUICK)
def test_every_method_works_in_the_loop_and_comes_back(method, tmp_path):
    if (needed := lacking(method)) is not None:
        pytest.skip(f"needs {needed}")

    def learner():
        return Refit(8, method=method, every=300, options=QUICK[method])

    whole = system(learner(), theta=0.0)
    whole.feed(X, Y)
    assert whole.learner.refusal is None
    assert whole.updates > 1
    part = system(learner(), theta=0.0)
    part.feed(X[:450], Y[:450])
    part.save(tmp_path / "loop")
    again = mihash.OnlineHashing.load(tmp_path / "loop")
    assert again.learner.parameters() == learner().parameters()
    again.feed(X[450:], Y[450:])
    assert again.current == whole.current
    assert again.updates == whole.updates


def test_in_an_index_it_finds_what_is_alike(tmp_path):
    options = {"method": "sdh", "every": 200, "options": {"n_anchors": 50}}
    with mihash.OnlineIndex.create(tmp_path / "index", learner=Refit(16, **options), reservoir_size=200) as index:
        index.add(X[:600], Y[:600], keys=range(600))
        index.wait()
        assert index.stats()["updates"] > 1
        keys = index.search(X[600:], k=5).keys
        assert (Y[np.asarray(keys, dtype=int)] == Y[600:, None]).mean() > 0.5


def test_a_sample_that_teaches_nothing_leaves_the_mapping_and_says_why():
    loop = system(Refit(8, every=100, options={"epochs": 2}))
    loop.feed(X[:200], np.zeros(200, dtype=int))
    assert np.array_equal(loop.current.weights, hyperplanes(12, 8, seed=0))
    assert loop.learner.refusal == "MIHash learns from neighbours and others: give examples of at least 2 classes."
    loop.feed(X[200:500], Y[200:500] + 1)
    assert loop.learner.refusal is None
    short = system(Refit(20, method="itq", every=100))
    short.feed(X[:100])
    assert "principal components at most, 12 for" in short.learner.refusal


def test_labels_are_asked_for_by_those_that_need_them():
    assert not Refit(8).needs_labels
    assert not Refit.needs_labels
    loop = system(Refit(8, method="sdh"))
    with pytest.raises(InvalidInput, match="give `y`"):
        loop.feed(X)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"method": "best"}, UnknownName, "no batch method 'best'"),
        ({"every": 0}, InvalidInput, "`every`"),
        ({"options": {"rank": 3}}, InvalidInput, "`options` of mihash must be among .*; got rank"),
        ({"options": {"n_bits": 3}}, InvalidInput, "got n_bits"),
        ({"options": {"epochs": 0}}, InvalidInput, "`epochs`"),
        ({"options": [("epochs", 3)]}, InvalidInput, "`options` must be a dictionary"),
        ({"options": {"epochs": np.int64(3)}}, InvalidInput, "plain numbers and strings"),
    ],
)
def test_bad_parameters(change, error, message):
    with pytest.raises(error, match=message):
        Refit(8, **change)


@pytest.mark.needs("torch")
def test_a_method_without_torch_is_refused(monkeypatch):
    assert lacking("vdsh") is None
    monkeypatch.setattr("mihash.online.refit.lacking", lambda name: f"PyTorch for {name}")
    with pytest.raises(InvalidInput, match="`method` 'vdsh' needs PyTorch for vdsh"):
        Refit(8, method="vdsh")


def test_an_index_says_why_a_sample_is_refused(tmp_path):
    X = np.random.default_rng(0).standard_normal((400, 8))
    parameters = {"method": "sdh", "every": 100, "options": {"n_anchors": 20}}
    with mihash.OnlineIndex.create(tmp_path, learner=Refit(8, **parameters)) as index:
        index.add(X, np.zeros(400, dtype=int))
        assert "class" in index.stats()["learning_error"]
        index.add(X, np.arange(400) % 2)
        assert index.stats()["learning_error"] is None
