"""`LlamaVectorStore`: nodes of LlamaIndex in an index."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.schema import BaseNode
from llama_index.core.vector_stores.types import (
    BasePydanticVectorStore,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import metadata_dict_to_node, node_to_metadata_dict

from ....errors import InvalidInput
from ....index.online_index import OnlineIndex
from ....store.question import Item
from ..document_rows import relevance
from .metadata_filters import where_of

_ID = "_node_id"


class LlamaVectorStore(BasePydanticVectorStore):
    """A vector store of LlamaIndex over an `OnlineIndex`.

    A node is an item: its id is the key, and the node itself lies among the metadata, as LlamaIndex writes it. A
    node with a stored id replaces the stored one.

    Parameters
    ----------
    index
        Where the nodes are stored.
    rescore
        How many candidates a search ranks again by their vectors; 0 for none.

    Examples
    --------
    >>> import tempfile, mihash
    >>> from llama_index.core.schema import TextNode
    >>> index = mihash.open(tempfile.mkdtemp(), n_bits=16, metric="cosine")
    >>> store = LlamaVectorStore(index)
    >>> store.add([TextNode(id_="a", text="a fox", embedding=[1.0, 0.0]),
    ...            TextNode(id_="b", text="a whale", embedding=[0.0, 1.0])])
    ['a', 'b']
    >>> result = store.query(VectorStoreQuery(query_embedding=[0.1, 0.9], similarity_top_k=1))
    >>> result.ids, result.nodes[0].get_content()
    (['b'], 'a whale')
    >>> index.close()
    """

    stores_text: bool = True
    flat_metadata: bool = False
    rescore: int = 100
    _index: OnlineIndex = PrivateAttr()

    def __init__(self, index: OnlineIndex, rescore: int = 100, **options: Any) -> None:
        super().__init__(rescore=rescore, **options)
        self._index = index

    @classmethod
    def class_name(cls) -> str:
        """Return the name that LlamaIndex writes into its files."""
        return "MIHashVectorStore"

    @property
    def client(self) -> OnlineIndex:
        """The index."""
        return self._index

    def add(self, nodes: Sequence[BaseNode], **_: Any) -> list[str]:
        """Store nodes with their embeddings, and return their ids."""
        newest = {node.node_id: node for node in nodes}
        if newest:
            vectors = np.asarray([node.get_embedding() for node in newest.values()])
            rows = [{**node_to_metadata_dict(node), _ID: key} for key, node in newest.items()]
            self._index.upsert(vectors, keys=list(newest), metadata=rows)
        return [node.node_id for node in nodes]

    def delete(self, ref_doc_id: str, **_: Any) -> None:
        """Remove every node of a document."""
        self._index.delete(where={"ref_doc_id": ref_doc_id})

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None, **_: Any
    ) -> None:
        """Remove nodes by their ids, by a filter, or by both."""
        if node_ids is None and filters is None:
            return
        if keys := self._keys(node_ids, where_of(filters)):
            self._index.delete(keys)

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Return nodes by their ids, by a filter, or by both."""
        keys = self._keys(node_ids, where_of(filters))
        return [_node(item) for item in self._index.get(keys)] if keys else []

    def clear(self) -> None:
        """Remove every node."""
        self._index.delete(where={})

    def query(self, query: VectorStoreQuery, **_: Any) -> VectorStoreQueryResult:
        """Return the nearest nodes, with a similarity from 1 to 0 for each."""
        if query.mode != VectorStoreQueryMode.DEFAULT:
            raise InvalidInput(f"An index answers queries of the mode 'default' only; got {query.mode.value!r}.")
        if query.query_embedding is None:
            raise InvalidInput("`query_embedding` must be a vector; got None.")
        k, index = query.similarity_top_k, self._index
        where = where_of(query.filters)
        if query.doc_ids:  # LlamaIndex gives an empty list where it means all
            where = {"$and": [where, {"ref_doc_id": {"$in": query.doc_ids}}]}
        if query.node_ids:
            where = {"$and": [where, {_ID: {"$in": query.node_ids}}]}
        rescore = max(k, self.rescore) if self.rescore else 0
        hits = index.search(np.asarray(query.query_embedding), k, where=where or None, rescore=rescore)
        keys = list(hits.keys)
        score = relevance(hits.measure, index.stats().n_bits)
        nodes = [_node(item) for item in index.get(keys)] if keys else []
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[score(float(each)) for each in hits.distances],
            ids=[str(key) for key in keys],
        )

    def _keys(self, node_ids: list[str] | None, where: dict[str, Any]) -> list[Any]:
        if node_ids is None:
            return self._index.keys(where)
        stored = [key for key in dict.fromkeys(node_ids) if key in self._index]
        matching = set(self._index.keys(where)) if where else set(stored)
        return [key for key in stored if key in matching]


def _node(item: Item) -> BaseNode:
    node = metadata_dict_to_node(item.metadata or {})
    node.embedding = item.vector.tolist()
    return node
