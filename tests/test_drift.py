import numpy as np
import pytest

import mihash
import oracles_drift
from mihash import state
from mihash.drift_evidence import Evidence, anchor_rows, information_evidence, projection_evidence
from mihash.errors import InvalidInput
from mihash.information import arriving_information, own_information
from mihash.mapping import LinearMapping

rng = np.random.default_rng(0)
y = rng.integers(0, 4, 2500)
centres = 2 * rng.standard_normal((8, 8))
X = (centres[y] + rng.standard_normal((2500, 8))).astype(np.float32)
mapping = LinearMapping(rng.standard_normal((8, 12)))


def bits(vectors):
    return [tuple(row) for row in (mapping.project(vectors) > 0).tolist()]


@pytest.mark.parametrize("several", [False, True])
def test_information_of_arriving_items_and_of_the_samples_own(several):
    new, sample = X[:30], X[100:180]
    labels = np.eye(4, dtype=np.uint8)[y] if several else y
    found = arriving_information(mapping.encode(new), mapping.encode(sample), (labels[:30], labels[100:180]), 12)
    expected = [
        oracles_drift.information(*pair, bits(sample), y[100:180]) for pair in zip(bits(new), y, strict=False)
    ]
    assert found == pytest.approx(expected, abs=1e-12)
    near = y[:30, None] == y[100:180]
    assert np.array_equal(found, arriving_information(mapping.encode(new), mapping.encode(sample), near, 12))
    rows = np.array([3, 70])
    own = own_information(mapping.encode(sample), labels[100:180], rows, 12)
    for row, value in zip(rows, own, strict=True):
        others = [i for i in range(80) if i != row]
        args = [bits(sample)[i] for i in others], [y[100 + i] for i in others]
        assert value == pytest.approx(oracles_drift.information(bits(sample)[row], y[100 + row], *args), abs=1e-12)


def test_an_item_without_labels_is_not_its_own_neighbour():
    labels = np.zeros((80, 4), dtype=np.uint8)
    labels[:40, 0] = 1
    own = own_information(mapping.encode(X[:80]), labels, np.array([0, 79]), 12)
    assert own[0] > 0
    assert own[1] == 0  # it has no neighbours


def test_scores_are_those_of_plain_loops():
    arriving, own = rng.random(50), 0.2 + rng.random(70)
    found = information_evidence(arriving, own, np.zeros(50, dtype=int), np.zeros(9, dtype=int))
    assert found.score == pytest.approx(oracles_drift.z_score(arriving.tolist(), own.tolist()), rel=1e-6)
    new, old = rng.standard_normal((40, 5)), 2 * rng.standard_normal((60, 5))
    assert projection_evidence(new, old).score == pytest.approx(-oracles_drift.moved(new.tolist(), old.tolist()))


@pytest.mark.parametrize("labels", [True, False])
def test_chance_gives_a_score_about_0(labels):
    generator = np.random.default_rng(1)
    scores = []
    for _ in range(100):
        new, old = generator.standard_normal((100, 8)), generator.standard_normal((1000, 8))
        zeros = np.zeros(100, dtype=int)
        found = (
            information_evidence(new[:, 0], old[:, 0], zeros, zeros) if labels else projection_evidence(new, old)
        )
        scores.append(found.score)
    assert abs(np.mean(scores)) < 0.3
    assert max(np.abs(scores)) < 5


@pytest.mark.parametrize("labelled", [True, False])
@pytest.mark.parametrize("start", [1000, None])
def test_alarms_are_those_of_plain_loops(labelled, start):
    own = np.random.default_rng(5)
    scores = np.concatenate([own.normal(-0.5, 1, 40), own.normal(-9, 1, 6), own.normal(0, 1, 30)])
    scores[:8] -= 4
    watch, found = mihash.DriftWatch(quiet=500, start=start), []
    for number, score in enumerate(scores):
        alarm = watch.add(Evidence(score, 0.1 if labelled else float("nan"), 0.2, (), "it fell"), 100)
        if alarm is not None:
            found.append(number)
            assert alarm.seen == 100 * (number + 1)
            assert alarm.reason.startswith("the stream has changed: it fell; the sum of ")
            watch.restart()
    assert found == oracles_drift.alarms(scores.tolist(), 100, 6.0, 2.0, 500, labelled, slow=start is None)
    assert found
    early = labelled and start is None  # it followed the first scores too slowly
    assert found[0] in ((4, 5, 6, 7) if early else (40, 41, 42, 43))


def observe(watch, encoder, X, y, start=500):
    """Return after how many rows there were alarms; the sample is the rows before."""
    found = []
    for at in range(start, len(X), 100):
        sample = slice(0, start)
        block = slice(at, at + 100)
        alarm = watch.observe(
            encoder, X[block], None if y is None else y[block], X[sample], None if y is None else y[sample]
        )
        if alarm is not None:
            found.append((at + 100, alarm))
    return found


@pytest.mark.parametrize("encoder", [mapping, mapping.encode, lambda X: mapping.project(X) > 0])
@pytest.mark.parametrize("labelled", [True, False])
def test_an_abrupt_change_raises_an_alarm_and_nothing_else_does(encoder, labelled):
    changed, labels = X.copy(), y.copy()
    if labelled:
        labels[1800:] = y[1800:] + 4  # other classes
        changed[1800:] += centres[labels[1800:]] - centres[y[1800:]]
    else:
        changed[1800:] += 1.5
    given = labels if labelled else None
    assert observe(mihash.DriftWatch(), encoder, X, y if labelled else None) == []
    found = observe(mihash.DriftWatch(), encoder, changed, given)
    assert found[0][0] in (1900, 2000)
    assert len(found) == 1  # the next 1000 rows are quiet
    alarm = found[0][1]
    assert alarm.strength > 6
    if labelled:
        assert set(alarm.moved) <= {4, 5, 6, 7}
        assert alarm.arrivals < alarm.sample
        assert "of 100 have a class that the sample lacks" in alarm.reason
    else:
        assert np.isnan(alarm.arrivals)
        assert "projections have moved" in alarm.reason


def test_without_labels_an_old_sample_raises_fewer_alarms_after_the_first():
    """Blocks differ from a sample that is never replaced for a reason that is known; a watch alone is told so."""
    changed = np.concatenate([X, X, X])
    changed[1800:] += 0.5
    assert len(observe(mihash.DriftWatch(), mapping, changed, None)) == 1


def test_names_as_labels():
    names = np.array(["cat", "dog", "bird", "fish"])[y]
    pairs = [mihash.DriftWatch(), mihash.DriftWatch()]
    for watch, labels in zip(pairs, (y, names), strict=True):
        watch.observe(mapping, X[500:600], labels[500:600], X[:500], labels[:500])
    assert pairs[0].state() == pairs[1].state()


def test_a_watch_goes_on_where_its_state_was_taken():
    first = mihash.DriftWatch(quiet=0)
    for at in range(500, 1200, 100):
        first.observe(mapping, X[at : at + 100] + 0.3, None, X[:500])
    second = mihash.DriftWatch(quiet=0)
    second.restore(state.load(state.dump(first.state())))
    for at in range(1200, 2400, 100):
        both = [watch.observe(mapping, X[at : at + 100] + 0.3, None, X[:500]) for watch in (first, second)]
        assert both[0] == both[1] or both[0].strength == both[1].strength
    assert first.state() == second.state()


def test_a_watch_is_equal_by_its_parameters():
    watch = mihash.DriftWatch(threshold=5)
    assert watch == mihash.DriftWatch(5.0)
    assert watch != mihash.DriftWatch()
    assert mihash.DriftWatch(**watch.parameters()) == watch
    assert repr(watch) == "DriftWatch(threshold=5.0, slack=2.0, quiet=1000, keep=1000, start=1000)"


@pytest.mark.parametrize(("start", "n_first"), [(1000, 1000), (300, 300), (None, 5000), (9000, 5000)])
def test_a_watch_is_ready_once_the_sample_holds_enough(start, n_first):
    watch = mihash.DriftWatch(start=start)
    assert [watch.ready(n, 5000) for n in (n_first - 1, n_first)] == [False, True]
    assert watch.ready(200, 200)


def test_parameters_of_earlier_files_wait_for_a_full_sample():
    earlier = {"threshold": 6.0, "slack": 2.0, "quiet": 1000, "keep": 1000}
    assert mihash.DriftWatch.of(earlier) == mihash.DriftWatch(start=None)
    assert mihash.DriftWatch.of(mihash.DriftWatch().parameters()) == mihash.DriftWatch()


def test_anchors_go_round_the_sample():
    assert anchor_rows(50, 7).tolist() == [*range(7, 50), *range(7)]
    assert len(anchor_rows(1000, 100)) == 200
    assert anchor_rows(1000, 900)[:101].tolist() == [*range(900, 1000), 0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((X[:1], None, X[:9]), "2 examples or more; got 1 and 9"),
        ((X[:5], y[:5], X[:9]), "for both the block and the sample"),
        ((X[:5], y[:5], X[:9], np.eye(9)), "must be of one kind"),
        ((X[:5], None, X[:9, :3]), "`sample`"),
    ],
)
def test_bad_blocks(arguments, words):
    with pytest.raises(InvalidInput, match=words):
        mihash.DriftWatch().observe(mapping, *arguments)


@pytest.mark.parametrize("name", ["threshold", "slack", "quiet", "keep", "start"])
def test_bad_parameters(name):
    with pytest.raises(InvalidInput, match=f"`{name}` must be"):
        mihash.DriftWatch(**{name: -1})


def heavy(generator, n, kind):
    """Return rows of a stream that does not change."""
    rows = generator.standard_normal((n, 16))
    if kind == "heavy tails":
        return rows / np.sqrt(generator.chisquare(3, (n, 16)) / 3)
    if kind == "outliers":
        rows[generator.random(n) < 0.002] *= 1000
    if kind == "one direction":
        rows[:, 0] *= 30
    if kind == "rare":
        return 1.0 * (generator.random((n, 16)) < 0.02)
    return rows


@pytest.mark.parametrize("kind", ["normal", "heavy tails", "outliers", "one direction", "rare"])
@pytest.mark.parametrize("n_bits", [2, 32])
def test_streams_that_do_not_change_raise_no_alarm(kind, n_bits):
    n_alarms, delays = 0, []
    for seed in range(3):
        generator = np.random.default_rng([seed, 77])
        planes = generator.standard_normal((16, n_bits))
        old = heavy(generator, 1000, kind) @ planes
        watch = mihash.DriftWatch(quiet=500)
        for _ in range(40):
            evidence = projection_evidence(heavy(generator, 100, kind) @ planes, old)
            n_alarms += watch.add(evidence, 100) is not None
        turn = np.linalg.qr(generator.standard_normal((16, 16)))[0]
        for block in range(1, 20):
            changed = heavy(generator, 100, kind) @ turn + heavy(generator, 1000, kind).std(axis=0)
            if watch.add(projection_evidence(changed @ planes, old), 100) is not None:
                delays.append(block)
                break
    assert n_alarms == 0
    assert n_bits == 2 or delays == [1, 1, 1]  # two bits tell little
