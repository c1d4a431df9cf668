"""The versions of the codes: each a mapping, with what became of it.

A version waits to be built, then it is published, or superseded by a newer one before its turn came. Its row
stays; its mapping is dropped when neither a rollback nor a replay needs it.
"""

import sqlite3
from dataclasses import dataclass
from datetime import UTC, datetime

from ... import state as saved
from ...errors import CorruptStore, MIHashError, UnknownName
from ...mapping import HashMapping, mapping_from_state
from ...records import Record
from .checksums import check_seals, seal_rows

KEPT_MAPPINGS = 16
"""How many of the newest versions keep their mappings for a rollback, and of those that have answered."""


@dataclass(frozen=True)
class Version(Record):
    """A version that has answered queries.

    Attributes
    ----------
    number
        Its number, which is also that of the decision that accepted it.
    kind, seen
        What that decision was, and how many examples had been learned from; None if there was none.
    items, seconds
        How many codes were made, and how long that took.
    at
        When it was published, in UTC.
    """

    number: int
    kind: str | None
    seen: int | None
    items: int
    seconds: float
    at: str


def now() -> str:
    """Return the time as text, in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def propose(connection: sqlite3.Connection, number: int, mapping: HashMapping) -> None:
    """Store a mapping as the version that is to be built next; those that wait are superseded."""
    waiting = [row[0] for row in connection.execute("SELECT number FROM version WHERE status = 'waiting'")]
    connection.execute("UPDATE version SET status = 'superseded' WHERE status = 'waiting'")
    connection.execute(
        "INSERT OR REPLACE INTO version (number, status, mapping, fingerprint, at) VALUES (?, ?, ?, ?, ?)",
        (number, "waiting", saved.dump(mapping.state()), mapping.fingerprint, now()),
    )
    seal_rows(connection, "version", {*waiting, number})


def propose_newest(connection: sqlite3.Connection, published: int | None) -> None:
    """Have the newest version built, where another one is published."""
    (newest,) = connection.execute("SELECT max(number) FROM version").fetchone()
    if newest is not None and newest != published:
        connection.execute("UPDATE version SET status = 'waiting' WHERE number = ?", (newest,))
        seal_rows(connection, "version", [newest])


def waiting_version(connection: sqlite3.Connection) -> int | None:
    """Return the number of the version that is to be built next, None if there is none."""
    check_seals(connection, "version")
    number: int | None = connection.execute("SELECT max(number) FROM version WHERE status = 'waiting'").fetchone()[
        0
    ]
    return number


def mark_published(
    connection: sqlite3.Connection, number: int, mapping: HashMapping, n_items: int, seconds: float
) -> None:
    """Write down that a version answers from now on, and what it cost.

    With its mapping, which may have been dropped: a version that is superseded while it is built does not wait.
    """
    connection.execute(
        "UPDATE version SET status = 'published', mapping = ?, items = ?, seconds = ?, at = ? WHERE number = ?",
        (saved.dump(mapping.state()), n_items, seconds, now(), number),
    )
    seal_rows(connection, "version", [number])


def drop_mappings(connection: sqlite3.Connection, published: int | None, first: int | None = None) -> None:
    """Drop the mappings of old versions, inside a transaction.

    Kept are those of the versions that answer or wait, of the newest 16, of the newest 16 that have answered, and
    of every version from decision ``first`` on; by default from the first one that a replay may come to.
    """
    query = (
        "SELECT number FROM version WHERE length(mapping) > 0 AND status <> 'waiting' AND number IS NOT ? "
        "AND number NOT IN (SELECT number FROM version ORDER BY number DESC LIMIT ?) "
        "AND number NOT IN (SELECT number FROM version WHERE items IS NOT NULL ORDER BY number DESC LIMIT ?)"
    )
    old = [number for (number,) in connection.execute(query, (published, KEPT_MAPPINGS, KEPT_MAPPINGS))]
    if old:
        first = _replayed_from(connection) if first is None else first
        old = [number for number in old if number < first]
        connection.executemany("UPDATE version SET mapping = x'' WHERE number = ?", [(number,) for number in old])
        seal_rows(connection, "version", old)


def _replayed_from(connection: sqlite3.Connection) -> int:
    """Return the number of the first decision after the oldest checkpoint, 0 if it cannot be read."""
    row = connection.execute("SELECT state FROM checkpoint ORDER BY through LIMIT 1").fetchone()
    try:
        return 0 if row is None else int(saved.load(row[0])["n_events"])
    except MIHashError:
        return 0


def published_versions(connection: sqlite3.Connection) -> list[Version]:
    """Return the versions that have answered queries, in order."""
    check_seals(connection, "version")
    rows = connection.execute(
        "SELECT v.number, d.kind, d.seen, v.items, v.seconds, v.at FROM version v LEFT JOIN decision d "
        "USING (number) WHERE v.items IS NOT NULL ORDER BY v.number"
    ).fetchall()
    for number, *_ in rows:
        check_seals(connection, "decision", number, number)
    return [Version(*row) for row in rows]


def kept_mappings(connection: sqlite3.Connection) -> list[int]:
    """Return the numbers of the versions whose mappings were not dropped, in order."""
    query = "SELECT number FROM version WHERE length(mapping) > 0 ORDER BY number"
    return [number for (number,) in connection.execute(query)]


def mapping_of(connection: sqlite3.Connection, number: int) -> HashMapping:
    """Return the mapping of a version."""
    check_seals(connection, "version", number, number)
    row = connection.execute("SELECT mapping, fingerprint FROM version WHERE number = ?", (number,)).fetchone()
    if row is None or not row[0]:
        known = ", ".join(map(str, kept_mappings(connection))) or "none"
        what = f"There is no version {number}" if row is None else f"The mapping of version {number} was dropped"
        raise UnknownName(f"{what}; known: {known}.")
    mapping = mapping_from_state(saved.load(row[0]))
    if mapping.fingerprint != row[1]:
        raise CorruptStore(f"The mapping of version {number} is damaged: its fingerprint is wrong. Use a backup.")
    return mapping
