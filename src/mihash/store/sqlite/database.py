"""The SQLite file of an index: its schema, one writer, any number of readers, and named errors.

An index is a folder with ``index.db`` (SQLite in WAL mode, synchronous=FULL) and ``writer.lock``, an empty file on
which the one writer holds an exclusive lock that the operating system frees with the process. The tables
are described in docs/format.md.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from ...errors import (
    CorruptStore,
    DeadlineExceeded,
    InvalidInput,
    MIHashError,
    NotReady,
    ReadOnly,
    StoreError,
    StoreLocked,
    TooLarge,
)
from ...state import make_folder, sync_folder
from .deadline import LATE, stopped_when_late
from .file_format import FORMAT, check_schema, check_structure, complete, create_schema, read_format
from .file_reads import FileReads
from .settings import write_settings
from .writer_lock import LOCK, WriterLock

DATABASE = "index.db"
PAGE_BYTES = 16_384
_WAL_BYTES = 64 << 20
_CACHE_KIB = 64 << 10  # like the log: keys in no order go to pages all over their indexes
_WAIT_S = 20.0
_TOO_LARGE = (
    "A value is larger than SQLite stores in one row (10^9 bytes), and nothing was changed. Store fewer features "
    "or less metadata in a row, or make the index with a smaller `reservoir_size`."
)
_UNWRITABLE = (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY)


class Database:
    """A connection that writes, where this process may, and one connection for each thread that reads.

    Parameters
    ----------
    folder
        The folder of the index.
    read_only
        Whether this process only reads; another one may write at the same time.
    """

    def __init__(self, folder: Path, read_only: bool) -> None:
        folder = folder.absolute()  # the working directory may change later
        self.folder, self.read_only = folder, read_only
        self.path = folder / DATABASE
        self.lock = threading.RLock()
        self._process = os.getpid()
        self._writing = False
        self._written: Any = None  # the state of the file after the last change from here
        self._readers: weakref.WeakSet[_Reader] = weakref.WeakSet()
        self._local = threading.local()
        self._closed = False
        self._guard: WriterLock | None = None
        self._writer: sqlite3.Connection | None = None
        self._watch: sqlite3.Connection | None = None
        self._stamp: tuple[int, ...] | None = None  # of a file that is read in place
        self.file = FileReads(self.path)
        try:
            if not self.path.is_file():
                raise StoreError(f"There is no index in {folder}. Make one with OnlineIndex.create.")
            with _translated(self.path):
                if not read_only:
                    self._guard = WriterLock(folder / LOCK)
                found = self._check_format()
                self._check_length()
                if not read_only:
                    self._writer = self._connect(checkpoints=True)
                    _set_up(self._writer)
                    self._writer.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")
                    self._writer.execute(f"PRAGMA wal_autocheckpoint = {_WAL_BYTES // PAGE_BYTES}")
                    self._writer.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
                    with self.write() as connection:
                        complete(connection)
                        if found != FORMAT:
                            write_settings(connection, format=FORMAT)  # an older mihash is told to upgrade
        except OSError as error:
            self.close()
            raise StoreError(f"Cannot use {self.path}: {error}.") from error
        except BaseException:
            self.close()
            raise

    @classmethod
    def create(cls, folder: Path, settings: dict[str, Any]) -> "Database":
        """Make the folder and an empty database in it; all of it or nothing."""
        folder = folder.absolute()
        path = folder / DATABASE
        try:
            if folder.is_file():
                raise StoreError(f"{folder} is a file; an index is a folder. Choose another path.")
            make_folder(folder)
            others = [each.name for each in folder.iterdir() if not each.name.startswith((DATABASE, LOCK))]
        except OSError as error:
            raise StoreError(f"Cannot make the folder {folder}: {error}.") from error
        if others:
            raise InvalidInput(f"The folder of an index must be new or empty; {folder} holds {others[0]}.")
        with _translated(path):
            guard = WriterLock(folder / LOCK)
            try:
                connection = sqlite3.connect(path, isolation_level=None)
                try:
                    if connection.execute("SELECT 1 FROM sqlite_master").fetchone():
                        raise InvalidInput(f"{folder} holds an index already: open it, or choose another folder.")
                    connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
                    _set_up(connection)
                    connection.execute("BEGIN IMMEDIATE")
                    create_schema(connection)
                    write_settings(connection, format=FORMAT, **settings)
                    connection.execute("COMMIT")
                finally:
                    connection.close()
                sync_folder(folder)
            finally:
                guard.close()
        return cls(folder, read_only=False)

    @contextmanager
    def write(self) -> Iterator[sqlite3.Connection]:
        """Run a transaction: committed and on the disk at the end, or nothing of it."""
        self.check_writable()
        with self.lock, _translated(self.path):
            self.check_open()
            connection = self._writer
            if connection is None:
                raise NotReady("The index is closed.")
            if self._writing:  # part of a larger one
                yield connection
                return
            _end_stale(connection)
            try:
                self._writing = True
                connection.execute("BEGIN IMMEDIATE")
                self._check_alone(connection)
                yield connection
                connection.execute("COMMIT")
            except (sqlite3.Error, StoreError) as error:
                if not isinstance(error, StoreLocked):  # to undo it may count as a change
                    self._written = None
                raise
            finally:
                self._writing = False
                _end_stale(connection)

    def _check_alone(self, connection: sqlite3.Connection) -> None:
        """Raise if the file was removed, or another process has written to it: memory and file then differ."""
        if not self.path.exists():
            raise StoreError(f"{self.path} was removed or moved while it was open, and nothing was changed.")
        found = connection.execute("PRAGMA data_version").fetchone()
        if self._written is not None and found != self._written:
            raise StoreLocked(f"Another process has written to {self.folder}. Close this index and open it again.")
        self._written = found

    @contextmanager
    def read(self) -> Iterator[sqlite3.Connection]:
        """Give this thread's reading connection inside one transaction, which reads a consistent state."""
        reader = self._reader()
        with reader.lock, _translated(self.path, reading=True):
            connection = reader.connection
            if reader.reading:  # part of a larger one
                yield connection
                return
            _end_stale(connection)
            try:
                reader.reading = True
                with stopped_when_late(connection):
                    connection.execute("BEGIN")
                    yield connection
            finally:
                reader.reading = False
                _end_stale(connection)

    def data_version(self) -> tuple[int, ...]:
        """Return a value that changes with every commit of another connection; for one thread at a time."""
        with self.lock, _translated(self.path):
            self.check_open()
            if self._stamp is not None:
                return self._stamp if self._is_unchanged() else (-1,)
            if self._watch is None:
                self._watch = self._connect()
            return tuple(self._watch.execute("PRAGMA data_version").fetchone())

    def _is_unchanged(self) -> bool:
        """Tell whether a file that is read in place is unchanged; if not, open it again."""
        if self._stamp != _stamp(self.path):
            for reader in list(self._readers):
                reader.close()
            self._readers.clear()
            self._local, self._stamp = threading.local(), None
            self._check_format()
            return False
        return True

    def backup(self, folder: Path) -> None:
        """Write a consistent copy to another folder; reads and writes continue meanwhile."""
        target = folder / DATABASE
        try:
            make_folder(folder)
            if any(folder.iterdir()):
                raise InvalidInput(f"The folder of a backup must be new or empty; {folder} is not.")
        except OSError as error:
            raise StoreError(f"Cannot write a backup to {folder}: {error}.") from error
        beside = folder / f"{DATABASE}.part"
        try:
            with self.read() as connection, closing(sqlite3.connect(beside)) as copy:
                connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, which can be read from anywhere
            beside.replace(target)
            sync_folder(folder)
        except OSError as error:
            raise StoreError(f"Cannot write a backup to {folder}: {error}.") from error
        finally:
            for left in folder.glob(f"{beside.name}*"):  # SQLite's journal, too, where it could not undo the copy
                with suppress(OSError):
                    left.unlink()
            self.trim_log()

    def trim_log(self) -> None:
        """Shorten a log that has grown during a long read, where this process writes.

        SQLite takes pages out of the log only when no reader may need them, and cuts it at a later commit. After a
        long read there may be no commit for a while. This does not wait for other readers.
        """
        log = self.path.with_name(f"{DATABASE}-wal")
        with self.lock, suppress(sqlite3.Error, OSError):
            if self._writer is not None and not self._writing and log.stat().st_size > _WAL_BYTES:
                self._writer.execute("PRAGMA busy_timeout = 0")
                try:
                    self._writer.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    self._writer.execute(f"PRAGMA busy_timeout = {1000 * _WAIT_S:.0f}")

    def vacuum(self) -> None:
        """Give the free pages of the file back to the disk; a failure changes nothing that is stored."""
        with self.lock:
            with self.write() as connection:  # nobody else has written
                pass
            self._written = None  # it counts as a change, finished or not
            try:
                connection.execute("VACUUM")
                connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                self._written = connection.execute("PRAGMA data_version").fetchone()
            except sqlite3.Error as error:
                raise StoreError(
                    f"The free space in {self.path} could not be returned to the disk: {error}. Everything that "
                    "was committed is stored. Make room and try again."
                ) from error
            finally:
                _end_stale(connection)

    def close(self) -> None:
        """Close every connection and free the lock; a second call does nothing."""
        self._closed = True
        for reader in list(self._readers):
            reader.close()
        with self.lock:
            for connection in (self._watch, self._writer, self._guard):
                if connection is not None:
                    with suppress(sqlite3.Error, OSError):
                        connection.close()
            self._watch = self._writer = self._guard = None
        self.file.close()  # after the connections: it drops their locks

    def __del__(self) -> None:
        """Free the lock of an index that was dropped without `close`."""
        with suppress(Exception):
            self.close()

    @property
    def closed(self) -> bool:
        """Whether `close` was called."""
        return self._closed

    def check_open(self) -> None:
        """Raise if the database was closed."""
        if self._closed:
            raise NotReady("The index is closed.")
        if os.getpid() != self._process:
            raise NotReady("The index was opened before this process was forked. Open it again in this process.")

    def check_writable(self) -> None:
        """Raise if the database was opened for reading only."""
        if self.read_only:
            raise ReadOnly(
                "This index was opened with read_only=True: only a process that writes to it can do this."
            )

    def _reader(self) -> "_Reader":
        self.check_open()
        held: _Reader | None = getattr(self._local, "reader", None)
        if self._stamp is not None and not (held is not None and held.reading):
            with self.lock:
                if not self._is_unchanged():
                    held = None
        if held is None:
            with _translated(self.path):
                held = _Reader(self._connect())
            self._readers.add(held)
            self._local.reader = held
        return held

    def _connect(self, checkpoints: bool = False) -> sqlite3.Connection:
        """Return a new connection; only the writer's moves pages from the log into the file (docs/format.md)."""
        mode = "ro" if self.read_only else "rw"
        options = "" if self._stamp is None else "&immutable=1"
        connection = sqlite3.connect(
            f"{self.path.absolute().as_uri()}?mode={mode}{options}",
            uri=True,
            timeout=_WAIT_S,
            isolation_level=None,
            check_same_thread=False,
        )
        connection.execute("PRAGMA query_only = ON" if self.read_only else "PRAGMA query_only = OFF")
        if not checkpoints:
            connection.execute("PRAGMA wal_autocheckpoint = 0")
        _distrust(connection)
        return connection

    def _check_format(self) -> int:
        """Return the number of the file's format, or raise if it cannot be read."""
        try:
            found = read_format(self._reader().connection, self.path)
        except sqlite3.OperationalError as error:
            wal = self.path.with_name(f"{DATABASE}-wal")
            if not self.read_only or wal.exists() or _code(error) not in _UNWRITABLE:
                raise
            self._stamp = _stamp(self.path)  # no log is left, and none can be made: read it in place
            self.file.refuse()  # the file may be replaced
            self._local = threading.local()
            found = read_format(self._reader().connection, self.path)
        with self.read() as connection:
            check_schema(connection, self.path)
            check_structure(connection)
        return found

    def _check_length(self) -> None:
        """Raise if the file is shorter than its header says and no log holds the rest.

        Through SQLite: to open and close the file in any other way would drop this process's locks on it.
        """
        wal = self.path.with_name(f"{DATABASE}-wal")
        if wal.exists() and wal.stat().st_size:
            return
        with self.read() as connection:
            (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
            (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
        if self.path.stat().st_size < n_pages * page_bytes:
            raise CorruptStore(f"{self.path} is damaged: its end is missing. Use a backup.")


class _Reader:
    """A connection that is closed when its thread has ended."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.connection = connection
        self.reading = False
        self.lock = threading.RLock()  # held while it is used: closing a connection under its user is a crash

    def close(self) -> None:
        with self.lock, suppress(sqlite3.Error):
            self.connection.close()

    def __del__(self) -> None:
        self.close()


def _end_stale(connection: sqlite3.Connection) -> None:
    """End a transaction that was not committed, or that an interrupt has left behind."""
    if connection.in_transaction:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


def _set_up(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise StoreError(f"SQLite cannot keep a write-ahead log here: it chose {mode}. Use a local disk.")
    connection.execute("PRAGMA synchronous = FULL")


def _distrust(connection: sqlite3.Connection) -> None:
    """Treat a file as one from elsewhere: run nothing that it holds, and check its pages."""
    connection.execute("PRAGMA trusted_schema = OFF")
    connection.execute("PRAGMA cell_size_check = ON")


def _stamp(path: Path) -> tuple[int, ...]:
    """Return what changes when a file is written to."""
    found = path.stat()
    wal = path.with_name(f"{path.name}-wal")
    return (found.st_ino, found.st_mtime_ns, found.st_size, int(wal.exists() and wal.stat().st_size))


def _code(error: sqlite3.Error) -> int:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF


@contextmanager
def _translated(path: Path, reading: bool = False) -> Iterator[None]:
    """Turn SQLite's errors into named ones; while reading, what is not as it was written is damage."""
    try:
        yield
    except MIHashError:
        raise
    except sqlite3.ProgrammingError as error:
        raise NotReady(f"The index is closed ({error}).") from error
    except sqlite3.Error as error:
        raise _named(path, error) from error
    except (TypeError, ValueError, LookupError, OverflowError) as error:
        if "INT_MAX" in str(error):
            raise TooLarge(_TOO_LARGE) from error
        if not reading and not isinstance(error, UnicodeDecodeError):  # which is what the file holds
            raise
        raise CorruptStore(f"{path} is damaged: {error}. Use a backup.") from error


def _named(path: Path, error: sqlite3.Error) -> StoreError:
    code = _code(error)
    if code == sqlite3.SQLITE_TOOBIG or isinstance(error, sqlite3.DataError):
        return TooLarge(_TOO_LARGE)
    damaged = code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB) or "decode to UTF-8" in str(error)
    if damaged:
        return CorruptStore(f"{path} is damaged: {error}. Use a backup.")
    if code == sqlite3.SQLITE_FULL:
        return StoreError(f"The disk is full, and nothing was changed in {path}. Make room and try again.")
    if code == sqlite3.SQLITE_INTERRUPT:
        return DeadlineExceeded(LATE)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreLocked(f"{path} is locked by another process: {error}.")
    return StoreError(f"Cannot use {path}: {error}.")
