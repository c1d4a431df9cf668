"""Reads bytes of a database file beside SQLite, for what can be checked by itself.

POSIX has one set of locks for a process and a file, and closing any descriptor of the file drops all of them, also
those of SQLite. So a process has one descriptor for a file. It is closed when the last `Database` of the file is,
after its connections.
"""

import os
import threading
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

_Place = tuple[int, int]


class FileReads:
    """A file that is read at any place; it is opened at the first read.

    Parameters
    ----------
    path
        The file.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "file")
    ...     _ = path.write_bytes(b"0123456789")
    ...     file = FileReads(path)
    ...     file.read(4, [3, 8])
    ...     file.close()
    [b'3456', b'89']
    """

    _lock = threading.RLock()
    _users: ClassVar[Counter[_Place]] = Counter()  # how many are not closed, whether they have read or not
    _opened: ClassVar[dict[_Place, int]] = {}  # descriptors

    def __init__(self, path: Path) -> None:
        self._path = path
        self._place: _Place | None = None
        self._descriptor = -1
        self._closed = not hasattr(os, "pread")
        with self._lock:
            if not self._closed and path.exists():
                self._use(_place(path.stat()))

    def read(self, n_bytes: int, offsets: Iterable[int]) -> list[bytes]:
        """Return ``n_bytes`` from each offset on, fewer at the end of the file; raise `OSError` if that fails."""
        if self._descriptor < 0:
            self._open()
        read, descriptor = os.pread, self._descriptor
        return [read(descriptor, n_bytes, offset) for offset in offsets]

    def _open(self) -> None:
        with self._lock:
            if self._closed:
                raise OSError(f"{self._path} is not open.")
            place = _place(self._path.stat())
            if place not in self._opened:
                descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
                place = _place(os.fstat(descriptor))  # of another file, if it was replaced meanwhile
                self._opened.setdefault(place, descriptor)
            self._use(place)
            self._descriptor = self._opened[place]

    def _use(self, place: _Place) -> None:
        if place != self._place:
            self._users[place] += 1
            self._leave()
            self._place = place

    def _leave(self) -> None:
        if self._place is not None:
            self._users[self._place] -= 1
            if not self._users[self._place]:
                del self._users[self._place]
                if self._place in self._opened:
                    os.close(self._opened.pop(self._place))

    def refuse(self) -> None:
        """Read no more. The file still counts as one that this process has open."""
        self._closed, self._descriptor = True, -1

    def close(self) -> None:
        """Read no more; the connections of this `Database` are closed."""
        with self._lock:
            self._closed = True
            self._leave()
            self._place, self._descriptor = None, -1


def _place(status: os.stat_result) -> _Place:
    return status.st_dev, status.st_ino
