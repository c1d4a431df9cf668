import numpy as np
import pytest

import mihash
from mihash.paper import learn_once
from mihash.paper.datasets import checkpoints, digits, find_protocol

INFINITY = float("inf")
SPLIT = find_protocol("digits").split(digits(), seed=3)
RULES = [
    mihash.FixedRate(20),
    mihash.FixedRate(130),
    mihash.TriggerUpdate(0, 20),
    mihash.TriggerUpdate(0.02, 100),
    mihash.TriggerUpdate(INFINITY, 20),
]


@pytest.mark.parametrize("name", ["mihash", "sketchhash", "osh"])
def test_a_branch_is_the_loop_under_its_trigger(name):
    """One pass with five triggers equals five loops, each with its own."""
    make = mihash.online.LEARNERS[name]
    points = checkpoints(len(SPLIT.stream), 6)
    result = learn_once(SPLIT, make(16, seed=2), RULES, points, reservoir_size=150, seed=5)
    for branch in result.branches:
        system = mihash.OnlineHashing(make(16, seed=2), branch.trigger, 150, seed=5)
        done, precisions = 0, []
        for seen in points:
            system.feed(SPLIT.X_stream[done:seen], SPLIT.y_stream[done:seen])
            done = seen
            codes = [system.snapshot.encode(X) for X in (SPLIT.X_query, SPLIT.X_base)]
            precisions.append(mihash.mean_average_precision(*codes, SPLIT.relevant, 16))
        assert branch.updates == system.updates
        assert branch.updated_at == [check.seen for check in system.history() if check.accepted]
        assert branch.snapshot == system.snapshot
        assert np.allclose(branch.precisions, precisions, atol=1e-12)
        assert branch.area == pytest.approx(np.mean(precisions))
        assert result.last == system.current


def test_missing_labels_are_rows_that_are_not_learned_from():
    points, rule = checkpoints(len(SPLIT.stream), 3), [mihash.FixedRate(100)]
    found = learn_once(SPLIT, mihash.online.MIHash(16), rule, points, reservoir_size=100, seed=4, missing=0.4)
    kept = np.random.default_rng([4, 21]).random(len(SPLIT.stream)) >= 0.4
    system = mihash.OnlineHashing(mihash.online.MIHash(16), rule[0], 100, seed=4)
    system.feed(SPLIT.X_stream[kept], SPLIT.y_stream[kept])
    assert found.last == system.current
    assert found.branches[0].updates == system.updates


def test_times_and_gains_are_kept():
    points = checkpoints(len(SPLIT.stream), 3)
    calls = []
    result = learn_once(
        SPLIT,
        mihash.online.MIHash(8),
        RULES,
        points,
        reservoir_size=100,
        progress=lambda *call: calls.append(call),
    )
    assert calls[-1] == (1597, 1597)
    assert result.learning_s > 0
    assert result.examples == points.tolist()
    assert [len(branch.gains) > 0 for branch in result.branches][2:4] == [True, True]
    assert result.first != result.last
    assert all(branch.deciding_s > 0 for branch in result.branches)


@pytest.mark.parametrize("name", ["mihash", "sketchhash"])
def test_first_and_last_updates_can_be_forced(name):
    """At theta = inf these are the only updates but for SketchHash's own; where a trigger updates, none is new."""
    make, n = mihash.online.LEARNERS[name], len(SPLIT.stream)
    rules = [mihash.TriggerUpdate(INFINITY, 20), mihash.TriggerUpdate(0, 100), mihash.FixedRate(n)]
    points = checkpoints(n, 4)
    plain, forced = (
        learn_once(SPLIT, make(16, seed=2), rules, points, reservoir_size=150, seed=5, ends=ends)
        for ends in (False, True)
    )
    assert forced.last == plain.last
    first = make(16).block_size
    for after in forced.branches:
        assert {0, first, n} <= set(after.updated_at)
        assert after.snapshot == forced.last
        assert after.updates == len(set(after.updated_at))
    assert set(forced.branches[0].updated_at) == {*plain.branches[0].updated_at, first, n}
    assert set(forced.branches[2].updated_at) == {*plain.branches[2].updated_at, first}
    assert forced.branches[0].precisions[-1] == forced.branches[2].precisions[-1]
    assert forced.branches[0].precisions[-1] != plain.branches[0].precisions[-1]


@pytest.mark.parametrize(
    ("name", "forced"), [("okh", 0), ("osh", 0), ("adapthash", 0), ("mihash", 0), ("sketchhash", 4)]
)
def test_an_infinite_theta_leaves_the_first_table_alone(name, forced):
    """But for SketchHash, whose sketch of 200 is filled by four batches of 50 (App. D.2)."""
    learner = mihash.online.LEARNERS[name](16, seed=2)
    never = [mihash.TriggerUpdate(INFINITY, 50)]
    made = learn_once(SPLIT, learner, never, checkpoints(len(SPLIT.stream), 3), reservoir_size=150, seed=5)
    assert made.branches[0].updates == 1 + forced
    assert made.first != made.last
