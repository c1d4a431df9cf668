"""The loop with a drift watch and a price: it measures before it learns, and a replay reads its alarms."""

import re

import numpy as np
import pytest

import mihash
from mihash import state as saved
from mihash.information import arriving_information
from mihash.loop.decisions import DecisionLog
from mihash.loop.learning_loop import Loop


def stream(n=2600, change=1600, seed=0):
    """Three classes; after a change, three others."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n) + 3 * (np.arange(n) >= change)
    return (rng.standard_normal((6, 10))[y] + 0.5 * rng.standard_normal((n, 10))).astype(np.float32), y


X, y = stream()
WATCH = mihash.DriftWatch(quiet=500)


PRICE = mihash.PriceUpdate(5)


def make(learner=None, triggers=(PRICE,), drift=WATCH, metric=None, **options):
    learner = learner or mihash.online.MomentHash(12)
    return Loop(learner, mihash.Reservoir(200), triggers, drift=drift, metric=metric, **options)


def fed(loop, sizes=(2600,), labels=y, rows=X):
    checks, start = [], 0
    for size in sizes:
        part = slice(start, start + size)
        loop.feed(
            *loop.check(rows[part], None if labels is None else labels[part]),
            notify=lambda *each: checks.append(each),
        )
        start += size
    return checks


def alarms(checks):
    return [check for check, _, branch in checks if check.kind == "alarm" and branch == 0]


def test_an_alarm_is_told_before_the_block_is_learned_and_the_loop_follows():
    loop = make()
    checks = fed(loop)
    (alarm,) = alarms(checks)
    assert alarm.seen in (1700, 1800)
    assert not alarm.accepted
    assert alarm.gain > 6
    assert alarm.current < alarm.snapshot
    assert "the stream has changed" in alarm.reason
    losers = re.search("; the codes have lost most about classes (.), (.) and (.); the sum", alarm.reason).groups()
    assert set(losers) <= set("345")  # those that came
    assert (loop.reservoir.origin >= 1600).mean() > 0.7  # without the restart, about 0.38
    assert loop.reservoir.seen == 2600
    numbers = [check.number for check, _, _ in checks]
    assert numbers == list(range(len(numbers)))
    still = make(drift=None)
    fed(still)
    assert (still.reservoir.origin >= 1600).mean() < 0.5


def test_without_a_change_there_is_no_alarm():
    rows, labels = stream(change=10**6)
    assert alarms(fed(make(), rows=rows, labels=labels)) == []
    assert alarms(fed(make(), rows=rows, labels=None)) == []


@pytest.mark.parametrize("labelled", [True, False])
def test_a_change_before_the_sample_is_full_raises_an_alarm(labelled):
    """The sample holds all that was seen; after the alarm it goes on taking every example until it is full."""
    found, given = [], y if labelled else None
    for start in (400, None):
        watch = mihash.DriftWatch(start=start)
        loop = Loop(mihash.online.MomentHash(12), mihash.Reservoir(2000), [PRICE], drift=watch)
        found.append([check.seen for check in alarms(fed(loop, labels=given))])
        assert len(loop.reservoir) == 2000
    assert found[0] in ([1700], [1800])
    assert found[1] == []


@pytest.mark.identity
@pytest.mark.parametrize("n", [350, 1650, 1750, 2300])
def test_with_a_sample_that_grows_a_state_continues_to_the_same_bits(n):
    def grown():
        watch = mihash.DriftWatch(start=400)
        return Loop(mihash.online.MomentHash(12), mihash.Reservoir(2000), [PRICE], drift=watch)

    whole, first, second = grown(), grown(), grown()
    told = fed(whole, (1, 130, 969, 601, 299, 600))
    assert len(alarms(told)) == 1
    before = fed(first, (n,))
    second.restore(saved.load(saved.dump(first.state())))
    after = fed(second, (len(X) - n,), y[n:], X[n:])
    assert [check for check, _, _ in before + after] == [check for check, _, _ in told]
    assert saved.dump(second.state()) == saved.dump(whole.state())


def test_without_labels_the_projections_raise_the_alarm():
    (alarm,) = alarms(fed(make(), labels=None))  # one, though old examples stay in the sample for a while
    assert alarm.seen in (1700, 1800)
    assert alarm.current is None
    assert "projections have moved" in alarm.reason


@pytest.mark.identity
@pytest.mark.parametrize("learner", [mihash.online.MomentHash, mihash.online.SketchHash, mihash.online.LSH])
@pytest.mark.parametrize("metric", [None, "euclidean"])
def test_chunks_do_not_matter(learner, metric):
    whole, parts = make(learner(12), metric=metric), make(learner(12), metric=metric)
    told = fed(whole)
    assert [check for check, _, _ in fed(parts, (1, 130, 969, 601, 299, 600))] == [check for check, _, _ in told]
    assert saved.dump(parts.state()) == saved.dump(whole.state())
    assert parts.current == whole.current


@pytest.mark.identity
@pytest.mark.parametrize("n", [150, 1600, 1650, 1750, 2000])
def test_a_state_continues_to_the_same_bits(n):
    whole, first, second = make(), make(), make()
    told = fed(whole)
    before = fed(first, (n,))
    second.restore(saved.load(saved.dump(first.state())))
    after = fed(second, (len(X) - n,), y[n:], X[n:])
    assert [check for check, _, _ in before + after] == [check for check, _, _ in told]
    assert saved.dump(second.state()) == saved.dump(whole.state())


def test_several_triggers_decide_as_each_alone():
    rules = mihash.PriceUpdate(1), mihash.TriggerUpdate(0.0, 100), mihash.PriceUpdate(500)
    together = fed(make(triggers=rules))
    for position, rule in enumerate(rules):
        alone = fed(make(triggers=[rule]))
        assert [check for check, _, _ in alone] == [check for check, _, branch in together if branch == position]
    yes = [sum(check.accepted for check, _, branch in together if branch == position) for position in (0, 2)]
    assert yes[0] > yes[1] > 1


def test_a_trigger_that_is_given_is_not_moved():
    rule, watch = mihash.PriceUpdate(5), mihash.DriftWatch(quiet=500)
    loop = make(triggers=[rule], drift=watch)
    fed(loop)
    assert rule.missed == 0
    assert watch.seen == 0
    assert loop.branches[0].trigger is not rule
    assert loop.drift.seen == 2400


def long_stream(n=12_000, change=10**6):
    rows, _ = stream(n, change, seed=3)
    return rows


def test_a_long_stream_without_labels_is_measured_at_fewer_windows(monkeypatch):
    rows, looks = long_stream(), []
    observe = mihash.PriceUpdate.observe

    def counted(trigger, current, snapshot, n_blocks=1):
        looks.append(n_blocks)
        observe(trigger, current, snapshot, n_blocks)

    monkeypatch.setattr(mihash.PriceUpdate, "observe", counted)
    loop = make(mihash.online.SketchHash(12))
    fed(loop, rows=rows, labels=None, sizes=(len(rows),))
    assert looks[:49] == [1] * 49
    assert set(looks[49:]) == {2, 3, 4}
    assert sum(looks) == pytest.approx(119, abs=3)  # windows that measurements stand for: all but the first
    assert loop.drift.seen == 11_800  # the watch looks at all since the sample is full
    looks.clear()
    fed(make(mihash.online.SketchHash(12)), rows=rows[:6000], labels=np.zeros(6000, dtype=int), sizes=(6000,))
    assert set(looks) == {1}
    looks.clear()
    fixed = make(mihash.online.LSH(12))  # its mapping never moves, so nothing can be missed
    fed(fixed, rows=rows, labels=None, sizes=(len(rows),))
    assert (looks, fixed.drift.seen) == ([], 11_800)


@pytest.mark.identity
@pytest.mark.parametrize("n", [5050, 6150, 7950])
def test_between_two_measurements_a_state_continues_to_the_same_bits(n):
    rows = long_stream(9000, change=8000)

    def quick():
        return make(mihash.online.SketchHash(12), metric="euclidean")

    whole, first, second = quick(), quick(), quick()
    told = fed(whole, (4000, 5000), None, rows)
    assert [check.seen for check in alarms(told)] in ([8100], [8200])  # not later than at every window
    before = fed(first, (n,), None, rows)
    second.restore(saved.load(saved.dump(first.state())))
    after = fed(second, (len(rows) - n,), None, rows[n:])
    assert [check for check, _, _ in before + after] == [check for check, _, _ in told]
    assert saved.dump(second.state()) == saved.dump(whole.state())


def test_what_is_missed_is_measured_before_it_is_learned():
    loop = make(drift=None, triggers=[mihash.PriceUpdate(10**6)])
    fed(loop, (1000,))
    trigger, mapping, accepted = loop.branches[0].trigger, loop.current, loop.accepted
    before, usual = trigger.missed, trigger.state()["usual"]
    sample, labels = loop.reservoir.X.copy(), loop.reservoir.y.copy()
    loop.feed(*loop.check(X[1000:1100], y[1000:1100]))
    now, then = (
        arriving_information(each.encode(X[1000:1100]), each.encode(sample), (y[1000:1100], labels), 12)
        for each in (mapping, accepted)
    )
    m = 0.9 * usual + 0.1 * (now.mean() - trigger.by_chance)
    assert trigger.missed == pytest.approx(before + (now - then).sum() / m)
    assert before > 0


def test_a_price_can_be_set_and_is_a_check():
    loop = make()
    fed(loop, (1000,))
    told = []
    check = loop.set_price(3.5, "measured", notify=lambda *each: told.append(each))
    assert (check.kind, check.seen, check.current, check.snapshot) == ("price", 1000, 3.5, 5.0)
    assert told == [(check, None, 0)]
    assert loop.branches[0].trigger.price == 3.5
    other = make()
    other.restore(saved.load(saved.dump(loop.state())))
    assert other.branches[0].trigger.price == 3.5
    with pytest.raises(mihash.errors.NotReady, match="no price"):
        make(triggers=[mihash.FixedRate()]).set_price(3, "measured")


def test_a_replay_reads_alarms_and_makes_none():
    told = fed(make())
    (alarm,) = alarms(told)
    log = [(check, mapping) for check, mapping, _ in told]
    calm = make(drift=mihash.DriftWatch(threshold=1e9))  # measures no alarm, as another processor might
    calm.follow(log)
    assert [check for check, _, _ in fed(calm)] == [check for check, _, _ in told]
    assert (calm.reservoir.origin >= 1600).mean() > 0.7
    nervous = make(drift=mihash.DriftWatch(threshold=0.01, quiet=0))
    nervous.follow(log)
    again = fed(nervous)
    assert [check for check, _, _ in again] == [check for check, _, _ in told]
    assert alarms(again) == [alarm]


def test_behind_the_log_alarms_are_made_again():
    told = fed(make())
    log = [(check, mapping) for check, mapping, _ in told if check.seen <= 1500]
    loop = make()
    loop.follow(log)
    assert [check for check, _, _ in fed(loop)] == [check for check, _, _ in told]
    assert DecisionLog().take(0, "start", 0) is None
    assert DecisionLog(log).rest(10**6) == []


def test_an_alarm_that_cannot_be_told_is_told_again():
    expected, loop, told, failed = fed(make()), make(), [], []

    def fail_once(check, mapping, branch):
        if check.kind == "alarm" and not failed:
            failed.append(check)
            raise OSError("disk full")
        told.append((check, mapping, branch))

    with pytest.raises(OSError, match="disk full"):
        loop.feed(*loop.check(X, y), notify=fail_once)
    loop.learn(notify=fail_once)
    assert [check for check, _, _ in told] == [check for check, _, _ in expected]


class Breaking(mihash.online.LSH):
    """A learner whose mapping cannot be made after 500 examples."""

    def learn(self, X, y, reservoir, slots):  # noqa: ARG002
        self.broken = reservoir.seen >= 500

    def current(self):
        if getattr(self, "broken", False):
            raise ArithmeticError("it is broken")
        return super().current()


def test_a_failure_while_it_looks_stops_learning():
    loop = make(Breaking(12), triggers=[mihash.PriceUpdate(interval=10**6)], raises=False)
    fed(loop)
    assert loop.failure == "lsh raised ArithmeticError: it is broken"
    assert loop.seen == 2600


def test_online_hashing_takes_a_watch_and_saves_it(tmp_path):
    def system():
        return mihash.OnlineHashing(mihash.online.MomentHash(12), mihash.PriceUpdate(5), 200, drift=WATCH)

    whole, first = system(), system()
    whole.feed(X, y)
    assert [check.seen for check in whole.history() if check.kind == "alarm"] in ([1700], [1800])
    first.feed(X[:1650], y[:1650])
    first.save(tmp_path / "system")
    second = mihash.OnlineHashing.load(tmp_path / "system")
    assert second.drift == WATCH
    assert second.trigger == mihash.PriceUpdate(5)
    second.feed(X[1650:], y[1650:])
    assert second.history() == whole.history()
    assert second.current == whole.current
    assert second.trigger.missed == whole.trigger.missed
    with pytest.raises(mihash.errors.InvalidInput, match="`drift` must be a DriftWatch"):
        mihash.OnlineHashing(mihash.online.LSH(8), drift=7)


def test_an_alarm_names_classes_that_are_strings():
    system = mihash.OnlineHashing(mihash.online.MomentHash(12), mihash.PriceUpdate(5), 200, drift=WATCH)
    system.feed(X, np.array(["a", "b", "c", "owl", "emu", "kiwi"])[y])
    (alarm,) = [check for check in system.history() if check.kind == "alarm"]
    losers = re.search(r"most about classes (\w+), (\w+) and (\w+); the sum", alarm.reason).groups()
    assert set(losers) == {"owl", "emu", "kiwi"}


def test_moments_follow_a_change_better():
    """After new classes came, the codes are better with the watch than without."""
    rows, labels = stream(n=3600, change=2400)
    found = []
    for drift in (WATCH, None):
        loop = make(drift=drift, triggers=[mihash.FixedRate(100)])
        fed(loop, (2900,), labels, rows)
        codes = loop.accepted.encode(rows[2900:])
        found.append(mihash.quality(codes, labels[2900:], 12))
    assert found[0] > found[1]


def test_the_quantile_of_distances_is_taken_only_where_it_is_used():
    loop = make()
    fed(loop, labels=None)
    assert not loop.reservoir.measures
    assert loop.reservoir.state()["neighborhood"] is None
    rule = loop.reservoir.neighborhood  # asked for, of the sample of now
    assert rule is loop.reservoir.neighborhood
    assert rule == mihash.neighbors.within_fraction(loop.reservoir.X)
    assert loop.sampled()(loop.current).information > 0
    for used in (make(mihash.online.MIHash(12)), make(triggers=[mihash.TriggerUpdate()])):
        assert used.reservoir.measures


def test_a_price_counts_what_is_more_than_chance():
    generator = np.random.default_rng(8)
    many = generator.integers(0, 60, 1500)  # few neighbours for each example
    rows = generator.standard_normal((60, 8))[many] + 0.4 * generator.standard_normal((1500, 8))
    found = []
    for chunks in (1, 15):
        system = mihash.OnlineHashing(mihash.online.MomentHash(12), mihash.PriceUpdate(5), reservoir_size=300)
        for part in np.array_split(np.arange(1500), chunks):
            system.feed(rows[part], many[part])
        found.append((system.trigger.state(), system.updates))
    assert found[0] == found[1]
    state = found[0][0]
    assert 0.01 < state["by_chance"] < state["last"][0]
    assert state["usual"] < state["last"][0]
