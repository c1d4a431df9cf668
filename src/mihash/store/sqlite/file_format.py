"""The tables of an index in SQLite, the number of their format, and the check that a file holds nothing else.

A file from elsewhere may hold triggers, views or other expressions that SQLite would run. So before anything else
is read, what `sqlite_master` says is compared, word for word, with the statements here.
"""

import sqlite3
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from ...errors import CorruptStore, UnsupportedVersion
from .checksums import SEALED, seal_rows

FORMAT = 2
_READ = (1, 2)  # formats that this version reads; an older mihash refuses a newer one

_BASE = """
CREATE TABLE setting (name TEXT PRIMARY KEY, value, seal INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE segment (
    first INTEGER PRIMARY KEY, last INTEGER NOT NULL, n INTEGER NOT NULL, ids BLOB, head BLOB NOT NULL,
    labels BLOB, digest BLOB NOT NULL, checks BLOB NOT NULL, vectors BLOB NOT NULL);
CREATE TABLE item (id INTEGER PRIMARY KEY, key NOT NULL, metadata TEXT, seal INTEGER NOT NULL);
CREATE UNIQUE INDEX item_key ON item (key);
CREATE TABLE tombstone (number INTEGER PRIMARY KEY, id INTEGER NOT NULL, seal INTEGER NOT NULL);
CREATE TABLE decision (
    number INTEGER PRIMARY KEY, kind TEXT NOT NULL, seen INTEGER NOT NULL, accepted INTEGER NOT NULL, gain REAL,
    current REAL, snapshot REAL, reason TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE version (
    number INTEGER PRIMARY KEY, status TEXT NOT NULL, mapping BLOB NOT NULL, fingerprint TEXT NOT NULL,
    items INTEGER, seconds REAL, at TEXT);
CREATE TABLE code (
    version INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, n INTEGER NOT NULL,
    digest BLOB NOT NULL, codes BLOB NOT NULL, PRIMARY KEY (version, first));
CREATE TABLE checkpoint (through INTEGER PRIMARY KEY, state BLOB NOT NULL);
CREATE TABLE source (name TEXT PRIMARY KEY, position INTEGER NOT NULL, seal INTEGER NOT NULL) WITHOUT ROWID;
"""

# What the first files of this format do not have: made when they are opened for writing.
_LATER = {
    "item_again": "CREATE UNIQUE INDEX item_again ON item (key DESC)",
    "seal": (
        "CREATE TABLE seal (relation TEXT NOT NULL, number INTEGER NOT NULL, seal INTEGER NOT NULL, "
        "PRIMARY KEY (relation, number)) WITHOUT ROWID"
    ),
    "reading": (
        "CREATE TABLE reading (source TEXT PRIMARY KEY, position INTEGER NOT NULL, details TEXT NOT NULL, "
        "seal INTEGER NOT NULL) WITHOUT ROWID"
    ),
    "filtered": (
        "CREATE TABLE filtered (number INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, seal INTEGER NOT NULL)"
    ),
    "field": (
        "CREATE TABLE field (number INTEGER NOT NULL, element INTEGER NOT NULL, type TEXT NOT NULL, "
        "value NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (number, element, type, value, id)) WITHOUT ROWID"
    ),
    "segment_head": "CREATE INDEX segment_head ON segment (first, last, n, ids, head)",
}

CLUSTER = """
CREATE TABLE shard (
    number INTEGER PRIMARY KEY, node TEXT NOT NULL, path TEXT NOT NULL, last INTEGER NOT NULL,
    applied INTEGER NOT NULL);
CREATE TABLE log (
    shard INTEGER NOT NULL, number INTEGER NOT NULL, last INTEGER NOT NULL, entry BLOB NOT NULL,
    PRIMARY KEY (shard, number));
"""
"""The further tables of a coordinator on Ray."""

EPOCHS = (
    "CREATE TABLE IF NOT EXISTS epoch (first INTEGER PRIMARY KEY, number INTEGER NOT NULL, session TEXT NOT NULL)"
)
"""Who wrote which entries of a coordinator's log; made when it is opened for writing."""

_SMALL = ("setting", "decision", "version", "checkpoint", "source", "reading", "seal")
_MASTER = "SELECT type, name, tbl_name, sql FROM sqlite_master"

Entry = tuple[str, str, str, str | None]


def create_schema(connection: sqlite3.Connection) -> None:
    """Make the tables, inside a transaction."""
    for statement in [*_BASE.split(";")[:-1], *_LATER.values()]:
        connection.execute(statement)


def complete(connection: sqlite3.Connection) -> None:
    """Make what a file of an older mihash lacks, inside a transaction."""
    found = {name for _, name, _, _ in connection.execute(_MASTER)}
    for name, statement in _LATER.items():
        if name not in found:
            connection.execute(statement)
    if "seal" not in found:
        for relation in SEALED:
            numbers = [number for (number,) in connection.execute(f"SELECT number FROM {relation}")]
            seal_rows(connection, relation, numbers)


def read_format(connection: sqlite3.Connection, path: Path) -> int:
    """Return the number of a file's format; raise where it has none, or one of a newer mihash."""
    if connection.execute(f"{_MASTER} WHERE name = 'setting'").fetchone() != _known()["setting"]:
        check_schema(connection, path)
    row = connection.execute("SELECT value FROM setting WHERE name = 'format'").fetchone()
    if row is None or row[0] is None:
        raise CorruptStore(f"{path} is not an index of mihash: it has no format number.")
    if row[0] not in _READ:
        raise UnsupportedVersion(
            f"{path.parent} has format {row[0]}, this mihash reads the formats up to {FORMAT}. Upgrade mihash."
        )
    return int(row[0])


def check_schema(connection: sqlite3.Connection, path: Path) -> None:
    """Raise if a file does not hold the tables of an index, or holds anything else."""
    known = _known()
    found: dict[str, Entry] = {entry[1]: entry for entry in connection.execute(_MASTER)}
    if not found:
        raise CorruptStore(f"{path.parent} holds an index that was not fully created. Make it again.")
    for name, entry in found.items():
        if entry != known.get(name):
            what = "differs from the one that mihash creates" if name in known else "does not belong to an index"
            raise CorruptStore(
                f"{path} is refused: its {entry[0]} {name!r} {what}. Remove it in SQLite's shell, or use a backup."
            )
    missing = _base_names() - found.keys()
    if missing:
        raise CorruptStore(f"{path} is damaged: its table {min(missing)!r} is missing. Use a backup.")
    roots = [root for (root,) in connection.execute("SELECT rootpage FROM sqlite_master")]
    if len(set(roots)) != len(roots):
        raise CorruptStore(f"{path} is damaged: two of its tables are in the same place. Use a backup.")


def check_structure(connection: sqlite3.Connection, *relations: str) -> None:
    """Raise if the pages of tables do not fit together, so that rows could be passed over in silence.

    By default those of the small tables. It reads them whole, so it is not for vectors.
    """
    present = {name for _, name, _, _ in connection.execute(_MASTER)}
    for relation in relations or _SMALL:
        if relation in present:
            (line,) = connection.execute(f"PRAGMA integrity_check({relation})").fetchone()
            if line != "ok":
                raise CorruptStore(f"The table {relation!r} is damaged: {line}. Use a backup.")


@lru_cache(maxsize=1)
def _known() -> dict[str, Entry]:
    """Return what `sqlite_master` says of each table and index that an index may have."""
    with closing(sqlite3.connect(":memory:")) as connection:
        create_schema(connection)
        connection.executescript(CLUSTER)
        connection.execute(EPOCHS)
        return {entry[1]: entry for entry in connection.execute(_MASTER)}


@lru_cache(maxsize=1)
def _base_names() -> frozenset[str]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(_BASE)
        return frozenset(name for _, name, _, _ in connection.execute(_MASTER))
