"""What every request goes through: who may ask, how long it took, and an answer also where something broke.

Without a token only this machine is served, and a page of another site that a browser here shows must not reach
the index: neither by a request of its own (Origin) nor under a name that it has led here (Host).
"""

import hmac
import ipaddress
import logging
import time
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from .cors import Cors
from .problems import Problem, answer, problem_of
from .service import Service

_log = logging.getLogger("mihash.service")

_OPEN = ("/", "/docs", "/openapi.json", "/health", "/ready")
_OPEN_BELOW = ("/page/", "/docs/")
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Content-Security-Policy": "frame-ancestors 'none'",
}


class Gate:
    """Lets requests through, or answers them itself.

    Parameters
    ----------
    app
        What is behind it.
    service
        Whose token is asked for, and where requests are counted.
    """

    def __init__(self, app: ASGIApp, service: Service) -> None:
        self._app, self._service = app, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        begin, started = time.perf_counter(), False

        asked = Headers(scope=scope)

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                self._service.cors.tell(asked.get("origin"), headers)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            _check_length(asked)
            preflight = self._service.cors.preflight(scope["method"], asked)
            if preflight is None:
                self._check(asked, scope["path"])
            await (preflight or self._app)(scope, receive, sending)
        except ClientDisconnect:
            scope["mihash.code"] = "disconnected"
        except Exception as error:
            problem = problem_of(error)
            scope["mihash.code"] = problem.code
            if problem.status >= 500 and not isinstance(error, Problem):
                _log.exception("%s %s failed", scope["method"], scope["path"])
            if started:
                raise
            await answer(problem)(scope, receive, sending)
        finally:
            route = scope.get("route")
            address = getattr(route, "path_format", None) or getattr(route, "path", None) or "other"
            if address != "/v1/events":
                self._service.metrics.answered(address, time.perf_counter() - begin, scope.get("mihash.code"))

    def _check(self, headers: Headers, path: str) -> None:
        token = self._service.token
        is_open = path in _OPEN or path.startswith(_OPEN_BELOW)
        if token is None:
            _check_host(headers)
            if not is_open:  # a browser says its origin of the page's own scripts too, which a proxy makes another
                _check_origin(headers, self._service.cors)
        elif not is_open:
            _check_token(headers, token)


def _check_token(headers: Headers, token: str) -> None:
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(shown.strip().encode(), token.encode())
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
    if host and not is_loopback(_split(f"//{host}").hostname or ""):
        message = "Without a token the service answers only as localhost; give it one to serve under another name."
        raise Problem(403, "forbidden", message)


def _check_origin(headers: Headers, cors: Cors) -> None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if origin is not None and _split(origin).netloc != host and not cors.allows(origin):
        message = (
            f"Pages of other sites may not use this service: {origin:.80} is not {host:.80}. Behind a proxy, or "
            "for pages of your own, see --cors-origin in docs/service.md."
        )
        raise Problem(403, "forbidden", message)


def _split(address: str) -> SplitResult:
    try:
        return urlsplit(address)
    except ValueError:
        raise Problem(403, "forbidden", f"{address!r:.80} is no address.") from None


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address means this machine, from this machine.

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
