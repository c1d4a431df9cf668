import os
import shutil
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from mihash.errors import (
    CorruptStore,
    DeadlineExceeded,
    InvalidInput,
    NotReady,
    StoreError,
    StoreLocked,
    TooLarge,
    UnsupportedVersion,
)
from mihash.store.sqlite import database as module
from mihash.store.sqlite.database import DATABASE, Database
from mihash.store.sqlite.deadline import deadline
from mihash.store.sqlite.file_format import FORMAT
from stored import numbers, put


def test_creating_makes_the_folder_and_keeps_the_settings(tmp_path):
    made = Database.create(tmp_path / "a" / "b", {"color": "red", "size": 3})
    with made.read() as connection:
        rows = dict(connection.execute("SELECT name, value FROM setting"))
    assert rows == {"format": FORMAT, "color": "red", "size": 3}
    with made.write() as connection:
        settings = [
            connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous", "page_size")
        ]
    assert settings == ["wal", 2, 16_384]
    made.close()


def test_creating_over_an_index_is_refused_and_leaves_it(folder, database):
    put(database, 1)
    database.close()
    with pytest.raises(InvalidInput, match="holds an index already"):
        Database.create(folder, {})
    again = Database(folder, read_only=False)
    assert numbers(again) == [1]
    again.close()


def test_creating_over_what_is_no_index_is_refused(folder):
    folder.mkdir()
    (folder / DATABASE).write_bytes(b"somebody's notes, longer than a header of SQLite " * 9)
    before = (folder / DATABASE).read_bytes()
    with pytest.raises(StoreError):
        Database.create(folder, {})
    assert (folder / DATABASE).read_bytes() == before


@pytest.mark.parametrize("in_log_mode", [False, True])
def test_one_that_was_never_finished_is_named_and_can_be_made_again(folder, in_log_mode):
    folder.mkdir()
    connection = sqlite3.connect(folder / DATABASE, isolation_level=None)
    if in_log_mode:
        connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN IMMEDIATE")
    connection.execute("CREATE TABLE setting (name, value)")
    connection.close()
    for read_only in (True, False):
        with pytest.raises(CorruptStore):
            Database(folder, read_only)
    made = Database.create(folder, {})
    put(made, 1)
    made.close()


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot make the folder"):
        Database.create(tmp_path / "file" / "index", {})
    with pytest.raises(StoreError, match="file is a file; an index is a folder"):
        Database.create(tmp_path / "file", {})


def test_who_only_reads_cannot_write_and_leaves_no_file(folder, database):
    put(database, 1)
    database.close()
    (folder / "writer.lock").unlink()
    reader = Database(folder, read_only=True)
    assert numbers(reader) == [1]
    with pytest.raises(NotReady, match="read_only=True"), reader.write():
        pass
    with reader.read() as connection, pytest.raises(sqlite3.OperationalError):
        connection.execute("DELETE FROM checkpoint")
    reader.close()
    assert not (folder / "writer.lock").exists()


def test_a_reader_sees_what_a_writer_commits(folder, database):
    reader = Database(folder, read_only=True)
    before = reader.data_version()
    assert reader.data_version() == before
    put(database, 1)
    assert reader.data_version() != before
    assert numbers(reader) == [1]
    with reader.read() as connection:  # of one moment
        assert connection.execute("SELECT count(*) FROM checkpoint").fetchone() == (1,)
        put(database, 2)
        assert numbers(reader) == [1]
    assert numbers(reader) == [1, 2]
    reader.close()


def interrupted(database, error, sql):
    with database.write() as connection:
        connection.execute(sql)
        raise error


def test_what_fails_is_undone(database):
    put(database, 1)
    for error, sql in (
        (RuntimeError, "INSERT INTO checkpoint VALUES (2, x'00')"),
        (KeyboardInterrupt, "DELETE FROM checkpoint"),
    ):
        with pytest.raises(error):
            interrupted(database, error, sql)
        assert numbers(database) == [1]
    put(database, 2)
    assert numbers(database) == [1, 2]


def test_a_transaction_in_another_is_part_of_it(database):
    with suppress(RuntimeError), database.write():
        put(database, 1)
        raise RuntimeError
    assert numbers(database) == []
    with database.write():
        put(database, 1)
        assert numbers(database) == []
    assert numbers(database) == [1]


def test_a_full_disk_changes_nothing_and_room_is_used_again(folder, database):
    put(database, 0)
    with database.write() as connection:
        (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
        connection.execute(f"PRAGMA max_page_count = {n_pages + 2}")
    with pytest.raises(StoreError, match=r"disk is full, and nothing was changed .* try again"):
        put(database, 1, 200_000)
    with suppress(StoreError), database.write():
        put(database, 2)
        put(database, 3, 200_000)
    assert numbers(database) == [0]
    with database.write() as connection:
        connection.execute("PRAGMA max_page_count = 100000")
    put(database, 1, 200_000)
    assert numbers(database) == [0, 1]
    database.close()
    again = Database(folder, read_only=True)
    assert numbers(again) == [0, 1]
    again.close()


def test_who_waits_for_a_lock_in_vain_is_told(folder, database):
    with database.write() as connection:
        connection.execute("PRAGMA busy_timeout = 1")
    other = sqlite3.connect(folder / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreLocked, match="locked by another process"):
        put(database, 1)
    other.execute("ROLLBACK")
    other.close()
    put(database, 1)
    assert numbers(database) == [1]


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        ("SELECT * FROM nowhere", StoreError),
        ("no SQL at all", StoreError),
        ("SELECT json_extract('{', '$')", StoreError),
        ("INSERT INTO source VALUES ('a', zeroblob(2000000000), 0)", TooLarge),
        pytest.param(
            "INSERT INTO source VALUES (NULL, 1)",
            StoreError,
        ),
    ],
)
def test_errors_of_sqlite_have_names(database, sql, error):
    with pytest.raises(error), database.write() as connection:
        connection.execute(sql)
    put(database, 1)
    assert numbers(database) == [1]


def test_a_closed_one_says_so(tmp_path, folder, database):
    def write():
        with database.write():
            pass

    numbers(database)
    database.close()
    database.close()
    for call in (
        write,
        lambda: numbers(database),
        database.data_version,
        lambda: database.backup(tmp_path / "copy"),
    ):
        with pytest.raises(NotReady, match="closed"):
            call()
    Database(folder, read_only=False).close()


def test_readers_in_many_threads_see_whole_transactions(database):
    wrong, done = [], threading.Event()

    def work():
        try:
            last = 0
            while not done.is_set():
                found = numbers(database)
                if len(found) % 3 or len(found) < last:
                    wrong.append(found)
                last = len(found)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for turn in range(20):
        with database.write():
            for each in range(3):
                put(database, 3 * turn + each)
    done.set()
    for thread in threads:
        thread.join(30)
    assert wrong == []
    assert len(numbers(database)) == 60


def test_writers_in_many_threads_take_turns(database):
    threads = [
        threading.Thread(target=lambda i=i: [put(database, 10 * i + j) for j in range(5)]) for i in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert numbers(database) == [10 * i + j for i in range(6) for j in range(5)]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_files_of_a_thread_are_closed_with_it(database):
    def opened():
        return len(list(Path("/proc/self/fd").iterdir()))

    counts = []
    for _ in range(12):
        thread = threading.Thread(target=numbers, args=(database,))
        thread.start()
        thread.join()
        counts.append(opened())
    assert counts[-1] <= counts[1]


def test_a_backup_is_of_one_moment_and_opens_as_its_own(tmp_path, database):
    wrong, done, begun = [], threading.Event(), threading.Event()

    def work():
        turn = 0
        try:
            while not done.is_set():
                with database.write():
                    for each in range(3):
                        put(database, 3 * turn + each, 5000)
                turn += 1
                begun.set()
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    begun.wait(30)
    for i in range(4):
        before = len(numbers(database))
        database.backup(tmp_path / f"copy {i}")
        copy = Database(tmp_path / f"copy {i}", read_only=bool(i % 2))
        found = numbers(copy)
        copy.close()
        assert found == list(range(len(found)))
        assert len(found) % 3 == 0
        assert before <= len(found) <= len(numbers(database))
    done.set()
    thread.join(30)
    assert wrong == []
    copy = Database(tmp_path / "copy 0", read_only=False)
    put(copy, 10**6)
    copy.close()
    assert 10**6 not in numbers(database)
    assert sorted(file.name for file in (tmp_path / "copy 3").iterdir() if "writer" not in file.name) == [DATABASE]


def test_a_backup_needs_a_folder_of_its_own(tmp_path, folder, database):
    put(database, 1)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "notes").write_text("mine")
    for target in (tmp_path / "full", folder):
        with pytest.raises(InvalidInput, match="new or empty"):
            database.backup(target)
    assert [file.name for file in (tmp_path / "full").iterdir()] == ["notes"]
    with pytest.raises(StoreError):
        database.backup(tmp_path / "full" / "notes" / "below")
    (tmp_path / "empty").mkdir()
    database.backup(tmp_path / "empty")
    copy = Database(tmp_path / "empty", read_only=True)
    assert numbers(copy) == [1]
    copy.close()


def test_who_only_reads_can_make_a_backup(tmp_path, folder, database):
    put(database, 1)
    reader = Database(folder, read_only=True)
    try:
        reader.backup(tmp_path / "copy")
    finally:
        reader.close()
    copy = Database(tmp_path / "copy", read_only=True)
    assert numbers(copy) == [1]
    copy.close()


def test_vacuuming_gives_room_back(folder, database):
    for number in range(10):
        put(database, number, 100_000)
    with database.write() as connection:
        connection.execute("DELETE FROM checkpoint WHERE through > 0")
    database.vacuum()
    assert numbers(database) == [0]
    assert sum(file.stat().st_size for file in folder.iterdir()) < 600_000


ENDLESS = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"


def test_a_read_is_stopped_at_the_deadline(database):
    begin = time.monotonic()
    late = pytest.raises(DeadlineExceeded, match="exceeded its timeout")
    with late, deadline(begin + 0.2), database.read() as connection:
        connection.execute(ENDLESS).fetchone()
    assert time.monotonic() - begin < 10
    with deadline(time.monotonic() - 1):
        with pytest.raises(DeadlineExceeded), database.read():
            pass
        with deadline(time.monotonic() + 60), database.read() as connection:
            assert connection.execute("SELECT 1").fetchone() == (1,)
        with pytest.raises(DeadlineExceeded), database.read():
            pass
    with database.read() as connection:  # the same connection, without one
        assert connection.execute("SELECT count(*) FROM setting").fetchone()[0] > 0


def test_a_deadline_is_that_of_one_thread(database):
    found = []

    def look():
        with database.read() as connection:
            found.append(connection.execute("SELECT 1").fetchone())

    with deadline(time.monotonic() - 1):
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
    assert found == [(1,)]


FOREIGN = [
    "CREATE TRIGGER evil AFTER INSERT ON item BEGIN DELETE FROM item; END",
    "CREATE VIEW evil AS SELECT * FROM setting",
    "CREATE INDEX evil ON item (json_extract(metadata, '$.a'))",
    "CREATE TABLE evil (a)",
    "DROP INDEX item_key",
    "DROP TABLE source",
    "ALTER TABLE item ADD COLUMN evil DEFAULT 1",
    "ALTER TABLE setting RENAME TO evil; CREATE VIEW setting AS SELECT * FROM evil",
]


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("sql", FOREIGN)
def test_a_file_with_anything_but_the_tables_of_an_index_is_refused(folder, database, sql, read_only):
    database.close()
    with closing(sqlite3.connect(folder / DATABASE)) as other:
        other.executescript(sql)
    with pytest.raises(CorruptStore, match=r"is refused|is missing|malformed database schema"):
        Database(folder, read_only)


def test_a_newer_format_is_named_before_its_tables_are_looked_at(folder, database):
    database.close()
    with closing(sqlite3.connect(folder / DATABASE)) as other:
        other.executescript("UPDATE setting SET value = 99 WHERE name = 'format'; CREATE TABLE later (a)")
    with pytest.raises(UnsupportedVersion, match="format 99"):
        Database(folder, read_only=True)


def test_nothing_that_a_file_holds_is_run(database):
    with database.read() as reading:
        assert reading.execute("PRAGMA trusted_schema").fetchone() == (0,)
    with database.write() as writing:
        assert writing.execute("PRAGMA trusted_schema").fetchone() == (0,)


def test_only_the_writer_moves_pages_out_of_the_log(folder, database):
    reader = Database(folder, read_only=True)
    for each in (database, reader):
        with each.read() as connection:
            assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (0,)
    reader.close()
    with database.write() as connection:
        assert connection.execute("PRAGMA wal_autocheckpoint").fetchone() == (4096,)


class Failing:
    """A connection on which VACUUM fails as it does on a full disk."""

    def __init__(self, connection):
        self._connection = connection

    def __getattr__(self, name):
        return getattr(self._connection, name)

    def execute(self, sql, *parameters):
        if sql == "VACUUM":
            error = sqlite3.OperationalError("database or disk is full")
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
            raise error
        return self._connection.execute(sql, *parameters)


def test_vacuuming_on_a_full_disk_says_what_was_done(database):
    put(database, 0, 100_000)
    real, database._writer = database._writer, Failing(database._writer)
    with pytest.raises(StoreError, match="Everything that was committed is stored") as caught:
        database.vacuum()
    assert "nothing was changed" not in str(caught.value)
    database._writer = real
    put(database, 1)
    assert numbers(database) == [0, 1]


@pytest.mark.skipif(sys.platform != "linux", reason="limits the size of files")
def test_after_a_failed_vacuum_one_writes_on(folder, database):
    import resource

    for number in range(20):
        put(database, number, 100_000)
    with database.write() as connection:
        connection.execute("DELETE FROM checkpoint WHERE through > 9")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))  # a write beyond it is an I/O error
    try:
        with pytest.raises(StoreError, match="could not be returned"):
            database.vacuum()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    put(database, 30)
    database.vacuum()
    put(database, 31)
    assert numbers(database) == [*range(10), 30, 31]
    database.close()
    again = Database(folder, read_only=False)
    assert numbers(again) == [*range(10), 30, 31]
    again.close()


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_creating_brings_the_name_of_every_folder_to_the_disk(tmp_path, monkeypatch):
    synced, real = [], os.fsync

    def fsync(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    Database.create(tmp_path / "a" / "b" / "c", {}).close()
    assert {tmp_path, tmp_path / "a", tmp_path / "a" / "b", tmp_path / "a" / "b" / "c"} <= set(synced)


def test_a_log_that_grew_during_a_long_read_is_cut_after_it(folder, database, monkeypatch):
    monkeypatch.setattr(module, "_WAL_BYTES", 200_000)
    log = folder / f"{DATABASE}-wal"
    reader = Database(folder, read_only=True)
    put(database, 0)
    with reader.read() as connection:
        assert connection.execute("SELECT count(*) FROM checkpoint").fetchone() == (1,)
        for number in range(1, 20):
            put(database, number, 100_000)
        grown = log.stat().st_size
        assert grown > 1_000_000
        database.trim_log()  # does not wait for who reads
        assert log.stat().st_size == grown
        assert connection.execute("SELECT count(*) FROM checkpoint").fetchone() == (1,)
    database.trim_log()
    assert log.stat().st_size == 0
    assert numbers(reader) == list(range(20))
    reader.close()


def test_a_file_that_was_removed_while_it_was_open_acknowledges_nothing(tmp_path):
    with closing(Database.create(tmp_path / "index", {})) as made:
        put(made, 1)
        shutil.move(tmp_path / "index", tmp_path / "elsewhere")
        with pytest.raises(StoreError, match="was removed or moved while it was open, and nothing was changed"):
            put(made, 2)
        shutil.move(tmp_path / "elsewhere", tmp_path / "index")
        assert numbers(made) == [1]
        put(made, 3)
        assert numbers(made) == [1, 3]
