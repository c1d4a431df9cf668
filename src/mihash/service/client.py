"""A client of the service (docs/service.md), made of the standard library alone."""

import json
import selectors
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection, IncompleteRead
from socket import socket
from types import TracebackType
from typing import Any, NamedTuple, Self
from urllib.parse import quote, urlencode, urlsplit

from ..errors import DuplicateKey, InvalidInput, MIHashError, NotReady, ServiceError, UnknownName

Key = int | str

_ERRORS: dict[str, type[MIHashError]] = {
    "invalid_input": InvalidInput,
    "too_large": InvalidInput,
    "unsupported_type": InvalidInput,
    "unknown_key": UnknownName,
    "unknown_version": UnknownName,
    "duplicate_key": DuplicateKey,
    "not_ready": NotReady,
}
_LONGEST_WAIT_S = 60.0
_PIECE = 1 << 16  # bytes of an answer that are read at a time
_MOST_LISTS = 6_000_000  # more than a million results have; each takes twenty times its bytes in memory
_DIGITS = 19  # of the number of an event
_NOT_AN_ANSWER = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
_LONGEST_ADDRESS = 8000  # what is longer travels in the body; no server takes an address of any length
_FLOATS = "application/octet-stream"


class Result(NamedTuple):
    """The nearest items to one query, nearest first; their metadata where that was asked for."""

    keys: list[Key]
    distances: list[float]
    metadata: list[dict[str, Any] | None] | None


class Event(NamedTuple):
    """Something that happened: ``"stats"``, ``"decision"`` or ``"version"``, and what is told of it."""

    name: str
    data: dict[str, Any]


class Client:
    """Asks a service. One connection, kept; a thread has its own client.

    An error of the service is raised as the package's own: `InvalidInput`, `DuplicateKey`, `UnknownName`,
    `NotReady`, or `ServiceError` with its code. While the service is busy, a request is sent again when it says.

    Parameters
    ----------
    url
        Where the service is, such as ``"http://127.0.0.1:8000"``.
    token
        What it asks for, if anything.
    retries
        How often a request is sent again to a busy service; nothing was done with one that it refused.
    timeout_s
        How long an answer may take.
    max_answer
        How long an answer may be, in bytes; of a longer one no more is read.

    Examples
    --------
    >>> client = Client("http://127.0.0.1:8000")  # mihash serve --demo
    >>> client.search(key=17, k=3)  # doctest: +SKIP
    [Result(keys=[1541, 402, 1690], distances=[0, 0, 1], metadata=None)]
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        retries: int = 5,
        timeout_s: float = 90.0,
        max_answer: int = 64 << 20,
    ) -> None:
        refused = f"`url` must be such as http://127.0.0.1:8000; got {url!r:.200}"
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except (ValueError, AttributeError, TypeError) as error:
            raise InvalidInput(f"{refused}: {error}.") from error
        if parts.scheme not in ("http", "https") or not host or not _is_plain(url):
            raise InvalidInput(f"{refused}.")
        if token is not None and not (isinstance(token, str) and token and _is_plain(token)):
            raise InvalidInput("`token` must be printable ASCII characters without spaces, on one line.")
        if not isinstance(retries, int) or retries < 0:
            raise InvalidInput(f"`retries` must be a whole number of at least 0; got {retries!r:.80}.")
        if not isinstance(timeout_s, int | float) or not 0 < timeout_s < float("inf"):
            raise InvalidInput(f"`timeout_s` must be a finite number above 0; got {timeout_s!r:.80}.")
        if not isinstance(max_answer, int) or max_answer < 1:
            raise InvalidInput(f"`max_answer` must be a whole number of at least 1; got {max_answer!r:.80}.")
        self._kind = HTTPSConnection if parts.scheme == "https" else HTTPConnection
        self._host, self._port, self._path = host, port, parts.path.rstrip("/")
        self._headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._retries, self._timeout_s, self._max_answer = retries, timeout_s, max_answer
        self._connection: HTTPConnection | None = None

    def add(
        self,
        vectors: Any,
        keys: Sequence[Key] | None = None,
        labels: Sequence[Any] | None = None,
        metadata: Sequence[Mapping[str, Any] | None] | None = None,
    ) -> list[Key]:
        """Store vectors, learn from them, return their keys; they are on the disk when this returns.

        Parameters
        ----------
        vectors
            Lists of numbers, or an array (n, d); an array without keys, labels and metadata travels as it is.
        keys
            Strings or whole numbers, unique; running numbers without.
        labels
            A class each, or lists of 0 and 1.
        metadata
            A dictionary each, or None.
        """
        vectors = vectors if hasattr(vectors, "tolist") else _listed(vectors)
        more = {"keys": keys, "labels": labels, "metadata": metadata}
        given = {name: _listed(value) for name, value in more.items() if value is not None}
        answer = self._send("POST", *_request("/v1/items", vectors, given, raw=not given))
        with self._understood():
            if keys is not None:
                return list(answer["keys"])
            first, last = int(answer["first"]), int(answer["last"])
            if last - first + 1 != len(vectors):
                raise ValueError(f"{last - first + 1} keys for {len(vectors)} rows")
        return list(range(first, last + 1))

    def search(
        self,
        vectors: Any = None,
        k: int = 10,
        *,
        key: Key | None = None,
        where: Mapping[str, Any] | None = None,
        rescore: int = 0,
        radius: int | None = None,
        metadata: bool = False,
    ) -> list[Result]:
        """Return the nearest items to each query, or to the stored item ``key``, as `OnlineIndex.search` does."""
        options: dict[str, Any] = {
            "k": k,
            "where": where,
            "rescore": rescore,
            "radius": radius,
            "metadata": metadata,
        }
        given = {name: value for name, value in options.items() if value is not None}
        if key is not None:
            given["key"] = key
        answer = self._send("POST", *_request("/v1/search", vectors, given, raw=key is None))
        with self._understood():
            return [Result(each["keys"], each["distances"], each.get("metadata")) for each in answer["results"]]

    def get(self, key: Key) -> dict[str, Any]:
        """Return an item: key, vector, label and metadata."""
        return self._send("GET", f"/v1/items/{_in_path(key)}")

    def delete(self, keys: Key | Sequence[Key]) -> int:
        """Remove items and return how many; with an unknown key none."""
        one = isinstance(keys, int | str) or getattr(keys, "ndim", None) == 0
        answer = self._send("POST", "/v1/delete", _json({"keys": [keys] if one else _listed(keys)}))
        with self._understood():
            return int(answer["deleted"])

    def stats(self) -> dict[str, Any]:
        """Return the state of the index in numbers."""
        return self._send("GET", "/v1/stats")

    def history(self, after: int | None = None, limit: int | None = None) -> list[dict[str, Any]]:
        """Return decisions: the first after a number, without one the newest."""
        given = {name: value for name, value in (("after", after), ("limit", limit)) if value is not None}
        answer = self._send("GET", f"/v1/history?{urlencode(given)}")
        with self._understood():
            return list(answer["decisions"])

    def rehash(self) -> None:
        """Have every code computed again with the current mapping."""
        self._send("POST", "/v1/rehash")

    def events(self, after: int | None = None) -> Iterator[Event]:
        """Yield what happens, for ever; with ``after``, first the decisions that followed this one.

        Where the connection is lost it is made again, and goes on after the last decision that was seen.
        """
        failures = 0
        while True:
            connection = self._connect()
            headers = self._headers | ({} if after is None else {"Last-Event-ID": str(after)})
            try:
                address = "/v1/events" + (f"?after={after}" if after is not None else "")
                connection.request("GET", self._path + address, headers=headers)
                with connection.getresponse() as response:
                    if response.status != 200:
                        raise _error(response.status, self._read(response))
                    for number, event in self._events(response):
                        failures = 0
                        after = after if number is None else number
                        yield event
            except (OSError, HTTPException, UnicodeError) as error:
                if failures >= self._retries:
                    raise ServiceError(f"The service at {self._host} cannot be reached: {error}.") from error
            except ServiceError as error:
                if error.code != "busy" or failures >= self._retries:
                    raise
            finally:
                connection.close()
            failures += 1
            time.sleep(min(_LONGEST_WAIT_S, failures))

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
        return self._kind(self._host, self._port, timeout=self._timeout_s)

    def _send(
        self, method: str, address: str, body: bytes | None = None, kind: str = "application/json"
    ) -> dict[str, Any]:
        """Send a request, again where the service is busy, and return what is answered."""
        headers = self._headers | ({} if body is None else {"Content-Type": kind})
        for attempt in range(self._retries + 1):
            status, after_s, data = self._sent(method, self._path + address, body, headers)
            if 200 <= status < 300:
                return _answer(status, data)
            if status != 503 or attempt == self._retries:
                raise _error(status, data)
            time.sleep(min(_LONGEST_WAIT_S, after_s))
        raise AssertionError("unreachable")

    def _sent(
        self, method: str, address: str, body: bytes | None, headers: dict[str, str]
    ) -> tuple[int, float, bytes]:
        connection = self._connection
        if connection is None or connection.sock is None or _has_news(connection.sock):
            self.close()  # none yet, or the service has closed it
            connection = self._connection = self._connect()
        try:
            connection.request(method, address, body, headers)
            with connection.getresponse() as response:  # where all of it is read, the connection is kept
                waits = response.getheader("Retry-After", "1")
                after_s = float(waits) if waits.isascii() and waits.isdigit() else 1.0
                return response.status, after_s, self._read(response)
        except (OSError, HTTPException, UnicodeError) as error:
            self.close()
            raise ServiceError(
                f"The service at {self._place} did not answer: {error or type(error).__name__}."
            ) from error
        except BaseException:
            self.close()  # in the middle of an answer
            raise

    @property
    def _place(self) -> str:
        return self._host if self._port is None else f"{self._host}:{self._port}"

    def _read(self, response: HTTPResponse) -> bytes:
        """Return the body of an answer, which may neither be too long nor come too slowly."""
        parts: list[bytes] = []
        left, end = self._max_answer, time.monotonic() + self._timeout_s
        while part := response.read1(min(_PIECE, left + 1)):
            parts.append(part)
            left -= len(part)
            if left < 0:
                raise self._too_long()
            if time.monotonic() > end:
                raise TimeoutError(f"the answer was not there after {self._timeout_s:g} s")
        if response.length:  # the connection has ended before
            raise IncompleteRead(b"", response.length)
        data = b"".join(parts)
        if data.count(b"[") + data.count(b"{") > _MOST_LISTS:
            raise ServiceError(
                f"The service at {self._place} answers with more than {_MOST_LISTS:,} lists and objects.",
                "too_long",
            )
        return data

    def _too_long(self) -> ServiceError:
        return ServiceError(
            f"The service at {self._place} answers with more than {self._max_answer:,} bytes; ask for less at a "
            "time, or give the client a larger `max_answer`.",
            "too_long",
        )

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """Raise an error of this package where an answer is not what the service answers."""
        try:
            yield
        except _NOT_AN_ANSWER as error:
            raise ServiceError(
                f"The answer of {self._place} is not that of a mihash service: {error!s:.200}.", "internal"
            ) from error

    def _events(self, response: HTTPResponse) -> Iterator[tuple[int | None, Event]]:
        """Yield server-sent events with their ids."""
        name, data, number = "message", "", None
        while raw := response.readline(self._max_answer + 1):
            if len(raw) + len(data) > self._max_answer:
                raise self._too_long()
            line = raw.decode().rstrip("\r\n")
            if not line:
                if data:
                    yield number, Event(name, _answer(response.status, data.encode()))
                name, data, number = "message", "", None
                continue
            field, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if field == "event":
                name = value
            elif field == "data":
                data += value
            elif field == "id" and value.isascii() and value.isdigit():
                number = int(value[:_DIGITS])


def _is_plain(text: str) -> bool:
    """Tell whether a text can stand in the head of a request."""
    return text.isascii() and text.isprintable() and " " not in text


def _has_news(connection: socket) -> bool:
    """Tell whether something came where nothing was asked: that the other side has closed, as a rule."""
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        return bool(selector.select(0))


def _request(address: str, vectors: Any, given: dict[str, Any], raw: bool) -> tuple[str, bytes, str]:
    """Return address, body and its type: an array as it is, with options in the address; else JSON."""
    if getattr(getattr(vectors, "dtype", None), "kind", "") == "c":
        raise InvalidInput(f"`vectors` must be real numbers; got {vectors.dtype}.")
    if raw and getattr(vectors, "ndim", 0) == 2 and vectors.shape[1]:
        texts = {name: value if isinstance(value, int | str) else _json(value) for name, value in given.items()}
        texts |= {name: str(value).lower() for name, value in given.items() if isinstance(value, bool)}
        query = urlencode({"features": vectors.shape[1], **texts})
        if len(query) <= _LONGEST_ADDRESS:
            return f"{address}?{query}", vectors.astype("<f4").tobytes(), _FLOATS
    if vectors is not None:
        given = given | {"vectors": _listed(vectors)}
    return address, _json(given), "application/json"


def _json(value: Any) -> bytes:
    try:
        return json.dumps(value, default=_plain).encode()
    except InvalidInput:
        raise
    except (ValueError, TypeError, RecursionError) as error:  # a name that is no text, a list within itself
        raise InvalidInput(f"This cannot be sent as JSON: {error!s:.200}.") from error


def _plain(value: Any) -> Any:
    """Return a value of NumPy as Python's own."""
    if not hasattr(value, "tolist"):
        raise InvalidInput(f"A {type(value).__name__} cannot be sent as JSON.")
    return value.tolist()


def _listed(value: Any) -> Any:
    if hasattr(value, "tolist"):
        return value.tolist()
    if not isinstance(value, Iterable):
        raise InvalidInput(f"Several values are expected, in a list; got {value!r:.80}.")
    return list(value)


def _in_path(key: Key) -> str:
    """Return a key as it stands in an address; a text in double quotes is one even where it reads as a number."""
    if not isinstance(key, str) and (isinstance(key, bool) or not hasattr(key, "__index__")):
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits; got {key!r:.80}.")
    try:
        return quote(f'"{key}"' if isinstance(key, str) else str(key), safe="")
    except UnicodeError as error:
        raise InvalidInput(f"A key must be text; got {key!r:.80}, which has half a surrogate pair.") from error


def _answer(status: int, data: bytes) -> dict[str, Any]:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise _error(status, data)
    return found


def _error(status: int, data: bytes) -> MIHashError:
    try:
        about = json.loads(data)["error"]
        code, message = str(about["code"]), str(about["message"])
    except _NOT_AN_ANSWER:
        code, message = "internal", f"The service answered {status}: {data[:200]!r}."
    kind = _ERRORS.get(code)
    return ServiceError(message, code, status) if kind is None else kind(message)
