"""The connection of a client: it sends requests, retries while the service is busy, and reads events."""

import json
import selectors
import time
from collections.abc import Callable, Iterator
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from socket import socket
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeVar
from urllib.parse import urlsplit

from ..errors import DuplicateKey, InvalidInput, MIHashError, NotReady, ReadOnly, ServiceError, UnknownName
from .client_requests import JSON_BODY

Value = TypeVar("Value")

_ERRORS: dict[str, type[MIHashError]] = {
    "invalid_input": InvalidInput,
    "too_large": InvalidInput,
    "unsupported_type": InvalidInput,
    "unknown_key": UnknownName,
    "unknown_version": UnknownName,
    "duplicate_key": DuplicateKey,
    "not_ready": NotReady,
    "read_only": ReadOnly,
}
_MAX_WAIT_S = 60.0
_CHUNK = 1 << 16  # bytes of a response that are read at a time
_MAX_DIGITS = 19  # of the number of an event
_CONNECTION_ERRORS = (OSError, HTTPException, UnicodeError)
_PARSE_ERRORS = (ValueError, TypeError, LookupError, AttributeError, RecursionError)


class Event(NamedTuple):
    """An event: ``"stats"``, ``"decision"`` or ``"version"``, and its data."""

    name: str
    data: dict[str, Any]


class ServiceConnection:
    """One connection to a service, which is kept open. The parameters are those of `Client`."""

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 5,
        timeout_s: float = 90.0,
        max_answer: int = 64 << 20,
    ) -> None:
        refused = f"`url` must look like http://127.0.0.1:8000; got {url!r:.200}"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidInput(f"{refused}: {error}.") from error
        if parts.scheme not in ("http", "https") or not host or not _fits_header(url):
            raise InvalidInput(f"{refused}.")
        if token is not None and not (isinstance(token, str) and token and _fits_header(token)):
            raise InvalidInput("`token` must be printable ASCII characters without spaces, on one line.")
        for name, value, least in (("retries", retries, 0), ("max_answer", max_answer, 1)):
            if not isinstance(value, int) or value < least:
                raise InvalidInput(f"`{name}` must be a whole number of at least {least}; got {value!r:.80}.")
        if not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
            raise InvalidInput(f"`timeout_s` must be a finite number above 0; got {timeout_s!r:.80}.")
        self._class = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._path = host, port, parts.path.rstrip("/")
        self._address = host if port is None else f"{host}:{port}"
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._retries, self._timeout_s, self._max_answer = retries, timeout_s, max_answer
        self._connection: HTTPConnection | None = None

    def events(self, after: int | None = None) -> Iterator[Event]:
        """Yield events without end; with ``after``, first the decisions that followed this one.

        If the connection is lost the client reconnects, and continues after the last decision that it received.
        """
        failures = 0
        while True:
            connection = self._connect()
            headers = self._headers | ({} if after is None else {"Last-Event-ID": str(after)})
            try:
                path = "/v1/events" + (f"?after={after}" if after is not None else "")
                connection.request("GET", self._path + path, headers=headers)
                with connection.getresponse() as response:
                    if response.status != 200:
                        raise _error(response.status, self._read(response))
                    for number, event in self._events(response):
                        failures = 0
                        after = after if number is None else number
                        yield event
            except _CONNECTION_ERRORS as error:
                if failures >= self._retries:
                    raise ServiceError(f"The service at {self._host} cannot be reached: {error}.") from error
            except ServiceError as error:
                if error.code != "busy" or failures >= self._retries:
                    raise
            finally:
                connection.close()
            failures += 1
            time.sleep(min(_MAX_WAIT_S, failures))

    def close(self) -> None:
        """Close the connection."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def __enter__(self) -> Self:
        """Return the client."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connection."""
        self.close()

    def _connect(self) -> HTTPConnection:
        return self._class(self._host, self._port, timeout=self._timeout_s)

    def _call(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        kind: str = JSON_BODY,
        *,
        read: Callable[[dict[str, Any]], Value],
    ) -> Value:
        """Send a request, retry while the service is busy, and return what ``read`` makes of the response."""
        headers = self._headers | ({} if body is None else {"Content-Type": kind})
        status, retry_s, data = self._exchange(method, self._path + path, body, headers)
        for _ in range(self._retries if status == 503 else 0):
            time.sleep(min(_MAX_WAIT_S, retry_s))
            status, retry_s, data = self._exchange(method, self._path + path, body, headers)
            if status != 503:
                break
        if not 200 <= status < 300:
            raise _error(status, data)
        answer = _parse(status, data)
        try:
            return read(answer)
        except _PARSE_ERRORS as error:
            raise ServiceError(
                f"The response of {self._address} is not that of a mihash service: {error!s:.200}.", "internal"
            ) from error

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, float, bytes]:
        """Send a request and return the status, the seconds of Retry-After, and the body."""
        connection = self._connection
        if connection is None or connection.sock is None or _is_readable(connection.sock):
            self.close()  # there is none yet, or the service has closed it
            connection = self._connection = self._connect()
        try:
            connection.request(method, path, body, headers)
            with connection.getresponse() as response:  # the connection is kept if all of it is read
                retry = response.getheader("Retry-After", "1")
                retry_s = float(retry) if retry.isascii() and retry.isdigit() else 1.0
                return response.status, retry_s, self._read(response)
        except _CONNECTION_ERRORS as error:
            self.close()
            raise ServiceError(
                f"The service at {self._address} did not answer: {str(error) or type(error).__name__}."
            ) from error
        except BaseException:
            self.close()  # the rest of the response is still to come
            raise

    def _read(self, response: HTTPResponse) -> bytes:
        """Return the body of a response; raise if it is too large or too slow."""
        parts: list[bytes] = []
        left, end = self._max_answer, time.monotonic() + self._timeout_s
        while part := response.read1(min(_CHUNK, left + 1)):
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise self._too_long()
            if time.monotonic() > end:
                raise TimeoutError(f"the response was not complete after {self._timeout_s:g} s")
        if response.length:  # the connection was closed early
            raise IncompleteRead(b"", response.length)
        return b"".join(parts)

    def _too_long(self) -> ServiceError:
        return ServiceError(
            f"The response of {self._address} has more than {self._max_answer:,} bytes: ask for less at a time, "
            "or give the client a larger `max_answer`.",
            "too_long",
        )

    def _events(self, response: HTTPResponse) -> Iterator[tuple[int | None, Event]]:
        """Yield server-sent events with their ids."""
        name, data, number = "message", "", None
        while raw := response.readline(self._max_answer + 1):
            if len(raw) + len(data) > self._max_answer:
                raise self._too_long()
            line = raw.decode().rstrip("\r\n")
            if not line:
                if data:
                    yield number, Event(name, _parse(response.status, data.encode()))
                name, data, number = "message", "", None
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "id" and value.isascii() and value.isdigit():
                number = int(value[:_MAX_DIGITS])


def _fits_header(text: str) -> bool:
    """Tell whether a text can be sent in the head of a request."""
    return text.isascii() and text.isprintable() and " " not in text


def _is_readable(connection: socket) -> bool:
    """Tell whether data arrived that was not asked for: usually that the service has closed the connection."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _parse(status: int, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _error(status, data)
    return found


def _error(status: int, data: bytes) -> MIHashError:
    try:
        error = json.loads(data)["error"]
        code, message = str(error["code"]), str(error["message"])
    except _PARSE_ERRORS:
        code, message = "internal", f"The service answered {status}: {data[:200]!r}."
    kind = _ERRORS.get(code)
    return ServiceError(message, code, status) if kind is None else kind(message)
