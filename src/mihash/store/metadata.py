"""Metadata of stored items as JSON text (nothing of this is in the paper).

JSON has no dates. A `datetime`, a `date` and NumPy's `datetime64` are stored as ISO 8601 text, whose order as text
is their order in time: ``2026-11-16T06:05:00``. A datetime with a time zone is converted to UTC and ends in
``+00:00``; one without is stored as it is. Do not mix both in one field.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Any

import numpy as np

from ..errors import CorruptStore, InvalidInput
from ..records import time_text

RULE = "a string, a 64-bit integer, a finite float, a datetime, True, False or None"

Scalar = str | int | float | bool | None

_MAX_DEPTH = 100  # SQLite: 1000


class EncodedMetadata(str):
    """The metadata of one item as the text that `encode_metadata` has made of it: it is stored as it is."""

    __slots__ = ()


Metadata = Sequence[Mapping[str, Any] | EncodedMetadata | None] | Mapping[str, Any] | None


def as_metadata(metadata: Metadata, n: int) -> list[str | None] | None:
    """Return metadata as JSON texts, one for each row, None for none; for one row a single dictionary will do."""
    if metadata is None:
        return None
    given = [metadata] if isinstance(metadata, Mapping) else metadata
    if not isinstance(given, Iterable) or isinstance(given, str) or len(given := list(given)) != n:
        wanted = "1 dictionary" if n == 1 else f"{n} dictionaries, one for each row"
        raise InvalidInput(f"`metadata` must be {wanted}; got {metadata!r:.80}.")
    return [str(each) if isinstance(each, EncodedMetadata) else encode_metadata(each) for each in given]


def encode_metadata(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the metadata of one item as JSON text, None for none.

    Parameters
    ----------
    metadata
        Names and values: strings, integers of 64 bits, finite floats, booleans, datetimes, None, and lists and
        dictionaries of those, at most 100 deep. NumPy's scalars count as Python's, tuples as lists.

    Raises
    ------
    InvalidInput
        If a name is not a string or a value is none of these. Strings must not hold the character NUL, at which
        SQLite would cut them off.

    Examples
    --------
    >>> encode_metadata({"color": "red", "sizes": (1, 2.5), "café": None})
    '{"color":"red","sizes":[1,2.5],"café":null}'
    >>> from datetime import datetime
    >>> encode_metadata({"at": datetime(2026, 11, 16, 6, 5), "day": date(2026, 11, 16)})
    '{"at":"2026-11-16T06:05:00","day":"2026-11-16"}'
    >>> encode_metadata({"sizes": [1, float("nan")]})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `metadata['sizes'][1]` must be finite; got nan.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"`metadata` must be a dictionary or None; got {shown(metadata)}.")
    return to_json(_plain("metadata", metadata, 0))


def decode_metadata(text: str | None) -> dict[str, Any] | None:
    """Return the metadata that `encode_metadata` made ``text`` of.

    Raises
    ------
    CorruptStore
        If the text is not a JSON object.

    Examples
    --------
    >>> decode_metadata('{"color":"red","sizes":[1,2.5]}')
    {'color': 'red', 'sizes': [1, 2.5]}
    >>> decode_metadata("[1, 2")
    Traceback (most recent call last):
    mihash.errors.CorruptStore: Metadata must be a JSON object; got '[1, 2'.
    """
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise CorruptStore(f"Metadata must be a JSON object; got {shown(text)}.")
    return metadata


def _plain(place: str, value: Any, depth: int) -> Any:
    if depth > _MAX_DEPTH:
        raise InvalidInput(f"`metadata` must be at most {_MAX_DEPTH} deep; `{place:.80}...` is deeper.")
    inside = depth < _MAX_DEPTH
    if isinstance(value, list | tuple):
        return [
            one if inside and is_plain(one) else _plain(f"{place}[{i}]", one, depth + 1)
            for i, one in enumerate(value)
        ]
    if isinstance(value, Mapping):
        for name in value:
            if type(name) is not str or not is_plain(name):
                check_text(f"each name in `{place}`", name)
        return {
            name: one if inside and is_plain(one) else _plain(f"{place}[{name!r:.40}]", one, depth + 1)
            for name, one in value.items()
        }
    return as_scalar(place, value, f"{RULE}, or a list or a dictionary of those")


def is_plain(value: Any) -> bool:
    """Return True for common scalars that need no further check."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) and "\0" not in value
    if kind is int:
        return bool(-(2**63) <= value < 2**63)
    return math.isfinite(value) if kind is float else value is None or kind is bool


def as_scalar(place: str, value: Any, rule: str = RULE) -> Scalar:
    """Return a value as one that JSON has, or raise."""
    if isinstance(value, np.datetime64):
        value = value.astype("datetime64[us]")
        if isinstance(value.item(), int):
            raise InvalidInput(f"`{place}` must be a time in the years 1 to 9999; got {shown(value)}.")
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, date):
        return time_text(plain)
    if plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, str):
        check_text(f"`{place}`", plain)
        return plain
    if isinstance(plain, int):
        if not -(2**63) <= plain < 2**63:
            raise InvalidInput(f"`{place}` must fit into 64 bits; got an integer of {plain.bit_length()} bits.")
        return plain
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise InvalidInput(f"`{place}` must be finite; got {plain}.")
        return plain
    raise InvalidInput(f"`{place}` must be {rule}; got {shown(value)}.")


def check_text(what: str, text: Any) -> None:
    """Raise if a value is not a string that SQLite can store."""
    what = what[0].upper() + what[1:]
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a string; got {shown(text)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} must be text; got {shown(text)}, which has half a surrogate pair.") from error
    if "\0" in text:
        raise InvalidInput(f"{what} must not hold the character NUL; got {shown(text)}.")


def to_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def shown(value: Any) -> str:
    """Return a value as an error message shows it."""
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list within itself
        return f"a {type(value).__name__}"
