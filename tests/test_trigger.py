import dataclasses

import numpy as np
import pytest
from sklearn.decomposition import PCA

import mihash
from mihash.errors import InvalidInput
from mihash.mapping import LinearMapping
from mihash.neighbors import SharedLabel, WithinDistance, within_fraction

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 300)
X = (rng.standard_normal((4, 8))[y] * 3 + rng.standard_normal((300, 8))).astype(np.float32)
good = LinearMapping(PCA(6).fit(X).components_.T)
bad = LinearMapping(rng.standard_normal((8, 6)), offset=np.full(6, 25.0))


def gain(neighbors):
    return mihash.quality(good.encode(X), neighbors, 6) - mihash.quality(bad.encode(X), neighbors, 6)


def test_gain_is_the_difference_of_qualities_on_the_same_sample():
    decision = mihash.TriggerUpdate().decide(good, bad, X, y)
    assert decision.update
    assert decision.gain == pytest.approx(gain(y))
    assert decision.gain == decision.current - decision.snapshot
    back = mihash.TriggerUpdate().decide(bad, good, X, y)
    assert not back.update
    assert back.gain == -decision.gain
    assert "is not above theta = 0" in back.reason


def test_theta_is_strict():
    exact = mihash.TriggerUpdate().decide(good, bad, X, y).gain
    assert not mihash.TriggerUpdate(theta=exact).decide(good, bad, X, y).update
    assert mihash.TriggerUpdate(theta=np.nextafter(exact, 0)).decide(good, bad, X, y).update


def test_infinite_thetas():
    assert mihash.TriggerUpdate(theta=float("-inf")).decide(bad, good, X, y).update
    assert not mihash.TriggerUpdate(theta=float("inf")).decide(good, bad, X, y).update


def test_a_relative_theta_is_a_share_of_the_snapshots_quality():
    better = LinearMapping(good.weights[:, :2])
    decision = mihash.TriggerUpdate().decide(better, good, X, y)
    assert 0 < decision.snapshot < decision.current
    share = decision.gain / decision.snapshot
    for theta, update in ((0.99 * share, True), (1.01 * share, False)):
        again = mihash.TriggerUpdate(theta, relative=True).decide(better, good, X, y)
        assert again.update == update
        assert again.reason.endswith(f"times {decision.snapshot:.4f}")


def test_an_infinite_relative_theta_is_infinite_for_a_snapshot_without_quality():
    for theta, update in ((float("-inf"), True), (float("inf"), False)):
        decision = mihash.TriggerUpdate(theta, relative=True).decide(good, bad, X, y)
        assert decision.snapshot == 0
        assert decision.update == update


@pytest.mark.parametrize("trigger", [mihash.TriggerUpdate(theta=float("-inf")), mihash.FixedRate()])
def test_no_update_if_the_mapping_has_not_moved(trigger):
    nearly = LinearMapping(good.weights, offset=np.full(6, 1e-7))
    decision = trigger.decide(nearly, good, X, y)
    assert not decision.update
    assert "not moved" in decision.reason
    further = LinearMapping(good.weights, offset=np.array([2e-6, 0, 0, 0, 0, 0]))
    assert trigger.decide(further, good, X, y).update


def test_fixed_rate_measures_nothing():
    decision = mihash.FixedRate(interval=7).decide(bad, good, X, y)
    assert decision.update
    assert np.isnan(decision.gain)
    assert "7 examples" in decision.reason


def test_any_callable_is_a_mapping():
    packed = mihash.TriggerUpdate().decide(good.encode, bad.encode, X, y)
    signs = mihash.TriggerUpdate().decide(lambda X: np.sign(good.project(X)), lambda X: bad.project(X) > 0, X, y)
    expected = mihash.TriggerUpdate().decide(good, bad, X, y)
    assert packed.gain == signs.gain == expected.gain
    assert not mihash.FixedRate().decide(good.encode, good.encode, X, y).update


def test_callables_may_give_codes_of_different_lengths():
    wide = LinearMapping(np.random.default_rng(1).standard_normal((8, 20)))
    decision = mihash.TriggerUpdate().decide(wide.encode, lambda X: wide.encode(X)[:, :2], X, y)
    assert decision.current == mihash.quality(wide.encode(X), y, 20)
    assert decision.snapshot == mihash.quality(wide.encode(X)[:, :2], y, 16)


def test_neighbours():
    decide = mihash.TriggerUpdate().decide
    matrix = y[:, None] == y
    assert decide(good, bad, X, neighbors=matrix).gain == pytest.approx(gain(matrix))
    Y = np.eye(4, dtype=int)[y]
    assert decide(good, bad, X, Y).gain == pytest.approx(gain(y))
    assert decide(good, bad, X, Y, neighbors=SharedLabel()).gain == pytest.approx(gain(y))
    near = within_fraction(X).between(X, None, X, None)
    assert decide(good, bad, X).gain == pytest.approx(gain(near))
    assert decide(good, bad, X, neighbors=2.0).gain == pytest.approx(
        gain(WithinDistance(2.0).between(X, None, X, None))
    )


def test_one_class_has_no_gain():
    decision = mihash.TriggerUpdate().decide(good, bad, X, np.zeros(300, dtype=int))
    assert (decision.update, decision.gain) == (False, 0)


def test_a_sample_of_one_decides_nothing():
    trigger = mihash.TriggerUpdate(theta=float("-inf"))
    decision = trigger.decide(good, bad, X[:1])
    assert not decision.update
    assert "fewer than 2" in decision.reason
    assert trigger.decide(good, bad, X[:2]).update


@pytest.mark.parametrize("theta", ["high", float("nan"), None])
def test_bad_theta(theta):
    with pytest.raises(InvalidInput, match="`theta` must be a number; got"):
        mihash.TriggerUpdate(theta=theta)


def test_relative_is_true_or_false():
    with pytest.raises(InvalidInput, match="`relative` must be True or False; got 'no'"):
        mihash.TriggerUpdate(relative="no")


@pytest.mark.parametrize("rule", [mihash.TriggerUpdate, mihash.FixedRate])
def test_bad_interval(rule):
    with pytest.raises(InvalidInput, match="`interval`"):
        rule(interval=0)


def test_bad_samples():
    trigger = mihash.TriggerUpdate()
    for arguments in (
        {"X": [[np.nan] * 8], "y": [0]},
        {"X": X, "y": [0]},
        {"X": X[:, :3], "y": y},
        {"X": X, "neighbors": np.zeros((2, 2))},
        {"X": X, "neighbors": -1.0},
    ):
        with pytest.raises(InvalidInput):
            trigger.decide(good, bad, **arguments)
    with pytest.raises(InvalidInput, match="callable"):
        trigger.decide(good, "bad", X, y)
    with pytest.raises(InvalidInput, match="one code for each of 300 rows"):
        trigger.decide(good, lambda X: X[:3] > 0, X, y)


def test_a_trigger_is_a_value():
    assert mihash.TriggerUpdate(0.1) == mihash.TriggerUpdate(theta=0.1, interval=100)
    with pytest.raises(dataclasses.FrozenInstanceError):
        mihash.TriggerUpdate().theta = 1
