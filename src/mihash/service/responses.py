"""Answers as JSON; what may be long is written in the thread that has found it, so that nobody waits for it."""

import json
import math
from typing import Any

import numpy as np
from fastapi import Response


def respond(value: Any, status: int = 200) -> Response:
    """Return an answer."""
    return Response(value if isinstance(value, bytes) else to_json(value), status, media_type="application/json")


def to_json(value: Any) -> bytes:
    """Return JSON; NaN becomes null and infinity a text, which JSON has not.

    Examples
    --------
    >>> to_json({"theta": float("inf"), "gain": float("nan"), "keys": np.arange(2)})
    b'{"theta":"inf","gain":null,"keys":[0,1]}'
    """
    return json.dumps(_plain(value), ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, np.ndarray | np.generic):
        return _plain(value.tolist())
    return value
