"""Encodes folders of Parquet files with an existing mapping: file by file, on one machine or several.

Each file becomes one of the same name with its keys and codes. A file is written as a whole or not at all, and
names its input, so an interrupted run can continue.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .. import state as saved
from ..errors import InvalidInput, MIHashError, NotReady, StoreError
from ..mapping import HashMapping, mapping_from_state
from ..store.generations import answering_folder
from ..store.keys import as_keys, key_array
from ..store.sqlite.code_versions import mapping_of
from ..store.sqlite.database import Database
from ..store.sqlite.settings import read_settings
from .export.arrow import described, write_rows
from .export.code_rows import INTEGERS, STRINGS, Batch, CodeRows
from .readers import Columns, open_source
from .readers.row_chunks import Rows

_SUFFIXES = (".parquet", ".pq")

Progress = Callable[[str], None]


class Encoded(NamedTuple):
    """Result: files encoded, files skipped because they were done, rows encoded."""

    files: int
    skipped: int
    rows: int


class _File(NamedTuple):
    """A file on some node: its name in the folder, and what changes when it is written to."""

    name: str
    size: int
    written: int


def mapping_in(folder: str | os.PathLike[str]) -> HashMapping:
    """Return the mapping that an index answers with, without opening the index.

    Examples
    --------
    >>> import tempfile, mihash
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with mihash.OnlineIndex.create(folder, n_bits=16) as index:
    ...         keys = index.add(np.eye(4))
    ...     mapping_in(folder).n_bits
    16
    """
    database = Database(answering_folder(Path(folder)), read_only=True)
    try:
        with database.read() as connection:
            published = read_settings(connection).get("published")
            if published is None:
                raise NotReady(f"The index in {folder} has no mapping yet: add vectors first.")
            return mapping_of(connection, published)
    finally:
        database.close()


def encode_file(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    mapping: HashMapping,
    columns: Columns | None = None,
) -> int | None:
    """Encode one Parquet file; return how many rows it has, or None if that was done before.

    Parameters
    ----------
    source
        The file; its keys are kept, or are the numbers of its rows where it has none.
    target
        The file to write, in the form of `mihash.export.to_parquet`.
    mapping
        What makes the codes.
    columns
        Which columns hold the vector and the key; guessed by default.

    Examples
    --------
    >>> import tempfile, mihash
    >>> import pyarrow as pa, pyarrow.parquet
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pa.table({"id": ["a", "b"], "emb": [[0.5, 1.0], [-2.0, 3.0]]})
    ...     pa.parquet.write_table(table, f"{folder}/in.parquet")
    ...     signs = mihash.mapping.LinearMapping(np.eye(2))
    ...     n = encode_file(f"{folder}/in.parquet", f"{folder}/out.parquet", signs)
    ...     codes = mihash.export.read_parquet(f"{folder}/out.parquet")
    >>> n, codes.keys.tolist(), mihash.unpack(codes.codes, 2).astype(int).tolist()
    (2, ['a', 'b'], [[1, 1], [0, 1]])
    """
    wanted = Columns() if columns is None else columns
    stamp = _stamp(_described(Path(source), Path(source).name), wanted)
    made = described(target)
    if made.get("fingerprint") == mapping.fingerprint and made.get("source") == stamp:
        return None
    opened = open_source(source, wanted, "parquet")
    chunks = opened.rows()
    first = next(chunks)
    if first.X.shape[1] != mapping.n_features:
        raise InvalidInput(
            f"{source} has vectors of {first.X.shape[1]} numbers; the mapping takes {mapping.n_features}."
        )
    kind = INTEGERS if first.keys is None or not isinstance(first.keys[0], str) else STRINGS
    batches = _batches(opened.name, chain([first], chunks), mapping)
    rows = CodeRows(mapping.n_bits, mapping, None, kind, None, False, batches)
    Path(target).parent.mkdir(parents=True, exist_ok=True)
    return write_rows(rows, target, source=stamp)


def _stamp(file: _File, columns: Columns) -> str:
    """Return what the codes of a file are made from: the file as it is, and the columns that were named."""
    named = {"vector": columns.vector, "key": columns.key}
    chosen = "".join(f" {option}={name!r}" for option, name in named.items() if name is not None)
    return f"{file.name} {file.size} {file.written}{chosen}"


def _batches(name: str, chunks: Iterable[Rows], mapping: HashMapping) -> Iterator[Batch]:
    for rows in chunks:
        n = len(rows.X)
        try:
            keys = key_array(as_keys(rows.keys, n)) if rows.keys else np.arange(rows.first, rows.first + n)
        except InvalidInput as error:
            raise InvalidInput(f"{name}: near row {rows.first}: {error}") from error
        yield Batch(keys, mapping.encode_rows(rows.X), None, None)


def encode_folder(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    mapping: HashMapping,
    columns: Columns | None = None,
    *,
    ray: bool = False,
    address: str | None = None,
    nodes: Sequence[str] | None = None,
    progress: Progress = lambda _: None,
) -> Encoded:
    """Encode every Parquet file in a folder and its sub-folders; skip files that are done.

    Parameters
    ----------
    source
        The folder.
    target
        The folder of the codes: each file has the name of the one that it was made from.
    mapping, columns
        As in `encode_file`.
    ray
        Whether the nodes of a Ray cluster share the work: each encodes the files that only it has, and those that
        several have, on a disk that they share, are dealt out. Both folders are meant as they are on each node.
    address
        The cluster, as `ray.init` takes it.
    nodes
        Which nodes: addresses or names of Ray resources; all by default.
    progress
        Told of each file that was encoded; not of files that were done before, or that failed.
    """
    if not ray:
        return _encode_here(Path(source), Path(target), mapping, columns, progress)
    return _encode_on_nodes(
        Path(source).absolute(), Path(target).absolute(), mapping, columns, address, nodes, progress
    )


def _encode_here(
    source: Path, target: Path, mapping: HashMapping, columns: Columns | None, progress: Progress
) -> Encoded:
    if not source.is_dir():
        raise InvalidInput(f"{source} {'is not a folder' if source.exists() else 'does not exist'}.")
    files = _files(str(source))
    if not files:
        raise InvalidInput(f"There are no Parquet files in {source}.")
    done, failed = [], []
    for file in files:
        try:
            n = encode_file(source / file.name, target / file.name, mapping, columns)
        except (MIHashError, OSError) as error:
            failed.append(error)
            continue
        done.append(n)
        if n is not None:
            progress(file.name)
    return _counted(done, failed)


def _encode_on_nodes(
    source: Path,
    target: Path,
    mapping: HashMapping,
    columns: Columns | None,
    address: str | None,
    nodes: Sequence[str] | None,
    progress: Progress,
) -> Encoded:
    from ..store.ray.cluster import connect, leave, lent_cpus, pinned, ray_module, resources_of

    joined = connect(address)
    ray = ray_module()
    try:
        names = resources_of(nodes)
        listed = ray.get([pinned(_files, name).remote(str(source)) for name in names])
        dealt = _dealt(dict(zip(names, listed, strict=True)))
        if not dealt:
            raise InvalidInput(f"There are no Parquet files in {source} on any of the nodes.")
        sent = ray.put(saved.dump(mapping.state()))
        tasks = {name: pinned(_encode_remotely, name, lent_cpus(name)) for name in names}
        refs = {
            tasks[name].remote(str(source / file), str(target / file), sent, columns): file for name, file in dealt
        }
        done, failed = [], []
        pending = list(refs)
        while pending:
            (ref,), pending = ray.wait(pending)
            try:
                n = ray.get(ref)
            except ray.exceptions.RayTaskError as error:
                failed.append(error.cause)
            except ray.exceptions.RayError as error:
                failed.append(StoreError(f"{refs[ref]}: {error}"))
            else:
                done.append(n)
                if n is not None:
                    progress(refs[ref])
        return _counted(done, failed)
    finally:
        if joined:
            leave()


def _encode_remotely(source: str, target: str, mapping: bytes, columns: Columns | None) -> int | None:
    return encode_file(source, target, mapping_from_state(saved.load(mapping)), columns)


def _dealt(listed: dict[str, list[_File]]) -> list[tuple[str, str]]:
    """Return which node encodes which file: who has it alone, or of several who has the fewest bytes so far."""
    holders: dict[_File, list[str]] = {}
    for node, files in listed.items():
        for file in files:
            holders.setdefault(file, []).append(node)
    loads = dict.fromkeys(listed, 0)
    dealt = []
    for file in sorted(holders, key=lambda file: (len(holders[file]), -file.size, file.name)):
        node = min(holders[file], key=lambda name: loads[name])
        loads[node] += file.size
        dealt.append((node, file.name))
    return dealt


def _files(folder: str) -> list[_File]:
    """Return the Parquet files of a folder and of those in it, none if there is no such folder."""
    base = Path(folder)
    found = sorted(each for each in base.rglob("*") if each.suffix.lower() in _SUFFIXES and each.is_file())
    return [_described(each, each.relative_to(base).as_posix()) for each in found if not each.name.startswith(".")]


def _described(file: Path, name: str) -> _File:
    try:
        about = file.stat()
    except OSError as error:
        raise InvalidInput(f"{file} cannot be read: {error.strerror}.") from error
    return _File(name, about.st_size, about.st_mtime_ns)


def _counted(done: list[int | None], failed: list[Any]) -> Encoded:
    if failed:
        n = len(done) + len(failed)
        raise StoreError(f"{len(failed)} of {n} files could not be encoded; the first: {failed[0]}") from failed[0]
    rows = [n for n in done if n is not None]
    return Encoded(len(rows), len(done) - len(rows), sum(rows))
