from itertools import combinations

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.loop.decisions import Check
from mihash.loop.hindsight import best_schedule, in_hindsight, prices_in_force


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


def check(kind, seen, gain=None, accepted=False, current=0.5):
    measured = gain is not None and current is not None
    return Check(0, kind, seen, accepted, gain, current if measured else None, None, "")


def simulated(history, prices, rehashed):
    """Play a history by plain loops: what a schedule costs that rehashes after the given checks.

    Returns the cost of that schedule; each mapping is worth what the checks say, in shares of a query.
    """
    usual = np.mean([each.current for each in history if each.current is not None])
    worth, real, newest, before = [], 0.0, 0.0, []
    for each in history:
        old = newest
        if each.gain is not None:
            newest = real + each.gain / usual
        before.append(old if each.kind == "offer" else newest)
        worth.append(newest)
        if each.accepted:
            real = newest
    cost, table, seen = 0.0, 0.0, 0
    for i, each in enumerate(history):
        cost += (before[i] - table) * (each.seen - seen)
        seen = each.seen
        if i in rehashed:
            table = worth[i]
            cost += prices[i]
    return cost


@pytest.mark.parametrize("seed", range(8))
def test_hindsight_is_what_trying_every_schedule_finds(seed):
    rng = np.random.default_rng(seed)
    history, seen = [check("trigger", 100, 0.1)], 100
    for _ in range(7):
        seen += int(rng.integers(0, 150))
        kind = str(rng.choice(["trigger", "trigger", "unmoved", "request", "offer"]))
        if kind == "unmoved":
            history.append(check("trigger", seen, 0.0, current=None))
        elif kind == "request":
            history.append(check("request", seen, accepted=True))
        else:
            gain = float(rng.normal(0.05, 0.1))
            history.append(check(kind, seen, gain, bool(rng.random() < 0.3), float(rng.uniform(0.4, 0.6))))
    prices = rng.uniform(5, 40, len(history)).tolist()
    found = in_hindsight(history, prices)
    every = [set(each) for size in range(9) for each in combinations(range(8), size)]
    assert found.best_cost == pytest.approx(min(simulated(history, prices, each) for each in every))
    accepted = {i for i, each in enumerate(history) if each.accepted}
    assert found.cost == pytest.approx(simulated(history, prices, accepted))
    assert (found.checks, found.rehashes) == (len(history), len(accepted))
    assert found.best_cost <= found.cost + 1e-9


def test_a_requested_rehash_costs_and_begins_again():
    history = [
        check("trigger", 100, 0.1),
        check("request", 100, accepted=True),
        check("trigger", 200, 0.1),
    ]
    found = in_hindsight(history, price=5)
    assert (found.rehashes, found.missed, found.cost) == pytest.approx((1, 40, 45))
    assert (found.best_at, found.best_cost, found.ratio) == ((100,), pytest.approx(45), pytest.approx(1))


def test_a_stretch_without_movement_misses_nothing():
    still = [check("trigger", seen, 0.0, current=None) for seen in range(100, 1000, 100)]
    found = in_hindsight([*still, check("trigger", 1000, 0.1)], price=20)
    assert (found.checks, found.missed) == (10, pytest.approx(20))


def test_tables_that_were_made_before_anything_was_measured_cost_nothing():
    early = check("trigger", 100, accepted=True)
    assert in_hindsight([early, check("trigger", 200, 0.1)], price=20).cost == pytest.approx(20)
    late = check("trigger", 300, accepted=True)
    assert in_hindsight([early, check("trigger", 200, 0.1), late], price=20).cost == pytest.approx(60)


def test_each_rehash_costs_the_price_of_its_time():
    changed = Check(0, "price", 250, False, None, 100.0, 10.0, "")
    first = [check("trigger", 100, 0.2, accepted=True), check("trigger", 200, 0.2, accepted=True)]
    history = [*first, changed, check("trigger", 300, 0.2, accepted=True)]
    prices = prices_in_force(history, price=20)
    assert prices == [10, 10, 100, 100]
    found = in_hindsight(history, prices)
    assert (found.price, found.cost) == (100, pytest.approx(120 + 120))
    assert (found.best_at, found.best_cost) == ((100, 200), pytest.approx(140))
    assert prices_in_force(first, price=20) == [20, 20]
    with pytest.raises(InvalidInput, match="`price`"):
        in_hindsight(history, [1.0, 2.0])
    with pytest.raises(InvalidInput, match="`price`"):
        best_schedule(np.ones((3, 4)), [0, 1, 2], [1.0, 2.0])


def test_a_needless_rehash_is_not_called_nothing_to_gain():
    found = in_hindsight(checks([0.0, 0.0], accepted=(1,)), price=20)
    assert found.ratio is None
    assert found.sentence == "the trigger cost 20.0 queries more than the best schedule."


def test_a_changed_price_is_found_in_the_history_of_an_index(tmp_path):
    data = mihash.datasets.digits()
    with mihash.open(tmp_path / "index", n_bits=16, trigger=mihash.PriceUpdate(price=20)) as index:
        index.add(data.X[:600], data.y[:600])
        index.set_price(1000)
        found = index.hindsight()
        assert found.price == 1000
        assert found.cost == pytest.approx(index.hindsight(price=20).cost)  # no rehash since
        index.rehash()
        assert index.hindsight().cost == pytest.approx(found.cost + 1000)


def test_an_index_and_the_command(tmp_path):
    data = mihash.datasets.digits()
    with mihash.open(tmp_path / "index", n_bits=16, trigger=mihash.TriggerUpdate()) as index:
        assert index.hindsight() is None
        index.add(data.X[:1000], data.y[:1000])
        found = index.hindsight()
        assert found.price == 20
        assert found.best_cost <= found.cost
        assert index.hindsight(price=0).best_cost <= found.best_cost
