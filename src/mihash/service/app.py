"""The ASGI application: every route, with the access middleware in front."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from ..errors import MIHashError
from . import control_routes, health_routes, history_routes, item_routes, migration_routes, search_routes
from .access import AccessMiddleware
from .direct_search import direct_search, is_plain_search
from .index_service import Service
from .openapi import openapi
from .page_routes import add_pages
from .problems import Problem, handle

_ROUTERS = tuple(
    module.router
    for module in (search_routes, item_routes, history_routes, control_routes, migration_routes, health_routes)
)


class Application(FastAPI):
    """An application that answers most searches before FastAPI looks at them.

    Parameters
    ----------
    service
        The service.
    options
        Those of FastAPI.
    """

    def __init__(self, service: Service, **options: Any) -> None:
        super().__init__(**options)
        self.state.service, self.state.methods = service, _methods()
        self.add_middleware(AccessMiddleware, service=service)
        self._direct = AccessMiddleware(direct_search, service)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if is_plain_search(scope):
            scope["app"] = self
            await self._direct(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)


def create_app(service: Service) -> FastAPI:
    """Return the application of a service; it opens the index at startup and closes it at shutdown."""

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    @cache
    def description() -> dict[str, Any]:
        return openapi(app, service.token is not None)

    app = Application(
        service, title="mihash", lifespan=lifespan, docs_url=None, redoc_url=None, redirect_slashes=False
    )
    for error in (Problem, MIHashError, RequestValidationError, HTTPException):
        app.add_exception_handler(error, handle)
    for router in _ROUTERS:
        app.include_router(router)
    add_pages(app)
    app.openapi = description  # type: ignore[method-assign]
    return app


def _methods() -> dict[str, str]:
    """Return the methods of each path, as in an Allow header."""
    found: dict[str, set[str]] = {}
    for router in _ROUTERS:
        for route in router.routes:
            if isinstance(route, APIRoute):
                found.setdefault(route.path, set()).update(route.methods or ())
    return {path: ", ".join(sorted(methods)) for path, methods in found.items()}
