"""Responses as JSON; a long one is encoded in the worker thread that made it."""

from typing import Any

import pydantic_core
from fastapi import Response

from .. import records


def respond(value: Any, status: int = 200) -> Response:
    """Return a response; ``value`` may be JSON already."""
    return Response(value if isinstance(value, bytes) else to_json(value), status, media_type="application/json")


def to_json(value: Any) -> bytes:
    """Return JSON as bytes; NaN becomes null and an infinity a string."""
    return records.to_json(value).encode()


def numbers_to_json(value: Any) -> bytes:
    """Return what `to_json` does, sooner; for lists of numbers and strings, such as the results of a search.

    Examples
    --------
    >>> numbers_to_json({"keys": [3, 4], "distances": [0.5, float("inf")]})
    b'{"keys":[3,4],"distances":[0.5,"inf"]}'
    """
    try:
        text = pydantic_core.to_json(value)
    except ValueError:  # a string that is not Unicode
        return to_json(value)
    # a number that JSON does not have, or a string with its name
    return to_json(value) if b"NaN" in text or b"Infinity" in text else text
