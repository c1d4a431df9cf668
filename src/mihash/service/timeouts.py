"""Timeouts of slow clients, which uvicorn does not have.

uvicorn limits how long a connection is idle between two requests and how long the head of a request is; the
application limits the time of a body. This module limits the time to send a head and to receive a response.
"""

import time
from collections.abc import Iterable
from typing import Any, NamedTuple

from .limits import Limits, MiB


class _Wait(NamedTuple):
    """What a connection waits for: the request whose head or response it is, bytes to send, and since when."""

    request: Any
    n_bytes: int
    since: float


class ClientTimeouts:
    """Closes connections whose client is too slow.

    Parameters
    ----------
    limits
        ``header_s`` for the head of a request, ``stall_s`` for each MiB of a response.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._waits: dict[Any, _Wait] = {}

    def close_slow(self, connections: Iterable[Any]) -> None:
        """Close the slow ones among uvicorn's connections; called twice a second."""
        now, before = time.monotonic(), self._waits
        self._waits = {}
        for connection in connections:
            n_bytes = connection.transport.get_write_buffer_size() if connection.flow.write_paused else 0
            if not n_bytes and not _reads_head(connection):
                continue
            wait = before.get(connection)
            if wait is None or wait.request is not connection.cycle or wait.n_bytes - n_bytes >= MiB:
                wait = _Wait(connection.cycle, n_bytes, now)
            self._waits[connection] = wait
            if now - wait.since > (self._limits.stall_s if n_bytes else self._limits.header_s):
                connection.transport.abort()


def _reads_head(connection: Any) -> bool:
    """Tell whether a connection is new or has received a part of a request's head."""
    is_idle = connection.cycle is None or connection.cycle.response_complete
    return is_idle and connection.timeout_keep_alive_task is None
