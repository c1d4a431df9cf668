"""Head and body of a response, sent to the network together.

uvicorn writes them one after the other. Each write is a system call, which on one machine also wakes the client.
So a head that states the length of the body waits for the body; the head of a stream is sent at once.
"""

import asyncio
from typing import Any, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

_SHORT = 16_384  # bytes that are copied to be joined; more are written as they come
_BEGIN, _END, _LENGTH = b"HTTP/1.1 ", b"\r\n\r\n", b"\r\ncontent-length: "


class JoinedWrites:
    """A transport that holds the head of a response back until the body, or the end of the connection.

    Everything else is the other transport's.

    Parameters
    ----------
    transport
        What writes to the network.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        self._held = b""
        self.is_closing = transport.is_closing

    def write(self, data: bytes) -> None:
        """Write what is held and ``data``, or hold that; the order never changes."""
        held = self._held
        if held:
            if len(held) + len(data) > _SHORT:
                self.flush()
                self._transport.write(data)
            else:
                self._held = b""
                self._transport.write(held + data)
        elif data.startswith(_BEGIN) and data.endswith(_END) and _LENGTH in data:
            self._held = data
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
        self._joined = JoinedWrites(transport)
        super().connection_made(cast(asyncio.Transport, self._joined))

    def on_response_complete(self) -> None:
        """Send all of a response that has no body, and go on with the next request."""
        self._joined.flush()
        super().on_response_complete()
