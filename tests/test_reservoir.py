import copy

import numpy as np
import pytest
from scipy.stats import chi2

import mihash
import oracles
from mihash import state
from mihash.errors import InvalidInput, NotReady
from mihash.neighbors import SameLabel, WithinDistance, within_fraction


def numbers(n):
    return np.arange(n, dtype=np.float32)[:, None]


def test_keeps_everything_until_it_is_full():
    reservoir = mihash.Reservoir(5)
    reservoir.add(numbers(3))
    assert len(reservoir) == 3
    assert reservoir.X.ravel().tolist() == [0, 1, 2]


def test_is_algorithm_r():
    reservoir = mihash.Reservoir(7, seed=3)
    uniforms = np.random.Generator(np.random.PCG64(np.random.SeedSequence(3, spawn_key=(1,)))).random(200)
    reservoir.add(numbers(200))
    assert reservoir.X.ravel().astype(int).tolist() == oracles.reservoir(uniforms, 7)
    assert reservoir.origin.tolist() == reservoir.X.ravel().tolist()


def test_inclusion_is_uniform():
    counts = np.zeros(40)
    for seed in range(3000):
        reservoir = mihash.Reservoir(8, seed=seed)
        reservoir.add(numbers(40))
        counts[reservoir.X.ravel().astype(int)] += 1
    expected = 3000 * 8 / 40
    statistic = ((counts - expected) ** 2 / expected).sum() / (1 - 8 / 40)
    assert statistic < chi2.ppf(0.999, 39)


@pytest.mark.identity
def test_chunks_and_planning_do_not_matter():
    whole, parts = mihash.Reservoir(20, seed=1), mihash.Reservoir(20, seed=1)
    y = np.arange(500) % 7
    whole.add(numbers(500), y)
    start = 0
    for size in (1, 19, 3, 177, 300):
        assert np.array_equal(parts.plan(5), parts.plan(5))
        parts.add(numbers(500)[start : start + size], y[start : start + size])
        start += size
    assert np.array_equal(whole.X, parts.X)
    assert np.array_equal(whole.y, parts.y)


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("n", [0, 5, 300])
def test_resumes(labelled, n):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((600, 4)), rng.integers(0, 3, 600) if labelled else None
    part = slice(0, n)
    first = mihash.Reservoir(30, seed=9)
    if n:
        first.add(X[part], None if y is None else y[part])
    second = mihash.Reservoir(30)
    second.restore(state.load(state.dump(first.state())))
    for reservoir in (first, second):
        reservoir.add(X[n:], None if y is None else y[n:])
    assert np.array_equal(first.X, second.X)
    assert first.neighborhood == second.neighborhood
    assert first.seen == second.seen == 600


def test_neighbourhood_by_labels_and_by_distance():
    X = np.random.default_rng(0).standard_normal((200, 3)).astype(np.float32)
    labelled, plain = mihash.Reservoir(50), mihash.Reservoir(50)
    assert plain.neighborhood is None
    labelled.add(X, np.zeros(200, dtype=int))
    plain.add(X)
    assert labelled.neighborhood == SameLabel()
    assert plain.neighborhood == within_fraction(plain.X)
    threshold = plain.neighborhood
    plain.add(X[:19])
    assert plain.neighborhood == threshold  # the stream has grown by less than a tenth
    plain.add(X[:1])
    assert plain.neighborhood == within_fraction(plain.X) != threshold  # by a tenth
    with pytest.raises(ValueError, match="read-only"):
        plain.X[0] = 0
    fixed = mihash.Reservoir(50, neighbors=WithinDistance(0.5))
    fixed.add(X)
    assert fixed.neighborhood == WithinDistance(0.5)


@pytest.mark.parametrize("size", [1, 0, -5, 2.5, "big"])
def test_size(size):
    with pytest.raises(InvalidInput, match="`size` must be a whole number of at least 2"):
        mihash.Reservoir(size)


def test_bad_examples_change_nothing():
    reservoir = mihash.Reservoir(4)
    with pytest.raises(NotReady, match="empty"):
        _ = reservoir.X
    reservoir.add(numbers(9), np.arange(9))
    before = copy.deepcopy(reservoir.state())
    for X, y in (
        ([[np.nan]], [0]),
        (np.zeros((1, 2)), [0]),
        (numbers(2), [0]),
        (numbers(2), None),
        (numbers(2), np.zeros((2, 3))),
    ):
        with pytest.raises(InvalidInput):
            reservoir.add(X, y)
    after = reservoir.state()
    assert np.array_equal(before.pop("X"), after.pop("X"))
    assert np.array_equal(before.pop("y"), after.pop("y"))
    assert np.array_equal(before.pop("origin"), after.pop("origin"))
    assert before == after
