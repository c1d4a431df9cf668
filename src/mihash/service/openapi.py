"""What /openapi.json says beside the routes: errors, bodies that are raw, and the token."""

from typing import Any

from fastapi import FastAPI, Request
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .. import __version__
from .request_bodies import FLOATS, JSON, NPY
from .schemas import DeleteBody, Error, ItemsBody, SearchBody
from .service import Service

_MEANINGS = {
    400: "The body cannot be read.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site, or is for another host.",
    404: "There is no such item or version.",
    408: "The body came too slowly.",
    409: "A key is stored already, or the index has nothing yet to do this with.",
    413: "The body is too large.",
    415: "The body is of a type that is not taken.",
    422: "A value breaks a rule.",
    500: "A fault of the service.",
    503: "Busy, opening or closing: come again after Retry-After seconds. Nothing was changed.",
    504: "The index took too long.",
}
_BODIES: tuple[type[BaseModel], ...] = (ItemsBody, SearchBody, DeleteBody)
_ABOUT = """\
Binary codes that learn from a stream, and know when to rehash. Errors have one shape,
`{"error": {"code", "message"}}`."""


def service_of(request: Request) -> Service:
    """Return the service of a request, where it can answer."""
    service: Service = request.app.state.service
    service.check_ready()
    return service


def errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route can answer with, those of every route among them."""
    found: dict[int | str, dict[str, Any]] = {}
    for status in sorted({*statuses, 401, 403, 500, 503}):
        found[status] = {"model": Error, "description": _MEANINGS[status]}
    found[503]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return found


def bodiless(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the answers of a route to HEAD: as those to GET, without a body."""
    found = {status: {"description": about["description"]} for status, about in errors(*statuses).items()}
    return {200: {"description": "It is so."}, **found}


def raw_body(model: type[BaseModel], raw: bool = True) -> dict[str, Any]:
    """Return how a body that a route reads by itself stands in /openapi.json."""
    binary = {"schema": {"type": "string", "format": "binary"}}
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    return {"requestBody": {"required": True, "content": content | ({NPY: binary, FLOATS: binary} if raw else {})}}


def openapi(app: FastAPI, has_token: bool) -> dict[str, Any]:
    """Return /openapi.json."""
    found = get_openapi(title="mihash", version=__version__, description=_ABOUT, routes=app.routes)
    _, bodies = models_json_schema(
        [(model, "validation") for model in _BODIES], ref_template="#/components/schemas/{model}"
    )
    components = found.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    schemas |= bodies.get("$defs", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, operations in found["paths"].items():
        for operation in operations.values():
            if has_token and (path.startswith("/v1") or path == "/metrics"):
                operation["security"] = [{"token": []}]
    return found
