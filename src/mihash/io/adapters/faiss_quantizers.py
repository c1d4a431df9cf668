"""A trained index of FAISS as a quantizer that a trigger can measure: when to train it again."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...comparison import Quantizer
from ...errors import InvalidInput
from .faiss_vectors import load_faiss


def faiss_quantizer(index: Any) -> Quantizer:
    """Return what an index of FAISS has learned, as a quantizer: its centroids and codebooks, not its vectors.

    The sample is added to an empty copy of the index, and each row is searched in it. What a search does not find,
    because its list is not probed, is infinitely far.

    Parameters
    ----------
    index
        A trained index of FAISS over vectors of floats, such as IVF, PQ, SQ, IVF-PQ, OPQ or RaBitQ.

    Examples
    --------
    >>> import faiss, mihash
    >>> X = np.random.default_rng(0).standard_normal((1000, 16)).astype(np.float32)
    >>> def trained(rows):
    ...     index = faiss.index_factory(16, "IVF8,PQ4x4")
    ...     index.train(rows)
    ...     return faiss_quantizer(index)
    >>> old, new = trained(X[:500] + 3), trained(X[:500])  # the data have moved since the first was trained
    >>> decision = mihash.TriggerUpdate(0.05).decide(new, old, X[500:], quality="recall@10")
    >>> decision.update
    True
    """
    faiss = load_faiss()
    if not index.is_trained:
        raise InvalidInput("The index of FAISS is not trained: call its `train` first.")
    empty = faiss.clone_index(index)
    empty.reset()
    similar = index.metric_type == faiss.METRIC_INNER_PRODUCT

    def distances(X: NDArray[np.float32]) -> NDArray[np.float32]:
        rows = np.ascontiguousarray(X, dtype=np.float32)
        empty.reset()
        empty.add(rows)
        values, places = empty.search(rows, len(rows))
        empty.reset()
        found = np.full((len(rows), len(rows)), np.inf, dtype=np.float32)
        queries, ranks = np.nonzero(places >= 0)
        found[queries, places[queries, ranks]] = (-values if similar else values)[queries, ranks]
        return found

    return Quantizer(distances)
