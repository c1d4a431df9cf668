"""How HTTP is parsed: by httptools where it is installed, which takes less time than h11.

h11 limits how long the head of a request is, and keeps trailers within that limit. httptools limits neither, so
that is done here. And the head of a response is sent together with its body, in one call of the system.
"""

import asyncio
from typing import Any

MOST_HEAD = 64 << 10
"""Bytes of a request's head before it is refused; those that arrive at once with its end are not counted."""

_HEAD = b"HTTP/1."


class JoinedWrites:
    """A transport that keeps the head of a response until its body comes, or until the event loop goes on.

    Parameters
    ----------
    transport
        The transport that writes; it does everything else as it is.
    """

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport, self._head = transport, b""
        self._call_soon = asyncio.get_running_loop().call_soon
        self.is_closing, self.abort = transport.is_closing, transport.abort

    def write(self, data: bytes) -> None:
        """Write data, or keep it if it is a head."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data.startswith(_HEAD):
            self._head = data
            self._call_soon(self._flush)
        else:
            self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Write what is kept, and close."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return everything else from the transport."""
        return getattr(self._transport, name)


def http_protocol() -> Any:
    """Return what uvicorn takes as ``http``: a protocol of httptools, or the name of its own with h11."""
    try:
        from httptools import HttpRequestParser
        from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
    except ImportError:
        return "h11"
    if not hasattr(HttpRequestParser, "set_dangerous_leniencies"):  # before 0.6.3
        return "h11"

    class LimitedProtocol(HttpToolsProtocol):
        """A connection that refuses a head without an end, and ignores trailers."""

        _in_head = False
        _n_head = 0

        def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
            super().connection_made(JoinedWrites(transport))  # type: ignore[arg-type]
            # A body of two lengths is refused by the middleware, which says why.
            self.parser.set_dangerous_leniencies(lenient_chunked_length=True, lenient_data_after_close=True)

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._n_head = self._n_head + len(data) if self._in_head else 0
            if self._n_head > MOST_HEAD and not self.transport.is_closing():
                self.send_400_response("The head of the request is too long.")

        def on_message_begin(self) -> None:
            self._in_head = True
            super().on_message_begin()

        def on_headers_complete(self) -> None:
            self._in_head = False
            super().on_headers_complete()

        def on_header(self, name: bytes, value: bytes) -> None:
            if self._in_head:
                super().on_header(name, value)

    return LimitedProtocol
