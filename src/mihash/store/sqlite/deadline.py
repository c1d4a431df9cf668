"""A deadline for the reads of a thread: a read that takes longer is stopped.

The service uses it: after a request has timed out, its search should not go on.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ...errors import DeadlineExceeded

LATE = "The request exceeded its timeout and was stopped. Request less at a time."
_STEPS = 4000  # of SQLite's machine between two looks at the clock: about a tenth of a millisecond
_local = threading.local()


@contextmanager
def deadline(at: float | None) -> Iterator[None]:
    """Stop reads of this thread at a time of `time.monotonic`; None for never.

    Examples
    --------
    >>> with deadline(time.monotonic() - 1):
    ...     is_late()
    True
    >>> is_late()
    False
    """
    before = getattr(_local, "at", None)
    _local.at = at
    try:
        yield
    finally:
        _local.at = before


def is_late() -> bool:
    """Tell whether this thread should have ended its reads."""
    at: float | None = getattr(_local, "at", None)
    return at is not None and time.monotonic() >= at


@contextmanager
def stopped_when_late(connection: sqlite3.Connection) -> Iterator[None]:
    """Have SQLite stop by itself at the deadline of this thread, where it has one."""
    if getattr(_local, "at", None) is None:
        yield
        return
    if is_late():
        raise DeadlineExceeded(LATE)
    connection.set_progress_handler(is_late, _STEPS)
    try:
        yield
    finally:
        with suppress(sqlite3.Error):
            connection.set_progress_handler(None, 0)
