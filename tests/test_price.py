import numpy as np
import pytest

import mihash
import oracles_drift
from mihash import state
from mihash.errors import InvalidInput
from mihash.mapping import LinearMapping
from mihash.trigger import trigger_from_state, trigger_state

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 300)
X = (3 * rng.standard_normal((4, 8))[y] + rng.standard_normal((300, 8))).astype(np.float32)
good = LinearMapping(rng.standard_normal((8, 8)))
bad = LinearMapping(rng.standard_normal((8, 8)), offset=np.full(8, 8.0))


def blocks(n, seed=0):
    generator = np.random.default_rng(seed)
    for _ in range(n):
        snapshot = generator.random(50)
        yield snapshot + generator.normal(0.02, 0.05, 50), snapshot


@pytest.mark.parametrize("by_chance", [0.0, 0.2, 0.49])  # of about 0.5: less than a tenth of it is left
def test_the_sum_is_that_of_plain_loops(by_chance):
    trigger, found = mihash.PriceUpdate(price=5), []
    trigger.by_chance = by_chance
    for current, snapshot in blocks(60):
        trigger.observe(current, snapshot)
        decision = trigger.judge(True, 1000, lambda: (0, 0))
        found.append((trigger.missed, decision.update))
        assert decision.gain == pytest.approx((current - snapshot).mean())
        if decision.update:
            trigger.updated()
    expected = oracles_drift.missed([(c.tolist(), s.tolist()) for c, s in blocks(60)], 5, by_chance)
    assert [missed for missed, _ in found] == pytest.approx([missed for missed, _ in expected])
    assert [update for _, update in found] == [update for _, update in expected]
    assert 2 < sum(update for _, update in found) < (30 if by_chance < 0.4 else 60)


def test_the_reason_says_what_was_missed_and_what_a_rehash_costs():
    trigger = mihash.PriceUpdate(price=30)
    trigger.observe(np.full(100, 0.5), np.full(100, 0.4))
    decision = trigger.judge(True, 1000, lambda: (0, 0))
    assert not decision.update
    assert decision.reason == "since the last rehash the table lost what 20.0 queries are worth; a rehash costs 30"
    assert (decision.current, decision.snapshot) == pytest.approx((0.5, 0.4))


def test_a_table_that_is_better_earns_nothing():
    trigger = mihash.PriceUpdate(price=5)
    trigger.observe(np.full(100, 0.4), np.full(100, 0.5))
    assert trigger.missed == 0
    trigger.observe(np.full(100, 0.5), np.full(100, 0.45))
    assert trigger.missed == pytest.approx(100 * 0.05 / 0.41)


def test_a_block_may_stand_for_several():
    trigger = mihash.PriceUpdate(price=50)
    trigger.observe(np.full(100, 0.5), np.full(100, 0.4), n_blocks=3)
    assert trigger.missed == pytest.approx(3 * 100 * 0.1 / 0.5)


def test_the_first_tables_are_made_at_once_if_the_mapping_moved():
    trigger = mihash.PriceUpdate()
    assert trigger.judge(True, 10, lambda: (0, 0)).update
    assert not trigger.judge(False, 10, lambda: (0, 0)).update
    assert "the first tables are made at once" in trigger.decide(good, bad, X[:20], y[:20]).reason


def test_asked_alone_it_measures_once_and_keeps_nothing():
    trigger = mihash.PriceUpdate(price=20)
    decision = trigger.decide(good, bad, X, y)
    again = trigger.decide(good.encode, lambda X: bad.project(X) > 0, X, y)
    assert decision == again
    assert decision.update
    assert decision.gain == pytest.approx(mihash.TriggerUpdate().decide(good, bad, X, y).gain)
    part = mihash.PriceUpdate(price=0.1).decide(good, bad, X[:60], y[:60])
    codes = [[tuple(row) for row in (each.project(X[:60]) > 0).tolist()] for each in (good, bad)]
    each = [
        [oracles_drift.information(own[i], y[i], own[:i] + own[i + 1 :], np.delete(y[:60], i)) for i in range(60)]
        for own in codes
    ]
    missed = (np.sum(each[0]) - np.sum(each[1])) / np.mean(each[0])
    assert f"what {missed:.1f} queries are worth" in part.reason
    assert trigger.missed == 0
    assert not mihash.PriceUpdate(price=300).decide(good, bad, X, y).update
    assert not trigger.decide(good, good, X, y).update
    assert trigger.decide(good, bad, X, neighbors=y[:, None] == y).gain == pytest.approx(decision.gain)


def test_without_any_information_nothing_is_missed():
    trigger = mihash.PriceUpdate(price=0)
    trigger.observe(np.zeros(100), np.zeros(100))
    assert trigger.missed == 0
    assert not trigger.decide(good, bad, X, np.zeros(300, dtype=int)).update


def test_it_goes_on_where_its_state_was_taken():
    first = mihash.PriceUpdate(price=5)
    for block in blocks(7):
        first.observe(*block)
    second = mihash.PriceUpdate()
    second.restore(state.load(state.dump(first.state())))
    for block in blocks(5, seed=1):
        first.observe(*block)
        second.observe(*block)
    assert first.state() == second.state()
    assert second.price == 5


def test_it_is_known_by_name_and_by_its_parameters():
    made = trigger_from_state(trigger_state(mihash.PriceUpdate(7, 50)))
    assert made == mihash.PriceUpdate(7.0, interval=50) != mihash.PriceUpdate(7)
    assert repr(made) == "PriceUpdate(price=7.0, interval=50)"
    with_sum = mihash.PriceUpdate(7, 50)
    with_sum.observe(np.ones(9), np.zeros(9))
    assert with_sum == made


@pytest.mark.parametrize(
    "arguments", [{"price": -1}, {"price": "cheap"}, {"price": float("nan")}, {"interval": 0}]
)
def test_bad_parameters(arguments):
    with pytest.raises(InvalidInput, match=f"`{next(iter(arguments))}` must be"):
        mihash.PriceUpdate(**arguments)
