"""The server: who can reach it, how it begins, and how it ends without losing anything."""

import signal
import socket
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import uvicorn

from ..errors import InvalidInput, StoreError
from ..index.online_index import OnlineIndex
from .access import is_loopback
from .app import create_app
from .connections import connection_class
from .limits import Limits
from .service import Background, Service

_KEEP_ALIVE_S = 30
_HANDLED = (signal.SIGINT, signal.SIGTERM)


def read_token(file: Path) -> str:
    """Return the token in a file, on a line of its own."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The token cannot be read from {file}: {error}.") from error
    return _checked(token, str(file))


def _checked(token: str, place: str) -> str:
    if not token or not token.isascii() or not token.isprintable() or " " in token:
        raise InvalidInput(
            f"{place} must hold a token of printable ASCII characters, such as openssl rand -hex 32."
        )
    return token


def bind(host: str, port: int, token: str | None) -> socket.socket:
    """Return a socket that listens; without a token only on this machine."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise InvalidInput(f"{host} port {port} is not an address: {error}.") from error
    if token is None and not is_loopback(str(address[0])):
        raise InvalidInput(
            f"On {host} others can reach the service: give it a token (--token-file, or the environment variable "
            "MIHASH_TOKEN), or use --host 127.0.0.1."
        )
    listening = socket.socket(family, kind, protocol)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        listening.close()
        raise StoreError(f"Cannot listen on {host} port {port}: {error.strerror or error}.") from error
    return listening


class _Server(uvicorn.Server):
    """A server that says where it is, and lets the service know before it waits for the last requests."""

    def __init__(self, service: Service, listening: socket.socket, announce: Callable[[str], None]) -> None:
        limits = service.limits
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=connection_class(service),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(limits.body_s + limits.timeout_s) + 1,
            )
        )
        self.service, self._listening, self._announce = service, listening, announce
        service.failed = self.stop

    @property
    def url(self) -> str:
        host, port = self._listening.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def stop(self) -> None:
        """End soon, after the requests that were accepted."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and say so."""
        await super().startup(sockets)
        if self.started:
            self._announce(self.url)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Take no more requests, answer those that were accepted, close the index."""
        self.service.begin_closing()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """End at the first signal in good order; uvicorn would send it again at the end, and die of it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {each: signal.signal(each, self.handle_exit) for each in _HANDLED}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def run_until_stopped(self) -> None:
        """Serve until `stop` or a signal; raise what the index could not be opened with."""
        try:
            self.run([self._listening])
        finally:
            self._listening.close()
        if self.service.error is not None:
            raise self.service.error


def serve(
    opening: Callable[[], OnlineIndex],
    host: str = "127.0.0.1",
    port: int = 8000,
    *,
    limits: Limits | None = None,
    token: str | None = None,
    background: Background | None = None,
    cors_origins: Sequence[str] = (),
    announce: Callable[[str], None] = lambda url: None,  # noqa: ARG005 -- nobody listens
) -> None:
    """Serve an index until SIGINT or SIGTERM, then answer what was accepted and close it.

    Parameters
    ----------
    opening
        Opens the index, or makes it.
    host, port
        Where to listen; port 0 takes a free one. Beyond this machine only with a token.
    limits
        How much is taken at a time.
    token
        What clients must show.
    background
        What works on the index beside the requests.
    cors_origins
        The sites whose pages may use the service, such as ``"https://photos.example"``.
    announce
        Called with the address, once it is listened on.
    """
    token = None if token is None else _checked(token, "The token")
    service = Service(opening, limits, token, background, cors_origins)
    _Server(service, bind(host, port, token), announce).run_until_stopped()


class Running:
    """A service in a thread of this process, for as long as a ``with`` block lasts.

    Parameters are those of `serve`.

    Examples
    --------
    >>> import tempfile, mihash
    >>> from mihash.service.client import Client
    >>> folder = tempfile.TemporaryDirectory()
    >>> with Running(lambda: mihash.OnlineIndex.create(folder.name, n_bits=16)) as service:
    ...     with Client(service.url) as client:
    ...         keys = client.add([[0.0, 1.0], [1.0, 0.0]])
    ...         client.search([[0.0, 2.0]], k=1)[0].keys
    [0]
    >>> folder.cleanup()
    """

    def __init__(
        self,
        opening: Callable[[], OnlineIndex],
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        limits: Limits | None = None,
        token: str | None = None,
        background: Background | None = None,
        cors_origins: Sequence[str] = (),
    ) -> None:
        token = None if token is None else _checked(token, "The token")
        self.service = Service(opening, limits, token, background, cors_origins)
        self._listening = threading.Event()
        socket_ = bind(host, port, token)
        self._server = _Server(self.service, socket_, lambda _: self._listening.set())
        self.url = self._server.url
        self._thread = threading.Thread(target=self._run, name="mihash-service", daemon=True)
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            self._server.run_until_stopped()
        except BaseException as error:
            self.error = error
        finally:
            self._listening.set()

    def __enter__(self) -> Self:
        """Begin, and return when the address is listened on."""
        self._thread.start()
        self._listening.wait()
        return self

    def stop(self) -> None:
        """End after the requests that were accepted, with the index closed."""
        self._server.stop()
        self._thread.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End; raise what the service has failed with."""
        self.stop()
        if self.error is not None and error is None:
            raise self.error
