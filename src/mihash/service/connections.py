"""Connections that do not wait for ever: for the head of a request, or for a client that takes none of its answer.

How long a body may take is another matter, and the application's.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

from .limits import Limits

__all__ = ["connection_class"]


def connection_class(limits: Limits) -> type[H11Protocol]:
    """Return the protocol of uvicorn, with limits on a client's slowness."""

    class Connection(H11Protocol):
        """A connection that is closed where the client is too slow."""

        _until_head: asyncio.TimerHandle | None = None
        _until_taken: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            """Expect the head of a request."""
            super().connection_made(transport)
            self._expect()

        def data_received(self, data: bytes) -> None:
            """Expect the rest of a head, where one has begun."""
            super().data_received(data)
            self._expect()

        def connection_lost(self, exc: Exception | None) -> None:
            """Expect nothing more."""
            super().connection_lost(exc)
            for timer in (self._until_head, self._until_taken):
                if timer is not None:
                    timer.cancel()

        def pause_writing(self) -> None:
            """Wait a while for a client that does not take what it gets."""
            super().pause_writing()
            self._until_taken = self.loop.call_later(limits.stall_s, self.transport.abort)

        def resume_writing(self) -> None:
            """Wait no longer: it has taken it."""
            super().resume_writing()
            if self._until_taken is not None:
                self._until_taken.cancel()

        def _expect(self) -> None:
            idle = self.cycle is None or self.cycle.response_complete
            if not idle or self.timeout_keep_alive_task is not None:
                if self._until_head is not None:
                    self._until_head.cancel()
                    self._until_head = None
            elif self._until_head is None:
                self._until_head = self.loop.call_later(limits.header_s, self.transport.abort)

    return Connection
