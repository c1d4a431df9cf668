"""The settings of a table: names with values and a checksum each."""

import sqlite3
import zlib
from typing import Any

from ...errors import CorruptStore


def read_settings(connection: sqlite3.Connection) -> dict[str, Any]:
    """Return every setting by name, or raise where one is damaged."""
    found = {}
    for name, value, seal in connection.execute("SELECT name, value, seal FROM setting"):
        if seal != _seal(name, value):
            raise CorruptStore(f"The setting {name!r} is damaged: its checksum is wrong. Use a backup.")
        found[name] = value
    return found


def write_settings(connection: sqlite3.Connection, **values: Any) -> None:
    """Change settings inside a transaction."""
    rows = [(name, value, _seal(name, value)) for name, value in values.items()]
    connection.executemany("INSERT OR REPLACE INTO setting VALUES (?, ?, ?)", rows)


def _seal(name: str, value: Any) -> int:
    return zlib.crc32(f"{name} {type(value).__name__} {value}".encode())
