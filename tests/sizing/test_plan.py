from dataclasses import replace

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.index.options import Options, default_trigger
from mihash.sizing import calibration, learning_costs, search_costs
from mihash.sizing.calibration import Calibration, calibrate
from mihash.sizing.plan import plan

MACHINE = Calibration(
    n_features=128,
    n_bits=64,
    dtype="float32",
    learn_s=90e-6,
    store_s=10e-6,
    rehash_s=1e-6,
    scan_s=0.2e-9,
    query_s=100e-6,
    disk_bytes=600.0,
    disk_base_bytes=0.0,
    base_bytes=200e6,
    n_learned=8192,
    updates=30,
    updates_doubling=5,
)


def test_what_grows_with_the_rows_does():
    small, large = plan(MACHINE, 1_000_000), plan(MACHINE, 10_000_000)
    assert large.disk_bytes == 10 * small.disk_bytes == 6e9
    assert large.rehash_s == pytest.approx(10 * small.rehash_s) == pytest.approx(10.0)
    assert small.memory_bytes == 200e6 + 17e6  # a code of 8 bytes, a number of 8, a flag
    assert small.memory_peak_bytes - small.memory_bytes == 17e6
    assert small.query_s == pytest.approx(300e-6)
    assert small.queries_per_s == pytest.approx(1 / 300e-6)
    assert plan(MACHINE, 1_000_000, cores=4).queries_per_s == pytest.approx(4 / 300e-6)
    assert small.multi_index_bytes == 4 * 12 * 1_000_000
    assert plan(replace(MACHINE, n_bits=384), 1_000_000).multi_index_bytes == 0  # too long for it


def test_nodes_share_the_rows_and_work_at_the_same_time():
    one, many = plan(MACHINE, 10**9), plan(MACHINE, 10**9, nodes=16)
    assert many.rows_per_node * 16 == one.rows_per_node == 10**9
    assert many.rehash_s == pytest.approx(one.rehash_s / 16)
    assert many.broadcast_bytes == one.broadcast_bytes == 128 * 64 * 4
    assert many.updates == one.updates


def test_the_trigger_rehashes_once_in_a_while_and_a_fixed_rate_all_the_time():
    for rows, expected in ((8192, 30), (16384, 35), (8192 * 2**10, 80)):
        costs = plan(MACHINE, rows)
        assert costs.updates == pytest.approx(expected)
        assert costs.updates_fixed == rows / 100 + 1
        assert costs.rehashing_s < costs.rehashing_fixed_s
    assert plan(replace(MACHINE, interval=50), 8192).updates_fixed == 8192 / 50 + 1
    assert plan(MACHINE, 100).updates == 2  # the trigger cannot say yes more often than it looks


def test_rehashing_time_is_that_of_the_doublings():
    """Add up five rehashes in each doubling, each of them at a table of three quarters of the doubling's end."""
    rows = 8192 * 2**10
    added = sum(5 * 0.75 * rows / 2**j * MACHINE.rehash_s for j in range(10))
    added += 30 * 8192 / 2 * MACHINE.rehash_s  # while the sample was learned from
    assert plan(MACHINE, rows).rehashing_s == pytest.approx(added, rel=0.01)


def test_a_sample_without_late_updates_still_costs_something():
    quiet = replace(MACHINE, updates=6, updates_doubling=0)
    costs = plan(quiet, 300_000)
    assert 6 < costs.updates < 10
    assert 0.5 * costs.rehash_s < costs.rehashing_s < costs.updates * costs.rehash_s
    assert costs.rehashing_fixed_s / costs.rehashing_s < 10_000
    assert plan(quiet, 1000).rehashing_s > 0


def test_a_learner_that_never_moves_is_not_rehashed_for():
    still = replace(MACHINE, updates=2, updates_doubling=0, moves=False)
    assert plan(still, 10**6).updates == plan(still, 10**9).updates == 2
    assert plan(still, 10**6).rehashing_s == pytest.approx(2 * 8192 / 2 * still.rehash_s)


def test_looking_up_vectors_and_replacing_rows_have_their_cost():
    costs = plan(replace(MACHINE, lookup_s=2e-5, upsert_s=3e-4), 10**6)
    assert costs.candidates == 100
    assert costs.rescored_query_s == pytest.approx(costs.query_s + 2e-3)
    assert costs.queries_per_s == pytest.approx(1 / costs.rescored_query_s)
    assert costs.upsert_s == pytest.approx(3e-4 + MACHINE.learn_s)


def test_more_vectors_are_looked_up_among_more_rows_within_the_limits_of_a_search():
    machine = replace(MACHINE, lookup_s=1e-5, n_searched=10_000, candidates=150, candidates_growth=0.5)
    assert plan(machine, 5000).candidates == 150
    assert plan(machine, 40_000).candidates == pytest.approx(300)
    assert plan(machine, 400_000, nodes=10).candidates == pytest.approx(300)
    assert plan(replace(machine, candidates_growth=2.0), 100_000).candidates == 2000
    assert plan(replace(machine, candidates_growth=2.0), 10**6).candidates == 20_000


def test_a_search_of_the_sample_tells_what_it_looks_up(tmp_path):
    X, y = (each[:2000] for each in calibration._made_up(32))
    learned = learning_costs.learning_costs(X, None, Options(n_bits=16))
    short = search_costs.search_costs(tmp_path / "short", X, None, learned.mapping, "float32")
    assert short.candidates > 100
    assert short.growth > 0
    assert short.n_ranked in (1000, 4000)
    labelled = search_costs.search_costs(tmp_path / "labelled", X, y, learned.mapping, "float32")
    assert (labelled.candidates, labelled.growth, labelled.n_ranked, labelled.ranking_s) == (100, 0.0, 1000, 0.0)


def test_a_search_that_ranks_a_share_of_all_codes_takes_longer_in_a_larger_index():
    machine = replace(MACHINE, ranking_s=1e-7)
    for rows in (10_000, 10**6):
        more = plan(machine, rows).rescored_query_s - plan(MACHINE, rows).rescored_query_s
        assert more == pytest.approx(1e-7 * rows)


def test_the_first_rows_take_longer_than_late_ones():
    machine = replace(MACHINE, learn_first_s=4.0, learn_falling_s=0.5)
    assert machine.learning_s(4096) == 2.0
    late = sum(90e-6 + 0.5 / min(s, 4 * 8192) for s in range(8193, 80_001))
    assert plan(machine, 80_000).ingest_s == pytest.approx(4.0 + late + 80_000 * 10e-6, rel=1e-3)
    assert plan(machine, 80_000).upsert_s == pytest.approx(90e-6 + 0.5 / (4 * 8192))


def test_what_falls_along_a_stream_is_never_taken_for_more_than_was_measured():
    for after, before in ((1.0, 4.0), (1.0, 1.5), (2.0, 1.0)):  # seconds of a row in the last half, and before it
        late, falling = learning_costs._late(
            [(0, 0.0), (250, 250 * before), (500, 500 * before), (1000, 500 * (before + after))]
        )
        assert after / 2 <= late <= after
        assert late + falling * np.log(2) / 500 == pytest.approx(after)
    assert learning_costs._late([(0, 0.0), (1000, 5.0)]) == (0.005, 0.0)


def test_a_slow_stream_takes_its_time_and_a_fast_one_waits():
    assert plan(MACHINE, 10_000).ingest_s == pytest.approx(1.0)
    assert plan(MACHINE, 10_000, rate=100).ingest_s == pytest.approx(100.0)
    assert plan(MACHINE, 10_000, rate=10**9).ingest_s == pytest.approx(1.0)


def test_a_slow_disk_makes_a_rehash_slow():
    assert plan(MACHINE, 10**6, disk_bytes_per_s=6e8).rehash_s == pytest.approx(1.0)
    assert plan(MACHINE, 10**6, disk_bytes_per_s=6e7).rehash_s == pytest.approx(10.0)


def test_short_codes_take_four_bytes():
    assert plan(replace(MACHINE, n_bits=32), 10**6).memory_bytes == 200e6 + 13e6


@pytest.mark.parametrize("wrong", [{"rows": 0}, {"nodes": 0}, {"cores": 0}, {"rate": 0}, {"disk_bytes_per_s": 0}])
def test_nonsense_is_refused(wrong):
    with pytest.raises(InvalidInput):
        plan(MACHINE, **{"rows": 10, **wrong})


def test_a_calibration_measures_an_index_on_this_machine(tmp_path):
    X = np.random.default_rng(0).standard_normal((1500, 512)).astype(np.float32)
    told = []
    machine = calibrate(512, 16, learner="lsh", sample=X, progress=told.append)
    assert told == ["learning", "searching", "storing and rehashing", "opening"]
    assert (machine.n_learned, machine.updates, machine.n_features, machine.n_bits) == (1500, 2, 512, 16)
    assert (machine.interval, machine.labelled) == (100, False)
    assert 4 * 512 < machine.disk_bytes < 1.3 * 4 * 512
    for rate in (machine.learn_s, machine.store_s, machine.rehash_s, machine.scan_s, machine.upsert_s):
        assert 0 < rate < 0.1
    assert machine.base_bytes > 30e6
    mihash.OnlineIndex.create(tmp_path / "index", 16, "lsh").close()
    for _ in range(4):
        with mihash.OnlineIndex.open(tmp_path / "index") as index:
            index.add(np.tile(X, (3, 1)))
    held = sum(file.stat().st_size for file in (tmp_path / "index").iterdir())
    assert plan(machine, 18_000).disk_bytes == pytest.approx(held, rel=0.3)


def test_a_sample_must_be_one():
    with pytest.raises(InvalidInput, match="1,000"):
        calibrate(8, 16, sample=np.zeros((999, 8)))
    with pytest.raises(InvalidInput, match="sample"):
        calibrate(8, 16, sample=np.zeros((2000, 9)))


def examples(learner="lsh", sample=None, labels=False):
    return calibration._examples(4, Options(learner=learner), sample, labels)


def test_made_up_vectors_have_their_cloud_as_label():
    X, y = examples(labels=True)
    assert X.shape == (32_768, 4)
    assert sorted(set(y)) == list(range(100))
    spread = np.mean([X[y == cloud].var(axis=0).mean() for cloud in range(100)])
    assert spread < 0.7 * X.var(axis=0).mean()
    assert examples()[1] is None
    assert np.array_equal(examples("hcoh")[1], y)


def test_a_sample_has_its_own_labels():
    sample, labels = np.ones((33_000, 4)), np.arange(33_000)
    assert np.array_equal(examples("hcoh", sample, labels)[1], labels[:32_768])
    assert examples("lsh", sample)[1] is None
    with pytest.raises(InvalidInput, match="hcoh needs"):
        examples("hcoh", sample)
    for wrong in (True, labels[:10]):
        with pytest.raises(InvalidInput, match="label"):
            examples("lsh", sample, wrong)
    with pytest.raises(InvalidInput, match="`labels` must be True or False: the vectors are random"):
        examples("lsh", None, labels)


def test_the_trigger_looks_as_often_as_it_will():
    X, y = (each[:1500] for each in calibration._made_up(32))
    often, rarely, unlabelled = (
        learning_costs.learning_costs(X, labels, Options(n_bits=32, trigger=default_trigger(interval)))
        for labels, interval in ((y, 50), (y, 700), (None, 50))
    )
    assert often.n == rarely.n == 1500
    assert often.updates > rarely.updates
    assert (often.updates, often.updates_doubling) != (unlabelled.updates, unlabelled.updates_doubling)


def test_learning_stops_in_time(monkeypatch):
    monkeypatch.setattr(learning_costs, "_LONGEST_S", 0.0)
    X, _ = calibration._made_up(4)
    options = Options(n_bits=8, learner="lsh", trigger=default_trigger(300))
    assert learning_costs.learning_costs(X, None, options).n == 1200


def test_a_long_interval_is_measured_with_a_quarter_of_the_examples(monkeypatch):
    asked = []

    def learning(_, __, options):
        asked.append(options.interval)
        raise InvalidInput("enough")

    monkeypatch.setattr(calibration, "learning_costs", learning)
    for interval in (10, 10**6):
        with pytest.raises(InvalidInput, match="enough"):
            calibrate(4, 16, interval=interval)
    assert asked == [10, 8192]


@pytest.mark.parametrize("wrong", [{"n_bits": 0}, {"dtype": "int8"}, {"interval": 0}, {"learner": "tree"}])
def test_a_wrong_option_is_refused_before_anything_is_measured(wrong):
    told = []
    with pytest.raises((InvalidInput, KeyError)):
        calibrate(4, **wrong, progress=told.append)
    assert told == []
