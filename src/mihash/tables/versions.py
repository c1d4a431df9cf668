"""The versions of a hash table: each a mapping, with what became of it.

A version waits to be built, then it is published, or superseded by a newer one before its turn came.
"""

import sqlite3
from datetime import UTC, datetime
from typing import Any

from .. import state as saved
from ..errors import CorruptStore, UnknownName
from ..mapping import HashMapping, mapping_from_state

__all__ = [
    "mapping_of",
    "mark_published",
    "now",
    "propose",
    "propose_newest",
    "published_versions",
    "waiting_version",
]


def now() -> str:
    """Return the time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def propose(connection: sqlite3.Connection, number: int, mapping: HashMapping) -> None:
    """Store a mapping as the version that is to be built next; those that wait are superseded."""
    connection.execute("UPDATE version SET status = 'superseded' WHERE status = 'waiting'")
    connection.execute(
        "INSERT OR REPLACE INTO version (number, status, mapping, fingerprint, at) VALUES (?, ?, ?, ?, ?)",
        (number, "waiting", saved.dump(mapping.state()), mapping.fingerprint, now()),
    )


def propose_newest(connection: sqlite3.Connection, published: int | None) -> None:
    """Have the newest version built, where another one is published."""
    (newest,) = connection.execute("SELECT max(number) FROM version").fetchone()
    if newest is not None and newest != published:
        connection.execute("UPDATE version SET status = 'waiting' WHERE number = ?", (newest,))


def waiting_version(connection: sqlite3.Connection) -> int | None:
    """Return the number of the version that is to be built next, None where there is none."""
    number: int | None = connection.execute("SELECT max(number) FROM version WHERE status = 'waiting'").fetchone()[
        0
    ]
    return number


def mark_published(connection: sqlite3.Connection, number: int, n_items: int, seconds: float) -> None:
    """Write down that a version answers from now on, and what it cost."""
    connection.execute(
        "UPDATE version SET status = 'published', items = ?, seconds = ?, at = ? WHERE number = ?",
        (n_items, seconds, now(), number),
    )


def published_versions(connection: sqlite3.Connection) -> list[dict[str, Any]]:
    """Return the versions that have answered queries, each with what it took to make it."""
    cursor = connection.execute(
        "SELECT v.number, d.kind, d.seen, v.items, v.seconds, v.at FROM version v LEFT JOIN decision d "
        "USING (number) WHERE v.items IS NOT NULL ORDER BY v.number"
    )
    names = [each[0] for each in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def mapping_of(connection: sqlite3.Connection, number: int) -> HashMapping:
    """Return the mapping of a version."""
    row = connection.execute("SELECT mapping, fingerprint FROM version WHERE number = ?", (number,)).fetchone()
    if row is None:
        known = [str(each[0]) for each in connection.execute("SELECT number FROM version ORDER BY number")]
        raise UnknownName(f"There is no version {number}; known: {', '.join(known) or 'none'}.")
    mapping = mapping_from_state(saved.load(row[0]))
    if mapping.fingerprint != row[1]:
        raise CorruptStore(f"The mapping of version {number} is damaged: its fingerprint is wrong. Use a backup.")
    return mapping
