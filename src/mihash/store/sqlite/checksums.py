"""Checksums of what is stored: of each row of vectors, of single values, and of decisions and versions.

The check of row i with id t is sum_j c_j v_ij + c_0 (t + 1) modulo 2^64, where v are the row's numbers as unsigned
integers and c odd constants. It is as fast as memory is read. A row in which one number was changed never has the
same check; any other damage goes unseen once in 2^64.

A value has a CRC-32, which is stored beside it. The tables of decisions and versions have no column for one, so
theirs are in the table `seal`. A replay reads decisions again, and a version says which mapping answers: a row of
them that was changed or lost on the disk is noticed.
"""

import sqlite3
import zlib
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore
from ...kernels import jit

SEALED = {
    "decision": "number, kind, seen, accepted, gain, current, snapshot, reason, at",
    "version": "number, status, length(mapping), fingerprint, items, seconds, at",
}
"""What is sealed of each table: the values of these columns, in this order."""

_GOLDEN = 0x9E3779B97F4A7C15


def row_checks(vectors: NDArray[np.float32] | NDArray[np.float16], ids: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Return a checksum for each row (n, d) and the id that it is stored under.

    Examples
    --------
    >>> X = np.ones((2, 3), dtype=np.float32)
    >>> same, moved = row_checks(X, np.array([1, 2])), row_checks(X, np.array([1, 3]))
    >>> (same == moved).tolist()
    [True, False]
    """
    kind = np.uint32 if vectors.dtype.itemsize == 4 else np.uint16
    checks = np.empty(len(vectors), dtype=np.uint64)
    _check(np.ascontiguousarray(vectors).view(kind), ids, _constants(vectors.shape[1] + 1), checks)
    return checks


def rows_match(
    vectors: NDArray[np.float32] | NDArray[np.float16], ids: NDArray[np.int64], checks: bytes
) -> NDArray[np.bool_]:
    """Tell for each row whether it has the checksum that was stored with it."""
    matches: NDArray[np.bool_] = row_checks(vectors, ids) == np.frombuffer(checks, dtype="<u8")
    return matches


@lru_cache(maxsize=8)
def _constants(n: int) -> NDArray[np.uint64]:
    """Return n odd numbers of 64 bits: the SplitMix64 sequence, with the last bit set."""
    z = np.arange(1, n + 1, dtype=np.uint64) * np.uint64(_GOLDEN)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    constants: NDArray[np.uint64] = (z ^ (z >> np.uint64(31))) | np.uint64(1)
    constants.setflags(write=False)
    return constants


@jit
def _check(
    words: NDArray[np.uint32],
    ids: NDArray[np.int64],
    constants: NDArray[np.uint64],
    checks: NDArray[np.uint64],
) -> None:
    n, d = words.shape
    for i in range(n):
        total = constants[0] * np.uint64(ids[i] + 1)
        for j in range(d):
            total += constants[j + 1] * np.uint64(words[i, j])
        checks[i] = total


def value_check(name: object, value: object) -> int:
    """Return the CRC-32 of a value, its type and the name or id that it is stored under.

    Examples
    --------
    >>> value_check("rows", 5) == value_check("rows", "5")
    False
    """
    return zlib.crc32(f"{name} {type(value).__name__} {value}".encode())


def value_checks(names: Iterable[object], values: Iterable[object]) -> list[int]:
    """Return `value_check` of each value.

    Examples
    --------
    >>> value_checks([7, 8], [5, None]) == [value_check(7, 5), value_check(8, None)]
    True
    """
    check = zlib.crc32
    return [
        check(f"{name} {value.__class__.__name__} {value}".encode())
        for name, value in zip(names, values, strict=True)
    ]


def seal_rows(connection: sqlite3.Connection, relation: str, numbers: Iterable[int]) -> None:
    """Seal rows as they are now, inside the transaction that has changed them."""
    query = f"SELECT {SEALED[relation]} FROM {relation} WHERE number = ?"
    rows = [connection.execute(query, (number,)).fetchone() for number in numbers]
    seals = [(relation, row[0], _crc(row)) for row in rows]
    connection.executemany("INSERT OR REPLACE INTO seal VALUES (?, ?, ?)", seals)


def check_seals(connection: sqlite3.Connection, relation: str, first: int = 0, last: int = 2**62) -> None:
    """Raise if a row with a number from ``first`` to ``last`` was changed or lost.

    A file of an older mihash that was not opened for writing since has no seals.
    """
    if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'seal'").fetchone():
        return
    between = "number BETWEEN ? AND ?"
    query = f"SELECT number, seal FROM seal WHERE relation = ? AND {between}"
    seals = dict(connection.execute(query, (relation, first, last)).fetchall())
    rows = connection.execute(f"SELECT {SEALED[relation]} FROM {relation} WHERE {between}", (first, last))
    found = {row[0]: _crc(row) for row in rows}
    for number in sorted(seals.keys() | found.keys()):
        if seals.get(number) != found.get(number):
            raise CorruptStore(f"The {relation} {number} is damaged: its checksum is wrong. Use a backup.")


def _crc(row: tuple[Any, ...]) -> int:
    return zlib.crc32(" ".join(f"{type(value).__name__} {value}" for value in row).encode())
