"""The suite of LangChain itself, and what it does not ask."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput

pytest.importorskip("langchain_tests", reason="needs LangChain: pip install 'mihash[langchain]' langchain-tests")
from langchain_core.documents import Document
from langchain_tests.integration_tests import VectorStoreIntegrationTests

from mihash.io.adapters.langchain import MIHashVectorStore


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
class TestOfLangChain(VectorStoreIntegrationTests):
    @pytest.fixture
    def vectorstore(self, tmp_path):
        with mihash.open(tmp_path / "index", n_bits=32, metric="cosine") as index:
            yield MIHashVectorStore(self.get_embeddings(), index)


class Letters:
    """Embeddings that can be read: how often each of a, b and c occurs."""

    def embed_query(self, text):
        return [float(text.count(letter)) + 0.01 for letter in "abc"]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


@pytest.fixture
def index(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16, metric="cosine") as index:
        yield index


def test_filters_scores_and_vectors(index):
    texts = ["aaa", "aab", "bbb", "ccc"]
    store = MIHashVectorStore.from_texts(
        texts, Letters(), [{"n": n} for n in range(4)], ids=list("wxyz"), index=index
    )
    assert [each.page_content for each in store.similarity_search("aaaa", k=2)] == ["aaa", "aab"]
    assert [each.id for each in store.similarity_search("aaaa", k=2, filter={"n": {"$gte": 2}})] in (
        ["y", "z"],
        ["z", "y"],
    )
    (document, distance), *_ = store.similarity_search_with_score("bbb")
    assert document == Document(id="y", page_content="bbb", metadata={"n": 2})
    assert distance == pytest.approx(0, abs=1e-5)
    scores = [score for _, score in store.similarity_search_with_relevance_scores("ccc")]
    assert scores[0] == pytest.approx(1, abs=1e-5)
    assert np.all(np.diff(scores) <= 0)
    assert store.similarity_search_by_vector([0.0, 0.0, 1.0], k=1)[0].id == "z"
    different = store.max_marginal_relevance_search("aaa", k=2, fetch_k=4, lambda_mult=0.1)
    assert different[0].id == "w"
    assert different[1].id in "yz"
    assert store.as_retriever(search_kwargs={"k": 1}).invoke("ccc")[0].id == "z"


def test_everything_is_deleted_without_ids(index):
    store = MIHashVectorStore(Letters(), index)
    ids = store.add_texts(["a", "b"])
    assert store.get_by_ids(["nobody", *ids])[1].page_content == "b"
    assert store.add_texts([]) == []
    store.delete()
    assert len(index) == 0
    assert store.similarity_search("a") == []


def test_the_later_of_two_texts_with_one_id_is_stored(index):
    store = MIHashVectorStore(Letters(), index)
    assert store.add_texts(["a", "b"], ids=["x", "x"]) == ["x", "x"]
    assert [each.page_content for each in store.get_by_ids(["x"])] == ["b"]


def test_the_field_of_the_text_is_taken(index):
    with pytest.raises(InvalidInput, match="holds the text"):
        MIHashVectorStore(Letters(), index).add_texts(["a"], [{"_text": "mine"}])
