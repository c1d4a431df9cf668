"""The stream of the demo: a data set in a loop, with new noise in each round, at a steady rate."""

import base64
import logging
import struct
import threading
import time
import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..index.online_index import OnlineIndex
from .index_service import Service
from .problems import Problem

_TURN_S = 0.2
_FIRST = 400  # rows at the start, so that the page has something to show
_NOISE = 0.1
_MOST_ROWS = 1_000_000

_log = logging.getLogger("mihash.service")


class Replay:
    """Adds rows of a data set through the service's queue of writes, until it is stopped.

    Parameters
    ----------
    X, y
        The data set; each round has a new order.
    rate
        Rows per second.
    side
        The side of the rows, if they are square images; the metadata then holds the image.
    turn_after
        How many rows pass until the images are turned by another 90 degrees: a drift to adapt to. 0 for never.
    seed
        Seeds the order and the noise.
    """

    def __init__(
        self,
        X: NDArray[np.float32],
        y: NDArray[Any] | None,
        rate: float = 200.0,
        side: int | None = None,
        turn_after: int = 0,
        seed: int = 0,
    ) -> None:
        self._X, self._y, self._side = np.asarray(X, dtype=np.float32), y, side
        self._rate = validation.number("rate", rate, above=0)
        self._turn_after = validation.integer("turn_after", turn_after, minimum=0)
        self._rng = np.random.default_rng(seed)
        self._noise = _NOISE * float(self._X.std())
        self._top = float(self._X.max())
        self._order: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._n = 0
        self.note: str | None = None
        if side is not None and self._turn_after:
            self.note = (
                f"This is a demo: handwritten digits, {self._rate:g} per second. After every "
                f"{self._turn_after:,} they are turned by 90 degrees: the stream changes, the quality falls, an "
                "alarm is raised, and the index follows."
            )
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, service: Service) -> None:
        """Start to add rows."""
        self._thread = threading.Thread(target=self._work, args=(service,), name="mihash-replay", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the rows that are being added."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def rows(self, n: int) -> tuple[NDArray[np.float32], NDArray[Any] | None, list[dict[str, Any]]]:
        """Return the next rows of the stream: vectors, labels and metadata."""
        while len(self._order) < n:
            self._order = np.concatenate([self._order, self._rng.permutation(len(self._X))])
        rows, self._order = self._order[:n], self._order[n:]
        X = self._X[rows]
        turns = self._n // self._turn_after % 4 if self._turn_after and self._side else 0
        if turns and self._side is not None:
            square = X.reshape(n, self._side, self._side)
            X = np.ascontiguousarray(np.rot90(square, turns, axes=(1, 2))).reshape(n, -1)
        X = X + self._noise * self._rng.standard_normal(X.shape, dtype=np.float32)
        y = None if self._y is None else self._y[rows]
        self._n += n
        return X, y, [self._metadata(vector, None if y is None else y[i], turns) for i, vector in enumerate(X)]

    def _metadata(self, vector: NDArray[np.float32], label: Any, turns: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if label is not None and np.ndim(label) == 0:
            found["label" if self._side is None else "digit"] = int(label)
        if self._side is not None:
            ink = np.clip(vector / self._top, 0, 1).reshape(self._side, self._side)
            found |= {"turned": 90 * turns, "image": as_image((255 * (1 - ink)).astype(np.uint8))}
        return found

    def _work(self, service: Service) -> None:
        due, n = time.monotonic(), _FIRST
        fraction = 0.0
        while not self._stopped.is_set() and self._n < _MOST_ROWS:
            if n:
                self._add(service, *self.rows(n))
            due = max(due + _TURN_S, time.monotonic())  # a slow machine gets fewer rows, not more at a time
            self._stopped.wait(due - time.monotonic())
            fraction += self._rate * _TURN_S
            n = int(fraction)
            fraction -= n

    def _add(
        self, service: Service, X: NDArray[np.float32], y: NDArray[Any] | None, metadata: list[dict[str, Any]]
    ) -> None:
        def work(index: OnlineIndex) -> None:
            service.store(index, len(X), lambda n: index.add(X, y, metadata=metadata, at_once=n))

        try:
            service.writes.submit(lambda: work(service.index)).result()
        except Problem:  # busy: skip these rows
            return
        except Exception:
            _log.exception("the stream of the demo failed")
            self._stopped.set()


def as_image(pixels: NDArray[np.uint8]) -> str:
    """Return a grey image (height, width) as a data URI of a PNG.

    Examples
    --------
    >>> as_image(np.zeros((8, 8), dtype=np.uint8))[:40]
    'data:image/png;base64,iVBORw0KGgoAAAANSU'
    """
    height, width = pixels.shape
    lines = b"".join(b"\0" + line.tobytes() for line in pixels)
    parts = (
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    )
    file = b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )
    return "data:image/png;base64," + base64.b64encode(file).decode()
