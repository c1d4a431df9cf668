"""`MIHashVectorStore`: documents of LangChain in an index, the text beside the metadata."""

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from langchain_core.documents import Document
from langchain_core.embeddings import Embeddings
from langchain_core.vectorstores import VectorStore
from langchain_core.vectorstores.utils import maximal_marginal_relevance

from ....index.online_index import OnlineIndex
from ....store.question import Item
from ..document_rows import TEXT, document_metadata, relevance, split_metadata


class MIHashVectorStore(VectorStore):
    """A vector store of LangChain over an `OnlineIndex`.

    A document is an item: its id is the key, its metadata are the item's, and its text is the field ``"_text"`` of
    these. A document with a stored id replaces the stored one. Filters are those of the index (docs/index.md).

    Parameters
    ----------
    embedding
        Makes vectors from texts.
    index
        Where the documents are stored. Use it directly for anything that LangChain's interface lacks.
    rescore
        How many candidates a search ranks again by their vectors; 0 for none.

    Examples
    --------
    >>> import tempfile, mihash
    >>> from langchain_core.embeddings import DeterministicFakeEmbedding
    >>> index = mihash.open(tempfile.mkdtemp(), n_bits=32, metric="cosine")
    >>> store = MIHashVectorStore(DeterministicFakeEmbedding(size=16), index)
    >>> ids = store.add_texts(["red fox", "blue whale"], [{"legs": 4}, {"legs": 0}], ids=["a", "b"])
    >>> [document.page_content for document in store.similarity_search("red fox", k=1)]
    ['red fox']
    >>> [document.id for document in store.similarity_search("red fox", k=2, filter={"legs": 0})]
    ['b']
    >>> index.close()
    """

    def __init__(self, embedding: Embeddings, index: OnlineIndex, rescore: int = 100) -> None:
        self._embedding, self.index, self._rescore = embedding, index, rescore

    @property
    def embeddings(self) -> Embeddings:
        """What makes vectors from texts."""
        return self._embedding

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: Embeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        index: OnlineIndex,
        rescore: int = 100,
        **kwargs: Any,
    ) -> Self:
        """Return a store over ``index`` with these texts added."""
        store = cls(embedding, index, rescore)
        store.add_texts(texts, metadatas, ids=ids, **kwargs)
        return store

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: Sequence[Mapping[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
        **_: Any,
    ) -> list[str]:
        """Embed and store texts, and return their ids; a text without one gets a random id."""
        texts = list(texts)
        if not texts:
            return []
        known = list(ids) if ids is not None else [None] * len(texts)
        keys = [str(uuid.uuid4()) if key is None else key for key in known]
        rows = document_metadata(texts, metadatas)
        newest = {key: place for place, key in enumerate(keys)}  # of two texts with one id, the later is stored
        places = list(newest.values())
        vectors = np.asarray(self._embedding.embed_documents([texts[place] for place in places]))
        self.index.upsert(vectors, keys=list(newest), metadata=[rows[place] for place in places])
        return keys

    def delete(self, ids: list[str] | None = None, **_: Any) -> bool:
        """Remove documents, all of them without ``ids``; ids that are not stored are ignored."""
        if ids is None:
            self.index.delete(where={})
        elif stored := self._stored(ids):
            self.index.delete(stored)
        return True

    def get_by_ids(self, ids: Sequence[str], /) -> list[Document]:
        """Return the documents of these ids; those that are not stored are left out."""
        stored = self._stored(ids)
        return [_document(key, item) for key, item in zip(stored, self._items(stored), strict=True)]

    def similarity_search(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **_: Any
    ) -> list[Document]:
        """Return the nearest documents; ``filter`` is a filter of the index."""
        return [document for document, _ in self.similarity_search_with_score(query, k, filter=filter)]

    def similarity_search_with_score(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **_: Any
    ) -> list[tuple[Document, float]]:
        """Return the nearest documents with their distances, in the measure of the index."""
        return self._nearest(self._embedding.embed_query(query), k, filter)[0]

    def similarity_search_by_vector(
        self, embedding: list[float], k: int = 4, *, filter: Mapping[str, Any] | None = None, **_: Any
    ) -> list[Document]:
        """Return the nearest documents to a vector."""
        return [document for document, _ in self._nearest(embedding, k, filter)[0]]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> list[Document]:
        """Return ``k`` of the ``fetch_k`` nearest documents that differ from each other."""
        vector = self._embedding.embed_query(query)
        return self.max_marginal_relevance_search_by_vector(vector, k, fetch_k, lambda_mult, filter=filter)

    def max_marginal_relevance_search_by_vector(
        self,
        embedding: list[float],
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | None = None,
        **_: Any,
    ) -> list[Document]:
        """Return ``k`` of the ``fetch_k`` nearest documents to a vector that differ from each other."""
        documents = self.similarity_search_by_vector(embedding, fetch_k, filter=filter)
        vectors = [item.vector for item in self._items([document.id for document in documents])]
        chosen = maximal_marginal_relevance(np.asarray(embedding), vectors, lambda_mult, k) if vectors else []
        return [documents[place] for place in chosen]

    def _similarity_search_with_relevance_scores(
        self, query: str, k: int = 4, *, filter: Mapping[str, Any] | None = None, **_: Any
    ) -> list[tuple[Document, float]]:
        found, measure = self._nearest(self._embedding.embed_query(query), k, filter)
        score: Callable[[float], float] = relevance(measure, self.index.stats().n_bits)
        return [(document, score(distance)) for document, distance in found]

    def _nearest(
        self, vector: Sequence[float], k: int, where: Mapping[str, Any] | None
    ) -> tuple[list[tuple[Document, float]], str]:
        rescore = max(k, self._rescore) if self._rescore else 0
        hits = self.index.search(np.asarray(vector), k, where=where, rescore=rescore)
        keys = list(hits.keys)
        pairs = zip(keys, self._items(keys), hits.distances, strict=True)
        return [(_document(key, item), float(distance)) for key, item, distance in pairs], hits.measure

    def _stored(self, ids: Sequence[str]) -> list[str]:
        keys = list(ids)
        return [key for key, known in zip(keys, self.index.contains(keys), strict=True) if known] if keys else []

    def _items(self, keys: Sequence[Any]) -> list[Item]:
        return self.index.get(list(keys)) if keys else []


def _document(key: Any, item: Item) -> Document:
    text, metadata = split_metadata(item.metadata, TEXT)
    return Document(id=str(key), page_content=text, metadata=metadata)
