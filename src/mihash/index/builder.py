"""Builds versions of the hash table in the background: one thread, always the newest version that waits."""

import threading
import time
import weakref

from ..errors import NotReady, PartialFailure
from ..store.table import Table

_AGAIN_S = 5.0


class Builder:
    """A thread that builds what waits, so that queries and additions go on meanwhile.

    Parameters
    ----------
    table
        The hash table.
    paused
        Whether to begin with nothing being built.
    """

    def __init__(self, table: Table, paused: bool = False) -> None:
        self._table = table
        self._condition = threading.Condition()
        self._paused, self._stopped, self._busy, self._asked = paused, False, False, False
        self._error: Exception | None = None
        self._again: float | None = None  # when to try once more what failed for want of shards
        self._thread: threading.Thread | None = None
        self.building = threading.Lock()  # held while codes are made; who holds it keeps the rows as they are

    @property
    def busy(self) -> bool:
        """Whether a version is being built or waits to be."""
        with self._condition:
            return self._busy or (self._asked and not self._paused)

    @property
    def error(self) -> Exception | None:
        """What the last build failed with, None where it did not."""
        return self._error

    def notice(self) -> None:
        """Say that a version waits."""
        with self._condition:
            self._asked = True
            if self._thread is None and not self._stopped:
                self._thread = threading.Thread(
                    target=_work, args=(weakref.ref(self),), name="mihash-rehash", daemon=True
                )
                self._thread.start()
            self._condition.notify_all()

    def pause(self) -> None:
        """Build nothing until `resume`; a build that runs is left to its end."""
        with self._condition:
            self._paused = True

    def resume(self) -> None:
        """Build again."""
        with self._condition:
            self._paused = False
            self._condition.notify_all()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until nothing is to be built; return False where that took too long. A failed build raises here."""
        with self._condition:
            done = self._condition.wait_for(self._is_done, timeout)
            error, self._error = self._error, None
        if error is not None:
            raise error
        return done

    def _is_done(self) -> bool:
        return not self._busy and (self._stopped or self._paused or not self._asked)

    def stop(self) -> None:
        """Abandon the build that runs, if any, and end the thread."""
        with self._condition:
            self._stopped = True
            self._condition.notify_all()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _turn(self) -> bool:
        """Wait for work a while, do it, and return whether to go on."""
        with self._condition:
            self._condition.wait_for(lambda: self._stopped or (self._asked and not self._paused), timeout=1.0)
            if self._stopped:
                return False
            if self._again is not None and time.monotonic() >= self._again:
                self._asked = True
            if not self._asked or self._paused:
                return True
            self._busy, self._asked, self._again = True, False, None
        try:
            with self.building:
                number = None if self._paused else self._table.waiting()  # paused while it waited for the lock
                if number is not None and self._table.build(number, lambda: self._stopped):
                    self._error = None
        except NotReady:
            return False  # closed under our hands
        except PartialFailure as error:  # the version waits, and so do we
            self._error, self._again = error, time.monotonic() + _AGAIN_S
        except Exception as error:
            self._error = error
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
