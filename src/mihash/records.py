"""Records: what calls return, stated once; HTTP, the command line and the docs print the same fields, as JSON."""

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Any


@dataclass(frozen=True)
class Record:
    """A frozen dataclass whose fields are read as attributes, or by name as from a dictionary.

    Examples
    --------
    >>> @dataclass(frozen=True)
    ... class Point(Record):
    ...     x: int
    ...     y: int = 0
    >>> point = Point(3)
    >>> point.x, point["x"], "z" in point, point.get("z", -1), dict(point)
    (3, 3, False, -1, {'x': 3, 'y': 0})
    """

    def keys(self) -> list[str]:
        """Return the names of the fields, in order."""
        return list(self.__dataclass_fields__)

    def __iter__(self) -> Iterator[str]:
        """Iterate over the names of the fields."""
        return iter(self.keys())

    def __contains__(self, name: object) -> bool:
        """Tell whether there is such a field."""
        return name in self.__dataclass_fields__

    def __getitem__(self, name: str) -> Any:
        """Return the value of a field."""
        if name not in self.__dataclass_fields__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a field, or ``default`` where there is no such field."""
        return getattr(self, name) if name in self.__dataclass_fields__ else default


def to_json(value: Any, spaced: bool = False) -> str:
    """Return JSON of plain values, NumPy's and records; NaN becomes null, an infinity a string: JSON has neither.

    Examples
    --------
    >>> import numpy as np
    >>> to_json({"theta": float("inf"), "gain": float("nan"), "keys": np.arange(2)})
    '{"theta":"inf","gain":null,"keys":[0,1]}'
    """
    encoder = _SPACED if spaced else _COMPACT
    try:
        return encoder.encode(value)
    except ValueError:  # a number that JSON does not have
        return encoder.encode(_finite(value))


def time_text(when: date) -> str:
    """Return a time as ISO 8601, in UTC where it has a time zone.

    Examples
    --------
    >>> time_text(datetime(2026, 11, 16, 6, 5)), time_text(date(2026, 11, 16))
    ('2026-11-16T06:05:00', '2026-11-16')
    """
    if isinstance(when, datetime) and when.tzinfo is not None:
        when = when.astimezone(UTC)
    return when.isoformat()


def _native(value: Any) -> Any:
    """Return a value of another type as one that JSON has."""
    if hasattr(value, "tolist"):
        return value.tolist()
    if isinstance(value, Record):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is not JSON.")


_COMPACT = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_native)
_SPACED = json.JSONEncoder(ensure_ascii=False, allow_nan=False, default=_native)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, dict | Record):
        return {name: _finite(each) for name, each in dict(value).items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return _finite(value.tolist()) if hasattr(value, "tolist") else value
