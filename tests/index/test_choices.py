"""What an index chooses by its first rows, and what later options and a stream that changes do to that."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput

rng = np.random.default_rng(0)
ROWS = rng.standard_normal((300, 100))


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"n_bits": 48}, ("momenthash", 48)),
        ({"learner": "momenthash"}, ("momenthash", 128)),
        ({"learner": "randomrotation"}, ("randomrotation", 100)),
        ({"learner": mihash.online.LSH(40)}, ("lsh", 40)),
        ({"trigger": mihash.TriggerUpdate(0.1)}, ("momenthash", 128)),
        ({}, ("randomrotation", 256)),
    ],
)
def test_options_for_an_index_without_rows_count(tmp_path, given, expected):
    mihash.open(tmp_path / "index").close()
    with mihash.open(tmp_path / "index", **given) as index:
        index.add(ROWS)
        assert (index.options.learner, index.options.n_bits) == expected
        assert index.options.trigger == given.get("trigger", mihash.PriceUpdate(20))
    with mihash.open(tmp_path / "index", **given) as index:
        assert (index.options.learner, index.options.n_bits) == expected
        with pytest.raises(InvalidInput, match="was created with n_bits"):
            mihash.open(tmp_path / "index", n_bits=31, read_only=True)


def test_a_migration_keeps_the_watch_and_the_bytes_and_chooses_again(tmp_path):
    with mihash.open(tmp_path / "own", n_bits=32, drift=mihash.DriftWatch(keep=500), factors=False) as index:
        keys = index.add(ROWS)
        index.migrate().add(rng.standard_normal((300, 80)), keys)
        assert index._beside.options.drift.keep == 500
        assert index._beside._table.setting("factors") == 0
    with mihash.open(tmp_path / "none", n_bits=32, drift=False) as index:
        keys = index.add(ROWS)
        index.migrate()
        assert index._beside.options.drift is None
    with mihash.open(tmp_path / "chosen") as index:
        keys = index.add(ROWS)
        index.migrate().add(rng.standard_normal((300, 400)), keys)
        assert (index._beside.options.learner, index._beside.options.n_bits) == ("randomrotation", 400)


def test_a_watch_that_is_given_again_is_compared(tmp_path):
    with mihash.open(tmp_path / "index", drift=mihash.DriftWatch(start=None)) as index:
        index.add(ROWS)
    mihash.open(tmp_path / "index", drift=mihash.DriftWatch()).close()  # the default of an earlier mihash
    for other in (None, False, mihash.DriftWatch(keep=77)):
        with pytest.raises(InvalidInput, match="created with drift"):
            mihash.open(tmp_path / "index", drift=other)


def test_after_an_alarm_recall_is_measured_again(tmp_path):
    spread, turn = np.linspace(2, 0.2, 100), np.linalg.qr(rng.standard_normal((100, 100)))[0]

    def changed(n):
        return (rng.standard_normal((n, 100)) * spread) @ turn + 3

    with mihash.open(tmp_path / "index") as index:
        index.add(rng.standard_normal((4000, 100)) * spread)
        index.wait()
        index.search(ROWS[0])
        before = index.stats().rescore
        index.add(changed(1800))  # fewer than half as many rows, so only the alarm lets it measure
        index.wait()
        assert index.stats().alarms == 1
        queries = changed(50)
        found, true = index.search(queries).keys, index.search(queries, rescore=5800).keys
        share = np.mean([len(np.intersect1d(a, b)) / 10 for a, b in zip(found, true, strict=True)])
        assert index.stats().rescore > 1.5 * before
        assert share > 0.8  # 0.93 here, and 0.69 without
