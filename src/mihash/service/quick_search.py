"""Searches without options in the address, answered before the routes are asked: they are most of all requests."""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from ..errors import MIHashError
from .problems import Problem, handle
from .schemas import SearchQuery
from .search_routes import router, search

_PATH = "/v1/search"
_ROUTE = next(route for route in router.routes if getattr(route, "path", None) == _PATH)
_NO_OPTIONS = SearchQuery()


class QuickSearch:
    """Answers searches by itself, and passes other requests on.

    The application would look for the route, for options in the query string, and for what to close after it,
    which takes as long as the search of a small index. The answer is the same.

    Parameters
    ----------
    app
        The application.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != _PATH or scope["method"] != "POST" or scope["query_string"]:
            await self._app(scope, receive, send)
            return
        scope["route"] = _ROUTE
        request = Request(scope, receive, send)
        try:
            response = await search(request, _NO_OPTIONS)
        except (Problem, MIHashError, ValidationError) as error:
            response = await handle(request, error)
        await response(scope, receive, send)
