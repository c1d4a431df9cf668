"""Until when the current thread may read from a database; a read that takes longer is stopped.

For who has promised an answer in time, such as the service: what nobody waits for any more should not go on.
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

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


def has_deadline() -> bool:
    """Tell whether reads of this thread are to be stopped at some time."""
    return getattr(_local, "at", None) is not None


def is_late() -> bool:
    """Tell whether this thread should have ended its reads."""
    at: float | None = getattr(_local, "at", None)
    return at is not None and time.monotonic() >= at
