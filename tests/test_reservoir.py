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


def chi_square(counts, expected):
    return ((counts - expected) ** 2 / expected).sum()


@pytest.mark.parametrize("n", [40, 60])
def test_a_sample_with_a_memory_has_the_ages_that_it_says(n):
    """Uniform until the memory is full; then an example survives each later one with 1 - 1 / memory."""
    size, memory, runs = 8, 40, 3000
    counts = np.zeros(n)
    for seed in range(runs):
        reservoir = mihash.Reservoir(size, seed=seed, memory=memory)
        reservoir.add(numbers(n))
        counts[reservoir.X.ravel().astype(int)] += 1
    entered = np.full(n, size / memory)  # whether it was early or late: uniform after the first 40
    survived = (1 - 1 / memory) ** np.minimum(n - 1 - np.arange(n), n - memory)
    expected = runs * entered * survived
    assert expected.sum() == pytest.approx(runs * size)
    assert chi_square(counts, expected) / (1 - size / memory) < chi2.ppf(0.999, n - 1)


def test_after_a_restart_new_examples_enter_as_into_a_short_stream():
    size, runs = 8, 2000
    counts, old = np.zeros(16), 0
    for seed in range(runs):
        reservoir = mihash.Reservoir(size, seed=seed)
        reservoir.add(numbers(200))
        reservoir.restart()
        assert reservoir.seen == 200
        reservoir.add(numbers(16) + 200)
        kept = reservoir.origin[reservoir.origin >= 200] - 200
        counts[kept] += 1
        old += size - len(kept)
    assert reservoir.seen == 216
    expected = np.full(16, runs * size / (size + 16))
    assert chi_square(counts, expected) < chi2.ppf(0.999, 15)
    assert old == pytest.approx(runs * size * size / (size + 16), rel=0.05)


def test_a_restart_before_it_is_full_changes_nothing():
    plain, restarted = mihash.Reservoir(30), mihash.Reservoir(30)
    for reservoir in (plain, restarted):
        reservoir.add(numbers(20))
    restarted.restart()
    for reservoir in (plain, restarted):
        reservoir.add(numbers(100))
    assert np.array_equal(plain.origin, restarted.origin)


@pytest.mark.identity
def test_memory_and_restart_do_not_depend_on_chunks_and_resume():
    whole, parts = (mihash.Reservoir(20, seed=1, memory=50) for _ in range(2))
    for reservoir, sizes in ((whole, (300,)), (parts, (7, 93, 200))):
        start = 0
        for size in sizes:
            reservoir.add(numbers(300)[start : start + size])
            start += size
        reservoir.restart()
    again = mihash.Reservoir(2)
    again.restore(state.load(state.dump(parts.state())))
    assert again.memory == 50
    for reservoir, sizes in ((whole, (100,)), (parts, (1, 99)), (again, (60, 40))):
        for size in sizes:
            reservoir.add(numbers(size) * 0)
    assert np.array_equal(whole.origin, parts.origin)
    assert np.array_equal(whole.origin, again.origin)


def test_a_state_of_mihash_0_1_has_neither_memory_nor_restart():
    first, second = mihash.Reservoir(20, seed=4), mihash.Reservoir(20, seed=4)
    first.add(numbers(100))
    earlier = first.state()
    del earlier["memory"], earlier["forgotten"]
    second.restore(earlier)
    for reservoir in (first, second):
        reservoir.add(numbers(100))
    assert np.array_equal(first.origin, second.origin)


@pytest.mark.parametrize("memory", [19, 0, -1, 2.5, "long"])
def test_memory_is_at_least_the_size(memory):
    with pytest.raises(InvalidInput, match="`memory` must be a whole number of at least 20"):
        mihash.Reservoir(20, memory=memory)


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
    assert np.array_equal(first.origin, second.origin)
    for part in (slice(n, n + 29), slice(n + 29, 600)):  # after 300, 29 are too few to measure anew
        for reservoir in (first, second):
            reservoir.add(X[part], None if y is None else y[part])
        assert np.array_equal(first.X, second.X)
        assert np.array_equal(first.origin, second.origin)
        assert first.neighborhood == second.neighborhood
    assert first.seen == second.seen == 600


def test_a_copy_is_independent():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((300, 3)), rng.integers(0, 3, 300)
    reservoir = mihash.Reservoir(20)
    reservoir.add(X[:100], y[:100])
    before = state.dump(reservoir.state())
    twin = reservoir.copy()
    twin.add(X[100:], y[100:])
    assert state.dump(reservoir.state()) == before
    reservoir.add(X[100:], y[100:])
    assert state.dump(reservoir.state()) == state.dump(twin.state())


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


def test_classes_that_are_strings_are_numbered_by_first_appearance():
    names = np.array(["dog", "cat", "eel"])
    of_names, of_numbers = mihash.Reservoir(5), mihash.Reservoir(5)
    y = np.random.default_rng(0).integers(0, 3, 40)
    y[:3] = 0, 1, 2
    for rows in (slice(0, 7), slice(7, 20)):
        of_names.add(numbers(40)[rows], names[y][rows].tolist())
        of_numbers.add(numbers(40)[rows], y[rows])
    twin, resumed = of_names.copy(), mihash.Reservoir(5)
    resumed.restore(of_names.state())
    twin.add(numbers(1), ["ant"])
    for reservoir in (of_names, resumed):
        reservoir.add(numbers(40)[20:], names[y][20:])
    of_numbers.add(numbers(40)[20:], y[20:])
    assert of_names.y.tolist() == resumed.y.tolist() == of_numbers.y.tolist()
    with pytest.raises(InvalidInput, match="strings"):
        of_names.add(numbers(1), [7])


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


def test_an_earlier_state_with_numbers_refuses_names():
    first = mihash.Reservoir(10)
    first.add([[0.0], [1.0]], [0, 1])
    state = {name: value for name, value in first.state().items() if name != "class_names"}
    again = mihash.Reservoir(10)
    again.restore(state)
    with pytest.raises(InvalidInput, match="must be integers, like all earlier labels"):
        again.add([[3.0]], ["cat"])
    assert again.y.tolist() == [0, 1]
