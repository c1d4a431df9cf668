"""Cross-origin requests (CORS): which web pages of other origins may use the service.

A browser lets a page read a response of another origin only if the response allows it. Before most requests it
sends a preflight: OPTIONS, without a token.
"""

from collections.abc import Mapping, Sequence
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import Message

from ..errors import InvalidInput

ANY = "*"
_PREFLIGHT = {
    "Access-Control-Allow-Methods": "GET, HEAD, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, Last-Event-ID",
    "Access-Control-Max-Age": "600",
}


class Cors:
    """The origins whose pages may use the service.

    Parameters
    ----------
    origins
        Such as ``"https://photos.example"``; ``"*"`` for all.

    Examples
    --------
    >>> Cors(["https://photos.example"]).allows("https://photos.example")
    True
    >>> Cors(["photos.example"])
    Traceback (most recent call last):
    mihash.errors.InvalidInput: An origin must look like https://photos.example, or be *; got 'photos.example'.
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = frozenset(_as_origin(each) for each in origins)

    @property
    def allows_all(self) -> bool:
        """Whether pages of every origin may use the service."""
        return ANY in self._origins

    def allows(self, origin: str) -> bool:
        """Tell whether pages of an origin may use the service."""
        return self.allows_all or origin.lower() in self._origins

    def preflight(self, method: str, headers: Mapping[str, str]) -> Response | None:
        """Return the response to a preflight request from an allowed origin; None for every other request."""
        origin = headers.get("origin")
        if method != "OPTIONS" or origin is None or "access-control-request-method" not in headers:
            return None
        return Response(status_code=204, headers=_PREFLIGHT) if self.allows(origin) else None

    def add_headers(self, origin: str | None, message: Message) -> None:
        """Add to the headers of a response's first message that pages of an allowed origin may read it."""
        if not self._origins:
            return
        headers = MutableHeaders(scope=message)
        headers.add_vary_header("Origin")
        if origin is not None and self.allows(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = "Retry-After"


def _as_origin(origin: str) -> str:
    """Return an origin in the form that browsers send."""
    given = origin.removesuffix("/").lower() if isinstance(origin, str) else ""
    try:
        parts = urlsplit(given)
        plain = f"{parts.scheme}://{parts.netloc}" if parts.hostname and "@" not in parts.netloc else None
    except ValueError:
        plain = None
    if given != ANY and (given != plain or parts.scheme not in ("http", "https")):
        raise InvalidInput(f"An origin must look like https://photos.example, or be *; got {origin!r:.80}.")
    return given
