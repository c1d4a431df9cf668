"""A migration to another embedding model: nothing is lost, and one generation answers."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.index.migration import root_database
from mihash.io.encode import mapping_in
from mihash.store.sqlite.database import Database
from mihash.store.sqlite.settings import write_settings

rng = np.random.default_rng(5)
OLD, NEW = rng.standard_normal((300, 8)), rng.standard_normal((300, 12))
KEYS = [f"item {i}" for i in range(300)]


@pytest.fixture
def index(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=32) as made:
        made.add(OLD, y=np.arange(300) % 3, keys=KEYS, metadata=[{"number": i} for i in range(300)])
        yield made


def nearest(index, X):
    return index.search(X, k=1, rescore=50).keys[0]


def test_the_old_vectors_answer_until_the_cut_over_and_the_new_ones_after_it(index, tmp_path):
    migration = index.migrate()
    migration.add(NEW[:200], KEYS[:200])
    assert migration.state == "filling"
    assert nearest(index, OLD[7]) == "item 7"
    assert migration.search(NEW[7], k=1, rescore=50).keys[0] == "item 7"
    progress = migration.progress()
    assert (progress.items, progress.migrated, progress.missing, progress.n_features) == (300, 200, 100, 12)
    assert migration.missing(limit=2) == ["item 200", "item 201"]
    with pytest.raises(NotReady, match="100 items have no new vector yet, such as 'item 200'"):
        migration.cut_over()
    migration.add(NEW[200:], KEYS[200:])
    migration.cut_over()
    assert (len(index), index.n_features, nearest(index, NEW[7])) == (300, 12, "item 7")
    item = index.get("item 7")
    assert (item.label, item.metadata) == (1, {"number": 7})
    index.add(NEW[:1] + 1, y=[2], keys=["fresh"])
    index.close()
    with mihash.open(tmp_path / "index") as again:
        assert (len(again), again.n_features, nearest(again, NEW[7])) == (301, 12, "item 7")
        assert again.migration.state == "cut over"
        with pytest.raises(NotReady, match="is not finished"):
            again.migrate()


def test_files_are_encoded_with_the_mapping_that_answers(index, tmp_path):
    def answers():
        return mapping_in(tmp_path / "index") == index.snapshot

    old = mapping_in(tmp_path / "index")
    migration = index.migrate()
    migration.add(NEW, KEYS)
    assert answers()
    migration.cut_over()
    assert answers()
    index.migration.roll_back()
    assert answers()
    index.migration.cut_over()
    index.migration.finish()
    assert answers()
    assert mapping_in(tmp_path / "index") != old


@pytest.mark.parametrize("undo", [False, True])
def test_a_search_is_answered_by_one_generation_and_outlives_its_table(index, undo):
    migration = index.migrate()
    migration.add(NEW, KEYS)
    index.wait()
    by_the_old = index.search(key=KEYS[7], k=3, rescore=50).keys.tolist()
    get = index._table.get

    def get_amid_a_cut_over(key):
        item = get(key)
        migration.cut_over()
        if undo:  # which closes the table that was asked, and opens it again
            index.migration.roll_back()
        return item

    index._table.get = get_amid_a_cut_over
    assert index.search(key=KEYS[7], k=3, rescore=50).keys.tolist() == by_the_old
    assert index.n_features == (OLD if undo else NEW).shape[1]


def test_a_reader_follows_a_roll_back_whose_files_look_unchanged(index, tmp_path):
    migration = index.migrate()
    migration.add(NEW, KEYS)
    log = tmp_path / "index" / "index.db-wal"
    with mihash.open(tmp_path / "index", read_only=True) as reader:
        assert nearest(reader, OLD[7]) == "item 7"
        migration.cut_over()
        assert nearest(reader, NEW[7]) == "item 7"
        with root_database(index) as database, database.write() as connection:
            write_settings(connection, note="x" * 10**6)  # a long log, which the next change begins anew
        with closing(sqlite3.connect(tmp_path / "index" / "index.db")) as other:
            other.execute("PRAGMA wal_checkpoint(RESTART)")
        assert nearest(reader, NEW[7]) == "item 7"
        before = log.stat()
        index.migration.roll_back()
        os.utime(log, ns=(before.st_atime_ns, before.st_mtime_ns))
        assert nearest(reader, OLD[7]) == "item 7"


def test_compact_gives_back_what_a_stopped_finish_has_left(tmp_path, monkeypatch):
    with mihash.open(tmp_path / "index", n_bits=32, learner="lsh") as index:
        index.add(rng.standard_normal((300, 500)), keys=KEYS)
        migration = index.migrate()
        migration.add(NEW, KEYS)
        migration.cut_over()
        with monkeypatch.context() as patch:
            patch.setattr(Database, "vacuum", lambda _: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                index.migration.finish()
        assert index.migration is None
        index.compact()
        assert (len(index), nearest(index, NEW[7])) == (300, "item 7")
    assert (tmp_path / "index" / "index.db").stat().st_size < 400_000  # the old vectors alone had 600,000


def test_changes_of_the_old_items_are_taken_over(index):
    migration = index.migrate()
    migration.add(NEW, KEYS)
    index.delete(["item 0", "item 1"])
    index.update("item 2", metadata={"number": -2})
    index.upsert(OLD[3:4] + 9, "item 3", y=[0])
    index.add(OLD[:1] - 9, y=[1], keys=["late"])
    assert migration.missing() == ["item 3", "late"]
    migration.add(NEW[3:4] + 9, "item 3")
    migration.add(NEW[:1] - 9, "late", metadata={"number": 99})
    assert migration.missing() == []
    migration.cut_over()
    assert len(index) == 299
    assert "item 0" not in index
    assert index.get("item 2").metadata == {"number": -2}
    assert np.allclose(index.get("item 3").vector, NEW[3] + 9)
    assert nearest(index, NEW[0] - 9) == "late"
    assert nearest(index, NEW[0]) != "item 0"


def test_force_leaves_out_what_has_no_valid_new_vector(index):
    migration = index.migrate()
    migration.add(NEW[:100], KEYS[:100])
    index.update("item 5", OLD[5] + 1, y=0)
    migration.cut_over(force=True)
    assert len(index) == 99
    assert "item 5" not in index


def test_a_cut_over_can_be_undone_and_done_again(index):
    migration = index.migrate()
    migration.add(NEW, KEYS)
    migration.cut_over()
    index.migration.roll_back()
    assert (index.n_features, len(index), nearest(index, OLD[7])) == (8, 300, "item 7")
    index.add(OLD[:1] + 5, y=[0], keys=["more"])
    assert index.migration.missing() == ["more"]
    index.migration.add(NEW[:1] + 5, ["more"])
    index.migration.cut_over()
    assert (index.n_features, len(index)) == (12, 301)


def test_finish_gives_the_space_back_and_a_second_migration_follows(index, tmp_path):
    root = tmp_path / "index"
    migration = index.migrate()
    migration.add(NEW, KEYS)
    migration.cut_over()
    before = sum(each.stat().st_size for each in root.glob("index.db*"))
    index.migration.finish()
    assert index.migration is None
    assert sum(each.stat().st_size for each in root.glob("index.db*")) < before / 2
    with pytest.raises(NotReady):
        migration.roll_back()
    second = index.migrate(n_bits=16)
    second.add(OLD + 1, KEYS)
    second.cut_over()
    assert (index.n_features, index.options.n_bits) == (8, 16)
    index.migration.finish()
    assert sorted(each.name for each in root.iterdir() if each.is_dir()) == ["generation-2"]
    index.close()
    with mihash.open(root) as again:
        assert nearest(again, OLD[7] + 1) == "item 7"
        again.verify()


def test_cancel_removes_the_new_vectors(index, tmp_path):
    migration = index.migrate()
    migration.add(NEW[:50], KEYS[:50])
    migration.cancel()
    assert index.migration is None
    assert not (tmp_path / "index" / "generation-1").exists()
    with pytest.raises(NotReady, match="has ended"):
        migration.add(NEW, KEYS)
    assert nearest(index, OLD[7]) == "item 7"


def test_a_migration_goes_on_after_the_index_is_opened_again(index, tmp_path):
    index.migrate().add(NEW[:150], KEYS[:150])
    index.close()
    with mihash.open(tmp_path / "index") as again:
        assert again.migration.progress().missing == 150
        again.migrate().add(NEW[150:], KEYS[150:])
        again.migration.cut_over()
        assert nearest(again, NEW[299]) == "item 299"


def test_bad_input_changes_nothing(index):
    migration = index.migrate()
    with pytest.raises(UnknownName):
        migration.add(NEW[:2], ["item 0", "nobody"])
    with pytest.raises(InvalidInput, match="one entry for each of 2 rows"):
        migration.add(NEW[:2], ["item 0"])
    with pytest.raises(InvalidInput):
        migration.add(np.full((1, 12), np.nan), ["item 0"])
    with pytest.raises(InvalidInput, match="with other options has begun"):
        index.migrate(n_bits=8)
    with pytest.raises(NotReady, match="no new vectors"):
        migration.cut_over(force=True)
    assert migration.progress().migrated == 0


def test_an_index_without_rows_has_nothing_to_migrate(tmp_path):
    with mihash.open(tmp_path / "index") as index:
        with pytest.raises(NotReady, match="no vectors to replace"):
            index.migrate()
        assert index.migration is None
        assert index.add([]) == index.upsert([], []) == []


def test_rows_without_labels_keep_having_none(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        index.add(OLD[:50], y=["cat", "dog"] * 25, keys=KEYS[:50])
        index.add(OLD[50:60], keys=KEYS[50:60])
        migration = index.migrate()
        migration.add(NEW[40:60], KEYS[40:60])
        migration.add(NEW[:40], KEYS[:40])
        migration.cut_over()
        assert [index.get(key).label for key in KEYS[48:52]] == ["cat", "dog", None, None]


def test_both_are_compared_on_a_sample(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=32, learner="lsh") as index:
        index.add(OLD, y=np.arange(300) % 3, keys=KEYS)
        migration = index.migrate()
        migration.add(np.hstack([OLD, OLD[:, :4]]), KEYS)
        found = migration.evaluate(k=5, n_queries=20)
    assert found.agreement > 0.5
    assert min(found.old_recall, found.new_recall) > 0.9
    assert 0 <= found.new_precision <= 1


def test_a_reader_follows_the_cut_over_and_the_return(index, tmp_path):
    with mihash.open(tmp_path / "index", read_only=True) as reader:
        assert nearest(reader, OLD[7]) == "item 7"
        migration = index.migrate()
        migration.add(NEW, KEYS)
        assert nearest(reader, OLD[8]) == "item 8"
        migration.cut_over()
        assert nearest(reader, NEW[7]) == "item 7"
        assert reader.n_features == 12
        index.migration.roll_back()
        assert nearest(reader, OLD[7]) == "item 7"
        index.migration.cut_over()
        index.migration.finish()
        assert nearest(reader, NEW[9]) == "item 9"


KILLED = """
import os, sys
import numpy as np
import mihash
from mihash.index import migration as m
path, where = sys.argv[1:]
rng = np.random.default_rng(0)
old, new = rng.standard_normal((200, 8)), rng.standard_normal((200, 12))
index = mihash.open(path, n_bits=16)
keys = index.add(old)
migration = index.migrate()
migration.add(new, keys)
index.delete([0])
index.update(1, metadata={"changed": True})
dead = lambda *a, **k: os._exit(9)
if where == "before the metadata":
    m.Migration._copy_metadata = dead
elif where == "inside the transaction":
    m.write_settings = dead
elif where == "after the transaction":
    type(index)._become = dead
migration.cut_over()
if where == "inside finish":
    m.Database.vacuum = dead
    index.migration.finish()
os._exit(0)
"""


@pytest.mark.parametrize(
    "where", ["before the metadata", "inside the transaction", "after the transaction", "inside finish"]
)
def test_a_kill_leaves_the_old_generation_or_the_new_one(tmp_path, where):
    done = subprocess.run(
        [sys.executable, "-c", KILLED, str(tmp_path / "index"), where], env=dict(os.environ), check=False
    )
    assert done.returncode == 9
    cut_over = where in ("after the transaction", "inside finish")
    generator = np.random.default_rng(0)
    old, new = generator.standard_normal((200, 8)), generator.standard_normal((200, 12))
    with mihash.open(tmp_path / "index") as index:
        assert index.n_features == (12 if cut_over else 8)
        assert len(index) == 199
        if not cut_over:
            assert index.search(old[5], k=1, rescore=50).keys.tolist() == [5]
            assert index.migration.missing() == []
            index.migration.cut_over()
        assert index.search(new[5], k=1, rescore=50).keys.tolist() == [5]
        assert index.get(1).metadata == {"changed": True}
        assert 0 not in index
        index.verify()


def test_a_kill_while_an_old_generation_is_removed_leaves_an_index_that_opens(index, tmp_path, monkeypatch):
    for vectors in (NEW, OLD + 1):
        if index.migration is not None:
            index.migration.finish()
        index.migrate().add(vectors, KEYS)
        index.migration.cut_over()
    monkeypatch.setattr("mihash.index.migration.shutil.rmtree", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        index.migration.finish()
    monkeypatch.undo()
    index.close()
    with mihash.open(tmp_path / "index") as again:
        assert again.migration is None
        assert nearest(again, OLD[7] + 1) == "item 7"
        again.migrate()
        assert not (tmp_path / "index" / "generation-1").exists()
