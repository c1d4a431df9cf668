"""/openapi.json: what FastAPI does not know of the routes: errors, binary bodies and the token."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from .. import __version__
from .body_receiver import FLOATS, JSON, NPY
from .schemas import (
    CountBody,
    CutOverBody,
    DeleteBody,
    Error,
    ItemsBody,
    KeysBody,
    MigrationBody,
    MigrationItemsBody,
    PriceBody,
    SearchBody,
    UpdateBody,
    UpsertBody,
)

_MEANINGS = {
    400: "The body cannot be parsed.",
    401: "The token is missing or wrong.",
    403: "The request comes from another site, or is for another host; or it changes an index that is only read.",
    404: "There is no such item or version.",
    408: "The body arrived too slowly.",
    409: "A key is stored already, or the index has no data for this yet.",
    413: "The body is too large.",
    415: "The media type of the body is not accepted.",
    422: "A value breaks a rule.",
    500: "The service failed.",
    503: "Busy, opening or closing: retry after Retry-After seconds. Nothing was changed.",
    504: "The index took too long.",
}
_BODIES: tuple[type[BaseModel], ...] = (
    ItemsBody, UpsertBody, UpdateBody, KeysBody, SearchBody, DeleteBody, MigrationBody, MigrationItemsBody,
    CutOverBody, PriceBody, CountBody,
)  # fmt: skip
_DESCRIPTION = """\
Binary codes that learn from a stream, and know when to rehash. Every error is
`{"error": {"code", "message"}}`."""


def route_responses(model: Any, *statuses: int, status: int = 200) -> dict[int | str, dict[str, Any]]:
    """Return the responses of a route: its model, its errors, and the errors that every route has.

    ``model`` is a schema, a media type of text, or None for a response without a body.
    """
    found: dict[int | str, dict[str, Any]] = {status: {"description": "Successful Response"}}
    if isinstance(model, str):
        found[status]["content"] = {model: {"schema": {"type": "string"}}}
    elif model is not None:
        found[status]["model"] = model
    for each in sorted({*statuses, 401, 403, 500, 503}):
        found[each] = {"description": _MEANINGS[each]} | ({} if model is None else {"model": Error})
    found[503]["headers"] = {"Retry-After": {"schema": {"type": "integer"}, "description": "Seconds."}}
    return found


def body_of(model: type[BaseModel], binary: bool = True) -> dict[str, Any]:
    """Return the description of a body that the route parses itself."""
    content: dict[str, Any] = {JSON: {"schema": {"$ref": f"#/components/schemas/{model.__name__}"}}}
    if binary:
        content |= {kind: {"schema": {"type": "string", "format": "binary"}} for kind in (NPY, FLOATS)}
    return {"requestBody": {"required": True, "content": content}}


def openapi(app: FastAPI, has_token: bool) -> dict[str, Any]:
    """Return /openapi.json."""
    found = get_openapi(title="mihash", version=__version__, description=_DESCRIPTION, routes=app.routes)
    _, bodies = models_json_schema(
        [(model, "validation") for model in _BODIES], ref_template="#/components/schemas/{model}"
    )
    components = found["components"]
    components["schemas"] |= bodies["$defs"]
    for unused in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(unused, None)
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        for path, operations in found["paths"].items():
            if path.startswith("/v1") or path == "/metrics":
                for operation in operations.values():
                    operation["security"] = [{"token": []}]
    return found
