import shutil
import sqlite3

import pytest

from mihash.errors import CorruptStore, StoreError, UnsupportedVersion
from mihash.store.sqlite.database import DATABASE, Database
from mihash.store.sqlite.file_format import FORMAT
from stored import numbers, put


def test_nothing_to_open(tmp_path):
    for read_only in (True, False):
        with pytest.raises(StoreError, match=r"no index in .* OnlineIndex.create"):
            Database(tmp_path / "nothing", read_only)
        with pytest.raises(StoreError):
            Database(tmp_path, read_only)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("sql", "error"),
    [
        (f"UPDATE setting SET value = {FORMAT + 1} WHERE name = 'format'", UnsupportedVersion),
        ("UPDATE setting SET value = 'one' WHERE name = 'format'", StoreError),
        ("DELETE FROM setting WHERE name = 'format'", CorruptStore),
        ("DROP TABLE setting", CorruptStore),
    ],
)
def test_other_formats_are_refused(folder, database, sql, error):
    database.close()
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute(sql)
    connection.commit()
    connection.close()
    for read_only in (True, False):
        with pytest.raises(error):
            Database(folder, read_only)


def test_a_newer_format_says_what_to_do(folder, database):
    database.close()
    connection = sqlite3.connect(folder / DATABASE)
    connection.execute("UPDATE setting SET value = 99 WHERE name = 'format'")
    connection.commit()
    connection.close()
    with pytest.raises(
        UnsupportedVersion, match=r"format 99, this mihash reads the formats up to 2. Upgrade mihash"
    ):
        Database(folder, read_only=True)


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\0", b"x", b"garbage " * 5000, bytes(20_000)])
@pytest.mark.parametrize("read_only", [True, False])
def test_a_file_that_is_no_database(folder, content, read_only):
    folder.mkdir()
    (folder / DATABASE).write_bytes(content)
    with pytest.raises(CorruptStore):
        Database(folder, read_only)


def test_a_truncated_file_is_refused_wherever_it_ends(folder, database):
    for number in range(20):
        put(database, number, 20_000)
    database.close()
    sound = (folder / DATABASE).read_bytes()
    for size in (0, 99, 100, 512, 16_384, 16_385, len(sound) // 2, len(sound) - 16_384, len(sound) - 1):
        (folder / DATABASE).write_bytes(sound[:size])
        for read_only in (True, False):
            with pytest.raises(CorruptStore):
                Database(folder, read_only)
    (folder / DATABASE).write_bytes(sound)
    whole = Database(folder, read_only=False)
    assert numbers(whole) == list(range(20))
    whole.close()


def test_a_folder_in_place_of_the_file(folder):
    (folder / DATABASE).mkdir(parents=True)
    with pytest.raises(StoreError):
        Database(folder, read_only=True)
    with pytest.raises(StoreError):
        Database.create(folder, {})


def test_a_lost_log_is_the_state_before_it(folder, database):
    put(database, 1)
    with database.write() as connection:
        pass
    connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    put(database, 2)
    crashed = folder.with_name("crashed")
    shutil.copytree(folder, crashed)
    whole = Database(crashed, read_only=False)
    assert numbers(whole) == [1, 2]
    whole.close()
    shutil.copytree(folder, crashed, dirs_exist_ok=True)
    (crashed / f"{DATABASE}-wal").unlink()
    (crashed / f"{DATABASE}-shm").unlink()
    short = Database(crashed, read_only=False)
    assert numbers(short) == [1]
    short.close()


def test_a_log_that_ends_early_or_is_damaged_is_a_state_of_before(folder, database):
    for number in range(1, 9):
        put(database, number)
    crashed = folder.with_name("crashed")
    shutil.copytree(folder, crashed)
    log = (crashed / f"{DATABASE}-wal").read_bytes()
    sound = (crashed / DATABASE).read_bytes()
    lengths = set()
    for size in range(0, len(log), 10_000):
        for content in (log[:size], log[:size] + bytes([log[size] ^ 1]) + log[size + 1 :]):
            for file in crashed.iterdir():
                file.unlink()
            (crashed / DATABASE).write_bytes(sound)
            (crashed / f"{DATABASE}-wal").write_bytes(content)
            try:
                opened = Database(crashed, read_only=False)
            except StoreError:
                continue
            found = numbers(opened)
            lengths.add(len(found))
            assert found == list(range(1, 1 + len(found)))
            opened.close()
    assert len(lengths) > 2
