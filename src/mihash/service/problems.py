"""What can go wrong with a request, as one JSON shape: ``{"error": {"code": ..., "message": ...}}``."""

import json
import logging
import math
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
    StoreError,
    StoreLocked,
    UnknownName,
)
from .messages import worded

CODES = {
    "invalid_input": "the request breaks a rule; nothing was changed",
    "unauthorized": "the bearer token is missing or wrong",
    "forbidden": "a page of another site asks, or the host is not this one",
    "not_found": "there is nothing at this address",
    "method_not_allowed": "this address does not take this method",
    "unknown_key": "no item has this key",
    "unknown_version": "there is no version of this number",
    "duplicate_key": "a key is stored already; nothing was stored",
    "not_ready": "the index has nothing yet to do this with",
    "too_large": "the body is larger than the limit",
    "unsupported_type": "the body is of a type that is not taken",
    "busy": "try again after Retry-After seconds; nothing was changed",
    "timeout": "408: the body came too slowly; 504: the index took too long",
    "internal": "a fault of the service or of its disk",
}
"""Every code that an error can have, and what it means."""

_NAMED: tuple[tuple[type[MIHashError], int, str], ...] = (
    (DuplicateKey, 409, "duplicate_key"),
    (UnknownName, 404, "unknown_key"),
    (InvalidInput, 422, "invalid_input"),
    (NotReady, 409, "not_ready"),
    (DeadlineExceeded, 504, "timeout"),
    (MIHashError, 500, "internal"),
)
_log = logging.getLogger("mihash.service")
_HTTP_CODES = {404: "not_found", 405: "method_not_allowed"}


class Problem(Exception):
    """A request that is answered with an error.

    Parameters
    ----------
    status
        The status of the answer.
    code
        One of `CODES`.
    message
        What is wrong, and what to do.
    headers
        Further headers of the answer.
    """

    def __init__(self, status: int, code: str, message: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(message)
        self.status, self.code, self.message, self.headers = status, code, message, headers or {}


def busy(message: str, after_s: float = 1.0) -> Problem:
    """Return the answer to a request that should come again later."""
    return Problem(503, "busy", message, {"Retry-After": str(min(60, max(1, math.ceil(after_s))))})


def problem_of(error: Exception) -> Problem:
    """Return what an error is to the client."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, StoreLocked | PartialFailure):
        return busy(str(error))
    for kind, status, code in _NAMED:
        if isinstance(error, kind):
            return Problem(status, code, str(error))
    if isinstance(error, RequestValidationError | ValidationError):
        return _refused(error)
    if isinstance(error, HTTPException):
        code = _HTTP_CODES.get(error.status_code, "invalid_input")
        message = CODES[code] if error.status_code in _HTTP_CODES else str(error.detail)
        message = f"{message[:1].upper()}{message[1:].rstrip('.')}."
        return Problem(error.status_code, code, message, dict(error.headers or {}))
    return Problem(500, "internal", "The service has failed at this; its log says how.")


def _refused(error: RequestValidationError | ValidationError) -> Problem:
    """Return what a value of the wrong form is: 400 where it is not JSON at all, 422 where it is."""
    found = list(error.errors())
    if found[0]["type"] == "json_invalid":
        return Problem(400, "invalid_input", f"The body is not JSON: {found[0]['ctx']['error']}.")
    return Problem(422, "invalid_input", worded(found))


def answer(problem: Problem) -> Response:
    """Return the answer that tells a problem."""
    about: dict[str, Any] = {"error": {"code": problem.code, "message": problem.message}}
    return Response(json.dumps(about), problem.status, problem.headers, "application/json")


async def handle(request: Request, error: Exception) -> Response:
    """Answer an error that a route has raised, and leave its code where it is counted."""
    problem = problem_of(error)
    request.scope["mihash.code"] = problem.code
    if isinstance(error, StoreError):
        problem.message = request.app.state.service.without_paths(problem.message)
    if problem.status == 500:
        _log.error("%s %s failed: %s", request.method, request.url.path, error)
    if "Allow" in problem.headers:  # of one route; another may have the same address
        address = getattr(request.scope.get("route"), "path", None)
        problem.headers["Allow"] = request.app.state.methods.get(address, problem.headers["Allow"])
    return answer(problem)
