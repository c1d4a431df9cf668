"""Answers searches without a query string before routing, because most requests are such searches.

FastAPI would look for the route, for options in the query string, and for resources to close, which takes as long
as the search of a small index. The answer is the same.
"""

from pydantic import ValidationError
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ..errors import MIHashError
from .problems import Problem, handle
from .schemas import SearchQuery
from .search_routes import router, search

_PATH = "/v1/search"
_ROUTE = next(route for route in router.routes if getattr(route, "path", None) == _PATH)
_NO_OPTIONS = SearchQuery()


def is_plain_search(scope: Scope) -> bool:
    """Tell whether a request is a search without options in the address."""
    return bool(
        scope["type"] == "http"
        and scope["path"] == _PATH
        and scope["method"] == "POST"
        and not scope["query_string"]
    )


async def direct_search(scope: Scope, receive: Receive, send: Send) -> None:
    """Answer a search, as an ASGI application does."""
    scope["route"] = _ROUTE
    request = Request(scope, receive, send)
    try:
        response = await search(request, _NO_OPTIONS)
    except (Problem, MIHashError, ValidationError) as error:
        response = await handle(request, error)
    await response(scope, receive, send)
