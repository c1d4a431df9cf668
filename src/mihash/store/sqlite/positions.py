"""How far a source was read, and what else is remembered of it: the tables `source` and `reading`.

A position is a number that only its owner understands. Whoever reads files remembers more, as a text: what the
rows store, and which keys they got. It counts as long as the position is the one that it was written with.
"""

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ... import validation
from ...errors import CorruptStore, InvalidInput
from ..keys import Key, is_text
from .settings import read_position, write_position


class Reading(NamedTuple):
    """How far a source was read, with details.

    Attributes
    ----------
    name, position
        The source, and up to where it was read.
    details
        Gets the keys of the rows that are stored with it, and returns what is to be remembered.
    """

    name: str
    position: int
    details: Callable[[Sequence[Key]], str]


def as_position(source: tuple[str, int] | Reading) -> tuple[str, int]:
    """Return the name of a source and a position in it, checked."""
    if not isinstance(source, tuple | list) or len(source) != (3 if isinstance(source, Reading) else 2):
        raise InvalidInput(f"`source` must be a name and a position; got {source!r:.80}.")
    name, position = source[:2]
    if not isinstance(name, str) or not is_text(name):
        raise InvalidInput(f"The name of a source must be a string; got {name!r:.80}.")
    return str.__str__(name), validation.integer("position", position, minimum=0, maximum=2**63 - 1)


def write_reading(
    connection: sqlite3.Connection, source: tuple[str, int] | Reading | None, keys: Sequence[Key]
) -> None:
    """Note up to where a source was read, inside the transaction of its rows, which have these keys."""
    if source is None:
        return
    name, position = as_position(source)
    write_position(connection, name, position)
    if isinstance(source, Reading):
        details = source.details(keys)
        row = (name, position, details, _seal(name, position, details))
        connection.execute("INSERT OR REPLACE INTO reading VALUES (?, ?, ?, ?)", row)


def read_details(connection: sqlite3.Connection, source: str) -> str | None:
    """Return what is remembered of a source beside its position, None where nothing is, or of another position."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'reading'").fetchone():
        return None
    query = "SELECT position, details, seal FROM reading WHERE source = ?"
    row = connection.execute(query, (source,)).fetchone()
    if row is None:
        return None
    position, details, seal = row
    if seal != _seal(source, position, details):
        raise CorruptStore(f"What is remembered of {source!r} is damaged: its checksum is wrong. Use a backup.")
    return str(details) if position == read_position(connection, source) else None


def _seal(source: str, position: int, details: str) -> int:
    return zlib.crc32(f"{source} {position} {details}".encode())
