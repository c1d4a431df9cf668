"""What is exported: keys and codes of one version of an index, a batch at a time, without deleted items.

An index is opened a second time, read-only, and read inside one transaction. So an export holds a consistent
state of one version, even if others search or write meanwhile. Only codes and one batch of the rest are in memory.
An index on Ray is read through its shards instead.
"""

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import CorruptStore, InvalidInput, NotReady
from ...index.online_index import OnlineIndex
from ...mapping import HashMapping
from ...store.edition import Edition
from ...store.keys import Key, as_keys, key_array
from ...store.memory import MemoryTable
from ...store.metadata import encode_metadata
from ...store.sqlite.items import keys_of, texts_of
from ...store.sqlite.segments import Segments
from ...store.sqlite.sqlite_table import SQLiteTable

BATCH_ROWS = 65_536
BATCH_BYTES = 32 << 20
INTEGERS, STRINGS, MIXED = "integers", "strings", "mixed"


class Codes(NamedTuple):
    """Codes with what is needed to search them, as `read_parquet` and `codes_of` return them.

    Attributes
    ----------
    codes
        The packed codes (n, ceil(n_bits / 8)) in the order of addition.
    keys
        Their keys (n,): int64, or objects where there are strings among them.
    n_bits
        The code length.
    mapping
        What made the codes, and encodes queries; None for codes that were made elsewhere.
    version
        The number of the mapping in its index; None for a table in memory.

    Examples
    --------
    >>> import mihash
    >>> saved = Codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), np.array([7, 8]), n_bits=3)
    >>> table = mihash.MemoryTable.from_codes(saved.codes, saved.n_bits, saved.keys)
    >>> table.search_codes(mihash.pack([[1, 1, 0]]), k=1)[0].tolist()
    [[8]]
    """

    codes: NDArray[np.uint8]
    keys: NDArray[Any]
    n_bits: int
    mapping: HashMapping | None = None
    version: int | None = None


Source = OnlineIndex | SQLiteTable | MemoryTable | Codes


class Batch(NamedTuple):
    """Some rows: keys, packed codes, and where they were asked for metadata as JSON texts, and vectors."""

    keys: NDArray[Any]
    codes: NDArray[np.uint8]
    texts: list[str | None] | None
    vectors: NDArray[np.float32] | None


@dataclass(frozen=True)
class CodeRows:
    """Everything that is exported.

    Attributes
    ----------
    n_bits, mapping, version
        As in `Codes`.
    key_kind
        Whether the keys are integers, strings or both.
    n_features
        The dimension of the vectors, None if they were not asked for.
    has_metadata
        Whether metadata were asked for.
    batches
        The rows, in the order of addition.
    """

    n_bits: int
    mapping: HashMapping | None
    version: int | None
    key_kind: str
    n_features: int | None
    has_metadata: bool
    batches: Iterator[Batch]


def codes_of(source: Source) -> Codes:
    """Return codes, keys and mapping of a consistent state, in memory.

    Examples
    --------
    >>> import mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=["a", "b"])
    >>> saved = codes_of(table)
    >>> saved.keys.tolist(), saved.codes.ravel().tolist(), saved.n_bits
    (['a', 'b'], [4, 7], 3)
    """
    with opened(source) as rows:
        keys = [np.empty(0, dtype=np.int64 if rows.key_kind == INTEGERS else object)]
        codes = [np.empty((0, -(-rows.n_bits // 8)), dtype=np.uint8)]
        for batch in rows.batches:
            keys.append(batch.keys.astype(keys[0].dtype, copy=False))
            codes.append(batch.codes)
        return Codes(np.concatenate(codes), np.concatenate(keys), rows.n_bits, rows.mapping, rows.version)


@contextmanager
def opened(source: Source, *, metadata: bool = False, vectors: bool = False) -> Iterator[CodeRows]:
    """Yield the contents of a source as of now."""
    if isinstance(source, OnlineIndex | SQLiteTable):
        folder = source.folder if isinstance(source, OnlineIndex) else source.database.folder
        empty = source.version is None if isinstance(source, OnlineIndex) else source.mapping is None
        if empty:
            raise NotReady("There are no codes to export: add vectors first.")
        if isinstance(source, OnlineIndex) and not isinstance(source._table, SQLiteTable):
            yield _spread(source, metadata, vectors)
            return
        with _stored(folder, metadata, vectors) as rows:
            yield rows
        return
    if not isinstance(source, MemoryTable | Codes):
        raise InvalidInput(
            f"`source` must be an OnlineIndex, a MemoryTable, a SQLiteTable or Codes; got {type(source).__name__}."
        )
    if metadata:
        raise NotReady("Only an index holds metadata: leave `metadata` out.")
    X = source.state()["X"] if vectors and isinstance(source, MemoryTable) else None
    if vectors and X is None:
        raise NotReady("These codes come without vectors: leave `vectors` out.")
    if isinstance(source, MemoryTable):
        n_bits = source.edition.mapping.n_bits
        yield _held(Codes(source.codes, source.keys, n_bits, source.mapping), X)
    else:
        codes = validation.packed("codes", source.codes, source.n_bits)
        yield _held(source._replace(codes=codes, keys=key_array(as_keys(source.keys, len(codes)))), X)


def _held(held: Codes, X: NDArray[np.float32] | None) -> CodeRows:
    """Return what is in memory as rows."""
    size = _batch_rows(0 if X is None else X.shape[1])
    parts = [slice(start, start + size) for start in range(0, len(held.codes), size)]
    batches = (Batch(held.keys[at], held.codes[at], None, None if X is None else X[at]) for at in parts)
    n_features = None if X is None else int(X.shape[1])
    return CodeRows(held.n_bits, held.mapping, held.version, _key_kind(held.keys), n_features, False, batches)


def _spread(index: OnlineIndex, metadata: bool, vectors: bool) -> CodeRows:
    """Return what the shards of an index hold, read from them a batch at a time and encoded here.

    The items are those of this moment. One that is deleted while it is read is an error.
    """
    version = index.version
    if version is None:
        raise NotReady("There are no codes to export: add vectors first.")
    mapping, keys = index._table.mapping_of(version), index.keys()

    def batches() -> Iterator[Batch]:
        size = _batch_rows(mapping.n_features)
        for start in range(0, len(keys), size):
            items = index.get(keys[start : start + size])
            X = np.stack([item.vector for item in items]).astype(np.float32, copy=False)
            found = [None if item.metadata is None else encode_metadata(item.metadata) for item in items]
            names = key_array([item.key for item in items])
            yield Batch(names, mapping.encode(X), found if metadata else None, X if vectors else None)

    n_features = mapping.n_features if vectors else None
    return CodeRows(mapping.n_bits, mapping, version, _key_kind(keys), n_features, metadata, batches())


def _key_kind(keys: Sequence[Key] | NDArray[Any]) -> str:
    """Tell whether keys are integers, strings or both."""
    if isinstance(keys, np.ndarray) and keys.dtype.kind == "i":
        return INTEGERS
    n_texts = sum(isinstance(key, str) for key in keys)
    return INTEGERS if not n_texts else STRINGS if n_texts == len(keys) else MIXED


@contextmanager
def _stored(folder: Path, metadata: bool, vectors: bool) -> Iterator[CodeRows]:
    """Give what a folder holds, all of it from one transaction."""
    with closing(SQLiteTable(folder, read_only=True)) as table, table.database.read() as connection:
        edition = table.edition  # the first look at a table that was just opened is into the transaction
        if edition is None:
            raise NotReady("There are no codes to export: add vectors first.")
        plain = bool(table.setting("plain_keys"))
        ends = [f"SELECT typeof(key) FROM item ORDER BY key {way} LIMIT 1" for way in ("ASC", "DESC")]
        kinds = {kind for query in ends for (kind,) in connection.execute(query)}  # integers stand before texts
        kind = MIXED if len(kinds) > 1 else STRINGS if kinds == {"text"} else INTEGERS
        d = edition.mapping.n_features if vectors else None

        def batches() -> Iterator[Batch]:
            pieces = None if d is None else _Vectors(table.segments, d)
            for ids, codes in _live(edition, _batch_rows(d or 0)):
                try:
                    found = None if plain else keys_of(connection, ids)
                    keys = ids if found is None else key_array([found[number] for number in ids.tolist()])
                    texts = texts_of(connection, ids.tolist()) if metadata else None
                except KeyError as error:
                    raise CorruptStore(
                        f"No key is stored for row {error}. Run `verify`, or use a backup."
                    ) from error
                yield Batch(keys, codes, texts, None if pieces is None else pieces.of(ids))

        yield CodeRows(edition.mapping.n_bits, edition.mapping, edition.version, kind, d, metadata, batches())


def _live(edition: Edition, size: int) -> Iterator[tuple[NDArray[np.int64], NDArray[np.uint8]]]:
    """Yield ids and codes of the rows that were not deleted."""
    for start in range(0, edition.n, size):
        part = slice(start, min(start + size, edition.n))
        kept = ~edition.dead[part]
        if kept.any():
            yield edition.ids[part][kept], edition.codes(part.start, part.stop)[kept]


class _Vectors:
    """The vectors of rows that are asked for in the order of their ids, each segment read once."""

    def __init__(self, segments: Segments, n_features: int) -> None:
        self._segments = segments.after(-1, None, n_features)
        self._n_features = n_features
        self._ids: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        self._features: NDArray[np.float32] = np.empty((0, n_features), dtype=np.float32)

    def of(self, ids: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return the vectors (n, d) of rows that come after those before."""
        vectors = np.empty((len(ids), self._n_features), dtype=np.float32)
        done = 0
        while done < len(ids):
            last = int(self._ids[-1]) if len(self._ids) else -1
            end = int(np.searchsorted(ids, last, side="right"))
            rows = np.searchsorted(self._ids, ids[done:end])
            if not np.array_equal(self._ids[rows], ids[done:end]):
                raise CorruptStore(f"Vectors near row {ids[done]} are missing. Use a backup.")
            vectors[done:end] = self._features[rows]
            done = max(done, end)
            if done < len(ids):
                segment = next(self._segments, None)
                if segment is None:
                    raise CorruptStore(f"Vectors from row {ids[done]} on are missing. Use a backup.")
                self._ids, self._features = segment.ids, segment.features
        return vectors


def _batch_rows(n_features: int) -> int:
    """Return how many rows make a batch of at most 32 MiB, or of 1,024 rows where they are very wide."""
    return max(1024, min(BATCH_ROWS, BATCH_BYTES // (4 * max(n_features, 1))))
