import ctypes
import os
import shutil
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

from mihash.errors import CorruptStore, StoreLocked
from mihash.store.sqlite.database import DATABASE, Database
from stored import numbers, put

linux = pytest.mark.skipif(sys.platform != "linux", reason="drops a Linux capability")


def child(code, *arguments, **options):
    """Start Python on some lines, with a pipe to and from it."""
    return subprocess.Popen(
        [sys.executable, "-c", code, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        **options,
    )


def said(code, *arguments, **options):
    """Return what some lines of Python print in a process of their own."""
    with child(code, *arguments, **options) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0
    return out.split()


TRY = """
import sys
from pathlib import Path
from mihash.errors import MIHashError
from mihash.store.sqlite.database import Database
for word in sys.argv[2:]:
    try:
        database = Database(Path(sys.argv[1]), read_only=word == "read")
        with database.read() as connection:
            print(len(connection.execute("SELECT through FROM checkpoint").fetchall()))
        database.close()
    except MIHashError as error:
        print(type(error).__name__)
"""

HOLD = """
import sys
from pathlib import Path
from mihash.store.sqlite.database import Database
database = Database(Path(sys.argv[1]), read_only=False)
with database.write() as connection:
    connection.execute("INSERT INTO checkpoint VALUES (1, x'00')")
print("committed", flush=True)
with database.write() as connection:
    connection.execute("INSERT INTO checkpoint VALUES (2, x'00')")
    print("half", flush=True)
    sys.stdin.read()
"""

LOOK = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1])
print(*(row[0] for row in connection.execute("SELECT through FROM checkpoint ORDER BY through")))
connection.close()
"""


def test_a_second_writer_is_refused_and_the_first_goes_on(folder, database):
    for call in (lambda: Database(folder, read_only=False), lambda: Database.create(folder, {})):
        with pytest.raises(StoreLocked, match="is open for writing already"):
            call()
    put(database, 1)
    assert numbers(database) == [1]
    database.close()
    second = Database(folder, read_only=False)
    assert numbers(second) == [1]
    second.close()


def test_the_lock_is_held_against_other_processes_and_a_kill_frees_it(folder):
    Database.create(folder, {}).close()
    with child(HOLD, folder) as holder:
        try:
            assert [holder.stdout.readline().strip() for _ in range(2)] == ["committed", "half"]
            with pytest.raises(StoreLocked):
                Database(folder, read_only=False)
            reader = Database(folder, read_only=True)
            assert numbers(reader) == [1]
            reader.close()
        finally:
            holder.send_signal(signal.SIGKILL)
    with_lock = Database(folder, read_only=False)
    assert numbers(with_lock) == [1]
    put(with_lock, 3)
    assert said(TRY, folder, "write", "read") == ["StoreLocked", "2"]
    with_lock.close()


@pytest.mark.parametrize("read_only", [True, False])
def test_opening_it_a_second_time_leaves_the_locks_of_the_first(folder, database, read_only):
    put(database, 1)
    with suppress(StoreLocked):
        Database(folder, read_only).close()
    log = folder / f"{DATABASE}-wal"
    before = log.stat().st_ino
    assert said(LOOK, folder / DATABASE) == ["1"]  # anybody's look at the file, such as sqlite3's shell
    assert log.exists(), "it took itself for the last one to close, and removed the log that is being written"
    assert log.stat().st_ino == before


def test_the_lock_is_free_after_a_failed_open(folder):
    Database.create(folder, {}).close()
    sound = (folder / DATABASE).read_bytes()
    (folder / DATABASE).write_bytes(b"no database" * 100)
    with pytest.raises(CorruptStore) as kept:
        Database(folder, read_only=False)
    (folder / DATABASE).write_bytes(sound)
    Database(folder, read_only=False).close()
    assert kept.value is not None


CLOSE = """
import sys, threading
from pathlib import Path
from mihash.errors import NotReady
from mihash.store.sqlite.database import Database

wrong = []

def work(database, begun):
    try:
        with database.read():
            begun.wait(30)
        while True:
            with database.read() as connection:
                rows = connection.execute("SELECT through, state FROM checkpoint").fetchall()
            if rows != [(1, b"x" * 100_000)]:
                wrong.append(rows)
    except NotReady:
        pass
    except BaseException as error:
        wrong.append(error)

for turn in range(80):
    database, begun = Database(Path(sys.argv[1]), read_only=bool(turn % 2)), threading.Barrier(5)
    threads = [threading.Thread(target=work, args=(database, begun)) for _ in range(4)]
    for thread in threads:
        thread.start()
    begun.wait(30)
    database.close()
    for thread in threads:
        thread.join(30)
print(len(wrong))
"""


def test_closing_while_others_read_ends_in_an_answer_or_a_name(folder, database):
    put(database, 1, 100_000)
    database.close()
    assert said(CLOSE, folder) == ["0"]


def unprivileged():
    """Take the right from a process that is about to start to write where its user may not (root has it)."""
    if os.geteuid() == 0:
        for capability in (1, 2):  # CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH
            ctypes.CDLL(None).prctl(24, capability, 0, 0, 0)  # PR_CAPBSET_DROP


CAN_WRITE = "import sys, os; print(os.access(sys.argv[1], os.W_OK))"


@pytest.fixture
def locked_folder(folder):
    made = Database.create(folder, {})
    put(made, 1)
    put(made, 2)
    yield made
    made.close()
    folder.chmod(0o755)
    for file in folder.iterdir():
        file.chmod(0o644)


def without_permission(folder, *words):
    if said(CAN_WRITE, folder, preexec_fn=unprivileged) != ["False"]:
        pytest.skip("this user may write where nobody may, and cannot give that up")
    return said(TRY, folder, *words, preexec_fn=unprivileged)


@linux
def test_a_folder_that_cannot_be_written_is_not_written(folder, locked_folder):
    locked_folder.close()
    folder.chmod(0o555)
    assert without_permission(folder, "write") == ["StoreError"]


@linux
def test_a_folder_that_cannot_be_written_is_read(folder, locked_folder):
    locked_folder.close()
    folder.chmod(0o555)
    assert without_permission(folder, "read", "read") == ["2", "2"]


FOLLOW = """
import sys
from pathlib import Path
from mihash.store.sqlite.database import Database
database = Database(Path(sys.argv[1]), read_only=True)
for _ in sys.stdin:
    with database.read() as connection:
        print(connection.execute("SELECT count(*) FROM checkpoint").fetchone()[0], flush=True)
"""


@linux
def test_who_may_not_write_follows_who_may(folder, locked_folder):
    locked_folder.close()
    folder.chmod(0o555)
    without_permission(folder)
    with child(FOLLOW, folder, preexec_fn=unprivileged, stderr=subprocess.DEVNULL) as reader:
        counts = []
        for number in (3, 4):
            with suppress(BrokenPipeError):
                print(file=reader.stdin, flush=True)
            counts.append(reader.stdout.readline().strip())
            folder.chmod(0o755)
            again = Database(folder, read_only=False)
            put(again, number, 100_000)
            again.close()
        reader.kill()
    assert counts == ["2", "3"]


@linux
def test_a_crashed_index_in_a_folder_that_cannot_be_written_is_whole_or_an_error(folder, locked_folder):
    crashed = folder.with_name("crashed")
    shutil.copytree(folder, crashed)
    (crashed / f"{DATABASE}-shm").unlink()
    crashed.chmod(0o555)
    try:
        assert without_permission(crashed, "read")[0] in ("2", "StoreError")
    finally:
        crashed.chmod(0o755)
    assert numbers(locked_folder) == [1, 2]


@linux
def test_a_file_that_cannot_be_read_is_named(folder, locked_folder):
    locked_folder.close()
    (folder / DATABASE).chmod(0)
    if said(CAN_WRITE, folder / DATABASE, preexec_fn=unprivileged) != ["False"]:
        pytest.skip("this user may read what nobody may, and cannot give that up")
    process = child(TRY, folder, "read", preexec_fn=unprivileged, stderr=subprocess.DEVNULL)
    with process:
        out, _ = process.communicate(timeout=60)
    assert out.split() == ["StoreError"]


FORK = """
import os, sys, time
from pathlib import Path
from mihash.errors import NotReady
from mihash.store.sqlite.database import Database
database = Database(Path(sys.argv[1]), read_only=False)
child = os.fork()
if child == 0:
    try:
        with database.write():
            os._exit(1)
    except NotReady:
        print(os.getpid(), flush=True)
        time.sleep(60)
    os._exit(0)
sys.stdin.read()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_forked_process_does_not_hold_the_lock_after_its_parent(folder):
    Database.create(folder, {}).close()
    with child(FORK, folder) as parent:
        survivor = int(parent.stdout.readline())
        try:
            with pytest.raises(StoreLocked):  # the parent has it, whatever its child has closed
                Database(folder, read_only=False)
            parent.send_signal(signal.SIGKILL)
            parent.wait(30)
            os.kill(survivor, 0)
            Database(folder, read_only=False).close()
        finally:
            os.kill(survivor, signal.SIGKILL)
