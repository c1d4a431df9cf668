"""Codes as a FAISS binary index: an ``IndexBinaryFlat`` under an ``IndexBinaryIDMap2`` that carries the keys."""

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from ...extras import load_extra
from ...state import replacing
from .code_rows import INTEGERS, Batch, Source, opened

_NOTHING = -1  # what FAISS answers where it has found no more


def to_faiss(source: Source, *, ids: str = "keys") -> Any:
    """Return a ``faiss.IndexBinaryIDMap2`` with every code; its distances are those of mihash.

    A code takes its ceil(n_bits / 8) bytes as they are: spare bits are zero and add nothing to a distance. Ties
    come in another order than here, where the older item stands first.

    Parameters
    ----------
    source
        An index, a hash table, or `Codes`. A consistent state of an index is exported; it can be used meanwhile.
    ids
        ``"keys"``: the keys, which must be whole numbers. ``"rows"``: the places 0, 1, ... in the order of
        addition, for keys that are strings: take ``saved = codes_of(index)``, and ``saved.keys[i]`` is the key of
        id i of ``to_faiss(saved, ids="rows")``.

    Examples
    --------
    >>> import mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=[70, 80])
    >>> distances, found = to_faiss(table).search(mihash.pack([[1, 1, 0]]), 2)
    >>> found.tolist(), distances.tolist()
    ([[80, 70]], [[1, 3]])
    """
    faiss = load_extra("faiss", "A FAISS index needs faiss", "faiss")
    validation.choice("ids", ids, ("keys", "rows"))
    with opened(source) as rows:
        if ids == "keys" and rows.key_kind != INTEGERS:
            raise InvalidInput(
                'FAISS ids are whole numbers, but some keys are strings: use ids="rows", and '
                "mihash.export.codes_of to know which row has which key."
            )
        index = faiss.IndexBinaryIDMap2(faiss.IndexBinaryFlat(8 * -(-rows.n_bits // 8)))
        for batch in rows.batches:
            index.add_with_ids(np.ascontiguousarray(batch.codes), _ids(batch, ids, index.ntotal))
    return index


def write_faiss(source: Source, path: str | os.PathLike[str], *, ids: str = "keys") -> int:
    """Write what `to_faiss` makes to a file for ``faiss.read_index_binary``, and return how many items it holds.

    It is written to a temporary file, which replaces ``path`` when it is complete and on the disk.

    Examples
    --------
    >>> import tempfile, faiss, mihash
    >>> table = mihash.MemoryTable.from_codes(mihash.pack([[0, 0, 1], [1, 1, 1]]), n_bits=3, keys=[70, 80])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     n_items = write_faiss(table, f"{folder}/codes.faiss")
    ...     index = faiss.read_index_binary(f"{folder}/codes.faiss")
    >>> n_items, index.search(mihash.pack([[1, 1, 0]]), 1)[1].tolist()
    (2, [[80]])
    """
    faiss = load_extra("faiss", "A FAISS index needs faiss", "faiss")
    index = to_faiss(source, ids=ids)
    with replacing(path) as file:
        faiss.write_index_binary(index, faiss.PyCallbackIOWriter(file.write))
    return int(index.ntotal)


def _ids(batch: Batch, ids: str, first: int) -> NDArray[np.int64]:
    if ids == "rows":
        return np.arange(first, first + len(batch.keys), dtype=np.int64)
    keys = batch.keys.astype(np.int64, copy=False)
    if (keys == _NOTHING).any():
        raise InvalidInput(
            'In FAISS, the id -1 means "no result": use ids="rows", or export without the item whose key is -1.'
        )
    return keys
