"""Keys and metadata of the stored rows: the `item` table.

Each row is sealed with two checksums, one over its id and key and one over its id and metadata, so that a byte
changed on the disk is noticed when the row is read. A key that an index of SQLite does not find has no row to
check. So there are two indexes of the keys, and a key is unknown when both say so.
"""

import json
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, DuplicateKey, InvalidInput, UnknownName
from ..filters import Condition
from ..keys import Key
from ..metadata import decode_metadata
from ..question import Item
from .checksums import value_check, value_checks
from .field_index import possible_ids
from .file_format import check_structure
from .segments import LabelKind, Segments

COUNTED = 2**62
_AMONG = "IN (SELECT value FROM json_each(?))"
_NEAR = 50  # items that are read for each that is wanted, before an index is asked
_AT_ONCE = 20_000
_DISAGREE = "The index of keys is damaged: {} Use a backup."


def insert_items(
    connection: sqlite3.Connection,
    ids: NDArray[np.int64],
    keys: Sequence[Key],
    metadata: Sequence[str | None] | None,
) -> None:
    """Store keys and metadata inside a transaction; a key that is stored already raises `DuplicateKey`."""
    numbers = ids.tolist()
    rows = zip(numbers, keys, metadata or [None] * len(ids), _seals(numbers, keys, metadata), strict=True)
    try:
        connection.executemany("INSERT INTO item (id, key, metadata, seal) VALUES (?, ?, ?, ?)", rows)
    except sqlite3.IntegrityError as error:
        raise _duplicate(connection, keys, int(ids[0])) from error


def ids_of(connection: sqlite3.Connection, keys: Sequence[Key]) -> list[int | None]:
    """Return the id of each key, None if it is not stored."""
    found = _looked_up(connection, "item_key", keys)
    missing = [key for key in keys if key not in found]
    if missing and _has_two(connection):
        for key in _looked_up(connection, "item_again", missing):
            raise CorruptStore(_DISAGREE.format(f"only one of the two indexes has the key {key!r}."))
    return [found.get(key) for key in keys]


def _looked_up(connection: sqlite3.Connection, index: str, keys: Sequence[Key]) -> dict[Key, int]:
    """Return the ids of those keys that an index finds."""
    columns = f"SELECT id, key, seal FROM item INDEXED BY {index}"
    if len(keys) == 1:
        rows = connection.execute(f"{columns} WHERE key = ?", (keys[0],)).fetchall()
    else:
        rows = connection.execute(f"{columns} WHERE key {_AMONG}", (json.dumps(list(keys)),)).fetchall()
    return {_unsealed_key(number, key, seal): number for number, key, seal in rows}


def _has_two(connection: sqlite3.Connection) -> bool:
    """Tell whether there are two indexes of the keys; where there is one, check it against the table.

    The files of an older mihash have one until they are opened for writing. The check reads every key.
    """
    if connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'item_again'").fetchone():
        return True
    check_structure(connection, "item")
    return False


def top_key(connection: sqlite3.Connection) -> int:
    """Return the largest key that is a number, -1 if there is none above; keys from 2^62 on do not count.

    Above the largest there would be no number left.
    """
    indexes = ("item_key", "item_again") if _has_two(connection) else ("item_key",)
    query = "SELECT coalesce(max(key), -1) FROM item INDEXED BY {} WHERE key < ?"  # texts are above every number
    tops = {int(connection.execute(query.format(each), (COUNTED,)).fetchone()[0]) for each in indexes}
    if len(tops) > 1:
        keys = f"the largest key is {min(tops)} in one index and {max(tops)} in the other."
        raise CorruptStore(_DISAGREE.format(keys))
    return tops.pop()


def keys_of(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> dict[int, Key]:
    """Return the keys of some ids; those that are not stored are left out."""
    text = json.dumps(ids.tolist())
    rows = connection.execute(f"SELECT id, key, seal FROM item WHERE id {_AMONG}", (text,)).fetchall()
    return {number: _unsealed_key(number, key, seal) for number, key, seal in rows}


def largest_key(connection: sqlite3.Connection) -> list[Key]:
    """Return the largest key in a list: a string where there is one, since SQLite sorts them after numbers."""
    return [key for (key,) in connection.execute("SELECT key FROM item ORDER BY key DESC LIMIT 1")]


def texts_of(connection: sqlite3.Connection, ids: Sequence[int], max_bytes: int | None = None) -> list[str | None]:
    """Return the metadata of stored ids as JSON texts, or raise if they are more than ``max_bytes``."""
    query = f"SELECT id, metadata, seal FROM item WHERE id {_AMONG}"
    found, left = {}, max_bytes
    for number, text, seal in connection.execute(query, (json.dumps(list(ids)),)):
        if left is not None and text is not None:
            left -= len(text.encode())
            if left < 0:
                raise InvalidInput(
                    f"The metadata of these items is more than {max_bytes:,} bytes: request fewer items."
                )
        found[number] = _unsealed_text(number, text, seal)
    return [found[number] for number in ids]


def lookup(
    connection: sqlite3.Connection, keys: Sequence[Key], with_texts: bool, max_bytes: int | None = None
) -> tuple[list[int | None], list[str | None]]:
    """Return the id of each key, None if it is not stored, and where it is wanted its metadata as text."""
    ids = ids_of(connection, keys)
    known = [number for number in ids if number is not None]
    texts = dict(zip(known, texts_of(connection, known, max_bytes), strict=True)) if with_texts else {}
    return ids, [None if number is None else texts.get(number) for number in ids]


def all_found(keys: Sequence[Key], ids: Sequence[int | None]) -> list[int]:
    """Return the ids of keys, or raise if a key has none."""
    found = [number for number in ids if number is not None]
    if len(found) != len(keys):
        missing = next(key for key, number in zip(keys, ids, strict=True) if number is None)
        raise UnknownName(f"The key {missing!r} is not stored.")
    return found


def stored_items(
    connection: sqlite3.Connection,
    segments: Segments,
    keys: Sequence[Key],
    n_features: int,
    kind: LabelKind | None,
) -> list[Item]:
    """Return the items of keys, in their order, inside a transaction; an unknown key raises `UnknownName`."""
    ids, texts = lookup(connection, keys, with_texts=True)
    numbers = np.array(all_found(keys, ids), dtype=np.int64)
    if not len(numbers):
        return []
    wanted, places = np.unique(numbers, return_inverse=True)
    vectors = segments.fetch(wanted, n_features)
    if vectors is None:
        raise CorruptStore(f"A vector of {len(keys)} stored keys is missing. Use a backup.")
    labels = [None] * len(wanted) if kind is None else segments.labels_of(wanted, kind)
    return [
        Item(key, vectors[place], labels[place], decode_metadata(text))
        for key, place, text in zip(keys, places.tolist(), texts, strict=True)
    ]


def list_items(
    connection: sqlite3.Connection, where: Condition | None = None, after: int = -1, limit: int | None = None
) -> tuple[list[int], list[Key]]:
    """Return ids and keys of the items after an id that match a filter, in order; at most ``limit``.

    With a filter and a limit, the next items are read as long as many of them match; then indexes of fields say
    which of the others may.
    """
    sql, parameters = ("1", []) if where is None else (where.sql, where.parameters)
    rows: list[tuple[int, Key, str | None, int]] = []

    def read(place: str, values: list[Any]) -> int:
        """Read the matching items of a place, and return how many there are."""
        query = f"SELECT id, key, metadata, seal FROM item WHERE {place} AND {sql} ORDER BY id LIMIT ?"
        left = -1 if limit is None else limit - len(rows)
        found = connection.execute(query, (*values, *parameters, left)).fetchall()
        rows.extend(found)
        return len(found)

    (last,) = connection.execute("SELECT ifnull(max(id), -1) FROM item").fetchone()
    if where is not None and limit is not None:
        width, many = min(_NEAR * limit, _AT_ONCE), True
        while many and len(rows) < limit and after < last:
            many = _NEAR * read("id > ? AND id <= ?", [after, after + width]) >= width
            after += width
    if after < last and len(rows) != limit:
        among = None if where is None else possible_ids(connection, where.tree)
        if among is None:
            read("id > ?", [after])
        else:
            among = among[np.searchsorted(among, after, side="right") :]
            for start in range(0, len(among), _AT_ONCE):
                if len(rows) != limit:
                    read(f"id {_AMONG}", [json.dumps(among[start : start + _AT_ONCE].tolist())])
    for number, key, text, seal in rows:
        _unsealed_key(number, key, seal)
        _unsealed_text(number, text, seal)
    return [row[0] for row in rows], [row[1] for row in rows]


def count_items(connection: sqlite3.Connection, where: Condition | None = None) -> int:
    """Return how many items are stored, or match a filter."""
    sql, parameters = ("1", []) if where is None else (where.sql, where.parameters)
    return int(connection.execute(f"SELECT count(*) FROM item WHERE {sql}", parameters).fetchone()[0])


def describe_items(connection: sqlite3.Connection, ids: Sequence[int], texts: Sequence[str | None]) -> None:
    """Replace the metadata of stored ids inside a transaction."""
    keys = keys_of(connection, np.array(ids, dtype=np.int64))
    seals = _seals(ids, [keys[number] for number in ids], texts)
    rows = list(zip(texts, seals, ids, strict=True))
    connection.executemany("UPDATE item SET metadata = ?, seal = ? WHERE id = ?", rows)


def check_items(connection: sqlite3.Connection, ids: NDArray[np.int64]) -> int:
    """Return how many of some ids are stored, or raise if a key or metadata is damaged."""
    query = f"SELECT id, key, metadata, seal FROM item WHERE id {_AMONG}"
    n = 0
    for number, key, text, seal in connection.execute(query, (json.dumps(ids.tolist()),)):
        _unsealed_key(number, key, seal)
        _unsealed_text(number, text, seal)
        n += 1
    return n


def matching(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any], ids: NDArray[np.int64]
) -> list[int]:
    """Return those of some ids (sorted, all that are stored from the first to the last) that match a condition.

    The seals are not checked here: that would take longer than the scan. Check the rows that are returned.
    """
    ends = (int(ids[0]), int(ids[-1])) if len(ids) else (0, -1)
    (n,) = connection.execute("SELECT count(*) FROM item WHERE id >= ? AND id <= ?", ends).fetchone()
    if n != len(ids):
        raise CorruptStore(f"There are {n} items where {len(ids)} are stored. Run `verify`, or use a backup.")
    query = f"SELECT id FROM item WHERE id >= ? AND id <= ? AND {sql}"
    return [number for (number,) in connection.execute(query, (*ends, *parameters))]


def count_matching(
    connection: sqlite3.Connection, sql: str, parameters: Sequence[Any], ids: NDArray[np.int64]
) -> int:
    """Return how many of some ids match a condition."""
    query = f"SELECT count(*) FROM item WHERE id {_AMONG} AND {sql}"
    return int(connection.execute(query, (json.dumps(ids.tolist()), *parameters)).fetchone()[0])


def remove_items(connection: sqlite3.Connection, ids: Sequence[int], n_tombstones: int) -> None:
    """Remove the keys of some ids inside a transaction, and mark their rows as deleted."""
    connection.executemany("DELETE FROM item WHERE id = ?", [(number,) for number in ids])
    rows = [
        (n_tombstones + place, number, value_check(n_tombstones + place, number))
        for place, number in enumerate(ids)
    ]
    connection.executemany("INSERT INTO tombstone VALUES (?, ?, ?)", rows)


def removed_items(connection: sqlite3.Connection, after: int, expected: int) -> list[int]:
    """Return the ids of the rows deleted since tombstone number ``after``, up to ``expected``."""
    query = "SELECT number, id, seal FROM tombstone WHERE number >= ? ORDER BY number"
    rows = connection.execute(query, (after,)).fetchall()
    numbers = [number for number, _, _ in rows]
    sound = all(seal == value_check(number, row) for number, row, seal in rows)
    if not sound or numbers != list(range(after, expected)):
        raise CorruptStore("The list of deleted rows is damaged: its checksum is wrong. Use a backup.")
    return [row for _, row, _ in rows]


def stored_already(key: Key) -> DuplicateKey:
    """Return the error for a key to add that is stored."""
    return DuplicateKey(
        f"The key {key!r} is stored already; nothing was stored. To replace what is stored, use `upsert`."
    )


def _duplicate(connection: sqlite3.Connection, keys: Sequence[Key], first: int) -> DuplicateKey:
    """Return the error that names the key of some rows, the first of them ``first``, which was stored before."""
    for key in keys:
        if connection.execute("SELECT 1 FROM item WHERE key = ? AND id < ?", (key, first)).fetchone():
            return stored_already(key)
    return DuplicateKey("A key is stored already; nothing was stored. To replace what is stored, use `upsert`.")


def _unsealed_text(number: int, text: str | None, seal: int) -> str | None:
    if seal & 0xFFFFFFFF != value_check(number, text):
        raise CorruptStore(f"The metadata of row {number} is damaged: its checksum is wrong. Use a backup.")
    return text


def _unsealed_key(number: int, key: Key, seal: int) -> Key:
    if (seal >> 32) & 0xFFFFFFFF != value_check(number, key):
        raise CorruptStore(f"The key of row {number} is damaged: its checksum is wrong. Use a backup.")
    return key


def _seals(ids: Sequence[int], keys: Sequence[Key], metadata: Sequence[str | None] | None) -> list[int]:
    """Return both checksums of each row as one number, that of the key in the upper half."""
    first = value_checks(ids, keys)
    second = value_checks(ids, [None] * len(ids) if metadata is None else metadata)
    both = (np.array(first, dtype=np.uint64) << np.uint64(32)) | np.array(second, dtype=np.uint64)
    seals: list[int] = both.view(np.int64).tolist()
    return seals
