"""An index that follows a stream: alarms are stored, survive a kill, and are read by a replay."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady
from mihash.index.options import Options

rng = np.random.default_rng(0)
y = rng.integers(0, 3, 2400) + 3 * (np.arange(2400) >= 1600)
X = (rng.standard_normal((6, 10))[y] + 0.5 * rng.standard_normal((2400, 10))).astype(np.float32)
OPTIONS = {
    "n_bits": 12,
    "learner": "momenthash",
    "trigger": mihash.PriceUpdate(5),
    "drift": mihash.DriftWatch(quiet=500),
    "reservoir_size": 200,
}


def told(index):
    """Return what a history says, but for when and how fast."""
    return [
        (check.number, check.kind, check.seen, check.accepted, check.gain, check.reason)
        for check in index.history()
    ]


NAMES = np.array(["a", "b", "c", "owl", "emu", "kiwi"])


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with mihash.OnlineIndex.create(tmp_path_factory.mktemp("drift") / "index", **OPTIONS) as index:
        index.add(X, y)
        return told(index), index.current.fingerprint


def test_an_alarm_is_an_event_of_the_history(expected):
    history, _ = expected
    (alarm,) = [each for each in history if each[1] == "alarm"]
    assert alarm[2] in (1700, 1800)
    assert not alarm[3]
    assert alarm[4] > 6
    assert "the stream has changed" in alarm[5]


KILLS = {
    "before the alarm is noted": ("DurableLoop", "_note", "args[1].kind == 'alarm'"),
    "before the learner follows": ("MomentHash", "refresh", "True"),
    "after the alarm is stored": ("DurableLoop", "flush", "any(c.kind == 'alarm' for c, _ in args[0]._pending)"),
}


@pytest.mark.parametrize("moment", KILLS)
def test_a_kill_in_the_middle_of_an_alarm_loses_nothing(tmp_path, expected, moment):
    owner, method, condition = KILLS[moment]
    after = moment.startswith("after")
    script = f"""
        import os, signal, sys
        sys.path.insert(0, {str(tmp_path)!r})
        import numpy as np
        import mihash
        from mihash.index.durable_loop import DurableLoop
        from mihash.online import MomentHash
        from rows import X, y, index
        original = {owner}.{method}
        def killing(*args, **options):
            due = {condition}
            if due and not {after}:
                os.kill(os.getpid(), signal.SIGKILL)
            found = original(*args, **options)
            if due:
                os.kill(os.getpid(), signal.SIGKILL)
            return found
        {owner}.{method} = killing
        for start in range(0, 2400, 150):
            index.add(X[start:start + 150], y[start:start + 150])
    """
    np.savez(tmp_path / "rows.npz", X=X, y=y)
    (tmp_path / "rows.py").write_text(
        textwrap.dedent(f"""
            import numpy as np
            import mihash
            rows = np.load({str(tmp_path / "rows.npz")!r})
            X, y = rows["X"], rows["y"]
            index = mihash.OnlineIndex.create({str(tmp_path / "index")!r}, n_bits=12, learner="momenthash",
                trigger=mihash.PriceUpdate(5), drift=mihash.DriftWatch(quiet=500), reservoir_size=200)
        """)
    )
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], capture_output=True, text=True, check=False
    )
    assert done.returncode == -9, done.stderr
    with mihash.open(tmp_path / "index") as index:
        n = len(index)
        assert 1600 <= n < 2400
        index.add(X[n:], y[n:])
        assert (told(index), index.current.fingerprint) == expected
        assert index.verify()["checkpoints"] >= 0
        assert index.stats().alarms == 1


def test_a_replay_follows_the_log_where_measuring_would_differ(tmp_path, expected, monkeypatch):
    """As on another processor, where learning ends in other last bits: stored alarms are read."""
    with mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index:
        index.add(X[:2000], y[:2000])
        index._durable.flush()
        index._durable.forget()  # as after a crash, without a checkpoint
        monkeypatch.setattr(mihash.DriftWatch, "add", lambda *_: None)
        index.catch_up()
        assert [check.kind for check in index.history()].count("alarm") == 1
        monkeypatch.undo()
        index.add(X[2000:], y[2000:])
        assert told(index)[:20] == expected[0][:20]


def test_an_alarm_names_the_classes_that_lose_most_also_from_rows_on_the_disk(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index:
        index.add(X, NAMES[y], at_once=1)
        index._durable.forget()
        index.catch_up()
        (reason,) = [check.reason for check in index.history() if check.kind == "alarm"]
    losers = re.search(r"most about classes (\w+), (\w+) and (\w+); the sum", reason).groups()
    assert set(losers) == {"owl", "emu", "kiwi"}


def test_prices_are_events_and_are_replayed(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", **OPTIONS) as index:
        index.add(X[:1000], y[:1000])
        assert index.set_price(1000.0) == 1000
        event = index.history()[-1]
        assert (event.kind, event.seen, event.current, event.snapshot) == ("price", 1000, 1000, 5)
        index.add(X[1000:], y[1000:])
        first, mapping = told(index), index.current
        index._durable.forget()
        assert index.current == mapping
        assert told(index) == first
        assert index._durable.loop.branches[0].trigger.price == 1000
        index.wait()
        price = index.set_price()
        assert price >= 1
        assert "the last rehash took" in index.history()[-1].reason
    with mihash.open(tmp_path / "index") as index:
        index.add(X[:1], y[:1])
        assert index._durable.loop.branches[0].trigger.price == price
        assert index.stats().decisions == len([check for check in first if check[1] not in ("alarm", "price")])


def test_only_a_price_can_be_set(tmp_path):
    with (
        mihash.open(tmp_path / "index", trigger="FixedRate") as index,
        pytest.raises(InvalidInput, match="PriceUpdate"),
    ):
        index.set_price(3)
    with mihash.open(tmp_path / "other") as index:
        with pytest.raises(NotReady, match="No rehash has been measured"):
            index.set_price()
        with pytest.raises(InvalidInput, match="`price`"):
            index.set_price(-1)


def test_the_watch_is_an_option_and_earlier_indexes_have_none(tmp_path):
    assert Options().drift == mihash.DriftWatch()
    assert Options().trigger == mihash.PriceUpdate(20)
    for drift in (None, mihash.DriftWatch(threshold=9)):
        options = Options(drift=drift)
        assert Options.from_text(options.to_text()) == options
    earlier = '{"interval": 100, "learner": "mihash", "metric": "euclidean", "n_bits": 32, "normalize": true, '
    earlier += '"parameters": {}, "reservoir_size": 2000, "seed": 0, "theta": null}'
    found = Options.from_text(earlier)
    assert found.drift is None
    watched = earlier[:-1] + ', "drift": {"keep": 1000, "quiet": 1000, "slack": 2.0, "threshold": 6.0}}'
    assert Options.from_text(watched).drift == mihash.DriftWatch(start=None)  # as it was
    assert Options.from_text(Options.from_text(watched).to_text()).drift == mihash.DriftWatch(start=None)
    assert found.trigger == mihash.TriggerUpdate(0.02, relative=True)
    with mihash.open(tmp_path / "index", drift=False) as index:
        assert index.options.drift is None
    with pytest.raises(InvalidInput, match="created with drift=None"):
        mihash.open(tmp_path / "index", drift=True)
    mihash.open(tmp_path / "earlier", drift=mihash.DriftWatch(start=None)).close()
    mihash.open(tmp_path / "earlier", drift=True).close()  # any watch will do
    mihash.open(tmp_path / "earlier", drift=mihash.DriftWatch()).close()  # the default, then and now
    with pytest.raises(InvalidInput, match="start=None"):
        mihash.open(tmp_path / "earlier", drift=mihash.DriftWatch(start=500))
    with pytest.raises(InvalidInput, match="`drift` must be a DriftWatch, True or False"):
        mihash.open(tmp_path / "other", drift="often")


def test_an_offered_mapping_is_measured_on_the_sample(tmp_path):
    good = mihash.batch.MIHash(12, epochs=3).fit(X[:500], y[:500])
    bad = mihash.mapping.LinearMapping(rng.standard_normal((10, 12)), offset=np.full(12, 9.0))
    with mihash.open(tmp_path / "index", learner=bad) as index:
        index.add(X[:600], y[:600])
        decision = index.offer(good)
        assert decision.update
        assert "a rehash costs 20" in decision.reason
        assert not index.offer(bad).update
