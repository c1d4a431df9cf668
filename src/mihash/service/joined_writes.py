"""Head and body of a short response, sent to the network together.

uvicorn writes them one after the other. Each write is a call of the system, which on one machine also wakes the
client; to wake it twice costs as much as to parse the request.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

_SHORT = 16_384  # bytes that are copied to be joined; more are written as they come


class JoinedWrites:
    """A transport that holds a short write back until the next one, or until the event loop has nothing to run.

    Everything else is the other transport's.

    Parameters
    ----------
    transport
        What writes to the network.
    loop
        The event loop.
    """

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport, self._loop = transport, loop
        self._held = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write what is held with ``data``, or hold that; the order never changes."""
        held = self._held
        if held:
            if len(held) + len(data) > _SHORT:
                self.flush()
                self._transport.write(data)
            else:
                self._held = b""
                self._transport.write(held + data)
        elif 0 < len(data) <= _SHORT:
            self._held = data
            self._loop.call_soon(self.flush)
        else:
            self._transport.write(data)

    def flush(self) -> None:
        """Write what is held."""
        held, self._held = self._held, b""
        if held:
            self._transport.write(held)

    def close(self) -> None:
        """Write what is held, and close the connection once all is sent."""
        self.flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return what the other transport has."""
        return getattr(self._transport, name)


class HTTPConnection(H11Protocol):
    """uvicorn's protocol, with writes that are joined."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Take a new connection."""
        super().connection_made(cast(asyncio.Transport, JoinedWrites(transport, self.loop)))
