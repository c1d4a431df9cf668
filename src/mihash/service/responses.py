"""Responses as JSON; a long one is encoded in the worker thread that made it."""

import json
import math
from typing import Any

import numpy as np
import pydantic_core
from fastapi import Response

from ..records import Record


def respond(value: Any, status: int = 200) -> Response:
    """Return a response; ``value`` may be JSON already."""
    return Response(value if isinstance(value, bytes) else to_json(value), status, media_type="application/json")


def to_json(value: Any) -> bytes:
    """Return JSON; NaN becomes null and an infinity a string, because JSON has neither.

    Examples
    --------
    >>> to_json({"theta": float("inf"), "gain": float("nan"), "keys": np.arange(2)})
    b'{"theta":"inf","gain":null,"keys":[0,1]}'
    """
    try:
        text = _ENCODER.encode(value)
    except ValueError:  # a number that JSON does not have
        text = _ENCODER.encode(_plain(value))
    return text.encode()


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


def _native(value: Any) -> Any:
    """Return a value of another type as one that JSON has."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, Record):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON.")


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_native)


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, dict | Record):
        return {name: _plain(each) for name, each in dict(value).items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return value
