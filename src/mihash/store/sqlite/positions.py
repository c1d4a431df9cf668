"""Up to where each source was read, and what a reader stores beside it: the tables `source` and `reading`.

A position is a number that only the reader of the source interprets. A reader of files stores a text as well: what
the rows hold, and which keys they got. The text is valid only while the position is the one it was written with.
"""

import sqlite3
import zlib
from collections.abc import Callable, Sequence
from typing import NamedTuple

from ... import validation
from ...errors import CorruptStore, InvalidInput
from ..keys import Key, is_text
from .checksums import value_check
from .file_format import check_structure


class Reading(NamedTuple):
    """The position in a source, and details stored with it.

    Attributes
    ----------
    name, position
        The source, and the position up to which it was read.
    details
        Called with the keys of the rows stored in the same transaction; returns the text to store.
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


def write_position(connection: sqlite3.Connection, source: tuple[str, int] | Reading, keys: Sequence[Key]) -> None:
    """Store up to where a source was read, inside the transaction of its rows, which have these keys."""
    name, position = as_position(source)
    row = (name, position, value_check(name, position))
    connection.execute("INSERT OR REPLACE INTO source VALUES (?, ?, ?)", row)
    if isinstance(source, Reading):
        details = source.details(keys)
        connection.execute(
            "INSERT OR REPLACE INTO reading VALUES (?, ?, ?, ?)",
            (name, position, details, _details_seal(name, position, details)),
        )


def read_position(connection: sqlite3.Connection, source: str) -> int | None:
    """Return up to where a source was read, None for an unknown one."""
    row = connection.execute("SELECT position, seal FROM source WHERE name = ?", (source,)).fetchone()
    if row is not None:
        return _checked(source, *row)
    check_structure(connection, "source")  # it may be unknown because its row is damaged
    for name, position, seal in connection.execute("SELECT name, position, seal FROM source"):
        _checked(name, position, seal)
    return None


def read_details(connection: sqlite3.Connection, source: str) -> str | None:
    """Return the text stored with the current position of a source, None without one."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'reading'").fetchone():
        return None
    query = "SELECT position, details, seal FROM reading WHERE source = ?"
    row = connection.execute(query, (source,)).fetchone()
    if row is None:
        return None
    position, details, seal = row
    if seal != _details_seal(source, position, details):
        raise CorruptStore(f"The details of {source!r} are damaged: their checksum is wrong. Use a backup.")
    return str(details) if position == read_position(connection, source) else None


def _checked(source: str, position: int, seal: int) -> int:
    if seal != value_check(source, position):
        raise CorruptStore(f"The position in {source!r} is damaged: its checksum is wrong. Use a backup.")
    return int(position)


def _details_seal(source: str, position: int, details: str) -> int:
    return zlib.crc32(f"{source} {position} {details}".encode())
