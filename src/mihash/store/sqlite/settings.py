"""The settings of a table: names with values and a checksum each."""

import sqlite3
from typing import Any

from ... import validation
from ...errors import CorruptStore
from .checksums import value_check

METRICS = ("euclidean", "cosine", "ip")


def new_settings(dtype: str, metric: str) -> dict[str, Any]:
    """Return the first settings of a table."""
    validation.choice("dtype", dtype, ("float32", "float16"))
    validation.choice("metric", metric, METRICS)
    return {"dtype": dtype, "metric": metric, "plain_keys": 1}


UNLESS_LABELLED = 2
"""The setting ``factors`` of a table whose rows have two bytes more unless labelled; 1: always, 0: never."""


def with_factors(settings: dict[str, Any]) -> bool:
    """Tell whether rows store two more bytes, if their mapping has them.

    Codes learned from labels do not estimate distances.

    Examples
    --------
    >>> [with_factors({"factors": value, "labels": "class"}) for value in (0, 1, UNLESS_LABELLED)]
    [False, True, False]
    """
    value = settings.get("factors")
    return value == 1 or (value == UNLESS_LABELLED and settings.get("labels") is None)


def read_settings(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return every setting by name, or raise if one is damaged."""
    found = {}
    for name, value, seal in connection.execute("SELECT name, value, seal FROM setting"):
        if seal != value_check(name, value):
            raise CorruptStore(f"The setting {name!r} is damaged: its checksum is wrong. Use a backup.")
        found[name] = value
    return found


def write_settings(connection: sqlite3.Connection, **values: Any) -> None:
    """Change settings inside a transaction."""
    rows = [(name, value, value_check(name, value)) for name, value in values.items()]
    connection.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?, ?)", rows)
