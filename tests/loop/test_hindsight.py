from itertools import combinations

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.loop.decisions import Check
from mihash.loop.hindsight import best_schedule, in_hindsight


def brute_force(missed, begins, price):
    """Try every set of rehashes."""
    n, n_intervals = missed.shape
    best = float("inf")
    for size in range(n):
        for chosen in combinations(range(1, n), size):
            tables = [0, *chosen]
            ends = [*(begins[table] for table in chosen), n_intervals]
            cost = price * size
            for table, end in zip(tables, ends, strict=True):
                cost += missed[table, begins[table] : end].sum()
            best = min(best, cost)
    return best


@pytest.mark.parametrize("seed", range(6))
def test_the_programme_finds_what_trying_everything_finds(seed):
    rng = np.random.default_rng(seed)
    missed = rng.normal(1, 2, (7, 9))
    begins = np.sort(np.concatenate([[0], rng.integers(0, 9, 6)]))
    for price in (0.0, 1.0, 5.0):
        found = best_schedule(missed, begins, price)
        assert found.cost == pytest.approx(brute_force(missed, begins, price))
        assert found.tables == sorted(found.tables)


def test_a_high_price_makes_no_table():
    assert best_schedule(np.ones((3, 4)), [0, 1, 2], price=100) == (4.0, [])


@pytest.mark.parametrize("begins", [[1, 2, 3], [0, 2, 1], [0, 1]])
def test_bad_beginnings(begins):
    with pytest.raises(InvalidInput, match="`begins`"):
        best_schedule(np.ones((3, 4)), begins, price=1)


def checks(gains, accepted=()):
    return [
        Check(i, "trigger", 100 * (i + 1), i in accepted, gain, 0.5, 0.5 - gain, "")
        for i, gain in enumerate(gains)
    ]


def test_a_history_is_compared_with_its_best_schedule():
    found = in_hindsight(checks([0.0, 0.2, 0.2, 0.2, 0.2, 0.2]), price=20)
    assert (found.rehashes, found.missed, found.cost) == pytest.approx((0, 200, 200))
    assert (found.best_at, found.best_cost) == ((200,), pytest.approx(60))
    assert found.ratio == pytest.approx(200 / 60)
    assert found.sentence == "the trigger cost 233 % more than the best schedule."
    best = in_hindsight(checks([0.0, 0.2, 0.0, 0.0, 0.0, 0.0], accepted=(1,)), price=20)
    assert best.ratio == pytest.approx(1)
    assert dict(best)["rehashes"] == 1


def test_a_history_without_measurements_has_no_hindsight():
    alarm = Check(0, "alarm", 100, False, 7.0, 0.1, 0.2, "")
    start = Check(1, "start", 0, True, None, None, None, "")
    assert in_hindsight([alarm, start], price=20) is None
    nothing = in_hindsight(checks([0.0, 0.0]), price=20)
    assert nothing.ratio is None
    assert nothing.sentence == "there was nothing to gain."


def test_an_index_and_the_command(tmp_path):
    data = mihash.datasets.digits()
    with mihash.open(tmp_path / "index", n_bits=16, trigger=mihash.TriggerUpdate()) as index:
        assert index.hindsight() is None
        index.add(data.X[:1000], data.y[:1000])
        found = index.hindsight()
        assert found.price == 20
        assert found.best_cost <= found.cost
        assert index.hindsight(price=0).best_cost <= found.best_cost
