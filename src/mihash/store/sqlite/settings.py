"""The settings of a table: names with values and a checksum each."""

import sqlite3
import zlib
from typing import Any

from ...errors import CorruptStore
from .schema import check_structure


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


def write_position(connection: sqlite3.Connection, source: str, position: int) -> None:
    """Note up to where a source was read, inside a transaction."""
    row = (source, position, _seal(source, position))
    connection.execute("INSERT OR REPLACE INTO source VALUES (?, ?, ?)", row)


def read_position(connection: sqlite3.Connection, source: str) -> int | None:
    """Return up to where a source was read, None for an unknown one."""
    row = connection.execute("SELECT position, seal FROM source WHERE name = ?", (source,)).fetchone()
    if row is None:
        _check_positions(connection)
        return None
    if row[1] != _seal(source, row[0]):
        raise CorruptStore(f"The position in {source!r} is damaged: its checksum is wrong. Use a backup.")
    return int(row[0])


def _check_positions(connection: sqlite3.Connection) -> None:
    """Raise where a source may be unknown because its row is damaged."""
    check_structure(connection, "source")
    for name, position, seal in connection.execute("SELECT name, position, seal FROM source"):
        if seal != _seal(name, position):
            raise CorruptStore(f"The position in {name!r} is damaged: its checksum is wrong. Use a backup.")


def _seal(name: str, value: Any) -> int:
    return zlib.crc32(f"{name} {type(value).__name__} {value}".encode())
