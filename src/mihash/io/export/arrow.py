"""Codes as an Arrow table or a Parquet file that holds all that a search needs, the mapping included.

Columns: ``key`` (int64; string; or, where integers and strings are mixed, a string of JSON each), ``code``
(fixed-size binary, bit 0 first) and, where they are asked for, ``metadata`` (JSON text) and ``vector`` (fixed-size
list of float32). The schema's metadata say the rest; docs/export.md lists them.
"""

import base64
import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import state, validation
from ...errors import CorruptStore, InvalidInput, MIHashError, StoreError, UnsupportedVersion
from ...extras import load_extra
from ...mapping import HashMapping, mapping_from_state
from ...state import replacing
from ...store.keys import as_keys, key_array
from .code_rows import INTEGERS, MIXED, STRINGS, Batch, CodeRows, Codes, Source, opened

FORMAT = 1
_PREFIX = "mihash."
_PYARROW = ("pyarrow", "pyarrow.parquet")
_LONGEST_TEXT = 2**31 - 1  # a mapping may be longer than what pyarrow reads unasked


def to_arrow(source: Source, *, metadata: bool = False, vectors: bool = False) -> Any:
    r"""Return keys and codes as a ``pyarrow.Table``, with the mapping in its schema.

    Parameters
    ----------
    source
        An index, a hash table, or `Codes`. A consistent state of an index is exported; it can be used meanwhile.
    metadata
        Whether the items' metadata become a column of JSON texts; of an index only.
    vectors
        Whether the vectors become a column, as float32.

    Examples
    --------
    >>> import mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=["a", "b"])
    >>> to_arrow(table).to_pylist()
    [{'key': 'a', 'code': b'\x04'}, {'key': 'b', 'code': b'\x07'}]
    """
    arrow = load_extra("arrow", "Arrow tables need pyarrow", *_PYARROW)
    with opened(source, metadata=metadata, vectors=vectors) as rows:
        schema = _schema(arrow, rows)
        return arrow.Table.from_batches(_record_batches(arrow, rows, schema), schema)


def to_parquet(
    source: Source, path: str | os.PathLike[str], *, metadata: bool = False, vectors: bool = False
) -> int:
    """Write keys, codes and the mapping to a Parquet file, a batch at a time, and return how many items it holds.

    It is written to a temporary file, which replaces ``path`` when it is complete and on the disk.

    Parameters
    ----------
    source, metadata, vectors
        As in `to_arrow`.
    path
        The file; one that is there is replaced.

    Examples
    --------
    >>> import tempfile, mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=["a", "b"])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_items = to_parquet(table, f"{folder}/codes.parquet")
    ...     saved = read_parquet(f"{folder}/codes.parquet")
    >>> n_items, saved.keys.tolist(), saved.n_bits
    (2, ['a', 'b'], 3)
    """
    with opened(source, metadata=metadata, vectors=vectors) as rows:
        return write_rows(rows, path)


def write_rows(rows: CodeRows, path: str | os.PathLike[str], **texts: str) -> int:
    """Write rows to a Parquet file, as `to_parquet` does, with further texts in its schema; return how many."""
    arrow = load_extra("arrow", "Parquet files need pyarrow", *_PYARROW)
    with replacing(path) as file:
        schema = _schema(arrow, rows)
        schema = schema.with_metadata(
            {**schema.metadata, **{_PREFIX + name: text for name, text in texts.items()}}
        )
        options = {"use_dictionary": ["metadata"] if rows.has_metadata else False, "write_page_checksum": True}
        n_items = 0
        with arrow.parquet.ParquetWriter(file, schema, **options) as writer:
            for batch in _record_batches(arrow, rows, schema):
                writer.write_batch(batch)
                n_items += batch.num_rows
    return n_items


def read_parquet(path: str | os.PathLike[str]) -> Codes:
    """Return codes, keys and mapping from a file that `to_parquet` wrote; its other columns are not read.

    Examples
    --------
    >>> import tempfile, mihash
    >>> table = mihash.MemoryTable()
    >>> table.add([[1.0, 2.0], [-1.0, 2.0]], keys=["a", "b"])
    >>> table.rebuild(mihash.mapping.LinearMapping(np.eye(2)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_items = to_parquet(table, f"{folder}/codes.parquet")
    ...     codes, keys, n_bits, mapping, version = read_parquet(f"{folder}/codes.parquet")
    >>> again = mihash.MemoryTable.from_codes(codes, n_bits, keys)
    >>> again.search_codes(mapping.encode([[-3.0, 1.0]]), k=1)[0].tolist()
    [['b']]
    """
    arrow = load_extra("arrow", "Parquet files need pyarrow", *_PYARROW)
    damage = (arrow.ArrowException, OSError, ValueError, KeyError)
    try:
        with (
            open(path, "rb") as handle,  # noqa: PTH123 -- a path of any kind
            arrow.parquet.ParquetFile(
                handle, page_checksum_verification=True, thrift_string_size_limit=_LONGEST_TEXT
            ) as file,
        ):
            held = [name for name in ("key", "code") if name in file.schema_arrow.names]
            table = file.read(columns=held)
        return from_arrow(table)
    except FileNotFoundError as error:
        raise StoreError(f"Cannot read {path}: {error}.") from error
    except MIHashError as error:
        raise type(error)(f"{os.fspath(path)!r}: {error}") from error
    except damage as error:
        raise CorruptStore(
            f"{os.fspath(path)!r} is damaged, cut short or not a Parquet file ({error}); copy or make it again."
        ) from error


def described(path: str | os.PathLike[str]) -> dict[str, str]:
    """Return the texts that mihash has written into the schema of a Parquet file, none if it has not."""
    arrow = load_extra("arrow", "Parquet files need pyarrow", *_PYARROW)
    try:
        with (
            open(path, "rb") as handle,  # noqa: PTH123 -- a path of any kind
            arrow.parquet.ParquetFile(handle, thrift_string_size_limit=_LONGEST_TEXT) as file,
        ):
            return {name: text.decode() for name, text in _texts(file.schema_arrow).items()}
    except (arrow.ArrowException, OSError, ValueError):
        return {}


def from_arrow(table: Any) -> Codes:
    """Return codes, keys and mapping from a table that `to_arrow` made.

    Examples
    --------
    >>> import mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=["a", 2])
    >>> from_arrow(to_arrow(table)).keys
    array(['a', 2], dtype=object)
    """
    texts = _texts(table.schema)
    if "format" not in texts or not {"key", "code"} <= set(table.column_names):
        raise InvalidInput("This was not exported by mihash: write it with mihash.export.")
    try:
        number = int(texts["format"])
        if number > FORMAT:
            raise UnsupportedVersion(f"It has format {number}, this mihash reads up to {FORMAT}. Upgrade mihash.")
        n_bits = validation.integer("n_bits", int(texts["n_bits"]), minimum=1)
        mapping = _mapping(texts)
        version = int(texts["version"]) if "version" in texts else None
        if texts["bit_order"] != b"little" or (mapping is not None and mapping.n_bits != n_bits):
            raise ValueError("the length or the order of the bits does not match")
        codes = validation.packed("code", _code_matrix(table.column("code"), -(-n_bits // 8)), n_bits)
        return Codes(codes, _keys(table.column("key"), texts["keys"].decode()), n_bits, mapping, version)
    except StoreError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptStore(f"The exported data are damaged ({error}). Export them again.") from error


def _texts(schema: Any) -> dict[str, bytes]:
    """Return what mihash has written into a schema, by name."""
    found = {name.decode(): value for name, value in (schema.metadata or {}).items()}
    return {name.removeprefix(_PREFIX): value for name, value in found.items() if name.startswith(_PREFIX)}


def _schema(arrow: Any, rows: CodeRows) -> Any:
    fields = [
        arrow.field("key", arrow.int64() if rows.key_kind == INTEGERS else arrow.string(), nullable=False),
        arrow.field("code", arrow.binary(-(-rows.n_bits // 8)), nullable=False),
    ]
    if rows.has_metadata:
        fields.append(arrow.field("metadata", arrow.string()))
    if rows.n_features is not None:
        fields.append(arrow.field("vector", arrow.list_(arrow.float32(), rows.n_features), nullable=False))
    texts = {"format": str(FORMAT), "n_bits": str(rows.n_bits), "bit_order": "little", "keys": rows.key_kind}
    if rows.version is not None:
        texts["version"] = str(rows.version)
    if rows.mapping is not None:
        texts["fingerprint"] = rows.mapping.fingerprint
        texts["mapping"] = base64.b64encode(state.dump(rows.mapping.state())).decode()  # other readers want UTF-8
    return arrow.schema(fields, metadata={_PREFIX + name: value for name, value in texts.items()})


def _record_batches(arrow: Any, rows: CodeRows, schema: Any) -> Iterator[Any]:
    for batch in rows.batches:
        yield arrow.record_batch(_columns(arrow, batch, rows.key_kind, schema), schema=schema)


def _columns(arrow: Any, batch: Batch, key_kind: str, schema: Any) -> list[Any]:
    keys = batch.keys.tolist() if key_kind == STRINGS else batch.keys
    if key_kind == MIXED:
        keys = [json.dumps(key, ensure_ascii=False) for key in batch.keys.tolist()]
    packed = arrow.py_buffer(np.ascontiguousarray(batch.codes))
    code = arrow.FixedSizeBinaryArray.from_buffers(schema.field("code").type, len(batch.codes), [None, packed])
    columns = [arrow.array(keys, schema.field("key").type), code]
    if batch.texts is not None:
        columns.append(arrow.array(batch.texts, arrow.string()))
    if batch.vectors is not None:
        numbers = arrow.array(batch.vectors.ravel())
        columns.append(arrow.FixedSizeListArray.from_arrays(numbers, batch.vectors.shape[1]))
    return columns


def _mapping(texts: dict[str, bytes]) -> HashMapping | None:
    if "mapping" not in texts:
        return None
    mapping = mapping_from_state(state.load(base64.b64decode(texts["mapping"], validate=True)))
    if mapping.fingerprint != texts["fingerprint"].decode():
        raise CorruptStore("The mapping is damaged: its fingerprint is wrong. Export it again.")
    return mapping


def _code_matrix(column: Any, n_bytes: int) -> NDArray[np.uint8]:
    if getattr(column.type, "byte_width", None) != n_bytes or column.null_count:
        raise ValueError(f"`code` must be {n_bytes} bytes in each row; got {column.type}")
    codes = np.empty((len(column), n_bytes), dtype=np.uint8)
    done = 0
    for chunk in column.chunks:
        held = np.frombuffer(
            chunk.buffers()[1], dtype=np.uint8, count=len(chunk) * n_bytes, offset=chunk.offset * n_bytes
        )
        codes[done : done + len(chunk)] = held.reshape(-1, n_bytes)
        done += len(chunk)
    return codes


def _keys(column: Any, kind: str) -> NDArray[Any]:
    validation.choice("keys", kind, (INTEGERS, STRINGS, MIXED))
    if kind == INTEGERS:
        keys: NDArray[np.int64] = column.to_numpy().astype(np.int64, casting="safe")
        return keys
    texts = column.to_pylist()
    return key_array(as_keys([json.loads(text) for text in texts] if kind == MIXED else texts, len(texts)))
