"""An index whose learner draws from the stored rows: the same bits however it was fed, killed, and cleaned up."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.index import durable_loop
from mihash.online import MomentHash
from mihash.online.past_examples import KeptExamples

rng = np.random.default_rng(3)
y = rng.integers(0, 4, 1300)
X = (2 + rng.standard_normal((4, 10))[y] + 0.8 * rng.standard_normal((1300, 10))).astype(np.float32)
REPLAY = {"learner": MomentHash(12, replay=3), "reservoir_size": 100}


def fed(folder, sizes, stop=1300, **options):
    """Return an index that was fed in chunks."""
    start = 0
    index = mihash.OnlineIndex.create(folder, **(REPLAY | options))
    for size in sizes:
        end = min(start + size, stop)
        index.add(X[start:end], y[start:end])
        start = end
    return index


@pytest.fixture(scope="module")
def expected(tmp_path_factory):
    with fed(tmp_path_factory.mktemp("whole") / "index", [1300]) as index:
        return index.current.fingerprint


def test_chunks_do_not_matter(tmp_path, expected):
    with fed(tmp_path / "index", [1, 250, 149, 37, 863]) as index:
        assert index.current.fingerprint == expected


def test_it_learns_otherwise_than_without(tmp_path, expected):
    with fed(tmp_path / "index", [1300], learner=MomentHash(12)) as index:
        assert index.current.fingerprint != expected


def test_a_reopened_index_draws_the_same(tmp_path, expected):
    index = fed(tmp_path / "index", [430], stop=430)
    for start in range(430, 1300, 290):
        index._durable.forget()  # as after a kill: learned again from the rows
        index.add(X[start : start + 290], y[start : start + 290])
        index.close()
        index = mihash.OnlineIndex.open(tmp_path / "index")
    with index:
        index.catch_up()
        assert index.current.fingerprint == expected


def test_a_long_replay_is_not_repeated_after_the_next_kill(tmp_path, expected):
    with fed(tmp_path / "index", [1300]) as index:
        assert index.verify()["checkpoints"] == 0
        index._durable.forget()
        assert index.current.fingerprint == expected
        assert index.verify()["checkpoints"] == 1


def test_a_checkpoint_comes_sooner_where_rows_are_wide(tmp_path, expected, monkeypatch):
    monkeypatch.setattr(durable_loop, "_WIDE_ROWS", 100)
    monkeypatch.setattr(durable_loop, "_WIDE_VALUES", 10 * 600)
    with fed(tmp_path / "index", [650] * 2) as index:
        assert index.verify()["checkpoints"] == 2
        assert index.current.fingerprint == expected


def test_deleted_rows_are_drawn_until_they_are_purged(tmp_path, expected):
    with fed(tmp_path / "index", [650], stop=650) as index:
        index.delete(list(range(0, 650, 2)))
        index.add(X[650:], y[650:])
        assert index.current.fingerprint == expected


def purged(folder, forgets):
    """Return the mapping of an index that purged rows, some of them while they waited for their block."""
    with fed(folder, [650], stop=650) as index:
        index.delete([*range(0, 600, 3), 640, 649])
        index.compact()
        index.add(X[650:900], y[650:900])
        if forgets:
            index._durable.forget()
        index.delete([601, 700])
        index.add(X[900:], None)  # in an index with labels, rows without are not learned from
        index.add(X[900:], y[900:])
        if forgets:
            index._durable.forget()
        index.catch_up()
        past = index._durable.loop.learner.past
        assert len(past) == 1300 - 202
        found, labels = past.at(np.array([0, 1, 1000]))
        assert labels.tolist() == y[[1, 2, 1202]].tolist()
        assert np.array_equal(found, index._durable.loop.normalization.apply(X[[1, 2, 1202]]))
        return index.current.fingerprint


def test_after_a_purge_the_rows_that_are_left_are_drawn(tmp_path, expected):
    first, again = purged(tmp_path / "first", forgets=False), purged(tmp_path / "again", forgets=True)
    assert first == again != expected


def test_a_kill_does_not_matter_where_a_window_purges(tmp_path, monkeypatch):
    monkeypatch.setattr("mihash.index.index_state._EXPIRED", 50)
    found = []
    for name in ("never", "always"):
        with mihash.open(tmp_path / name, keep=400, **REPLAY) as index:
            for start in range(0, 1300, 130):
                index.add(X[start : start + 130], y[start : start + 130])
                if name == "always":
                    index._durable.forget()
            index.catch_up()
            assert index.stats().deleted < 200
            found.append(index.current.fingerprint)
    assert found[0] == found[1]


def test_the_checkpoint_does_not_hold_the_rows(tmp_path):
    with fed(tmp_path / "index", [1300]) as index:
        assert len(index._durable.loop.learner._kept) == 0
        assert index._durable.loop.learner.learned()["kept"] == KeptExamples().state()


def test_it_cannot_be_had_on_ray(tmp_path):
    with pytest.raises(InvalidInput, match="replay"):
        mihash.OnlineIndex.create(tmp_path / "index", cluster=mihash.Cluster(), **REPLAY)
