import numpy as np
import pytest

import mihash
import oracles_codewords as oracles
from mihash.errors import InvalidInput
from mihash.online.codewords import Codebook, hadamard_column
from mihash.online.hcoh import HCOH
from mihash.online.online_learner import hyperplanes
from oracles_codewords import codewords_of, several, stream


def fed(learner, X, y):
    system = mihash.OnlineHashing(learner, reservoir_size=40)
    system.feed(X, y)
    return system


@pytest.mark.parametrize("labels", [lambda y: y * 10 - 15, several], ids=["labels", "several labels"])
@pytest.mark.parametrize("n_classes", [None, 20])
def test_a_block_is_the_equations_one_example_at_a_time(labels, n_classes):
    X, y = stream()
    y = labels(y)
    start = hyperplanes(10, 16, seed=3)
    book = Codebook(16, seed=3, n_classes=n_classes or 16)
    expected = oracles.hcoh(X, codewords_of(y, book), start, 0.2)
    got = fed(HCOH(16, eta=0.2, n_classes=n_classes, seed=3), X, y).current.weights
    moved = np.linalg.norm(expected - start)
    assert moved > 1
    assert np.linalg.norm(got - expected) < 1e-4 * moved


def test_a_step_is_the_gradient():
    X, y = (part[:1] for part in stream())
    start = hyperplanes(10, 8, seed=0).astype(np.float64)
    step = fed(HCOH(8, eta=0.3), X, y).current.weights - start
    target, x = codewords_of(y, Codebook(8, 0, 8))[0][0], X[0].astype(np.float64)
    for row, column in np.ndindex(start.shape):
        ahead, back = start.copy(), start.copy()
        ahead[row, column] += 1e-5
        back[row, column] -= 1e-5
        slope = (oracles.hcoh_loss(ahead, x, target) - oracles.hcoh_loss(back, x, target)) / 2e-5
        assert step[row, column] == pytest.approx(-0.3 * slope, abs=1e-6)


def test_columns_are_sylvesters():
    H = oracles.sylvester(32)
    assert np.array_equal(np.stack([hadamard_column(j, 32) for j in range(32)], axis=1), H)
    assert np.array_equal(H @ H.T, 32 * np.eye(32))


def test_codewords_are_columns_of_a_hadamard_matrix():
    book = Codebook(n_bits=32, seed=1, n_classes=10)
    words = book.look_up(np.arange(32))[1].astype(int)
    assert np.array_equal(words @ words.T, 32 * np.eye(32))
    assert (np.abs(words @ oracles.sylvester(32)) == 32).sum() == 32  # each is a column of it, or its negative
    assert len(np.unique(words[:10].T, axis=0)) == 32  # no bit repeats another on ten classes
    assert (np.abs(words[:10].sum(axis=0)) < 10).all()  # nor is one constant


@pytest.mark.parametrize(("n_bits", "n_classes", "size"), [(32, 100, 128), (24, 10, 32), (1, 1, 1), (1, 3, 4)])
def test_a_matrix_of_another_size_is_projected(n_bits, n_classes, size):
    book = Codebook(n_bits, seed=1, n_classes=n_classes)
    words = book.look_up(np.arange(size))[1].astype(int)
    assert book.size == size
    assert words.shape == (size, n_bits)
    assert (np.abs(words) == 1).all()


def test_labels_beyond_the_columns_get_codewords_too():
    book = Codebook(n_bits=8, seed=0, n_classes=8)
    columns = book.look_up(np.arange(8))[1].copy()
    more = book.look_up(np.arange(300))[1]
    assert np.array_equal(more[:8], columns)
    assert (np.abs(more) == 1).all()
    assert len(np.unique(more, axis=0)) > 100
    assert np.array_equal(Codebook(8, seed=0, n_classes=8).restore(book.state()).codewords, more)


def test_several_labels_vote_on_the_target():
    book = Codebook(n_bits=16, seed=0, n_classes=16)
    words = book.look_up(np.arange(3))[1].astype(int)
    targets = book.targets(np.array([[1, 0, 0], [1, 1, 0], [1, 1, 1], [0, 0, 0]], dtype=np.uint8))
    assert np.array_equal(targets[0], words[0])
    assert np.array_equal(targets[1], np.where(words[0] == words[1], words[0], 0))
    assert np.array_equal(targets[2], np.sign(words.sum(axis=0)))
    assert not targets[3].any()


def test_an_example_without_a_label_takes_no_step():
    X, _ = stream(n=100)
    assert np.array_equal(fed(HCOH(8), X, np.zeros((100, 3))).current.weights, hyperplanes(10, 8, seed=0))


def test_one_class_moves_the_functions():
    X, _ = stream()
    system = fed(HCOH(8), X, np.full(len(X), -4))
    assert not np.array_equal(system.current.weights, hyperplanes(10, 8, seed=0))
    assert system.updates == 1


def test_unlabelled_examples_are_refused():
    with pytest.raises(InvalidInput, match="HCOH learns from class labels: give `y`"):
        fed(HCOH(8), stream()[0], None)


@pytest.mark.parametrize(
    ("name", "value"), [("eta", 0), ("eta", "fast"), ("n_classes", 0), ("n_classes", 10**6), ("seed", -1)]
)
def test_bad_parameters(name, value):
    with pytest.raises(InvalidInput, match=f"`{name}`"):
        HCOH(8, **{name: value})


@pytest.mark.parametrize(
    ("n_bits", "n_classes", "n_labels"), [(4, None, 16), (8, 10, 10), (16, 100, 200), (3, 3, 12)]
)
def test_no_two_labels_share_a_codeword_while_there_are_others(n_bits, n_classes, n_labels):
    for seed in range(30):
        book = Codebook(n_bits, seed, n_classes)
        codewords = book.targets(np.arange(n_labels))
        assert len(np.unique(codewords, axis=0)) == min(n_labels, 2**n_bits)
        again = Codebook(n_bits, seed, n_classes)
        again.targets(np.arange(3))
        assert np.array_equal(again.targets(np.arange(n_labels)), codewords)
