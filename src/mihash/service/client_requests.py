"""What the client sends: bodies, query strings and keys in paths; only the standard library is needed."""

import json
from collections.abc import Iterable, Mapping
from datetime import date
from typing import Any, TypeGuard
from urllib.parse import quote, urlencode

from ..errors import InvalidInput
from ..records import time_text

Key = int | str

JSON_BODY = "application/json"
_FLOATS = "application/octet-stream"
_MAX_QUERY_STRING = 8000  # longer options are sent in the body: servers limit the length of a URL


def encode(path: str, vectors: Any, fields: dict[str, Any], binary: bool) -> tuple[str, bytes, str]:
    """Return path, body and media type: an array as binary, with options in the query string; otherwise JSON."""
    if getattr(getattr(vectors, "dtype", None), "kind", "") == "c":
        raise InvalidInput(f"`vectors` must be real numbers; got {vectors.dtype}.")
    if binary and getattr(vectors, "ndim", 0) == 2 and vectors.shape[1]:
        texts = {name: value if isinstance(value, int | str) else to_json(value) for name, value in fields.items()}
        texts |= {name: str(value).lower() for name, value in fields.items() if isinstance(value, bool)}
        query = urlencode({"features": vectors.shape[1], **texts})
        if len(query) <= _MAX_QUERY_STRING:
            return f"{path}?{query}", vectors.astype("<f4").tobytes(), _FLOATS
    if vectors is not None:
        fields = fields | {"vectors": as_list(vectors)}
    return path, to_json(fields), JSON_BODY


def to_json(value: Any) -> bytes:
    """Return a value as JSON."""
    try:
        return json.dumps(value, default=_plain).encode()
    except InvalidInput:
        raise
    except (ValueError, TypeError, RecursionError) as error:  # a key that is no string, a list within itself
        raise InvalidInput(f"This cannot be sent as JSON: {error!s:.200}.") from error


def _plain(value: Any) -> Any:
    """Return a NumPy value as a Python value, and a time as the text that metadata has for it."""
    if isinstance(value, date):
        return time_text(value)
    if not hasattr(value, "tolist"):
        raise InvalidInput(f"A {type(value).__name__} cannot be sent as JSON.")
    return value.tolist()


def as_list(value: Any) -> Any:
    """Return values as a list."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if not isinstance(value, Iterable):
        raise InvalidInput(f"A list of values is expected; got {value!r:.80}.")
    return list(value)


def is_one(keys: object) -> TypeGuard[Key]:
    """Tell whether one key is given."""
    return isinstance(keys, str | bytes) or not isinstance(keys, Iterable) or getattr(keys, "ndim", None) == 0


def several(keys: Any) -> Any:
    """Return keys; one is a list of one."""
    return [keys] if is_one(keys) else keys


def fields_of(**values: Any) -> bytes:
    """Return the fields of a body that are given, as JSON."""
    given = {name: value for name, value in values.items() if value is not None}
    return to_json(
        {name: value if isinstance(value, Mapping) else as_list(value) for name, value in given.items()}
    )


def listed(answer: dict[str, Any]) -> tuple[list[tuple[Key, dict[str, Any] | None]], Key | None]:
    """Return keys and metadata of a page, and the key that the next one begins after."""
    return [(each["key"], each["metadata"]) for each in answer["items"]], answer["next"]


def in_path(key: Key) -> str:
    """Return a key as a part of a path; a string is put in double quotes, or it could be taken for a number."""
    if not isinstance(key, str) and (isinstance(key, bool) or not hasattr(key, "__index__")):
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits; got {key!r:.80}.")
    try:
        return quote(f'"{key}"' if isinstance(key, str) else str(key), safe="")
    except UnicodeError as error:
        raise InvalidInput(f"A key must be text; got {key!r:.80}, which has half a surrogate pair.") from error
