"""The server: where it listens, how it starts, and how it stops without losing anything."""

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
from .index_service import Background, Service, check_token
from .limits import Limits
from .response_writes import HTTPConnection
from .timeouts import ClientTimeouts

_KEEP_ALIVE_S = 30
_TICKS = 5  # of uvicorn, a tenth of a second each, between two checks for slow clients
SIGNALS = (signal.SIGINT, signal.SIGTERM)


def read_token(file: Path) -> str:
    """Return the token in a file, on a line of its own."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise InvalidInput(f"The token cannot be read from {file}: {error}.") from error
    return check_token(token, str(file))


def bind(host: str, port: int, token: str | None) -> socket.socket:
    """Return a bound socket; without a token only on a loopback address."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
    except (OSError, UnicodeError, OverflowError) as error:
        raise InvalidInput(f"{host} port {port} is not an address: {error}.") from error
    if token is None and not is_loopback(str(address[0])):
        raise InvalidInput(
            f"Other machines can reach a service on `host` {host}: give `token`, or listen on 127.0.0.1."
        )
    bound = socket.socket(family, kind, protocol)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise StoreError(f"Cannot listen on {host} port {port}: {error.strerror or error}.") from error
    return bound


class Server(uvicorn.Server):
    """A server that announces its address, closes slow clients, and tells the service when it begins to stop.

    Parameters
    ----------
    service
        The service.
    bound
        The socket that it listens on.
    announce
        Called with the URL, once the server listens.
    """

    def __init__(self, service: Service, bound: socket.socket, announce: Callable[[str], None]) -> None:
        self.service, self._socket, self._announce = service, bound, announce
        self._timeouts = ClientTimeouts(service.limits)
        super().__init__(
            uvicorn.Config(
                create_app(service),
                http=HTTPConnection,
                ws="none",
                lifespan="on",
                log_config=None,
                log_level="error",  # what clients do wrong is answered, not logged
                access_log=False,
                proxy_headers=False,
                server_header=False,
                limit_concurrency=2 * service.limits.connections + service.limits.listeners,
                timeout_keep_alive=_KEEP_ALIVE_S,
                timeout_graceful_shutdown=int(service.limits.body_s + service.limits.timeout_s) + 1,
            )
        )
        service.on_failure = self.stop

    @property
    def url(self) -> str:
        """The address that it listens on."""
        host, port = self._socket.getsockname()[:2]
        return f"http://{f'[{host}]' if ':' in host else host}:{port}"

    def stop(self) -> None:
        """Stop soon, after the accepted requests."""
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and announce the address."""
        await super().startup(sockets)
        if self.started and not self.should_exit:
            self._announce(self.url)

    async def on_tick(self, counter: int) -> bool:
        """Close slow clients now and then."""
        if counter % _TICKS == 0:
            self._timeouts.close_slow(self.server_state.connections)
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accept no more requests, answer the accepted ones, close the index."""
        self.service.begin_closing()
        await super().shutdown(sockets)

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at the first signal; uvicorn would raise it again at the end, and the process would die of it."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before: dict[int, Any] = {each: signal.signal(each, self.handle_exit) for each in SIGNALS}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    def run_until_stopped(self) -> None:
        """Serve until `stop` or a signal; raise the error if the index could not be opened."""
        try:
            self.run([self._socket])
        finally:
            self._socket.close()
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
    announce: Callable[[str], None] = lambda url: None,  # noqa: ARG005 -- reports nothing
) -> None:
    """Serve an index until SIGINT or SIGTERM, then answer the accepted requests and close it.

    Parameters
    ----------
    opening
        Opens or creates the index.
    host, port
        Where to listen; port 0 takes a free one. An address that other machines can reach needs a token.
    limits
        The limits of requests; those of `Limits` by default.
    token
        The bearer token that clients must send.
    background
        A thread that uses the index beside the requests.
    cors_origins
        Origins of web pages that may use the service, such as ``"https://photos.example"``.
    announce
        Called with the URL, once the server listens.
    """
    service = Service(opening, limits, token, background, cors_origins)
    Server(service, bind(host, port, service.token), announce).run_until_stopped()


class Running:
    """A service in a thread of this process, for the duration of a ``with`` block.

    The parameters are those of `serve`; the port is a free one by default.

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
        self, opening: Callable[[], OnlineIndex], host: str = "127.0.0.1", port: int = 0, **options: Any
    ) -> None:
        self.service = Service(opening, **options)
        self._listens = threading.Event()
        self._server = Server(self.service, bind(host, port, self.service.token), lambda _: self._listens.set())
        self.url = self._server.url
        self._thread = threading.Thread(target=self._run, name="mihash-service", daemon=True)
        self.error: BaseException | None = None

    def _run(self) -> None:
        try:
            self._server.run_until_stopped()
        except BaseException as error:
            self.error = error
        finally:
            self._listens.set()

    def __enter__(self) -> Self:
        """Start, and return once the server listens."""
        self._thread.start()
        self._listens.wait()
        return self

    def stop(self) -> None:
        """Stop after the accepted requests, and close the index."""
        self._server.stop()
        self._thread.join()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop; raise the error that the service failed with."""
        self.stop()
        if self.error is not None and error is None:
            raise self.error
