import pytest

import mihash
from checks import clusters
from mihash import state as saved
from mihash.loop.learning_loop import Loop
from mihash.mapping import NormalizedMapping

X, y = clusters(n=1200)


def make(*triggers, metric="euclidean", raises=False, learner=None):
    return Loop(learner or mihash.online.MIHash(16), mihash.Reservoir(100), triggers, metric=metric, raises=raises)


class Notes:
    """What a loop has told: checks and accepted mappings, by trigger."""

    def __init__(self):
        self.checks, self.mappings = {}, {}

    def __call__(self, check, mapping, branch):
        self.checks.setdefault(branch, []).append(check)
        assert check.accepted == (mapping is not None)
        if mapping is not None:
            self.mappings.setdefault(branch, []).append(mapping)


RULES = mihash.TriggerUpdate(0.0, 100), mihash.FixedRate(70), None


def test_several_triggers_decide_as_each_alone():
    together = Notes()
    loop = make(*RULES)
    loop.feed(*loop.check(X, y), notify=together)
    for position, rule in enumerate(RULES):
        alone, single = Notes(), make(rule)
        for start in range(0, 1200, 170):
            single.feed(*single.check(X[start : start + 170], y[start : start + 170]), notify=alone)
        assert alone.checks[0] == together.checks[position]
        assert alone.mappings[0] == together.mappings[position]
        assert single.current == loop.current
    assert len(together.checks[2]) == 2  # the start, and the normalisation


def test_rows_left_for_later_are_learned_from_in_pieces():
    whole, pieces, notes, others = make(RULES[0]), make(RULES[0]), Notes(), Notes()
    whole.feed(*whole.check(X, y), notify=notes)
    buffer, labels = X.copy(), y.copy()
    pieces.put(buffer[:500], labels[:500])
    buffer[:500], labels[:500] = 0, 0  # the caller uses them again
    pieces.learn(100, others)
    assert (pieces.seen, pieces.queue.later) == (100, 400)
    assert pieces.current.mean.tolist() == [0] * 12  # not normalised yet
    pieces.learn(230, others)
    pieces.put(X[500:], y[500:])
    while pieces.queue.later:
        pieces.learn(93, others)
    assert pieces.seen == whole.seen == 1200
    assert others.checks == notes.checks
    assert pieces.current == whole.current
    assert saved.dump(pieces.state()) == saved.dump(whole.state())


@pytest.mark.parametrize("n", [0, 40, 256, 630])
def test_a_state_continues_to_the_same_bits(n):
    whole, part, again, notes = make(RULES[0]), make(RULES[0]), make(RULES[0]), Notes()
    whole.feed(*whole.check(X, y), notify=notes)
    others = Notes()
    if n:
        part.feed(*part.check(X[:n], y[:n]), notify=others)
    earlier = part.state()
    del earlier["before"]  # as checkpoints of mihash 0.1 are
    again.restore(saved.load(saved.dump(earlier)))
    assert again.seen == n
    again.feed(*again.check(X[n:], y[n:]), notify=others)
    assert others.checks == notes.checks
    assert saved.dump(again.state()) == saved.dump(whole.state())


class Breaking(mihash.online.LSH):
    """A learner that fails from its 300th example on."""

    def learn(self, X, y, reservoir, slots):
        if reservoir.seen >= 300:
            raise ArithmeticError("it is broken")
        super().learn(X, y, reservoir, slots)


def test_a_failure_stops_learning_and_stays_so():
    loop = make(mihash.FixedRate(50), learner=Breaking(8))
    loop.feed(*loop.check(X[:450], y[:450]))
    assert loop.failure == "lsh raised ArithmeticError: it is broken"
    assert (loop.seen, loop.queue.due) == (450, 0)
    loop.feed(*loop.check(X[450:], y[450:]))
    assert loop.seen == 450
    assert isinstance(loop.current, NormalizedMapping)
    assert loop.request().seen == 450
    again = make(mihash.FixedRate(50), learner=Breaking(8))
    again.restore(saved.load(saved.dump(loop.state())))
    assert (again.failure, again.seen, again.current) == (loop.failure, 450, loop.current)
    fresh = make(mihash.FixedRate(50), learner=mihash.online.LSH(8))
    fresh.succeed(again)
    notes = Notes()
    fresh.feed(*fresh.check(X[450:600], y[450:600]), notify=notes)
    assert [check.seen for check in notes.checks[0]] == [500, 550, 600]
    assert notes.checks[0][0].number == loop.n_checks


class Undecided(mihash.TriggerUpdate):
    """A trigger that fails."""

    def judge(self, moved, n_sample, measure):  # noqa: ARG002
        raise ArithmeticError("it cannot decide")


def test_a_trigger_that_fails_stops_learning():
    loop = make(Undecided())
    loop.feed(*loop.check(X, y))
    assert "it cannot decide" in loop.failure
    strict = make(Undecided(), raises=True)
    with pytest.raises(ArithmeticError):
        strict.feed(*strict.check(X, y))


def test_a_check_that_cannot_be_told_is_made_again():
    loop, plain, notes, others = make(RULES[0]), make(RULES[0]), Notes(), Notes()
    plain.feed(*plain.check(X, y), notify=notes)
    told = []

    def fail_once(check, mapping, branch):
        if check.number == 4 and not told:
            told.append(check)
            raise OSError("disk full")
        others(check, mapping, branch)

    with pytest.raises(OSError, match="disk full"):
        loop.feed(*loop.check(X, y), notify=fail_once)
    loop.learn(notify=fail_once)
    assert others.checks == notes.checks
    assert loop.current == plain.current
    assert told == [notes.checks[0][4]]
