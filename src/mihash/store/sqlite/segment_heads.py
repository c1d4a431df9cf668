"""The heads of segments: which rows each one holds, sealed by a digest."""

import hashlib
import sqlite3

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore

HEADS = "SELECT first, last, n, ids, head FROM segment{} ORDER BY first"
"""The heads of the segments that match what is put in, in order."""


def has_head_index(connection: sqlite3.Connection) -> bool:
    """Tell whether heads can be read without the vectors; older files get that index when they are written to."""
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'segment_head'").fetchone()
    return found is not None


def head_of(first: int, last: int, n: int, packed: bytes | None) -> bytes:
    """Return the digest of a head: first and last row, how many there are, and their ids where there are gaps."""
    header = f"{first} {last} {n} {packed is None}".encode()
    return hashlib.blake2b(header + (packed or b""), digest_size=16).digest()


def ids_of(first: int, last: int, n: int, packed: bytes | None, head: bytes) -> NDArray[np.int64]:
    """Return the ids of a segment's rows, or raise if its head is damaged."""
    if head != head_of(first, last, n, packed):
        raise CorruptStore(damaged(first))
    return unpacked_ids(first, n, packed)


def unpacked_ids(first: int, n: int, packed: bytes | None) -> NDArray[np.int64]:
    """Return the ids of n rows: consecutive ones, unless they are stored."""
    if packed is None:
        return np.arange(first, first + n)
    return np.frombuffer(packed, dtype="<i8").astype(np.int64)


def damaged(first: int) -> str:
    """Return the message for a segment whose checksum is wrong."""
    return f"Stored vectors near row {first} are damaged: their checksum is wrong. Use a backup."
