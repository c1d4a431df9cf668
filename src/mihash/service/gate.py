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

from .problems import Problem, answer, problem_of
from .service import Service

__all__ = ["Gate", "is_loopback"]

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

        async def sending(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        try:
            self._check(scope)
            await self._app(scope, receive, sending)
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

    def _check(self, scope: Scope) -> None:
        headers, path = Headers(scope=scope), scope["path"]
        token = self._service.token
        if token is None:
            _check_origin(headers)
        elif path not in _OPEN and not path.startswith(_OPEN_BELOW):
            _check_token(headers, token)


def _check_token(headers: Headers, token: str) -> None:
    scheme, _, shown = headers.get("authorization", "").partition(" ")
    same = hmac.compare_digest(shown.strip().encode(), token.encode())
    if scheme.lower() != "bearer" or not same:
        message = "Send the token of the service: Authorization: Bearer TOKEN."
        raise Problem(401, "unauthorized", message, {"WWW-Authenticate": "Bearer"})


def _check_origin(headers: Headers) -> None:
    host, origin = headers.get("host", ""), headers.get("origin")
    if host and not is_loopback(_split(f"//{host}").hostname or ""):
        message = "Without a token the service answers only as localhost; give it one to serve under another name."
        raise Problem(403, "forbidden", message)
    if origin is not None and _split(origin).netloc != host:
        raise Problem(403, "forbidden", "Pages of other sites may not use this service.")


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
