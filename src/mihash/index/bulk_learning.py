"""Learning from many rows while they are stored, so that a bulk load uses two cores.

Kernels, BLAS and SQLite release the interpreter lock. So one thread learns from rows while the caller's thread
writes them. What is learned is a function of the rows. The caller stores the checks after the rows, in the order
in which they were made, so the log does not depend on which thread is faster.
"""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress
from queue import SimpleQueue
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..loop.decisions import Check, Entry
from ..loop.learning_loop import Loop
from ..mapping import HashMapping

BULK_ROWS = 512  # fewer are learned from after they are stored: a thread would cost more than it gains
_PART_ROWS = 2048  # rows learned from at a time: they are normalised in memory, and a stop waits for them


class BulkLearning:
    """A thread in which a loop learns from rows; a context that ends the thread.

    Parameters
    ----------
    loop
        The loop. Nothing else may use it while the thread runs.
    labels
        The labels of the rows, or None.
    possible
        Whether the rows may be learned from before they are stored.

    Attributes
    ----------
    begun
        Whether the thread was started.
    healthy
        Whether learning had not stopped before that.

    Examples
    --------
    >>> import mihash
    >>> loop = Loop(mihash.online.LSH(8), mihash.Reservoir(10), [mihash.TriggerUpdate(0.0)])
    >>> with BulkLearning(loop, None) as beside:
    ...     beside.begin(np.zeros((1000, 2), dtype=np.float32), last=999)
    ...     kinds = [check.kind for check, mapping in beside.checks()]
    >>> kinds[:2], loop.seen
    (['start', 'trigger'], 1000)
    """

    def __init__(self, loop: Loop, labels: NDArray[Any] | None, possible: bool = True) -> None:
        self._loop, self._labels, self._possible = loop, labels, possible
        self.healthy = loop.failure is None
        self._made: SimpleQueue[list[Entry] | BaseException | None] = SimpleQueue()
        self._since: list[Entry] = []  # checks since the last mapping that was accepted
        self._thread: threading.Thread | None = None
        self._stopped = False

    def __enter__(self) -> "BulkLearning":
        """Return it; `begin` starts the thread."""
        return self

    def __exit__(self, *_: object) -> None:
        """Stop the thread after the rows that it is learning from, and wait for it."""
        self._stopped = True
        if self._thread is not None:
            with suppress(RuntimeError):  # it was interrupted before it started
                self._thread.join()

    @property
    def begun(self) -> bool:
        """Whether the thread was started."""
        return self._thread is not None

    def begin(self, vectors: NDArray[np.float32], last: int) -> None:
        """Start to learn from rows if they are many, on two cores or more; ``last`` is the number of the last."""
        if self._possible and len(vectors) >= BULK_ROWS and _n_cores() > 1:
            thread = threading.Thread(target=self._run, args=(vectors, last), name="mihash-learn", daemon=True)
            self._thread = thread
            try:
                thread.start()
            except RuntimeError:  # the system gives no more threads: the rows are learned from afterwards
                self._thread = None

    def checks(self) -> Iterator[Entry]:
        """Yield each check and the mapping that it accepted until all rows are learned; raise an error of that."""
        while (made := self._made.get()) is not None:
            if isinstance(made, BaseException):
                raise made
            yield from made

    def _run(self, vectors: NDArray[np.float32], last: int) -> None:
        """Learn from all rows, and end what was made with None or with an error."""
        error: BaseException | None = None
        try:
            for start in range(0, len(vectors), _PART_ROWS):
                if self._stopped:
                    break
                part = vectors[start : start + _PART_ROWS]
                labels = None if self._labels is None else self._labels[start : start + _PART_ROWS]
                self._loop.put(part, labels, last - len(vectors) + start + len(part))
                self._loop.learn(notify=self._note)
        except BaseException as raised:
            error = raised
        self._made.put(self._since)
        self._made.put(error)

    def _note(self, check: Check, mapping: HashMapping | None, _branch: int) -> None:
        self._since.append((check, mapping))
        if mapping is not None:  # only then is there something to build: the caller is not woken for less
            self._made.put(self._since)
            self._since = []


def _n_cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
