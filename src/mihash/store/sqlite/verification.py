"""Checks every byte that a checksum covers, and a sample of the codes."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, MIHashError
from ...mapping import HashMapping
from ...search import as_codes
from ..edition import CODE_ROWS, Edition, read_codes
from .checksums import SEALED, check_seals
from .code_versions import kept_mappings, mapping_of
from .database import Database
from .field_index import check_fields
from .items import check_items, removed_items
from .segments import LabelKind, Segments
from .settings import read_settings, with_factors

_ROUNDING = 1e-3  # of a typical value: float32 leaves errors far below it, and damage is rarely so small


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
    with database.read() as connection:  # each transaction as short as can be: it holds the log
        lines = [line for (line,) in connection.execute("PRAGMA integrity_check").fetchall()]
        problems += [f"SQLite: {line}" for line in lines if line != "ok"]
    with database.read() as connection:
        ids = segments.ids(connection)
        _check_keys(connection, ids, problems)
        with _listed(problems):
            problems += check_fields(connection)
        checked = {"items": 0, "versions": _versions(connection, ids, problems), "rows": 0, "codes": 0}
    for start in range(0, len(ids), CODE_ROWS):
        with _listed(problems), database.read() as connection:
            checked["items"] += check_items(connection, ids[start : start + CODE_ROWS])
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
                stored = as_codes(edition.columns[places], edition.mapping.n_bits)
                wrong = _mismatched(edition.mapping, mine.features, stored)
                checked["codes"] += len(mine)
                problems += [f"The code of row {row} does not match its vector." for row in mine.ids[wrong][:1]]
    database.trim_log()
    if problems:
        raise CorruptStore(f"{database.folder} is damaged: " + "; ".join(problems))
    return checked


def _mismatched(mapping: HashMapping, X: NDArray[np.float32], stored: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Tell of each row whether its stored code is not that of its vector, by more than rounding.

    A code may have been made on another processor by a mapping whose values end in other last bits there, so that
    the sign of a value next to 0 is another one.
    """
    differs = np.unpackbits(
        mapping.encode_rows(X) ^ stored, axis=1, count=mapping.n_bits, bitorder="little"
    ).astype(np.bool_)
    if not differs.any():
        return np.zeros(len(X), dtype=np.bool_)
    values = np.abs(mapping.project(X))
    mismatched: NDArray[np.bool_] = (differs & (values > _ROUNDING * np.median(values))).any(axis=1)
    return mismatched


def _check_keys(connection: sqlite3.Connection, ids: NDArray[Any], problems: list[str]) -> None:
    settings = read_settings(connection)
    with _listed(problems):
        dead = removed_items(connection, settings.get("purged", 0), settings.get("tombstones", 0))
        named = [row[0] for row in connection.execute("SELECT id FROM item")]
        if sorted(dead + named) != ids.tolist():
            problems.append(f"{len(named)} keys and {len(dead)} deletions do not make up the {len(ids)} rows.")


def _versions(connection: sqlite3.Connection, ids: NDArray[Any], problems: list[str]) -> int:
    for relation in SEALED:
        with _listed(problems):
            check_seals(connection, relation)
    numbers, factors = kept_mappings(connection), with_factors(read_settings(connection))
    for number in numbers:
        with _listed(problems, f"Version {number}: "):
            empty = Edition.empty(number, mapping_of(connection, number), factors=factors)
            _, damage = read_codes(connection, empty, ids)
            problems += [] if damage is None else [str(damage)]
    return len(numbers)


@contextmanager
def _listed(problems: list[str], place: str = "") -> Iterator[None]:
    """Append an error to the problems, and go on."""
    try:
        yield
    except MIHashError as error:
        problems.append(f"{place}{error}")
