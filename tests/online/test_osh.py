import numpy as np
import pytest

import mihash
import oracles_codewords as oracles
from checks import clusters
from mihash.errors import InvalidInput
from mihash.online.codewords import Codebook
from mihash.online.online_learner import hyperplanes
from mihash.online.osh import OSH
from oracles_codewords import codewords_of, several, stream


def fed(learner, X, y):
    system = mihash.OnlineHashing(learner, reservoir_size=40)
    system.feed(X, y)
    return system


@pytest.mark.parametrize("labels", [lambda y: y * 10 - 15, several], ids=["labels", "several labels"])
@pytest.mark.parametrize("loss", ["exponential", "hinge"])
def test_a_block_is_the_equations_one_example_at_a_time(loss, labels):
    X, y = stream()
    y = labels(y)
    start = hyperplanes(10, 12, seed=3)
    expected = oracles.osh(X, codewords_of(y, Codebook(12, seed=3)), start, 0.05, loss)
    got = fed(OSH(12, eta=0.05, loss=loss, seed=3), X, y).current.weights
    moved = np.linalg.norm(expected - start)
    assert moved > 1
    assert np.linalg.norm(got - expected) < 1e-4 * moved


def test_boosting_uses_the_functions_that_have_taken_their_step():
    X, y = stream(n=100)
    start, words = hyperplanes(10, 12, seed=0), codewords_of(y, Codebook(12, seed=0))
    expected, stale = (oracles.osh(X, words, start, 0.1, stale=stale) for stale in (False, True))
    moved = np.linalg.norm(expected - start)
    got = fed(OSH(12), X, y).current.weights
    assert np.linalg.norm(expected - stale) > 0.05 * moved
    assert np.linalg.norm(got - expected) < 1e-4 * moved


def test_an_example_without_a_label_takes_no_step():
    X, _ = stream(n=100)
    assert np.array_equal(fed(OSH(8), X, np.zeros((100, 3))).current.weights, hyperplanes(10, 8, seed=0))


@pytest.mark.parametrize("scale", [1.0, 30.0, 1000.0])
def test_long_features_stay_finite(scale):
    X, y = clusters(n=1000)
    assert np.isfinite(fed(OSH(64), scale * X, y).current.weights).all()


def test_one_class_moves_the_functions():
    X, _ = stream()
    system = fed(OSH(8), X, np.full(len(X), -4))
    assert not np.array_equal(system.current.weights, hyperplanes(10, 8, seed=0))
    assert system.updates == 1


def test_a_label_keeps_its_codeword_however_many_come():
    book = Codebook(n_bits=16, seed=2)
    first = book.look_up(np.array([5, -1, 5]))[1].copy()
    assert np.array_equal(first[0], first[2])
    assert not np.array_equal(first[0], first[1])
    book.look_up(np.arange(100, 500))
    assert np.array_equal(book.look_up(np.array([5, -1, 5]))[1], first)
    assert book.codewords.shape == (402, 16)
    assert np.abs(book.codewords).min() == 1
    assert np.abs(book.codewords.mean(axis=0)).max() < 0.25
    again = Codebook(n_bits=16, seed=2).restore(book.state())
    assert np.array_equal(again.codewords, book.codewords)
    assert np.array_equal(again.labels, book.labels)


def test_growing_labels_do_not_change_what_was_learned():
    X, y = stream()
    system = fed(OSH(8), X[:100], y[:100])
    words = system.learner._codebook.codewords.copy()
    system.feed(X[100:], y[100:] + np.arange(130))
    assert len(system.learner._codebook.labels) > len(words)
    assert np.array_equal(system.learner._codebook.codewords[: len(words)], words)


def test_unlabelled_examples_are_refused():
    with pytest.raises(InvalidInput, match="OSH learns from class labels: give `y`"):
        fed(OSH(8), stream()[0], None)


@pytest.mark.parametrize(("name", "value"), [("eta", 0), ("eta", "fast"), ("loss", "squared"), ("seed", -1)])
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        OSH(8, **{name: value})
