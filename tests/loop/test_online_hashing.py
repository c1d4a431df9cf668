import copy
import os
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

import mihash
from checks import clusters
from mihash import state
from mihash.errors import CorruptStore, InvalidInput, NotReady, Renamed, StoreError, UnknownName
from mihash.mapping import LinearMapping
from mihash.neighbors import WithinDistance

X, y = clusters(n=2000)
INFINITY = float("inf")
FIXTURES = Path(__file__).parent / "fixtures"


def loop(trigger=None, **options):
    learner = options.pop("learner", None) or mihash.online.MIHash(16, whiten=options.pop("whiten", None))
    return mihash.OnlineHashing(learner, trigger or mihash.TriggerUpdate(), 100, **options)


@pytest.mark.parametrize(
    ("trigger", "updates"),
    [
        (mihash.FixedRate(10), 201),
        (mihash.TriggerUpdate(-INFINITY, 10), 201),
        (mihash.TriggerUpdate(INFINITY, 10), 1),
        (mihash.FixedRate(100), 21),
        (mihash.FixedRate(2001), 1),
    ],
)
def test_updates_are_counted_with_the_initial_table(trigger, updates):
    system = loop(trigger)
    assert system.updates == 0
    system.feed(X, y)
    assert system.updates == updates
    assert [check.kind for check in system.history()] == ["start"] + ["trigger"] * (2000 // trigger.interval)
    assert sum(check.accepted for check in system.history()) == updates


def test_a_stream_without_labels_moves_from_the_first_block_on():
    system = loop(mihash.FixedRate(100))
    system.feed(X)
    assert system.updates == 21


@pytest.mark.parametrize("labels", [y, None])
def test_the_first_check_may_find_a_mapping_that_has_not_moved(labels):
    system = loop(mihash.FixedRate(1))
    system.feed(X[:50], None if labels is None else labels[:50])
    first = system.history()[1]
    assert not first.accepted  # the first example meets an empty reservoir
    assert "not moved" in first.reason
    assert system.updates < 51


def test_the_trigger_makes_fewer_updates_and_keeps_the_quality():
    changes = []
    for seed in range(4):
        X, y = clusters(n=2000, seed=seed)
        both = loop(mihash.FixedRate(20)), loop(mihash.TriggerUpdate(0, 20))
        for system in both:
            system.feed(X[:1800], y[:1800])
        fixed, triggered = (
            mihash.mean_average_precision(
                system.snapshot.encode(X[1800:]), system.snapshot.encode(X[:1800]), (y[1800:], y[:1800]), 16
            )
            for system in both
        )
        assert both[1].updates < both[0].updates / 1.5
        changes.append(triggered - fixed)
    assert np.mean(changes) > -0.02


def test_decisions_are_those_of_the_trigger_alone():
    """The loop's incremental measurement equals `decide` on the reservoir."""
    for labels in (y, None, np.eye(5, dtype=int)[y]):
        system = loop(mihash.TriggerUpdate(0, 100))
        for start in range(0, 1500, 100):
            before = system.snapshot if start else None
            part = slice(start, start + 100)
            system.feed(X[part], None if labels is None else labels[part])
            if before is None:
                continue
            decision = system.history()[-1].decision
            rule = system.reservoir.neighborhood if labels is None else None
            expected = system.trigger.decide(
                system.current, before, system.reservoir.X, system.reservoir.y, neighbors=rule
            )
            assert decision.update == expected.update
            assert decision.gain == pytest.approx(expected.gain, abs=1e-12)


def test_decisions_in_mid_block_are_those_of_the_trigger_alone():
    for labels in (y, None):
        system = loop(mihash.TriggerUpdate(0, 30))
        snapshot = None
        for start in range(0, 900, 30):
            part = slice(start, start + 30)
            before = snapshot
            system.feed(X[part], None if labels is None else labels[part])
            snapshot = system.snapshot
            if before is None:
                continue
            _, reservoir = system._loop._at(system._loop.queue.due)
            rule = reservoir.neighborhood if labels is None else None
            expected = system.trigger.decide(system.current, before, reservoir.X, reservoir.y, neighbors=rule)
            assert system.history()[-1].gain == pytest.approx(expected.gain, abs=1e-12)


def test_a_check_in_mid_block_sees_every_example():
    system = loop(mihash.TriggerUpdate(0, 30))
    system.feed(X[:130], y[:130])
    assert [check.seen for check in system.history()] == [0, 30, 60, 90, 120]
    shorter = loop(mihash.TriggerUpdate(INFINITY, 30))
    shorter.feed(X[:120], y[:120])
    reference = loop(mihash.TriggerUpdate(INFINITY, 1000))
    reference.feed(X[:120], y[:120])
    assert shorter.current == reference.current
    _, reservoir = reference._loop._at(20)
    assert shorter.history()[-1].current == pytest.approx(
        mihash.quality(reference.current.encode(reservoir.X), reservoir.y, 16)
    )


def test_queries_are_encoded_with_the_snapshot():
    system = loop(mihash.TriggerUpdate(INFINITY))
    system.table.add(X[:300])
    system.feed(X, y)
    assert system.current != system.snapshot
    keys, distances = system.search(X[:5], k=1)[:2]
    assert (distances == 0).all()
    codes = system.snapshot.encode(X[:300])
    assert (codes[keys[:, 0]] == codes[:5]).all()
    system.rehash()
    assert system.snapshot == system.current
    assert system.updates == 2
    assert system.search(X[:1]).version == system.history()[-1].number
    assert (system.table.codes == system.current.encode(X[:300])).all()


def test_items_may_be_stored_at_any_time():
    system = loop()
    system.table.add(X[:100])
    system.feed(X[:1000], y[:1000])
    system.table.add(X[100:200])
    keys = system.search(X[150:151], k=200).keys
    assert sorted(keys[0]) == list(range(200))
    assert np.array_equal(system.table.codes, system.snapshot.encode(X[:200]))


def test_search_before_anything_is_stored():
    system = loop()
    keys, distances, version = system.search(X[:3])[:3]
    assert keys.shape == distances.shape == (3, 0)
    assert version is None
    system.feed(X[:10], y[:10])
    assert system.search(X[:3])[0].shape == (3, 0)
    with pytest.raises(NotReady):
        _ = loop().snapshot


def test_search_before_anything_is_fed():
    system = loop()
    system.table.add(X[:50])
    keys, distances = system.search(X[:3], k=2)[:2]
    assert keys.shape == (3, 2)
    assert (distances[:, 0] == 0).all()
    assert system.updates == 1


BAD = [
    ("NaN", [[np.nan] * 12], [0]),
    ("infinity", [[np.inf] * 12], [0]),
    ("three dimensions", X[None, :2], [0, 1]),
    ("wrong width", X[:2, :5], [0, 1]),
    ("labels of another length", X[:3], [0, 1]),
    ("another kind of labels", X[:2], np.eye(2)),
    ("labels that are not whole", X[:2], [0.5, 1]),
    ("text", [["a"] * 12], [0]),
    ("names after numbers", X[:2], ["cat", "dog"]),
]


@pytest.mark.parametrize(("name", "examples", "labels"), BAD, ids=[case[0] for case in BAD])
@pytest.mark.parametrize("n", [5, 730])
def test_bad_examples_change_nothing(name, examples, labels, n, tmp_path):
    system = loop()
    system.table.add(X[:40])
    system.feed(X[:n], y[:n])
    system.save(tmp_path / "before")
    with pytest.raises(InvalidInput) as caught:
        system.feed(examples, labels)
    assert "`" in str(caught.value) or "labels" in str(caught.value), name
    system.save(tmp_path / "after")
    assert (tmp_path / "before").read_bytes() == (tmp_path / "after").read_bytes()


def test_later_examples_may_come_without_labels():
    """They are counted, and not learned from, as with labels that are all missing."""
    without, missing = loop(), loop()
    for system, none in ((without, None), (missing, [None] * 300)):
        system.feed(X[:700], y[:700])
        system.feed(X[700:1000], none)
        system.feed(X[1000:], y[1000:])
    assert without.current == missing.current
    assert without.history() == missing.history()


def test_a_learner_is_that_of_one_stream():
    learner = mihash.online.MomentHash(8)
    with pytest.raises(InvalidInput):
        mihash.OnlineHashing(learner, neighbors=np.eye(3))
    first = mihash.OnlineHashing(learner)
    first.feed(X[:300], y[:300])
    with pytest.raises(InvalidInput, match="`learner` is in use for another stream"):
        mihash.OnlineHashing(learner)
    before = first.current
    second = mihash.OnlineHashing(learner.copy())
    second.feed(X[300:600], y[300:600])
    assert first.current == before != second.current


def test_bad_first_examples_leave_a_fresh_loop():
    system = loop()
    with pytest.raises(InvalidInput):
        system.feed([[np.nan]], [0])
    system.feed(X, y)
    fresh = loop()
    fresh.feed(X, y)
    assert system.current == fresh.current


def test_the_table_and_the_stream_have_one_dimension():
    system = loop()
    system.table.add(X[:10])
    with pytest.raises(InvalidInput, match="12 features"):
        system.feed(X[:10, :3], y[:10])
    with pytest.raises(InvalidInput, match="12 features"):
        system.search(X[:1, :3])
    assert system.seen == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reservoir_size": 1}, "reservoir_size"),
        ({"reservoir_size": "big"}, "reservoir_size"),
        ({"trigger": 7}, "`trigger` must be"),
        ({"table": "x"}, "`table` must be"),
        ({"neighbors": np.eye(3)}, "`neighbors` must be"),
        ({"neighbors": -1.0}, "`neighbors` must be"),
        ({"seed": -1}, "seed"),
        ({"seed": 1.5}, "seed"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidInput, match=message):
        mihash.OnlineHashing(mihash.online.LSH(8), **options)


def test_learner_trigger_and_watch_by_name_as_in_an_index():
    made = mihash.online.MIHash(seed=3), mihash.FixedRate(), mihash.DriftWatch()
    systems = [
        mihash.OnlineHashing(learner, trigger, 200, drift=drift, seed=3)
        for learner, trigger, drift in (made, ("mihash", "fixedrate", True))
    ]
    for system in systems:
        system.feed(X, y)
    assert systems[0].current == systems[1].current
    assert systems[0].history() == systems[1].history()
    assert mihash.OnlineHashing("lsh", drift=False).drift is None
    for wrong, error in ((7, InvalidInput), ("nothing", UnknownName)):
        with pytest.raises(error, match=r"learner"):
            mihash.OnlineHashing(wrong)
        with pytest.raises(error, match=r"trigger"):
            mihash.OnlineHashing("lsh", wrong)


def test_of_no_rows_nothing_is_learned():
    system = loop()
    system.feed(np.zeros((0, 12)), [])
    assert (system.seen, system.updates) == (0, 0)
    system.feed(X[:100], y[:100])
    system.feed(np.zeros((0, 12)))
    assert system.seen == 100
    with pytest.raises(InvalidInput, match="features"):
        system.feed(np.zeros((0, 5)))


def test_one_class_so_far_is_no_error():
    system = loop()
    system.feed(X[:500], np.zeros(500, dtype=int))
    assert system.updates == 1
    assert all(check.gain == 0 for check in system.history()[1:])
    system.feed(X[500:], y[500:])
    assert system.updates > 1


def test_neighbours_of_one_s_own():
    system = loop(neighbors=WithinDistance(2.0))
    system.feed(X, None)
    assert system.reservoir.neighborhood == WithinDistance(2.0)
    assert system.updates > 1


def test_seeds_of_the_reservoir():
    systems = [loop(seed=seed) for seed in (0, 0, 1)]
    for system in systems:
        system.feed(X, y)
    assert systems[0].current == systems[1].current
    assert not np.array_equal(systems[0].reservoir.X, systems[2].reservoir.X)


def test_reading_changes_nothing():
    quiet, curious = loop(), loop()
    quiet.feed(X, y)
    for start in range(0, 2000, 90):
        curious.feed(X[start : start + 90], y[start : start + 90])
        _ = curious.current, curious.snapshot, curious.search(X[:1])
    assert curious.current == quiet.current
    assert curious.updates == quiet.updates


def test_save_and_load_keep_the_table_and_the_triggers(tmp_path):
    for trigger in (mihash.TriggerUpdate(-INFINITY, 60), mihash.FixedRate(70), None):
        system = mihash.OnlineHashing(mihash.online.MIHash(16), trigger, 100)
        system.table.add(X[:20], [f"key {i}" for i in range(20)])
        system.feed(X[:333], y[:333])
        system.save(tmp_path / "loop")
        again = mihash.OnlineHashing.load(tmp_path / "loop")
        assert again.trigger == trigger
        assert np.array_equal(again.search(X[:5]).keys, system.search(X[:5]).keys)
        assert again.search(X[:5]).version == system.search(X[:5]).version
        assert again.history() == system.history()
        assert repr(again) == repr(system)
        assert again.current == system.current


def test_a_file_of_0_1_is_read():
    system = mihash.OnlineHashing.load(FIXTURES / "loop-0.1.mihash")
    assert (system.seen, system.updates) == (230, 4)
    found = [(check.number, check.seen, check.accepted) for check in system.history()]
    assert found == [(0, 0, True), (1, 50, True), (2, 100, True), (3, 150, False), (4, 200, False), (5, 230, True)]
    assert system.history()[1].gain == 0.5123089285665124
    assert system.snapshot.fingerprint == "5cd41583cfafba44f78696ed296bab20"
    system.feed(np.ones((20, 4)), [0] * 20)
    system.rehash()
    assert [(check.number, check.seen) for check in system.history()[-2:]] == [(6, 250), (7, 250)]
    assert system.updates == 5 + system.history()[-2].accepted


@pytest.mark.parametrize("n", [5, 130])
def test_a_layout_of_0_1_continues_to_the_same_bits(n, tmp_path):
    system, whole = loop(), loop()
    system.feed(X[:n], y[:n])
    system.save(tmp_path / "loop")
    found = state.read(tmp_path / "loop")
    earlier = {name: found[name] for name in ("learning", "gauge", "trigger", "table", "updates")}
    earlier["snapshot"] = found["accepted"]
    earlier["history"] = [[check.seen, asdict(check.decision)] for check in system.history()[1:]]
    state.write(tmp_path / "earlier", earlier)
    again = mihash.OnlineHashing.load(tmp_path / "earlier")
    again.feed(X[n:], y[n:])
    whole.feed(X, y)
    assert again.current == whole.current
    assert again.history() == whole.history()


def test_learning_without_a_trigger():
    system, other = mihash.OnlineHashing(mihash.online.MIHash(16, whiten=None), None, 100), loop()
    system.feed(X, y)
    other.feed(X, y)
    assert system.current == other.current != system.snapshot
    assert system.updates == len(system.history()) == 1
    system.rehash()
    assert system.snapshot == system.current


def test_the_seed_is_given_by_name():
    with pytest.raises(TypeError):
        mihash.OnlineHashing(mihash.online.LSH(8), mihash.FixedRate(), 100, None, None, 3)


def test_damaged_files_are_refused(tmp_path):
    system = loop()
    system.feed(X[:200], y[:200])
    system.save(tmp_path / "loop")
    data = (tmp_path / "loop").read_bytes()
    (tmp_path / "short").write_bytes(data[: len(data) // 2])
    with pytest.raises(CorruptStore):
        mihash.OnlineHashing.load(tmp_path / "short")
    state.write(tmp_path / "other", {"a": 1})
    with pytest.raises(CorruptStore, match="not a saved OnlineHashing"):
        mihash.OnlineHashing.load(tmp_path / "other")
    with pytest.raises(StoreError, match="There is no file"):
        mihash.OnlineHashing.load(tmp_path / "missing")


class Rotating(mihash.online.OnlineLearner):
    """Somebody's own learner: each block brings another random mapping."""

    name = "rotating"
    block_size = 50

    def __init__(self, n_bits=8, seed=0):
        super().__init__(n_bits, seed)

    def begin(self, n_features):
        self._blocks, self._shape = 0, (n_features, self.n_bits)

    def current(self):
        return LinearMapping(np.random.default_rng(self._blocks).standard_normal(self._shape))

    def learn(self, X, y, reservoir, slots):  # noqa: ARG002
        self._blocks += 1

    def parameters(self):
        return {"n_bits": self.n_bits, "seed": self.seed}

    def learned(self):
        return {"blocks": self._blocks}

    def relearn(self, learned):
        self._blocks = learned["blocks"]


def test_a_learner_of_one_s_own(tmp_path):
    fixed = loop(mihash.FixedRate(50), learner=Rotating())
    triggered = loop(mihash.TriggerUpdate(0, 50), learner=Rotating())
    for system in (fixed, triggered):
        system.feed(X, y)
    assert fixed.updates == 41
    assert triggered.updates < 12  # new records of random mappings grow rare
    triggered.save(tmp_path / "loop")
    again = mihash.OnlineHashing.load(tmp_path / "loop", learner=Rotating())
    assert again.snapshot == triggered.snapshot


class Eager(Rotating):
    """A learner that wants its table updated at every block until 150 examples were seen."""

    forced_until = 150


@pytest.mark.parametrize(
    ("trigger", "updates"),
    [
        (mihash.TriggerUpdate(INFINITY, 100), 1 + 3),  # at 50, 100 and 150
        (mihash.FixedRate(100), 1 + 3 + 19),  # and at 200, 300, ..., 2000
        (mihash.FixedRate(1000), 1 + 3 + 2),
    ],
)
def test_a_learner_may_force_updates_at_its_start(trigger, updates):
    for sizes in ([2000], [70, 30, 1900]):
        system = loop(trigger, learner=Eager())
        start = 0
        for size in sizes:
            system.feed(X[start : start + size], y[start : start + size])
            start += size
        assert system.updates == updates
        assert [check.seen for check in system.history()][:3] == [0, 50, 100]
        assert "first blocks" in system.history()[1].reason


class EagerAndStill(Eager):
    """One that asks for updates and does not move."""

    def learn(self, X, y, reservoir, slots):
        pass


def test_a_mapping_that_has_not_moved_is_not_taken_by_force():
    system = loop(mihash.FixedRate(100), learner=EagerAndStill())
    system.feed(X[:200], y[:200])
    assert system.updates == 1
    assert all("not moved" in check.reason for check in system.history()[1:])


def test_the_first_rows_may_wait_without_labels():
    for _ in range(20):
        system = loop()
        system.feed(X[:5])
        system.feed(X[5:10])
        with pytest.raises(InvalidInput, match="began without labels"):
            system.feed(X[10:12], y[10:12])
        assert system.seen == 10


@pytest.mark.parametrize("rule", [WithinDistance(2.5), 2.5])
@pytest.mark.parametrize("labelled", [True, False])
def test_neighbours_of_one_s_own_are_saved(rule, labelled, tmp_path):
    labels = y if labelled else None
    whole = loop(neighbors=rule)
    whole.feed(X, labels)
    part = loop(neighbors=rule)
    part.feed(X[:850], None if labels is None else labels[:850])
    part.save(tmp_path / "loop")
    again = mihash.OnlineHashing.load(tmp_path / "loop")
    again.feed(X[850:], None if labels is None else labels[850:])
    assert again.reservoir.neighborhood == WithinDistance(2.5)
    assert again.current == whole.current
    assert again.snapshot == whole.snapshot


def test_a_rule_of_one_s_own_class_is_not_saved(tmp_path):
    class Never:
        def between(self, X, y, X_other, y_other):  # noqa: ARG002
            return np.zeros((len(X), len(X_other)), dtype=bool)

    system = loop(neighbors=Never())
    system.feed(X[:200])
    assert system.updates == 1
    with pytest.raises(InvalidInput, match="Only the rules of"):
        system.save(tmp_path / "loop")


@pytest.mark.parametrize("size", [1e19, 1e30, -1e16])
@pytest.mark.parametrize("whiten", [None, 2.0])
def test_numbers_too_large_for_arithmetic_are_refused(size, whiten):
    system = loop(whiten=whiten)
    system.feed(X[:300])
    rows = X[300:310].copy()
    rows[3, 5] = size
    with pytest.raises(InvalidInput, match="row 3 is longer"):
        system.feed(rows)
    assert system.seen == 300
    system.feed(X[300:])
    system.feed(X[:200] * 1e14)
    assert np.isfinite(system.current.weights).all()


def test_a_learner_that_diverges_says_so():
    system = loop(learner=mihash.online.HMOH(8, lr=1e37))
    with pytest.raises(NotReady, match="has diverged"), np.errstate(all="ignore"):
        system.feed(X * 100, y)


class Failing(mihash.MemoryTable):
    """A table whose second rebuild fails."""

    rebuilds = 0

    def rebuild(self, mapping):
        self.rebuilds += 1
        if self.rebuilds == 2:
            raise OSError("disk full")
        super().rebuild(mapping)


def test_an_update_that_fails_loses_and_doubles_nothing():
    system, plain = loop(mihash.FixedRate(100), table=Failing()), loop(mihash.FixedRate(100))
    plain.feed(X, y)
    system.feed(X[:50], y[:50])
    with pytest.raises(OSError, match="disk full"):
        system.feed(X[50:400], y[50:400])
    assert system.seen == 400  # nothing is lost: what was not learned from waits
    assert system.updates == 1
    assert len(system.history()) == 1
    system.feed(X[400:], y[400:])
    assert system.current == plain.current
    assert system.snapshot == plain.snapshot
    assert system.updates == plain.updates  # the update that failed was made when the stream went on
    assert system.history() == plain.history()


def test_rows_that_wait_are_not_the_callers():
    system, plain = loop(), loop()
    for start in range(0, 500, 50):  # half a block
        part = slice(start, start + 50)
        rows, labels = X[part].copy(), y[part].copy()
        system.feed(rows, labels)
        rows[:], labels[:] = 0, 0  # a buffer that is used again
        plain.feed(X[part], y[part])
    assert system.current == plain.current


def test_codes_alone_cannot_be_the_table():
    table = mihash.MemoryTable.from_codes(np.zeros((3, 2), np.uint8), n_bits=16)
    with pytest.raises(InvalidInput, match="codes alone"):
        loop(table=table)


def test_the_initial_table_counts_as_soon_as_something_is_stored():
    system = loop()
    system.table.add(X[:3])
    assert system.updates == 1


def test_a_rehash_by_hand_is_in_the_history():
    system = loop(mihash.TriggerUpdate(INFINITY))
    system.feed(X[:150], y[:150])
    system.rehash()
    last = system.history()[-1]
    assert (last.kind, last.seen, last.accepted, last.reason) == ("request", 150, True, "requested by rehash()")
    assert system.snapshot == system.current
    with pytest.raises(Renamed, match=r"OnlineHashing\.rehash"):
        system.update()
    assert not hasattr(system, "update")


def test_an_unknown_learner_is_named(tmp_path):
    system = loop(learner=Rotating())
    system.feed(X[:60], y[:60])
    system.save(tmp_path / "loop")
    with pytest.raises(UnknownName, match="no learner 'rotating'"):
        mihash.OnlineHashing.load(tmp_path / "loop")


@pytest.mark.identity
def test_threads_of_blas_do_not_change_the_bits():
    code = """
import numpy as np, mihash
rng = np.random.default_rng(0)
y = rng.integers(0, 5, 3000)
X = rng.standard_normal((5, 200))[y] + rng.standard_normal((3000, 200))
system = mihash.OnlineHashing(mihash.online.MIHash(32), reservoir_size=500)
system.feed(X, y)
print(system.current.fingerprint, system.updates)
"""
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "2")
    }
    assert len(outputs) == 1


def test_a_copy_is_independent():
    system = loop()
    system.table.add(X[:50])
    system.feed(X[:500], y[:500])
    system.search(X[:2])
    twin = copy.deepcopy(system)
    system.feed(X[500:], y[500:])
    assert twin.seen == 500
    twin.feed(X[500:], y[500:])
    assert twin.current == system.current
    assert np.array_equal(twin.search(X[:2]).keys, system.search(X[:2]).keys)


def test_a_loop_that_was_not_fed_is_saved_as_it_is(tmp_path):
    system = loop()
    system.table.add(X[:50])
    system.save(tmp_path / "loop")
    again = mihash.OnlineHashing.load(tmp_path / "loop")
    assert again.updates == system.updates == 1
    assert [check.number for check in again.history()] == [check.number for check in system.history()]
