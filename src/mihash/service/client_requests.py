"""What the client sends: bodies, query strings and keys in paths; only the standard library is needed."""

import json
import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any, SupportsIndex, TypeGuard
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


def is_vector(vectors: Any) -> bool:
    """Tell whether one vector is given, not rows of vectors.

    Examples
    --------
    >>> is_vector([0.5, 1.0]), is_vector([[0.5, 1.0]]), is_vector([])
    (True, False, False)
    """
    if hasattr(vectors, "ndim"):
        return bool(vectors.ndim == 1)
    return isinstance(vectors, Sequence) and len(vectors) > 0 and not isinstance(vectors[0], Iterable)


def as_rows(
    vectors: Any, keys: Any = None, labels: Any = None, metadata: Any = None, needed: bool = True
) -> tuple[Any, dict[str, Any]]:
    """Return vectors as rows, and what is given of the rest as lists; a single row is accepted, as in the index.

    Without ``needed``, vectors may be None.

    Examples
    --------
    >>> as_rows([0.5, 1.0], "a", 3, {"year": 1999})
    ([[0.5, 1.0]], {'keys': ['a'], 'labels': [3], 'metadata': [{'year': 1999}]})
    """
    if is_vector(vectors):
        vectors = vectors[None] if hasattr(vectors, "ndim") else [vectors]
        if is_one(labels):
            labels = None if labels is None else [labels]
    elif not hasattr(vectors, "tolist") and (vectors is not None or needed):
        vectors = as_list(vectors)
    given = {"keys": keys if keys is None else several(keys), "labels": labels, "metadata": metadata}
    if isinstance(metadata, Mapping):
        given["metadata"] = [metadata]
    return vectors, {name: as_list(value) for name, value in given.items() if value is not None}


def fields_of(**values: Any) -> bytes:
    """Return the fields of a body that are given, as JSON."""
    given = {name: value for name, value in values.items() if value is not None}
    return to_json(
        {name: value if isinstance(value, Mapping) else as_list(value) for name, value in given.items()}
    )


def listed(answer: dict[str, Any]) -> tuple[list[tuple[Key, dict[str, Any] | None]], str | None, list[str]]:
    """Return keys and metadata of a page, where the next one begins, and unknown fields of the filter."""
    found = [(each["key"], each["metadata"]) for each in answer["items"]]
    return found, answer["next"], list(answer.get("unknown_fields", ()))


def deleted(answer: dict[str, Any]) -> tuple[int, list[str]]:
    """Return how many items were deleted, and unknown fields of the filter."""
    return int(answer["deleted"]), list(answer.get("unknown_fields", ()))


def matched(answer: dict[str, Any]) -> tuple[int, list[str]]:
    """Return how many items match a filter, and unknown fields of the filter."""
    return int(answer["count"]), list(answer.get("unknown_fields", ()))


def is_key(key: object) -> TypeGuard[Key]:
    """Tell whether a value is a string or a whole number of 64 bits."""
    if isinstance(key, str):
        return "\0" not in key and not any("\ud800" <= each <= "\udfff" for each in key)
    return not isinstance(key, bool) and isinstance(key, SupportsIndex) and -(2**63) <= operator.index(key) < 2**63


def in_path(key: Key) -> str:
    """Return a key as a part of a path; a string is put in double quotes, or it could be taken for a number."""
    if not isinstance(key, str) and (isinstance(key, bool) or not hasattr(key, "__index__")):
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits; got {key!r:.80}.")
    try:
        return quote(f'"{key}"' if isinstance(key, str) else str(key), safe="")
    except UnicodeError as error:
        raise InvalidInput(f"A key must be text; got {key!r:.80}, which has half a surrogate pair.") from error
