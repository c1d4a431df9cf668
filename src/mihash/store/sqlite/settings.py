"""The settings of a table: names with values and a checksum each."""

import sqlite3
from typing import Any

from ... import validation
from ...errors import CorruptStore
from .seals import value_check


def new_settings(dtype: str, metric: str) -> dict[str, Any]:
    """Return the first settings of a table."""
    validation.choice("dtype", dtype, ("float32", "float16"))
    validation.choice("metric", metric, ("euclidean", "cosine"))
    return {"dtype": dtype, "metric": metric, "plain_keys": 1}


def read_settings(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return every setting by name, or raise where one is damaged."""
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
