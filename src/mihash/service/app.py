"""The application: every address of the service, with the gate in front."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from ..errors import MIHashError
from . import control_routes, health_routes, history_routes, item_routes, search_routes
from .access import Gate
from .openapi import openapi
from .page_routes import add_pages
from .problems import Problem, handle
from .service import Service

_PARTS = (item_routes, search_routes, history_routes, control_routes, health_routes)


def create_app(service: Service) -> FastAPI:
    """Return the ASGI application of a service; it opens the index when it starts and closes it when it ends."""

    @asynccontextmanager
    async def life(_: FastAPI) -> AsyncIterator[None]:
        await service.start()
        try:
            yield
        finally:
            await service.stop()

    app = FastAPI(title="mihash", lifespan=life, docs_url=None, redoc_url=None, redirect_slashes=False)
    app.state.service = service
    app.add_middleware(Gate, service=service)
    for error in (Problem, MIHashError, RequestValidationError, HTTPException):
        app.add_exception_handler(error, handle)
    app.state.methods = _methods()
    for part in _PARTS:
        app.include_router(part.router)
    add_pages(app)
    made: dict[str, Any] = {}

    def told() -> dict[str, Any]:
        if not made:
            made.update(openapi(app, service.token is not None))
        return made

    app.openapi = told  # type: ignore[method-assign]
    return app


def _methods() -> dict[str, str]:
    """Return which methods each address takes, as an Allow header says it."""
    found: dict[str, set[str]] = {}
    for part in _PARTS:
        for route in part.router.routes:
            if isinstance(route, APIRoute):
                found.setdefault(route.path, set()).update(route.methods or ())
    return {address: ", ".join(sorted(methods)) for address, methods in found.items()}
