"""Indexes on the fields of metadata that are filtered by: the tables `filtered` and `field`.

An index has the type and the value of a field for each item, and of each element where it is a list. Every change
of an item changes its entries in the same transaction, and a filter on the field looks at the entries that match
alone. When a table becomes large, up to two fields get an index: those that most items have, with few different
values. Any other field gets its index from the first filter on it, which reads the metadata of all items.
"""

import json
import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore
from ..filter_sql import Leaf, Negation, Tree, paths_of, where_sql
from ..metadata import to_json
from .checksums import value_check
from .settings import read_settings, write_settings

FEWEST_ITEMS = 20_000
"""With fewer items a filter reads the metadata, which takes a few milliseconds."""

_MOST_FIELDS = 16  # each is written with every item
_EARLY_FIELDS = 2  # that get an index before anybody filters by them: each makes adding an item dearer
_SAMPLED = 1000  # of the newest items, which are read to find these fields
_REPEATED = 2  # items for each value that differs, at least
_SHORT = 32  # characters of a text, which is enough for a time; an index of long texts is large
_FEW = 8  # elements of a list
_PART = 4  # a condition that a quarter of the items meet rules out too little
_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_EITHER = "iif(json_type(item.metadata, :path) IS NULL, :other, :path)"
_PLAIN = (
    "CASE WHEN type IN ('integer', 'real') THEN 'number' ELSE type END, "
    "CASE WHEN type IN ('integer', 'real', 'text') THEN value ELSE '' END, id"
)
_SCALARS = (
    f"SELECT :number, 0, {_PLAIN} FROM (SELECT json_type(item.metadata, {{path}}) AS type, "
    "json_extract(item.metadata, {path}) AS value, item.id FROM {source}) WHERE type IS NOT NULL"
)
_ELEMENTS = (
    f"SELECT DISTINCT :number, 1, {_PLAIN} FROM (SELECT each.type, each.atom AS value, item.id "
    "FROM {source}, json_each(item.metadata, {path}) AS each "
    "WHERE json_type(item.metadata, {path}) = 'array' AND each.type NOT IN ('array', 'object'))"
)
_ENTRIES = f"{_SCALARS} UNION ALL {_ELEMENTS}"
_SOME = "json_each(:ids) AS wanted CROSS JOIN item ON item.id = wanted.value"
_LISTS = (
    "(SELECT id FROM field WHERE number = :number AND element = 0 AND type = 'array') AS wanted "
    "CROSS JOIN item ON item.id = wanted.id"
)
_COLUMNS = "number, element, type, value, id"


def filtered_fields(connection: sqlite3.Connection) -> dict[str, int]:
    """Return the numbers of the fields that have an index, by name."""
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'filtered'").fetchone():
        return {}
    found = {}
    for number, name, seal in connection.execute("SELECT number, name, seal FROM filtered"):
        if seal != value_check(number, name):
            raise CorruptStore(f"The name of the indexed field {number} is damaged. Use a backup.")
        found[name] = number
    return found


def can_index(leaf: Leaf) -> bool:
    """Tell whether an index answers a condition: no index finds a part of a string."""
    return leaf.operator != "$contains" and paths_of(leaf.name) is not None


def index_field(connection: sqlite3.Connection, name: str) -> None:
    """Make the index of a field inside a transaction, unless it is there or there are too many."""
    known = filtered_fields(connection)
    if name in known or len(known) >= _MOST_FIELDS:
        return
    number = len(known)
    connection.execute("INSERT INTO filtered VALUES (?, ?, ?)", (number, name, value_check(number, name)))
    for template, source in ((_SCALARS, "item"), (_ELEMENTS, _LISTS)):  # most fields have no lists
        entries = f"{_sql(template, name, source)} ORDER BY 2, 3, 4, 5"
        connection.execute(f"INSERT INTO field ({_COLUMNS}) {entries}", _values(name, number))


def enter(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Store the entries of items that were stored or described, inside their transaction."""
    for name, number in filtered_fields(connection).items():
        query = f"INSERT INTO field ({_COLUMNS}) {_sql(_ENTRIES, name, _SOME)}"
        connection.execute(query, _values(name, number) | {"ids": json.dumps(list(ids))})


def index_common_fields(connection: sqlite3.Connection, n_items: int) -> None:
    """Make the indexes of common fields inside a transaction, once, where a table is large.

    These are the first fields that most items have, with short values of which many are the same.
    """
    if n_items < FEWEST_ITEMS or "fields_chosen" in read_settings(connection):
        return
    write_settings(connection, fields_chosen=1)
    damaged = "SELECT 1 FROM item WHERE metadata IS NOT NULL AND NOT json_valid(metadata) LIMIT 1"
    if connection.execute(damaged).fetchone():
        return  # `verify` reports it
    query = "SELECT metadata FROM item WHERE metadata IS NOT NULL ORDER BY id DESC LIMIT ?"
    newest = [json.loads(text) for (text,) in connection.execute(query, (_SAMPLED,))]
    values: dict[str, Counter[str]] = {}
    for fields in newest:
        for name, value in fields.items():
            if _is_short(value) and paths_of(name) is not None:
                values.setdefault(name, Counter())[to_json(value)] += 1
    usual = [name for name, counts in values.items() if 2 * counts.total() > len(newest)]
    common = [name for name in usual if _REPEATED * len(values[name]) <= values[name].total()]
    for name in common[:_EARLY_FIELDS]:
        index_field(connection, name)


def leave(connection: sqlite3.Connection, ids: Sequence[int]) -> None:
    """Remove the entries of items that are about to be removed or described, inside their transaction."""
    for name, number in filtered_fields(connection).items():
        values = _values(name, number) | {"ids": json.dumps(list(ids))}
        entries = connection.execute(_sql(_ENTRIES, name, _SOME), values).fetchall()
        query = "DELETE FROM field WHERE number = ? AND element = ? AND type = ? AND value = ? AND id = ?"
        connection.executemany(query, entries)


def mask_of(
    connection: sqlite3.Connection, tree: Tree, ids: NDArray[np.int64], fields: Mapping[str, int]
) -> NDArray[np.bool_]:
    """Return for each row, by its id (increasing), whether a filter is true of it; all fields have an index.

    It says nothing of rows that were deleted.
    """
    if isinstance(tree, Leaf):
        found, are_those = _matching_ids(connection, tree, fields[tree.name])
        mask = np.full(len(ids), not are_those)
        rows = np.searchsorted(ids, found)
        there = rows < len(ids)
        rows, found = rows[there], found[there]
        mask[rows[ids[rows] == found]] = are_those
        return mask
    if isinstance(tree, Negation):
        return ~mask_of(connection, tree.part, ids, fields)
    masks = [mask_of(connection, part, ids, fields) for part in tree.parts]
    if not masks:
        return np.full(len(ids), tree.every)
    joined: NDArray[np.bool_] = (np.logical_and if tree.every else np.logical_or).reduce(masks)
    return joined


def possible_ids(connection: sqlite3.Connection, tree: Tree) -> NDArray[np.int64] | None:
    """Return the ids of items (increasing) of which a filter may be true, by the indexes; None if of any item.

    Nothing is ruled out without an index, or where a condition is true of all items but some, or of a quarter of
    them: to read many ids takes longer than to read all metadata.
    """
    (last,) = connection.execute("SELECT ifnull(max(id), -1) FROM item").fetchone()
    return _possible(connection, tree, filtered_fields(connection), 1 + (last + 1) // _PART)


def _possible(
    connection: sqlite3.Connection, tree: Tree, fields: Mapping[str, int], most: int
) -> NDArray[np.int64] | None:
    if isinstance(tree, Leaf):
        if tree.name not in fields or not can_index(tree):
            return None
        found, are_those = _matching_ids(connection, tree, fields[tree.name], most + 1)
        return np.unique(found) if are_those and len(found) <= most else None
    if isinstance(tree, Negation):
        return None
    parts = [_possible(connection, part, fields, most) for part in tree.parts]
    known = [part for part in parts if part is not None]
    if tree.every:
        return reduce(np.intersect1d, known) if known else None
    return np.unique(np.concatenate(known)) if known and len(known) == len(parts) else None


def _matching_ids(
    connection: sqlite3.Connection, leaf: Leaf, number: int, most: int = -1
) -> tuple[NDArray[np.int64], bool]:
    """Return ids of items, and whether the condition is true of these or, where it is shorter, of all others.

    With ``most`` no more of those of which it is true are read at a time.
    """
    if leaf.operator == "$exists":
        return _found(connection, number, "element = 0", []), bool(leaf.operands[0])
    if leaf.operator in _SIGNS:
        kind = "text" if isinstance(leaf.operands[0], str) else "number"
        where = f"element = 0 AND type = '{kind}' AND value {_SIGNS[leaf.operator]} json_extract(?, '$')"
        return _found(connection, number, where, [to_json(leaf.operands[0])], most), True
    if leaf.operator == "$startswith":
        begin = str(leaf.operands[0])
        where = "element = 0 AND type = 'text' AND value >= ? AND substr(value, 1, length(?)) = ?"
        after, values = _after(begin), [begin, begin, begin]
        return _found(connection, number, where + (" AND value < ?" if after else ""), values + after, most), True
    texts = [each for each in leaf.operands if isinstance(each, str)]
    numbers = [each for each in leaf.operands if isinstance(each, int | float) and not isinstance(each, bool)]
    parts, among = [np.empty(0, dtype=np.int64)], -1 if None in leaf.operands else most
    for kind, same in (("text", texts), ("number", numbers)):
        if same:
            where = f"element IN (0, 1) AND type = '{kind}' AND value IN (SELECT atom FROM json_each(?))"
            parts.append(_found(connection, number, where, [to_json(same)], among))
    for truth in (True, False):
        if any(each is truth for each in leaf.operands):
            where = f"element IN (0, 1) AND type = '{to_json(truth)}'"
            parts.append(_found(connection, number, where, [], among))
    found = np.concatenate(parts)
    if None not in leaf.operands:
        return found, True
    null = _found(connection, number, "element IN (0, 1) AND type = 'null'", [])
    there = _found(connection, number, "element = 0", [])
    return np.setdiff1d(there, np.concatenate([found, null])), False


def check_fields(connection: sqlite3.Connection) -> list[str]:
    """Return what is wrong with the indexes, compared with the metadata."""
    problems = []
    for name, number in filtered_fields(connection).items():
        values = _values(name, number)
        wanted = _sql(_ENTRIES, name, "item")
        stored = f"SELECT {_COLUMNS} FROM field WHERE number = :number"
        for one, other in ((wanted, stored), (stored, wanted)):
            differing = f"SELECT 1 FROM (SELECT * FROM ({one}) EXCEPT SELECT * FROM ({other})) LIMIT 1"
            if connection.execute(differing, values).fetchone():
                problems.append(f"The index of the field {name!r} does not match the metadata.")
                break
    return problems


def has_field(connection: sqlite3.Connection, name: str) -> bool:
    """Tell whether an item has a field."""
    number = filtered_fields(connection).get(name)
    if number is not None:
        return bool(connection.execute("SELECT 1 FROM field WHERE number = ? LIMIT 1", (number,)).fetchone())
    sql, parameters, _ = where_sql(Leaf(name, "$exists", (True,)))
    return bool(connection.execute(f"SELECT 1 FROM item WHERE {sql} LIMIT 1", parameters).fetchone())


def _is_short(value: Any) -> bool:
    """Tell whether a value, or each of the few elements of a list, takes little room in an index."""
    if isinstance(value, list):
        return len(value) <= _FEW and all(not isinstance(each, list) and _is_short(each) for each in value)
    return not isinstance(value, dict) and (not isinstance(value, str) or len(value) <= _SHORT)


def _sql(template: str, name: str, source: str) -> str:
    """Return SQL that reads the entries of a field; most names have one path, which is read in half the time."""
    return template.format(path=":path" if len(set(_paths(name))) == 1 else _EITHER, source=source)


def _values(name: str, number: int) -> dict[str, Any]:
    """Return the values of the placeholders in that SQL, for a field with its number."""
    path, other = _paths(name)
    return {"path": path, "other": other, "number": number}


def _paths(name: str) -> tuple[str, str]:
    """Return the two paths where a field may be; of a name without a dot, one twice."""
    paths = paths_of(name)
    assert paths is not None
    return paths[0], paths[-1]


def _found(
    connection: sqlite3.Connection, number: int, where: str, values: list[Any], most: int = -1
) -> NDArray[np.int64]:
    """Return ids as one text, which is read in a third of the time that an object for each takes."""
    query = f"SELECT group_concat(id) FROM (SELECT id FROM field WHERE number = ? AND {where} LIMIT ?)"
    (text,) = connection.execute(query, [number, *values, most]).fetchone()
    return np.fromstring(text or "", dtype=np.int64, sep=",")


def _after(begin: str) -> list[str]:
    """Return a string above all that begin with one; none if there is no such string."""
    text = begin.rstrip("\U0010ffff")
    if not text:
        return []
    last = ord(text[-1]) + 1
    return [text[:-1] + chr(0xE000 if last == 0xD800 else last)]
