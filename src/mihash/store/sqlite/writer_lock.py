"""The right to write to an index: an exclusive lock on a file of its own, which ends with the process."""

import os
import sqlite3
import weakref
from pathlib import Path

from ...errors import StoreLocked

try:
    import fcntl
except ImportError:  # pragma: no cover -- not a POSIX system
    fcntl = None  # type: ignore[assignment]

LOCK = "writer.lock"


def check_free(folder: Path) -> None:
    """Raise `StoreLocked` where a process writes to an index."""
    WriterLock(folder / LOCK).close()


class WriterLock:
    """An exclusive lock on a file, held until `close`; the operating system frees it when the process ends.

    It uses ``flock`` where there is one: a POSIX lock would be lost when this process closes any other descriptor
    of the file. A forked process shares the descriptor and would hold the lock after its parent's death, so it
    closes its copy at once. Elsewhere the file is an SQLite database under an exclusive lock.
    """

    def __init__(self, path: Path) -> None:
        _LOCKS.add(self)
        self._file: int | None = None
        self._guard: sqlite3.Connection | None = None
        try:
            if fcntl is None:
                self._guard = sqlite3.connect(path, timeout=0.1, isolation_level=None, check_same_thread=False)
                self._guard.execute("BEGIN EXCLUSIVE")
            else:
                self._file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except (BlockingIOError, sqlite3.OperationalError) as error:
            self.close()
            raise StoreLocked(
                f"{path.parent} is open for writing already, in this process or another. "
                "Close that index, or open it with read_only=True."
            ) from error
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Free the lock."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
        if self._guard is not None:
            self._guard.close()


_LOCKS: weakref.WeakSet[WriterLock] = weakref.WeakSet()


def _let_go() -> None:
    for lock in list(_LOCKS):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
