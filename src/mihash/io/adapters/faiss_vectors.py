"""Vectors from an index of FAISS into an index, and back; codes are exported by `mihash.export.to_faiss`."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from ...extras import load_extra
from ...index.online_index import OnlineIndex
from .item_pages import item_pages


def add_faiss(index: OnlineIndex, source: Any, at_once: int = 10_000) -> int:
    """Add the vectors of an index of FAISS to an index, and return how many.

    FAISS must be able to return its vectors: flat indexes, HNSW over flat, and IVF do. A compressed index (PQ, SQ)
    returns approximations, which are then what the index stores. The ids of an ``IndexIDMap`` become keys; other
    vectors get their place.

    Parameters
    ----------
    index
        The index.
    source
        The index of FAISS, with vectors of floats.
    at_once
        How many vectors are read at a time; each part is one transaction.

    Examples
    --------
    >>> import tempfile, faiss, mihash
    >>> flat = faiss.IndexFlatL2(4)
    >>> flat.add(np.eye(4, dtype="float32"))
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     add_faiss(index, flat), index.get(2).vector.tolist()
    (4, [0.0, 0.0, 1.0, 0.0])
    """
    faiss = load_faiss()
    validation.integer("at_once", at_once, minimum=1)
    named = faiss.downcast_index(source)
    is_named = isinstance(named, faiss.IndexIDMap | faiss.IndexIDMap2)
    ids: NDArray[np.int64] = faiss.vector_to_array(named.id_map) if is_named else np.arange(source.ntotal)
    inner = faiss.downcast_index(named.index) if is_named else named
    if isinstance(inner, faiss.IndexIVF):
        inner.make_direct_map()
    if source.ntotal:
        try:
            inner.reconstruct(0)  # reads of many rows abort the process where a read of one is an error
        except RuntimeError as error:
            name = type(inner).__name__
            raise InvalidInput(f"This FAISS index does not return its vectors: {name}.") from error
    for begin in range(0, source.ntotal, at_once):
        n = min(at_once, source.ntotal - begin)
        index.add(inner.reconstruct_n(begin, n), keys=ids[begin : begin + n].tolist())
    return int(source.ntotal)


def vectors_to_faiss(index: OnlineIndex) -> Any:
    """Return the vectors of an index as a ``faiss.IndexIDMap2`` over a flat index, with the keys as ids.

    The flat index measures squared Euclidean distance; for an index with ``metric="ip"`` inner products, and with
    ``metric="cosine"`` those of vectors of unit length.

    Examples
    --------
    >>> import tempfile, mihash
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     keys = index.add([[0.0, 1.0], [5.0, 5.0]], keys=[70, 80])
    ...     flat = vectors_to_faiss(index)
    >>> flat.search(np.array([[4, 4]], dtype="float32"), 1)[1].tolist()
    [[80]]
    """
    faiss = load_faiss()
    stats = index.stats()
    cosine = stats.metric == "cosine"
    width = index.n_features or 1
    flat = faiss.IndexIDMap2(faiss.IndexFlatIP(width) if stats.metric != "euclidean" else faiss.IndexFlatL2(width))
    for page in item_pages(index):
        if not all(isinstance(item.key, int) for item in page):
            raise InvalidInput("FAISS ids are whole numbers, but some keys are strings.")
        vectors = np.stack([item.vector for item in page]).astype(np.float32)
        if cosine:
            faiss.normalize_L2(vectors)
        flat.add_with_ids(vectors, np.array([item.key for item in page], dtype=np.int64))
    return flat


def load_faiss() -> Any:
    """Return the module of FAISS; where it is not installed, say how to install it."""
    return load_extra("faiss", "An index of FAISS needs faiss", "faiss")
