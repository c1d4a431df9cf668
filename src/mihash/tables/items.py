"""Keys and metadata of the stored rows: the `item` table.

Each row is sealed with two checksums, one over its id and key and one over its id and metadata, so that a byte
changed on the disk is noticed when the row is read.
"""

import json
import sqlite3
import zlib
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import CorruptStore, DuplicateKey, InvalidInput
from .filters import decode_metadata, encode_metadata

__all__ = [
    "Key",
    "Metadata",
    "as_keys",
    "as_metadata",
    "check_items",
    "ids_of",
    "insert_items",
    "keys_of",
    "metadata_of",
    "remove_items",
    "texts_of",
]

Key = int | str
Metadata = Sequence[Mapping[str, Any] | None] | Mapping[str, Any] | None
_AMONG = "IN (SELECT value FROM json_each(?))"


def as_keys(keys: ArrayLike | Key, n: int | None = None) -> list[Key]:
    """Return keys as a list of plain integers and strings; one key may stand alone where no number is asked for.

    Examples
    --------
    >>> as_keys(np.array([3, 1])), as_keys("a")
    ([3, 1], ['a'])
    """
    values: Any = keys.tolist() if isinstance(keys, np.ndarray) else keys
    if n is None and (isinstance(values, str) or not isinstance(values, Iterable)):
        values = [values]
    values = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    if not all(_is_key(key) for key in values):
        wrong = next(key for key in values if not _is_key(key))
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits; got {wrong!r:.80}.")
    if n is not None and len(values) != n:
        raise InvalidInput(f"`keys` must be {n} keys, one for each row; got {len(values)}.")
    return [key if isinstance(key, str) else int(key) for key in values]


def as_metadata(
    metadata: Sequence[Mapping[str, Any] | None] | Mapping[str, Any] | None, n: int
) -> list[str | None]:
    """Return metadata as JSON texts, one for each row; for one row a single dictionary will do."""
    if metadata is None:
        return [None] * n
    given = [metadata] if isinstance(metadata, Mapping) else list(metadata)
    if len(given) != n:
        raise InvalidInput(f"`metadata` must be {n} dictionaries, one for each row; got {len(given)}.")
    return [encode_metadata(each) for each in given]


def insert_items(
    connection: sqlite3.Connection, ids: NDArray[np.int64], keys: Sequence[Key], metadata: Sequence[str | None]
) -> None:
    """Store keys and metadata inside a transaction; a key that is there already raises `DuplicateKey`."""
    rows = [
        (number, key, text, _seal(number, key, text))
        for number, key, text in zip(ids.tolist(), keys, metadata, strict=True)
    ]
    try:
        connection.executemany("INSERT INTO item (id, key, metadata, seal) VALUES (?, ?, ?, ?)", rows)
    except sqlite3.IntegrityError as error:
        raise DuplicateKey(_which(connection, keys, int(ids[0]))) from error


def ids_of(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[int | None]:
    """Return the id of each key, None where it is not stored."""
    if len(keys) == 1:
        row = connection.execute("SELECT id, key, seal FROM item WHERE key = ?", (keys[0],)).fetchone()
        rows = [] if row is None else [row]
    else:
        text = json.dumps(list(keys))
        rows = connection.execute(f"SELECT id, key, seal FROM item WHERE key {_AMONG}", (text,)).fetchall()
    found = {_unsealed_key(number, key, seal): number for number, key, seal in rows}
    return [found.get(key) for key in keys]


def keys_of(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> dict[int, Key]:
    """Return the keys of some ids; those that are not stored are left out."""
    text = json.dumps(ids.tolist())
    rows = connection.execute(f"SELECT id, key, seal FROM item WHERE id {_AMONG}", (text,)).fetchall()
    return {number: _unsealed_key(number, key, seal) for number, key, seal in rows}


def texts_of(connection: sqlite3.Connection, ids: Sequence[int]) -> list[str | None]:
    """Return the metadata of stored ids as JSON texts."""
    query = f"SELECT id, metadata, seal FROM item WHERE id {_AMONG}"
    rows = connection.execute(query, (json.dumps(list(ids)),)).fetchall()
    found = {number: _unsealed_text(number, text, seal) for number, text, seal in rows}
    return [found[number] for number in ids]


def metadata_of(connection: sqlite3.Connection, number: int) -> dict[str, Any] | None:
    """Return the metadata of a stored id."""
    return decode_metadata(texts_of(connection, [number])[0])


def check_items(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> int:
    """Return how many of some ids are stored, or raise where a key or metadata is damaged."""
    query = f"SELECT id, key, metadata, seal FROM item WHERE id {_AMONG}"
    n = 0
    for number, key, text, seal in connection.execute(query, (json.dumps(ids.tolist()),)):
        _unsealed_key(number, key, seal)
        _unsealed_text(number, text, seal)
        n += 1
    return n


def remove_items(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Remove the keys of some ids inside a transaction, and mark their rows as deleted."""
    rows = [(number,) for number in ids]
    connection.executemany("DELETE FROM item WHERE id = ?", rows)
    connection.executemany("INSERT INTO tombstone (id) VALUES (?)", rows)


def _is_key(key: Any) -> bool:
    if isinstance(key, Integral) and not isinstance(key, bool):
        return -(2**63) <= int(key) < 2**63
    return isinstance(key, str) and _is_text(key)


def _is_text(key: str) -> bool:
    try:
        key.encode()
    except UnicodeEncodeError:
        return False
    return True


def _which(connection: sqlite3.Connection, keys: Sequence[Key], first: int) -> str:
    seen: set[Key] = set()
    for key in keys:
        if key in seen:
            return f"The key {key!r} is given twice. Nothing was stored."
        seen.add(key)
    for key in keys:
        if connection.execute("SELECT 1 FROM item WHERE key = ? AND id < ?", (key, first)).fetchone():
            return f"The key {key!r} is stored already; nothing was stored. Use `update` for a new vector."
    return "A key is stored already; nothing was stored."


def _unsealed_text(number: int, text: str | None, seal: int) -> str | None:
    if seal & 0xFFFFFFFF != _crc(number, text):
        raise CorruptStore(f"The metadata of row {number} is damaged: its checksum is wrong. Use a backup.")
    return text


def _unsealed_key(number: int, key: Key, seal: int) -> Key:
    if (seal >> 32) & 0xFFFFFFFF != _crc(number, key):
        raise CorruptStore(f"The key of row {number} is damaged: its checksum is wrong. Use a backup.")
    return key


def _seal(number: int, key: Key, text: str | None) -> int:
    both = (_crc(number, key) << 32) | _crc(number, text)
    return both - (1 << 64) if both >= 1 << 63 else both


def _crc(number: int, value: Any) -> int:
    return zlib.crc32(f"{number} {type(value).__name__} {value}".encode())
