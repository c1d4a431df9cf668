"""Errors as HTTP responses, all of one shape: ``{"error": {"code": ..., "message": ...}}``."""

import json
import logging
import math
from collections.abc import Collection
from typing import Any

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import ValidationError
from starlette.exceptions import HTTPException

from ..errors import (
    DeadlineExceeded,
    DuplicateKey,
    InvalidInput,
    MIHashError,
    NotReady,
    PartialFailure,
    ReadOnly,
    StoreError,
    StoreLocked,
    UnknownName,
)
from .validation_messages import validation_message

CODES = {
    "invalid_input": "the request breaks a rule; nothing was changed",
    "unauthorized": "the bearer token is missing or wrong",
    "forbidden": "the request comes from a page of another site, or is for another host",
    "not_found": "there is no such route",
    "method_not_allowed": "this route does not take this method",
    "unknown_key": "no item has this key",
    "unknown_version": "there is no version with this number",
    "duplicate_key": "a key is stored already; nothing was stored",
    "read_only": "this service only reads; send changes to the one that writes",
    "not_ready": "the index has no data for this yet",
    "too_large": "the body is larger than the limit",
    "unsupported_type": "the body has a media type that is not accepted",
    "busy": "retry after Retry-After seconds; nothing was changed",
    "timeout": "408: the body arrived too slowly; 504: the index took too long",
    "internal": "the service or its disk failed",
}
"""Every code that an error can have, and what it means."""

_STATUSES: tuple[tuple[type[MIHashError], int, str], ...] = (
    (DuplicateKey, 409, "duplicate_key"),
    (UnknownName, 404, "unknown_key"),
    (InvalidInput, 422, "invalid_input"),
    (ReadOnly, 403, "read_only"),
    (NotReady, 409, "not_ready"),
    (DeadlineExceeded, 504, "timeout"),
    (MIHashError, 500, "internal"),
)
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}
_FIELD_NAMES = {"`X`": "`vectors`", "`y`": "`labels`", "`upsert`": "`upsert` (PUT /v1/items)"}  # over HTTP
_log = logging.getLogger("mihash.service")


class Problem(Exception):
    """A request that is answered with an error.

    Parameters
    ----------
    status
        The status of the response.
    code
        One of `CODES`.
    message
        What is wrong, and what to do.
    headers
        Further headers of the response.
    """

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


def invalid(message: str) -> Problem:
    """Return the response to a value that breaks a rule."""
    return Problem(422, "invalid_input", message)


def busy(message: str, after_s: float = 1.0) -> Problem:
    """Return the response to a request that should be sent again later."""
    return Problem(503, "busy", message, {"Retry-After": str(min(60, max(1, math.ceil(after_s))))})


def problem_of(error: Exception) -> Problem:
    """Return the response to an error."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreLocked | PartialFailure):
        return busy(str(error))
    for kind, status, code in _STATUSES:
        if isinstance(error, kind):
            message = str(error)
            for parameter, field in _FIELD_NAMES.items():
                message = message.replace(parameter, field)
            return Problem(status, code, message)
    if isinstance(error, RequestValidationError | ValidationError):
        return _validation_problem(list(error.errors()))
    if isinstance(error, HTTPException):
        code = _HTTP_CODES.get(error.status_code, "invalid_input")
        message = CODES[code] if error.status_code in _HTTP_CODES else str(error.detail)
        message = f"{message[:1].upper()}{message[1:].rstrip('.')}."
        return Problem(error.status_code, code, message, dict(error.headers or {}))
    return Problem(500, "internal", "The service failed on this request; its log has the reason.")


def _validation_problem(errors: list[Any], known: Collection[str] = ()) -> Problem:
    if errors[0]["type"] == "json_invalid":
        return Problem(400, "invalid_input", f"The body is not JSON: {errors[0]['ctx']['error']}.")
    return invalid(validation_message(errors, known))


def _known_options(request: Request) -> list[str]:
    """Return the options that the query string of a request may have."""
    declared = getattr(getattr(request.scope.get("route"), "dependant", None), "query_params", [])
    models = [getattr(each.field_info, "annotation", None) for each in declared]
    return [name for model in models for name in getattr(model, "model_fields", ())]


def problem_response(problem: Problem) -> Response:
    """Return a problem as a response."""
    body = {"error": {"code": problem.code, "message": problem.message}}
    return Response(json.dumps(body), problem.status, problem.headers, "application/json")


async def handle(request: Request, error: Exception) -> Response:
    """Answer a request whose route raised an error; the middleware counts its code."""
    problem = problem_of(error)
    if isinstance(error, RequestValidationError):
        problem = _validation_problem(list(error.errors()), _known_options(request))
    request.scope["mihash.code"] = problem.code
    if isinstance(error, StoreError):
        problem.message = request.app.state.service.without_paths(problem.message)
    if problem.status == 500:
        _log.error("%s %s failed: %s", request.method, request.url.path, error)
    if "Allow" in problem.headers:  # it names the methods of one route; others may have the same path
        path = getattr(request.scope.get("route"), "path", None)
        problem.headers["Allow"] = request.app.state.methods.get(path, problem.headers["Allow"])
    return problem_response(problem)
