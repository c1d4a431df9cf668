"""A shard alone, without Ray: what it is told twice it does once, and it answers for the moment asked about."""

from contextlib import closing

import numpy as np
import pytest

from mihash import state as saved
from mihash.errors import InvalidInput, Superseded
from mihash.store.edition import Edition
from mihash.store.nearest_codes import by_margins
from mihash.store.question import Question
from mihash.store.ray.log import Log, Place
from mihash.store.ray.routing import shards_of
from mihash.store.ray.shard import Shard
from mihash.store.ray.shard_editions import RecentEditions
from mihash.store.sqlite.database import Database
from stored import FIRST, SECOND, Q, X

ABOUT = {"dtype": "float32", "metric": "euclidean"}


@pytest.fixture
def folder(tmp_path):
    return str(tmp_path / "shard")


@pytest.fixture
def shard(folder):
    made = Shard(folder, "t 0", ABOUT)
    yield made
    made.close()


def rows(number, after, first, n, gone=()):
    part = {
        "after": after,
        "ids": np.arange(first, first + n),
        "keys": None,
        "texts": None,
        "vectors": X[first : first + n],
        "labels": None,
        "gone": np.array(gone, dtype=np.int64),
    }
    return number, saved.dump(part)


def publish(number, after, version):
    return number, saved.dump({"after": after, "publish": version})


def asked(shard, number, version, last=0):
    question = Question(Q, 100)
    reached = shard.reach(number, last, version, question)
    found = None if reached is None else shard.name(by_margins(reached, question.k), "margin")
    return None if found is None else question.hits(found).keys.tolist()


def blob(mapping):
    return saved.dump(mapping.state())


def test_entries_are_applied_once_in_order_and_without_a_gap(shard):
    shard.stage(0, blob(FIRST))
    parts = [publish(1, 0, 0), rows(2, 1, 0, 10), rows(5, 2, 10, 10, gone=[3])]
    assert shard.apply(parts[2:], 0)["applied"] == 0  # a gap: nothing is done
    assert shard.apply(parts, 0)["applied"] == 5
    assert shard.apply(parts, 0)["items"] == 19
    assert shard.apply([rows(9, 7, 20, 10)], 0)["applied"] == 5


def test_a_search_sees_the_moment_that_it_asks_for(shard):
    shard.stage(0, blob(FIRST))
    shard.apply([publish(1, 0, 0), rows(2, 1, 0, 10), rows(3, 2, 10, 10)], 0)
    shard.stage(1, blob(SECOND))
    shard.apply([rows(4, 3, 20, 10), publish(6, 4, 1), rows(8, 6, 30, 10)], 0)
    sizes = {(n, v): len(found[0]) for n in range(1, 10) for v in (0, 1) if (found := asked(shard, n, v))}
    assert sizes == {(1, 0): 0, (2, 0): 10, (3, 0): 20, (4, 0): 30, (5, 0): 30, (6, 1): 30, (7, 1): 30} | {
        (n, 1): 40 for n in (8, 9)
    }
    assert asked(shard, 9, 1, last=9) is None  # which it has not got yet
    shard._moments.forget(7)
    assert len(asked(shard, 5, 0)[0]) == 30  # a reader may come a little later
    shard._moments.forget(7, kept_s=0)  # what entry 7 saw is what entry 6 left
    assert asked(shard, 5, 0) is None
    assert len(asked(shard, 7, 1)[0]) == 30


def test_few_moments_are_kept_where_they_are_large(monkeypatch):
    monkeypatch.setattr("mihash.store.ray.shard_editions._KEPT_BYTES", 200)
    edition = Edition.empty(0, FIRST)
    moments = RecentEditions(0, edition)
    for number in range(1, 20):
        edition = edition.encoded(np.arange(10 * number, 10 * number + 10), X[:10])
        moments.add(number, edition)
    moments.forget(15)
    assert [n for n in range(20) if moments.at(n, 0, 0) is not None] == [13, 14, 15, 16, 17, 18, 19]
    moments.forget(19, kept_s=0)
    assert [n for n in range(21) if moments.at(n, 0, 0) is not None] == [19, 20]


def test_a_change_that_was_interrupted_after_its_commit_is_seen(shard):
    shard.stage(0, blob(FIRST))
    shard.apply([publish(1, 0, 0), rows(2, 1, 0, 10)], 0)
    apply = shard.table.apply

    def interrupted(*arguments, **settings):
        apply(*arguments, **settings)
        raise KeyboardInterrupt

    shard.table.apply = interrupted
    with pytest.raises(KeyboardInterrupt):
        shard.apply([rows(3, 2, 10, 10)], 0)
    assert shard.hello()["applied"] == 2
    assert asked(shard, 3, 0, last=3) is None
    shard.table.apply = apply
    assert shard.apply([rows(3, 2, 10, 10)], 0)["applied"] == 3
    assert len(asked(shard, 3, 0, last=3)[0]) == 20


def test_a_shard_that_died_when_it_was_ready_makes_the_codes_again(shard, folder):
    shard.stage(0, blob(FIRST))
    shard.apply([publish(1, 0, 0), rows(2, 1, 0, 40)], 0)
    shard.stage(1, blob(SECOND))
    shard.close()
    again = Shard(folder, "t 0", ABOUT)
    assert again.hello()["version"] == 0
    again.apply([publish(3, 2, 1)], 0)
    assert again.hello()["version"] == 1
    fresh = Shard(f"{folder}-fresh", "t 1", ABOUT)
    fresh.stage(1, blob(SECOND))
    fresh.apply([rows(1, 0, 0, 40), publish(2, 1, 1)], 0)
    assert asked(again, 3, 1) == asked(fresh, 2, 1)
    again.close()
    fresh.close()


def test_a_build_is_abandoned(shard):
    shard.apply([rows(1, 0, 0, 40)], 0)
    shard.table.stage = lambda _number, stopped: (shard.abandon(4), None if stopped() else 1 / 0)[1]
    assert shard.stage(4, blob(FIRST)) is None
    assert shard.hello()["building"] is None


def test_what_was_abandoned_before_it_began_or_has_rows_that_were_purged_is_not_kept(shard):
    shard.stage(0, blob(FIRST))
    shard.apply([publish(1, 0, 0), rows(2, 1, 0, 40), rows(3, 2, 40, 5, gone=[7])], 0)
    shard.abandon(1, "first")
    assert shard.stage(1, blob(SECOND), "first") is None  # it comes after the word that it is not wanted
    assert shard.stage(1, blob(SECOND), "second") == 45
    shard.apply([(4, saved.dump({"after": 3, "compact": True}))], 0)
    assert shard.stage(1, blob(SECOND), "third") == 44
    shard.apply([publish(5, 4, 1)], 0)
    assert len(asked(shard, 5, 1, last=5)[0]) == 44


def test_a_folder_is_taken_for_no_other_shard(shard, folder):
    shard.close()
    with pytest.raises(InvalidInput, match="does not hold shard t 1"):
        Shard(folder, "t 1", ABOUT)


def refused(shard, session, epoch=None):
    """Tell whether a shard refuses a session, or the claim of the one that has started it."""
    try:
        shard.call(session, "hello") if epoch is None else shard.claim(epoch)
    except Superseded:
        return True
    return False


def test_a_shard_follows_the_coordinator_of_the_latest_epoch_and_no_other(folder):
    first = Shard(folder, "t 0", ABOUT, "first")
    assert refused(first, "first")  # before it was claimed
    assert first.claim(3)["epoch"] == 3
    assert first.claim(3)["session"] == "first"  # Ray may send it twice
    assert not refused(first, "first")
    assert refused(first, "second")
    assert first.hello()["beats"] == 1
    first.close()
    second = Shard(folder, "t 0", ABOUT, "second")
    assert second.hello()["session"] == "first"  # to look is not to claim
    assert [refused(second, "second", epoch) for epoch in (2, 3, 4)] == [True, True, False]
    assert not refused(second, "second")
    second.close()
    again = Shard(folder, "t 0", ABOUT, "first")  # which Ray has started again
    assert refused(again, "first")
    assert refused(again, "first", 3)
    assert again.hello()["session"] == "second"
    again.close()
    second = Shard(folder, "t 0", ABOUT, "second")
    assert second.hello()["restarts"] == 1
    second.close()


def test_the_newest_entry_that_a_shard_knows_of_is_on_its_disk_with_its_author(shard, folder):
    def told(which):
        about = which.hello()
        return about["applied"], about["newest"], about["author"]

    def by(author, entry):
        return entry[0], saved.dump(saved.load(entry[1]) | {"author": author})

    assert told(shard) == (0, 0, None)
    shard.stage(0, blob(FIRST))
    shard.apply([by("a", publish(1, 0, 0)), by("b", rows(2, 1, 0, 10))], 0)
    assert told(shard) == (2, 2, "b")
    shard.note(5, "c")
    shard.note(4, "d")
    shard.apply([by("b", rows(3, 2, 10, 10))], 0)
    assert told(shard) == (3, 5, "c")
    shard.close()
    again = Shard(folder, "t 0", ABOUT)
    assert told(again) == (3, 5, "c")
    again.apply([by("e", (7, saved.dump({"after": 3, "compact": True})))], 0)
    assert told(again) == (7, 7, "e")
    again.close()


def test_a_log_knows_its_entries_by_their_authors(tmp_path):
    about = {"table": "ray", "cluster": "c", "plain_keys": 1, **ABOUT}
    with closing(Database.create(tmp_path / "log", about)) as database:
        log = Log(database)
        with database.write() as connection:
            Log.create(connection, [Place(0, "node", "/nowhere")])
            log.append(connection, {0: {"compact": True}})  # of a mihash that knew no epochs
        assert [log.has(0, None), log.has(1, None), log.has(1, "a"), log.has(2, None)] == [
            True,
            True,
            False,
            False,
        ]
        assert [log.begin(name, above) for name, above in (("a", 0), ("b", 4), ("c", 2))] == [1, 5, 6]
        for _ in range(2):
            with database.write() as connection:
                log.append(connection, {0: {"compact": True}})
        log.begin("d", 0)
        assert [log.author(number) for number in range(5)] == [None, None, "c", "c", "d"]
        assert [log.has(3, "c"), log.has(3, "b"), log.has(4, "d")] == [True, False, False]
        assert [saved.load(entry)["author"] for _, entry in log.parts_after(0, 1)] == ["c", "c"]


def test_routing_is_stable_and_even():
    keys = [*range(-5, 5), "a", "", "1", 1, 2**63 - 1, -(2**63)]
    assert shards_of(keys, 7).tolist() == [5, 3, 2, 0, 0, 2, 2, 4, 2, 6, 3, 1, 3, 2, 2, 6]
    assert shards_of(np.arange(10), 5).tolist() == shards_of(list(range(10)), 5).tolist()
    for many in (list(range(20_000)), [f"key {i}" for i in range(20_000)], list(range(0, 16_000_000, 800))):
        counts = np.bincount(shards_of(many, 16), minlength=16)
        assert counts.min() / 1250 > 0.85
        assert counts.max() / 1250 < 1.15
