import numpy as np
import pytest

import mihash
import oracles_codewords as oracles
from mihash import state
from mihash.errors import InvalidInput
from mihash.mapping import KernelMapping, LinearMapping
from mihash.online.codewords import Codebook
from mihash.online.hmoh import HMOH
from mihash.online.online_learner import hyperplanes
from oracles_codewords import codewords_of, several, stream


def fed(learner, X, y):
    system = mihash.OnlineHashing(learner, reservoir_size=40)
    system.feed(X, y)
    return system


def kernel(**options):
    return HMOH(16, kernel=True, **{"n_anchors": 60, "warm_up": 150, **options})


@pytest.mark.parametrize("labels", [lambda y: y * 10 - 15, several], ids=["labels", "several labels"])
@pytest.mark.parametrize("n_classes", [None, 20])
def test_the_mapping_is_the_mean_of_every_w(labels, n_classes):
    X, y = stream()
    y = labels(y)
    start = hyperplanes(10, 16, seed=3)
    book = Codebook(16, seed=3, n_classes=n_classes or 16)
    history = oracles.hmoh(X, codewords_of(y, book), start, 0.3)
    for n in (200, 230):  # at the end of a block, and within one
        expected = np.mean(history[: n + 1], axis=0)
        moved = np.linalg.norm(expected - start)
        got = fed(HMOH(16, lr=0.3, n_classes=n_classes, seed=3), X[:n], y[:n]).current.weights
        assert moved > 0.5
        assert np.linalg.norm(got - expected) < 1e-4 * moved
        assert np.linalg.norm(history[n] - expected) > 0.1 * moved  # the last W is another mapping


def test_the_first_mapping_is_seeded_hyperplanes():
    for learner in (HMOH(8, seed=3), kernel(seed=3)):
        learner.start(5)
        assert learner.mapping == LinearMapping(hyperplanes(5, learner.n_bits, seed=3))


def test_the_average_does_not_drift():
    """With no wrong bits left, W stands still and the average must come to it."""
    X = np.eye(4, dtype=np.float32)[np.arange(40_000) % 4]
    learner = HMOH(8)
    system = fed(learner, X, np.arange(40_000) % 4)
    assert learner._n_summed == 40_001
    assert np.abs(system.current.weights - learner._W).max() < 1e-3


def test_kernel_examples_of_the_warm_up_are_set_aside():
    X, y = stream(n=600)
    system = mihash.OnlineHashing(kernel(), reservoir_size=40)
    start = LinearMapping(hyperplanes(10, 16, seed=0))
    system.feed(X[:100], y[:100])
    assert system.current == start
    system.feed(X[100:200], y[100:200])  # absorbed wholly: 150 are wanted
    assert isinstance(system.current, KernelMapping)
    assert len(system.learner._codebook.labels) == 0
    assert np.array_equal(system.learner._W, hyperplanes(61, 16, seed=0))
    before = system.current
    system.feed(X[200:300], y[200:300])
    assert system.current != before


def test_kernel_learns_on_the_centred_kernel_map():
    X, y = stream(n=430)
    system = fed(kernel(lr=0.3), X, y)
    anchors = system.learner._anchors
    points, width = anchors.points.astype(float), anchors.width
    K = np.exp(-((X[:, None].astype(float) - points) ** 2).sum(axis=2) / (2 * width**2))
    centre = np.exp(-((points[:, None] - points) ** 2).sum(axis=2) / (2 * width**2)).mean(axis=0)
    Z = np.column_stack([K - centre, np.ones(len(X))])[200:]
    words = codewords_of(y[200:], Codebook(16, 0, 16))
    expected = np.mean(oracles.hmoh(Z, words, hyperplanes(61, 16, seed=0), 0.3), axis=0)
    got = system.current.project(X[200:])
    assert np.abs(got - Z @ expected).max() < 1e-3 * np.abs(got).max()


def test_kernel_separates_what_lines_through_the_origin_cannot():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 3000)
    X = rng.standard_normal((3000, 2))
    X *= ((1 + 2 * y) / np.linalg.norm(X, axis=1))[:, None]  # rings
    X += 0.2 * rng.standard_normal(X.shape)

    def precision(learner):
        codes = fed(learner, X[:2500], y[:2500]).current.encode(X)
        return mihash.mean_average_precision(codes[2500:], codes[:2500], (y[2500:], y[:2500]), 16)

    assert precision(kernel()) > precision(HMOH(16)) + 0.3


@pytest.mark.identity
@pytest.mark.parametrize("cut", [0, 100, 200, 400])
def test_kernel_resumes(cut):
    X, y = stream(n=500)
    first, again = kernel(), kernel()
    first.start(10)
    if cut:
        fed(first, X[:cut], y[:cut])
    again.restore(state.load(state.dump(first.state())))
    fed(again, X[cut:], y[cut:])
    assert again.mapping == fed(kernel(), X, y).current


def test_an_example_without_a_label_takes_no_step():
    X, _ = stream(n=100)
    assert fed(HMOH(8), X, np.zeros((100, 3))).current.distance(LinearMapping(hyperplanes(10, 8, seed=0))) < 1e-6


def test_one_class_moves_the_functions():
    X, _ = stream()
    system = fed(HMOH(8), X, np.full(len(X), -4))
    assert not np.array_equal(system.current.weights, hyperplanes(10, 8, seed=0))
    assert system.updates == 1


def test_growing_labels_keep_the_codewords():
    X, y = stream()
    system = fed(HMOH(8), X[:100], y[:100])
    words = system.learner._codebook.codewords.copy()
    system.feed(X[100:], y[100:] + np.arange(130))
    assert len(system.learner._codebook.labels) > 8
    assert np.array_equal(system.learner._codebook.codewords[: len(words)], words)


def test_unlabelled_examples_are_refused():
    with pytest.raises(InvalidInput, match="HMOH learns from class labels: give `y`"):
        fed(HMOH(8), stream()[0], None)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("lr", 0),
        ("n_classes", 0),
        ("kernel", "yes"),
        ("n_anchors", 0),
        ("warm_up", 299),
        ("seed", -1),
    ],
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        HMOH(8, **{name: value})
