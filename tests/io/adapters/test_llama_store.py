import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput

pytest.importorskip("llama_index.core", reason="needs LlamaIndex: pip install 'mihash[llama-index]'")
from llama_index.core import Document, MockEmbedding, StorageContext, VectorStoreIndex
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import (
    FilterOperator,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryMode,
)

from mihash.io.adapters.llama_index import LlamaVectorStore, where_of

VECTORS = np.eye(4) + 0.01


def node(i, **metadata):
    made = TextNode(id_=f"n{i}", text=f"text {i}", embedding=VECTORS[i].tolist(), metadata=metadata)
    made.relationships[NodeRelationship.SOURCE] = RelatedNodeInfo(node_id=f"doc{i % 2}")
    return made


@pytest.fixture
def store(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16, metric="cosine") as index:
        store = LlamaVectorStore(index)
        years = (2000, 2001, 2002, None)
        store.add([node(i, year=year, tags=["a", "b"][: i + 1]) for i, year in enumerate(years)])
        yield store


def asked(store, i, k=4, **options):
    return store.query(VectorStoreQuery(query_embedding=VECTORS[i].tolist(), similarity_top_k=k, **options))


def test_nodes_come_back_as_they_were(store):
    result = asked(store, 2, k=1)
    assert result.ids == ["n2"]
    assert result.similarities == [pytest.approx(1, abs=1e-5)]
    assert result.nodes[0].get_content() == "text 2"
    assert result.nodes[0].metadata == {"year": 2002, "tags": ["a", "b"]}
    assert result.nodes[0].ref_doc_id == "doc0"
    assert [each.node_id for each in store.get_nodes(["n3", "nobody", "n0"])] == ["n3", "n0"]


def only(*filters, condition="and"):
    return MetadataFilters(filters=list(filters), condition=condition)


@pytest.mark.parametrize(
    ("key", "operator", "value", "expected"),
    [
        ("year", "==", 2001, {"n1"}),
        ("year", "!=", 2001, {"n0", "n2", "n3"}),
        ("year", ">", 2001, {"n2"}),
        ("year", "in", [2000, 2002], {"n0", "n2"}),
        ("year", "nin", [2000, 2002], {"n1", "n3"}),
        ("year", "is_empty", None, {"n3"}),
        ("tags", "contains", "b", {"n1", "n2", "n3"}),
        ("tags", "any", ["b", "z"], {"n1", "n2", "n3"}),
        ("tags", "all", ["a", "b"], {"n1", "n2", "n3"}),
    ],
)
def test_filters(store, key, operator, value, expected):
    filters = only(MetadataFilter(key=key, operator=FilterOperator(operator), value=value))
    assert set(asked(store, 0, filters=filters).ids) == expected
    assert {each.node_id for each in store.get_nodes(filters=filters)} == expected


def test_filters_combine(store):
    new, old = (MetadataFilter(key="year", operator=op, value=2001) for op in (">", "<"))
    assert set(asked(store, 0, filters=only(new, old, condition="or")).ids) == {"n0", "n2"}
    assert set(asked(store, 0, filters=only(new, old, condition="not")).ids) == {"n1", "n3"}
    assert set(asked(store, 0, filters=only(only(new), only(old))).ids) == set()
    assert set(asked(store, 0, doc_ids=["doc1"]).ids) == {"n1", "n3"}
    assert set(asked(store, 0, node_ids=["n1", "n2"]).ids) == {"n1", "n2"}
    with pytest.raises(InvalidInput, match="no filter for the operator 'text_match_insensitive'"):
        where_of(only(MetadataFilter(key="a", operator=FilterOperator.TEXT_MATCH_INSENSITIVE, value="b")))


def test_deletion(store):
    store.delete("doc1")
    assert set(asked(store, 0).ids) == {"n0", "n2"}
    store.add([node(0, year=1999)])
    store.delete_nodes(["n0", "n2"], only(MetadataFilter(key="year", value=1999)))
    assert asked(store, 0).ids == ["n2"]
    store.delete_nodes()
    store.clear()
    assert asked(store, 0).ids == []


def test_other_modes_are_refused(store):
    with pytest.raises(InvalidInput, match="mode 'default' only; got 'hybrid'"):
        asked(store, 0, mode=VectorStoreQueryMode.HYBRID)
    with pytest.raises(InvalidInput, match="must be a vector"):
        store.query(VectorStoreQuery())


def test_an_index_of_llama_index_uses_it(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        context = StorageContext.from_defaults(vector_store=LlamaVectorStore(index))
        documents = [Document(text=f"page {i}", doc_id=f"d{i}") for i in range(3)]
        found = VectorStoreIndex.from_documents(documents, context, embed_model=MockEmbedding(embed_dim=8))
        assert len(index) == 3
        assert len(found.as_retriever(similarity_top_k=2).retrieve("page")) == 2
        found.delete_ref_doc("d1")
        assert len(index) == 2
