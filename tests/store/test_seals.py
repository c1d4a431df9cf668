import sqlite3

import numpy as np
import pytest

import damage
import mihash
from mihash.errors import CorruptStore

X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)


@pytest.fixture(scope="module")
def sound(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sealed") / "index"
    with mihash.OnlineIndex.create(
        folder, n_bits=16, reservoir_size=50, trigger=mihash.TriggerUpdate(-1.0, 50)
    ) as index:
        index.add(X, source=("a.csv", 400))
        index.wait()
    return folder


def changed(sound, target, sql, *parameters):
    folder = damage.copied(sound, target)
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    assert connection.execute(sql, parameters).rowcount >= 1
    connection.close()
    return folder


DECISIONS = [
    "UPDATE decision SET gain = gain + 1 WHERE number = 4",
    "UPDATE decision SET reason = 'another' WHERE number = 0",
    "UPDATE decision SET number = 99 WHERE number = (SELECT max(number) FROM decision)",
    "DELETE FROM decision WHERE number = 3",
    "DELETE FROM seal WHERE relation = 'decision' AND number = 5",
]


@pytest.mark.parametrize("sql", DECISIONS)
def test_a_decision_that_was_changed_or_lost_is_noticed(sound, tmp_path, sql):
    folder = changed(sound, tmp_path / "index", sql)
    with mihash.OnlineIndex.open(folder, read_only=True) as index:
        with pytest.raises(CorruptStore, match=r"decision .* is damaged"):
            index.history()
        with pytest.raises(CorruptStore, match=r"decision .* is damaged"):
            index.verify()
        assert len(index.search(X[:2], 3).keys) == 2  # which needs no decision


VERSIONS = [
    "UPDATE version SET items = NULL WHERE number = 0",
    "UPDATE version SET status = 'waiting' WHERE number = 1",
    "UPDATE version SET seconds = 7 WHERE number = 0",
]


@pytest.mark.parametrize("sql", VERSIONS)
def test_a_version_that_was_changed_is_noticed(sound, tmp_path, sql):
    folder = changed(sound, tmp_path / "index", sql)
    with mihash.OnlineIndex.open(folder, read_only=True) as index:
        for ask in (index.versions, index.stats, index.history, index.verify):
            with pytest.raises(CorruptStore, match=r"version .* is damaged"):
                ask()


def test_a_checkpoint_of_another_row_is_passed_over(sound, tmp_path):
    folder = changed(sound, tmp_path / "index", "UPDATE checkpoint SET through = through - 1")
    with mihash.OnlineIndex.open(folder) as index:
        with pytest.warns(RuntimeWarning, match="taken at another row"):
            index.catch_up()
        assert index.seen == len(X)


def test_a_source_whose_name_was_changed_is_not_unknown(sound, tmp_path):
    folder = changed(sound, tmp_path / "index", "UPDATE source SET name = 'b.csv'")
    with mihash.OnlineIndex.open(folder, read_only=True) as index, pytest.raises(CorruptStore, match="position"):
        index.position("a.csv")


def test_a_file_of_an_older_mihash_opens_and_is_completed(sound, tmp_path):
    folder = damage.copied(sound, tmp_path / "index")
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    connection.execute("DROP TABLE seal")
    connection.execute("DROP INDEX item_again")
    connection.close()
    with mihash.OnlineIndex.open(folder, read_only=True) as index:
        before = index.history()
        assert index.contains([3, 4000]).tolist() == [True, False]
        assert index.stats()["decisions"] == len(before)
    with mihash.OnlineIndex.open(folder) as index:
        assert index.history() == before
        index.verify()
    assert damage.values(folder, "sqlite_master", "name").count("item_again") == 1
    assert len(damage.values(folder, "seal", "number")) == len(before) + len(
        damage.values(folder, "version", "number")
    )
