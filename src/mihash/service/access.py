"""Middleware around every request: access, the limit of requests, headers, metrics, and errors.

Without a token, the service answers only this machine. Pages of other sites in a browser on this machine must not
reach the index: neither by a request of their own (Origin) nor by a host name that resolves to this machine
(Host).
"""

import hmac
import ipaddress
import logging
from collections.abc import Mapping
from functools import lru_cache
from urllib.parse import SplitResult, urlsplit

from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ..stopwatch import Stopwatch
from .cors import Cors
from .index_service import Service
from .problems import Problem, busy, problem_of, problem_response

_log = logging.getLogger("mihash.service")

_PUBLIC = ("/", "/docs", "/openapi.json", "/health", "/ready")
_PUBLIC_FOLDERS = ("/page/", "/docs/")
_EVENTS = "/v1/events"
_UNLIMITED = (_EVENTS, "/health", "/ready")  # listeners have a limit of their own
_RETRY_S = 5
_HEADERS = (  # of a response that has no others
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", b"frame-ancestors 'none'"),
    (b"cache-control", b"no-store"),
)
Headers = Mapping[str, str]


class AccessMiddleware:
    """Refuses requests that may not be made, and passes the others on.

    Parameters
    ----------
    app
        The application.
    service
        The service with the token, the allowed origins and the metrics.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        watch, started, headers = Stopwatch(), False, _headers(scope)
        limited = scope["path"] not in _UNLIMITED

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                names = {name for name, _ in message["headers"]}
                message["headers"] += [each for each in _HEADERS if each[0] not in names]
                self._service.cors.add_headers(headers.get("origin"), message)
            await send(message)

        self._service.n_requests += limited
        try:
            _check_length(headers)
            if limited and self._service.n_requests > self._service.limits.connections:
                raise busy(
                    f"{self._service.n_requests - 1} requests are being served, which is the limit.", _RETRY_S
                )
            preflight = self._service.cors.preflight(scope["method"], headers)
            if preflight is None:
                self._check(headers, scope["path"])
            await (preflight or self._app)(scope, receive, send_with_headers)
        except ClientDisconnect:
            scope["mihash.code"] = "disconnected"
        except Exception as error:
            problem = problem_of(error)
            scope["mihash.code"] = problem.code
            if problem.status >= 500 and not isinstance(error, Problem):
                _log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            await problem_response(problem)(scope, receive, send_with_headers)
        finally:
            self._service.n_requests -= limited
            route = scope.get("route")
            path = getattr(route, "path_format", None) or getattr(route, "path", None) or "other"
            if path != _EVENTS:
                self._service.metrics.count_request(path, watch.seconds, scope.get("mihash.code"))

    def _check(self, headers: Headers, path: str) -> None:
        token = self._service.token
        is_public = path in _PUBLIC or path.startswith(_PUBLIC_FOLDERS)
        if token is None:
            _check_host(headers)
            if (
                not is_public
            ):  # browsers send Origin with the page's own scripts; behind a proxy it is not this host
                _check_origin(headers, self._service.cors)
        elif not is_public:
            _check_token(headers, token)


def _headers(scope: Scope) -> Headers:
    """Return the headers of a request; the first where one is sent more than once."""
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}


def _check_token(headers: Headers, token: str) -> None:
    scheme, _, sent = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(sent.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not same:
        message = "Send the token of the service: Authorization: Bearer TOKEN."
        raise Problem(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


def _check_length(headers: Headers) -> None:
    """Refuse a body whose end a proxy may see elsewhere than this service does (RFC 9112, section 6.3)."""
    if "content-length" in headers and "transfer-encoding" in headers:
        message = "Send Content-Length or Transfer-Encoding, not both."
        raise Problem(400, "invalid_input", message, {"Connection": "close"})


def _check_host(headers: Headers) -> None:
    host = headers.get("host", "")
    if host and not _is_here(host):
        message = (
            "Without a token the service answers only as localhost; give it a token to use another host name."
        )
        raise Problem(403, "forbidden", message)


@lru_cache(64)
def _is_here(host: str) -> bool:
    """Tell whether a Host header names this machine."""
    return is_loopback(_split(f"//{host}").hostname or "")


def _check_origin(headers: Headers, cors: Cors) -> None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and _split(origin).netloc != host and not cors.allows(origin):
        message = (
            f"Pages of other sites may not use this service: {origin:.80} is not {host:.80}. Behind a proxy, or "
            "for pages of your own, allow their origin (docs/service.md, Your own web pages)."
        )
        raise Problem(403, "forbidden", message)


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        raise Problem(
            403, "forbidden", f"The header Host or Origin must be a host name or a URL; got {address!r:.80}."
        ) from None


def is_loopback(host: str) -> bool:
    """Tell whether a host name or an address is that of this machine, and unreachable from others.

    Examples
    --------
    >>> is_loopback("localhost"), is_loopback("127.0.0.1"), is_loopback("::1"), is_loopback("0.0.0.0")
    (True, True, True, False)
    """
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
