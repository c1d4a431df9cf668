"""Checksums of single values, and of decisions and versions.

A replay reads decisions again, and a version says which mapping answers. Their tables have no column for a
checksum, so theirs are in a table of their own. A row that was changed or lost on the disk is noticed here.
"""

import sqlite3
import zlib
from collections.abc import Iterable
from typing import Any

from ...errors import CorruptStore

SEALED = {
    "decision": "number, kind, seen, accepted, gain, current, snapshot, reason, at",
    "version": "number, status, length(mapping), fingerprint, items, seconds, at",
}
"""What is sealed of each table: the values of these columns, in this order."""


def value_check(name: object, value: object) -> int:
    """Return the CRC-32 of a value, its type and the name or id that it is stored under.

    Examples
    --------
    >>> value_check("rows", 5) == value_check("rows", "5")
    False
    """
    return zlib.crc32(f"{name} {type(value).__name__} {value}".encode())


def value_checks(names: Iterable[object], values: Iterable[object]) -> list[int]:
    """Return `value_check` of each value.

    Examples
    --------
    >>> value_checks([7, 8], [5, None]) == [value_check(7, 5), value_check(8, None)]
    True
    """
    check = zlib.crc32
    return [
        check(f"{name} {value.__class__.__name__} {value}".encode())
        for name, value in zip(names, values, strict=True)
    ]


def seal_rows(connection: sqlite3.Connection, relation: str, numbers: Iterable[int]) -> None:
    """Seal rows as they are now, inside the transaction that has changed them."""
    query = f"SELECT {SEALED[relation]} FROM {relation} WHERE number = ?"
    rows = [connection.execute(query, (number,)).fetchone() for number in numbers]
    seals = [(relation, row[0], _crc(row)) for row in rows]
    connection.executemany("INSERT OR REPLACE INTO seal VALUES (?, ?, ?)", seals)


def check_seals(connection: sqlite3.Connection, relation: str, first: int = 0, last: int = 2**62) -> None:
    """Raise where a row with a number from ``first`` to ``last`` was changed or lost.

    A file of an older mihash that was not opened for writing since has no seals.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
        return
    between = "number BETWEEN ? AND ?"
    query = f"SELECT number, seal FROM seal WHERE relation = ? AND {between}"
    seals = dict(connection.execute(query, (relation, first, last)).fetchall())
    rows = connection.execute(f"SELECT {SEALED[relation]} FROM {relation} WHERE {between}", (first, last))
    found = {row[0]: _crc(row) for row in rows}
    for number in sorted(seals.keys() | found.keys()):
        if seals.get(number) != found.get(number):
            raise CorruptStore(f"The {relation} {number} is damaged: its checksum is wrong. Use a backup.")


def _crc(row: tuple[Any, ...]) -> int:
    return zlib.crc32(" ".join(f"{type(value).__name__} {value}" for value in row).encode())
