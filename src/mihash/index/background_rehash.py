"""Builds versions of the hash table in a background thread, always the newest accepted one."""

import threading
import time
import weakref

from ..errors import NotReady, PartialFailure
from ..stopwatch import Stopwatch
from ..store.table import Table

_RETRY_S = 5.0
_PRICED = 50  # queries of which the time is taken


class Builder:
    """A thread that builds accepted versions while queries and additions go on.

    Parameters
    ----------
    table
        The hash table.
    paused
        Whether building is paused at first.

    Attributes
    ----------
    error
        The error of the last build, None if it succeeded.
    building
        A lock that is held while codes are made; no row is purged while it is held.
    """

    def __init__(self, table: Table, paused: bool = False) -> None:
        self._table = table
        self._condition = threading.Condition()
        self._paused, self._stopped, self._busy, self._asked = paused, False, False, False
        self.error: Exception | None = None
        self._retry_at: float | None = None  # when to retry a build that failed because shards were missing
        self._thread: threading.Thread | None = None
        self.building = threading.Lock()

    @property
    def busy(self) -> bool:
        """Whether a version is being built or waits to be."""
        with self._condition:
            return self._busy or (self._asked and not self._paused)

    def notice(self) -> None:
        """Wake the thread: a version waits to be built."""
        with self._condition:
            self._asked = True
            self._begin()
            self._condition.notify_all()

    def _begin(self) -> None:
        """Start the thread, unless it runs; the lock is held."""
        if not self._stopped and (self._thread is None or not self._thread.is_alive()):
            thread = threading.Thread(target=_work, args=(weakref.ref(self),), name="mihash-rehash", daemon=True)
            thread.start()
            self._thread = thread

    def pause(self) -> None:
        """Build nothing until `resume`; a running build is finished."""
        with self._condition:
            self._paused = True

    def resume(self) -> None:
        """Build again."""
        with self._condition:
            self._paused = False
            self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is left to build; return False after a timeout, and raise the error of a build."""
        with self._condition:
            if self._asked:
                self._begin()  # the system may have given no thread before
            done = self._condition.wait_for(self._is_done, timeout)
            error, self.error = self.error, None
        if error is not None:
            raise error
        return done

    def _is_done(self) -> bool:
        return not self._busy and (self._stopped or self._paused or not self._asked)

    def stop(self) -> None:
        """Abandon a running build and end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _turn(self) -> bool:
        """Wait for a version, build it, and return whether to continue."""
        with self._condition:
            self._condition.wait_for(lambda: self._stopped or (self._asked and not self._paused), timeout=1.0)
            if self._stopped:
                return False
            if self._retry_at is not None and time.monotonic() >= self._retry_at:
                self._asked = True
            if not self._asked or self._paused:
                return True
            self._busy, self._asked, self._retry_at = True, False, None
        try:
            with self.building:
                number = None if self._paused else self._table.waiting()  # it may have been paused meanwhile
                if number is not None and self._table.build(number, lambda: self._stopped):
                    self.error = None
        except NotReady as error:
            if self._table.database.closed:
                return False
            self.error = error
        except PartialFailure as error:  # the version still waits: retry later
            self.error, self._retry_at = error, time.monotonic() + _RETRY_S
        except Exception as error:
            self.error = error
        finally:
            with self._condition:
                self._busy = False
                self._condition.notify_all()
        return True


def _work(reference: "weakref.ref[Builder]") -> None:
    while True:
        owner = reference()
        if owner is None or not owner._turn():
            return
        del owner


def measured_price(table: Table) -> tuple[float, str]:
    """Return the seconds of the last rehash over those of one query, at least 1, and the same in words.

    Queries are stored rows, one at a time.
    """
    versions = [version for version in table.versions() if version.seconds]
    if not versions:
        raise NotReady("No rehash has been measured yet: pass a price in queries.")
    rehash_s = float(versions[-1].seconds or 0.0)
    rows = next(iter(table.rows_after(-1))).features[:_PRICED]
    watch = Stopwatch()
    for row in rows:
        table.search(row)
    query_s = watch.seconds / len(rows)
    price = max(1.0, rehash_s / query_s)
    return price, f"the last rehash took {rehash_s:.3g} s, and a query takes {query_s * 1e3:.3g} ms"
