"""Pages of other sites that may use the service: which, and what a browser is told about it (CORS).

A browser lets a page of one site read answers of another only where those say so; for anything but a plain request
it asks first (a preflight: OPTIONS, without a token).
"""

from collections.abc import Sequence
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import Response

from ..errors import InvalidInput

ANY = "*"
_METHODS = "GET, HEAD, POST, DELETE"
_SENT = "Authorization, Content-Type, Last-Event-ID"
_SHOWN = "Retry-After"
_MAX_AGE_S = 600


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
    mihash.errors.InvalidInput: An origin must be such as https://photos.example, or *; got 'photos.example'.
    """

    def __init__(self, origins: Sequence[str] = ()) -> None:
        self._origins = frozenset(_checked(each) for each in origins)

    @property
    def allows_all(self) -> bool:
        """Whether pages of any site may use the service."""
        return ANY in self._origins

    def allows(self, origin: str) -> bool:
        """Tell whether pages of an origin may use the service."""
        return self.allows_all or origin.lower() in self._origins

    def preflight(self, method: str, headers: Headers) -> Response | None:
        """Return the answer to a browser that asks whether it may ask; None where this is another request."""
        origin = headers.get("origin")
        if method != "OPTIONS" or origin is None or "access-control-request-method" not in headers:
            return None
        if not self.allows(origin):
            return None
        told = {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Allow-Headers": _SENT}
        return Response(status_code=204, headers=told | {"Access-Control-Max-Age": str(_MAX_AGE_S)})

    def tell(self, origin: str | None, headers: MutableHeaders) -> None:
        """Say in the head of an answer that the page that has asked may read it."""
        if not self._origins:
            return
        headers.add_vary_header("Origin")
        if origin is not None and self.allows(origin):
            headers["Access-Control-Allow-Origin"] = origin
            headers["Access-Control-Expose-Headers"] = _SHOWN


def _checked(origin: str) -> str:
    """Return an origin as browsers send it."""
    given = origin.removesuffix("/").lower() if isinstance(origin, str) else ""
    try:
        parts = urlsplit(given)
        plain = f"{parts.scheme}://{parts.netloc}" if parts.hostname and "@" not in parts.netloc else None
    except ValueError:
        plain = None
    if given != ANY and (given != plain or parts.scheme not in ("http", "https")):
        raise InvalidInput(f"An origin must be such as https://photos.example, or *; got {origin!r:.80}.")
    return given
