"""Connections that do not wait for ever, are not too many, and also answer in JSON what is no HTTP.

A client may be slow with the head of a request, or take none of its answer, only for so long. How long a body may
take is another matter, and the application's.
"""

import asyncio
import logging
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from .problems import Problem, answer, busy
from .service import Service

_log = logging.getLogger("mihash.service.http")
_log.setLevel(logging.ERROR)  # what clients do wrong, or ask for in vain, is told to them
_ALWAYS = ("/v1/events", "/health", "/ready")  # who listens has a limit of its own
_AFTER_S = 5
_LEAST = 1 << 20  # bytes of a long answer that a client takes in the time that it may stall
_SPARE = 2  # times as many connections get an answer; more are closed without


def _not_http() -> bytes:
    """Return the whole answer to what cannot be read as a request."""
    response = answer(Problem(400, "invalid_input", "This cannot be read as a request of HTTP/1.1."))
    head = [b"HTTP/1.1 400 Bad Request", b"connection: close"]
    head += [name + b": " + value for name, value in response.raw_headers]
    return b"\r\n".join([*head, b"", bytes(response.body)])


_NOT_HTTP = _not_http()


def connection_class(service: Service) -> type[H11Protocol]:
    """Return the protocol of uvicorn, with limits on how slow clients are, and how many."""
    limits = service.limits

    class Connection(H11Protocol):
        """A connection that is closed where the client is too slow."""

        _until_head: asyncio.TimerHandle | None = None
        _until_taken: asyncio.TimerHandle | None = None
        _left = 0  # bytes of an answer that the client had not taken, the last time it was looked at

        def connection_made(self, transport: Any) -> None:
            """Expect the head of a request."""
            super().connection_made(transport)
            self.logger = _log
            if len(self.connections) > _SPARE * limits.connections + limits.listeners:
                transport.abort()
                return
            if len(self.connections) > limits.connections:
                self.app = _Full(self.app, service)
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

        def send_400_response(self, msg: str) -> None:  # noqa: ARG002 -- uvicorn's words
            """Answer what is no HTTP, unless an answer is on its way, and close."""
            idle = self.cycle is None or self.cycle.response_complete or not self.cycle.response_started
            if idle:
                self.transport.write(_NOT_HTTP)
            service.metrics.answered("other", 0.0, "invalid_input")
            self.transport.close()

        def pause_writing(self) -> None:
            """Wait a while for a client that does not take what it gets."""
            super().pause_writing()
            self._wait_until_taken()

        def resume_writing(self) -> None:
            """Wait no longer: it has taken it."""
            super().resume_writing()
            if self._until_taken is not None:
                self._until_taken.cancel()

        def _wait_until_taken(self) -> None:
            self._left = self.transport.get_write_buffer_size()
            self._until_taken = self.loop.call_later(limits.stall_s, self._look_what_was_taken)

        def _look_what_was_taken(self) -> None:
            """Give a client that is slow but takes a long answer its time, and close the others."""
            if self._left - self.transport.get_write_buffer_size() < _LEAST:
                self.transport.abort()
            else:
                self._wait_until_taken()

        def _expect(self) -> None:
            idle = self.cycle is None or self.cycle.response_complete
            if not idle or self.timeout_keep_alive_task is not None:
                if self._until_head is not None:
                    self._until_head.cancel()
                    self._until_head = None
            elif self._until_head is None:
                self._until_head = self.loop.call_later(limits.header_s, self.transport.abort)

    return Connection


class _Full:
    """What a connection too many is answered: come again; who listens, or looks after the service, is let in."""

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["path"] in _ALWAYS:
            await self._app(scope, receive, send)
            return
        most = self._service.limits.connections
        problem = busy(f"{most} connections are open, and no more are served; nothing was done.", _AFTER_S)
        problem.headers["Connection"] = "close"
        self._service.metrics.answered("other", 0.0, problem.code)
        await answer(problem)(scope, receive, send)
