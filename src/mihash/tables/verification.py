"""Looks at every byte that a checksum covers, and at a sample of the codes."""

import sqlite3
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import CorruptStore, MIHashError
from ..search import as_columns
from .database import Database
from .edition import CODE_ROWS, Edition, read_codes
from .items import check_items, removed_items
from .seals import SEALED, check_seals
from .segments import LabelKind, Segments
from .settings import read_settings
from .versions import mapping_of

__all__ = ["verify"]


def verify(
    database: Database,
    segments: Segments,
    edition: Edition | None,
    kind: LabelKind | None,
    n_features: int,
    n_sample: int,
) -> dict[str, int]:
    """Return how much was checked, or raise `CorruptStore` with everything that is wrong."""
    problems: list[str] = []
    with database.read() as connection:
        lines = [line for (line,) in connection.execute("PRAGMA integrity_check").fetchall()]
        problems += [f"SQLite: {line}" for line in lines if line != "ok"]
        ids = segments.ids(connection)
        checked: dict[str, int] = {"items": _items(connection, ids, problems)}
        checked["versions"] = _versions(connection, ids, problems)
    checked["rows"], checked["codes"] = 0, 0
    chosen = np.sort(np.random.default_rng(0).permutation(len(ids))[:n_sample])
    for segment in segments.each(kind, n_features):
        if isinstance(segment, CorruptStore):
            problems.append(str(segment))
            continue
        checked["rows"] += len(segment)
        if edition is not None:
            mine = segment.part(np.isin(segment.ids, ids[chosen]))
            places = edition.places(mine.ids)
            if len(places) == len(mine):
                again = as_columns(edition.mapping.encode_rows(mine.features))
                wrong = (again != edition.columns[places]).any(axis=1)
                checked["codes"] += len(mine)
                problems += [f"The code of row {row} does not match its vector." for row in mine.ids[wrong][:1]]
    if problems:
        raise CorruptStore(f"{database.folder} is damaged: " + "; ".join(problems))
    return checked


def _items(connection: sqlite3.Connection, ids: NDArray[Any], problems: list[str]) -> int:
    found = 0
    settings = read_settings(connection)
    try:
        dead = removed_items(connection, settings.get("purged", 0), settings.get("tombstones", 0))
        named = [row[0] for row in connection.execute("SELECT id FROM item")]
        if sorted(dead + named) != ids.tolist():
            problems.append(f"{len(named)} keys and {len(dead)} deletions do not make up the {len(ids)} rows.")
    except CorruptStore as error:
        problems.append(str(error))
    for start in range(0, len(ids), CODE_ROWS):
        try:
            found += check_items(connection, ids[start : start + CODE_ROWS])
        except CorruptStore as error:
            problems.append(str(error))
    return found


def _versions(connection: sqlite3.Connection, ids: NDArray[Any], problems: list[str]) -> int:
    for relation in SEALED:
        try:
            check_seals(connection, relation)
        except CorruptStore as error:
            problems.append(str(error))
    kept = "SELECT number FROM version WHERE length(mapping) > 0"
    numbers = [number for (number,) in connection.execute(kept).fetchall()]
    for number in numbers:
        try:
            mapping = mapping_of(connection, number)
        except MIHashError as error:
            problems.append(f"Version {number}: {error}")
            continue
        _, damage = read_codes(connection, Edition.empty(number, mapping), ids)
        problems += [] if damage is None else [str(damage)]
    return len(numbers)
