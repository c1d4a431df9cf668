"""An edition of the hash table: all codes under one mapping, as a value that a reader can hold on to.

Rows are appended behind the end that a reader knows of, deletions are made in a copy, and a new mapping makes a
new edition. So a reader with an edition answers from one version, while others change the table.
"""

import hashlib
import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..codes import bit_entropy
from ..errors import CorruptStore
from ..mapping import HashMapping
from ..mapping.factors import N_FACTORS, factors_of
from ..search import Bitmap, Columns, Searcher, as_bitmap, as_codes, as_columns, empty_columns

CODE_ROWS = 65_536
_COUNTED = 2048  # codes that are looked at to tell how much they say


@dataclass(frozen=True)
class Published:
    """The version that answers, in numbers, of a table whose codes are on other machines."""

    version: int
    mapping: HashMapping
    n_items: int
    n_dead: int
    has_factors: bool = False


@dataclass(frozen=True)
class Edition:
    """Codes of all rows under one mapping.

    Attributes
    ----------
    version
        The number of the mapping.
    mapping
        What made the codes, and encodes queries.
    n
        How many rows there are; the arrays may be longer.
    ids_, columns_, dead_
        The rows' sequence numbers (increasing), codes as columns of words, and which rows were deleted.
    searcher
        What is known of the codes for searching; editions that begin with the same codes share it.
    n_dead
        How many were deleted.
    n_tombstones
        How many deletions, of any time, it knows of.
    n_purges
        How often deleted rows were purged before it.
    n_described
        How many changes of metadata alone, of any time, it knows of.
    factors_
        Two bytes of each row (`mihash.mapping.factors`), or none (n, 0).
    """

    version: int
    mapping: HashMapping
    n: int
    ids_: NDArray[np.int64]
    columns_: Columns
    dead_: NDArray[np.bool_]
    searcher: Searcher
    n_dead: int = 0
    n_tombstones: int = 0
    n_purges: int = 0
    n_described: int = 0
    factors_: NDArray[np.uint8] = field(default_factory=lambda: np.empty((0, 0), dtype=np.uint8))

    @classmethod
    def empty(cls, version: int, mapping: HashMapping, capacity: int = 0, factors: bool = False) -> "Edition":
        """Return an edition without rows; with ``factors``, two more bytes are kept where the mapping has them."""
        return cls(
            version,
            mapping,
            0,
            np.empty(capacity, dtype=np.int64),
            empty_columns(capacity, mapping.n_bits),
            np.zeros(capacity, dtype=np.bool_),
            Searcher(mapping.n_bits),
            factors_=np.empty((capacity, N_FACTORS if factors and mapping.has_factors else 0), dtype=np.uint8),
        )

    @property
    def ids(self) -> NDArray[np.int64]:
        """The sequence numbers of the rows."""
        return self.ids_[: self.n]

    @property
    def columns(self) -> Columns:
        """The codes of the rows as columns of words."""
        return self.columns_[: self.n]

    @property
    def factors(self) -> NDArray[np.uint8]:
        """The two bytes of the rows (n, 2), or none (n, 0)."""
        return self.factors_[: self.n]

    @property
    def has_factors(self) -> bool:
        """Whether rows have two bytes more."""
        return bool(self.factors_.shape[1])

    @property
    def dead(self) -> NDArray[np.bool_]:
        """Which rows were deleted."""
        return self.dead_[: self.n]

    @cached_property
    def live(self) -> Bitmap | None:
        """Which rows were not deleted, as a bitmap; None if none was."""
        return as_bitmap(~self.dead) if self.n_dead else None

    @property
    def last(self) -> int:
        """The last sequence number, -1 if there are no rows."""
        return int(self.ids_[self.n - 1]) if self.n else -1

    @property
    def n_items(self) -> int:
        """How many rows were not deleted."""
        return self.n - self.n_dead

    def appended(self, ids: NDArray[np.int64], rows: NDArray[np.uint8]) -> "Edition":
        """Return the edition with more rows: codes, and factors behind them. Only its newest holder may append."""
        n, n_bytes = self.n + len(ids), -(-self.mapping.n_bits // 8)
        codes, factors = rows[:, :n_bytes], rows[:, n_bytes:]
        return replace(
            self,
            n=n,
            ids_=appended(self.ids_, self.n, ids),
            columns_=appended(self.columns_, self.n, as_columns(codes), order="F"),
            dead_=appended(self.dead_, self.n, np.zeros(len(ids), dtype=np.bool_)),
            factors_=appended(self.factors_, self.n, factors) if self.has_factors else self.factors_,
        )

    def encoded(self, ids: NDArray[np.int64], X: NDArray[np.float32]) -> "Edition":
        """Return the edition with more rows, whose vectors are encoded with its mapping."""
        codes = self.mapping.encode_rows(X)
        if not self.has_factors:
            return self.appended(ids, codes)
        return self.appended(ids, np.concatenate([codes, factors_of(self.mapping.margins(X), X.shape[1])], axis=1))

    def without(self, ids: Sequence[int] | NDArray[np.int64], n_tombstones: int | None = None) -> "Edition":
        """Return the edition with some rows marked as deleted; ``n_tombstones`` counts all deletions."""
        rows = self.places(np.asarray(ids, dtype=np.int64))
        dead = self.dead_.copy()
        dead[rows] = True
        n_dead = int(np.count_nonzero(dead[: self.n]))
        known = self.n_tombstones if n_tombstones is None else n_tombstones
        return replace(self, dead_=dead, n_dead=n_dead, n_tombstones=known)

    def with_deletions_of(self, other: "Edition") -> "Edition":
        """Return the edition with those rows deleted that are in another edition of the same rows."""
        dead = np.zeros(len(self.ids_), dtype=np.bool_)
        dead[: self.n] = other.dead
        return replace(
            self,
            dead_=dead,
            n_dead=other.n_dead,
            n_tombstones=other.n_tombstones,
            n_purges=other.n_purges,
            n_described=other.n_described,
        )

    def places(self, ids: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return where rows stand; those that are not there are left out."""
        rows = np.searchsorted(self.ids, ids)
        rows = rows[rows < self.n]
        return rows[np.isin(self.ids[rows], ids)]

    def purged(self) -> "Edition":
        """Return the edition without the rows that were deleted."""
        kept = ~self.dead
        n = int(np.count_nonzero(kept))
        return replace(
            self,
            n=n,
            ids_=self.ids[kept],
            columns_=np.asfortranarray(self.columns[kept]),
            dead_=np.zeros(n, dtype=np.bool_),
            factors_=self.factors[kept] if self.has_factors else self.factors_,
            searcher=Searcher(self.mapping.n_bits),
            n_dead=0,
            n_purges=self.n_purges + 1,
        )

    def codes(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """Return the packed codes of some rows."""
        return as_codes(self.columns[start:stop], self.mapping.n_bits)

    def rows(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Return some rows as they are stored: codes, and factors behind them."""
        codes = self.codes(start, stop)
        return np.concatenate([codes, self.factors[start:stop]], axis=1) if self.has_factors else codes

    def code_sample(self) -> dict[str, Any]:
        """Return how many codes were looked at, how many are distinct, and the mean entropy of a bit."""
        rows = np.linspace(0, self.n - 1, min(self.n, _COUNTED)).astype(np.int64)
        codes = as_codes(self.columns[rows], self.mapping.n_bits)
        return {
            "codes_sampled": len(codes),
            "codes_distinct": len(np.unique(codes, axis=0)),
            "bit_entropy": bit_entropy(codes, self.mapping.n_bits),
        }


def write_codes(connection: sqlite3.Connection, edition: Edition, start: int) -> None:
    """Store the codes of all rows from ``start`` on, inside a transaction."""
    for begin in range(start, edition.n, CODE_ROWS):
        end = min(begin + CODE_ROWS, edition.n)
        ids = edition.ids[begin:end]
        blob = np.ascontiguousarray(edition.rows(begin, end)).tobytes()
        connection.execute(
            "INSERT OR REPLACE INTO code (version, first, last, n, digest, codes) VALUES (?, ?, ?, ?, ?, ?)",
            (edition.version, int(ids[0]), int(ids[-1]), len(ids), _digest(edition, ids, blob), blob),
        )


def read_codes(
    connection: sqlite3.Connection, edition: Edition, ids: NDArray[np.int64]
) -> tuple[Edition, CorruptStore | None]:
    """Return an empty edition filled with its stored codes, for rows with these ids, and what was found damaged.

    Codes can be made again from the vectors, so reading stops at damage; the rows from there on are left out.
    """
    query = "SELECT first, last, n, digest, codes FROM code WHERE version = ? ORDER BY first"
    n_bytes = -(-edition.mapping.n_bits // 8) + edition.factors_.shape[1]
    for first, last, n, digest, blob in connection.execute(query, (edition.version,)):
        rows = ids[edition.n : edition.n + n]
        placed = n and len(rows) == n and (rows[0], rows[-1]) == (first, last)
        if not placed or len(blob) != n * n_bytes or not _is_digest(digest, edition, rows, blob):
            return edition, CorruptStore(
                f"The codes of version {edition.version} from row {first} on are damaged: their checksum is wrong."
            )
        edition = edition.appended(rows, np.frombuffer(blob, dtype=np.uint8).reshape(n, n_bytes))
    return edition, None


def _is_digest(digest: bytes, edition: Edition, ids: NDArray[np.int64], blob: bytes) -> bool:
    """Tell whether codes are those of these rows; older indexes have digests without the ids."""
    return any(digest == _digest(edition, ids, blob, with_ids) for with_ids in (True, False))


def _digest(edition: Edition, ids: NDArray[np.int64], blob: bytes, with_ids: bool = True) -> bytes:
    first, last, n = int(ids[0]), int(ids[-1]), len(ids)
    header = f"{edition.version} {edition.mapping.fingerprint} {first} {last} {n}".encode()
    gaps = with_ids and last - first + 1 != n  # without gaps, first and last say it all
    return hashlib.blake2b(header + (ids.astype("<i8").tobytes() if gaps else b"") + blob, digest_size=16).digest()


def appended(buffer: NDArray[Any], n: int, rows: NDArray[Any], order: Literal["C", "F"] = "C") -> NDArray[Any]:
    """Return a buffer that holds its first n rows and then the new ones, grown by half when it is full.

    It lies in memory row by row, or column by column for the order "F".
    The first n rows are never written to, so others can go on reading them.

    Examples
    --------
    >>> appended(np.array([1, 2, 0]), 2, np.array([3]))
    array([1, 2, 3])
    """
    needed = n + len(rows)
    if needed > len(buffer):
        shape = (max(needed, len(buffer) + len(buffer) // 2), *buffer.shape[1:])
        grown = np.empty(shape, dtype=buffer.dtype, order=order)
        grown[:n] = buffer[:n]
        buffer = grown
    buffer[n:needed] = rows
    return buffer
