"""Vectors of FAISS and LanceDB in and out."""

import json

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.io.adapters.faiss_vectors import add_faiss, vectors_to_faiss
from mihash.io.adapters.lance_tables import add_lance, write_lance

X = np.random.default_rng(0).standard_normal((300, 8)).astype("f4")


@pytest.fixture
def index(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        yield index


@pytest.mark.needs("faiss")
@pytest.mark.parametrize("kind", ["Flat", "HNSW8", "IVF4,Flat", "IDMap2,Flat"])
def test_vectors_of_faiss(index, kind):
    import faiss

    source = faiss.index_factory(8, kind)
    source.train(X)
    ids = np.arange(1000, 1300) if kind.startswith("IDMap") else np.arange(300)
    if kind.startswith("IDMap"):
        source.add_with_ids(X, ids)
    else:
        source.add(X)
    assert add_faiss(index, source, at_once=128) == 300
    assert np.array_equal(index.get(int(ids[7])).vector, X[7])
    assert index.keys() == ids.tolist()


@pytest.mark.needs("faiss")
@pytest.mark.parametrize("metric", ["euclidean", "cosine"])
def test_vectors_to_faiss(tmp_path, metric):
    with mihash.open(tmp_path / metric, n_bits=16, metric=metric) as index:
        index.add(X)
        expected = index.search(X[:5], k=3, rescore=300).keys
        assert np.array_equal(vectors_to_faiss(index).search(_unit(X[:5], metric), 3)[1], expected)


def _unit(rows, metric):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True) if metric == "cosine" else rows


@pytest.mark.needs("faiss")
def test_what_faiss_cannot_do_is_named(index):
    import faiss

    shards, part = faiss.IndexShards(8), faiss.IndexFlatL2(8)
    part.add(X)
    shards.add_shard(part)
    with pytest.raises(InvalidInput, match="does not return its vectors: IndexShards"):
        add_faiss(index, shards)
    index.add(X[:2], keys=["a", "b"])
    with pytest.raises(InvalidInput, match="some keys are strings"):
        vectors_to_faiss(index)


def test_a_table_of_lancedb_there_and_back(index, tmp_path):
    lancedb = pytest.importorskip("lancedb", reason="needs LanceDB: pip install 'mihash[lance]'")
    years = [{} if i == 4 else {"year": 2000 + i} for i in range(300)]
    keys = index.add(X, [f"class {i % 3}" for i in range(300)], [f"row {i}" for i in range(300)], years)
    assert write_lance(index, str(tmp_path / "lance"), "rows", at_once=128) == 300
    table = lancedb.connect(str(tmp_path / "lance")).open_table("rows")
    first = table.search(X[7]).limit(1).to_list()[0]
    assert (first["key"], first["label"], json.loads(first["metadata"])) == ("row 7", "class 1", {"year": 2007})
    with mihash.open(tmp_path / "copy", n_bits=16) as copy:
        assert add_lance(copy, table, key="key", label="label", metadata=[], at_once=100) == 300
        assert sorted(copy.keys()) == sorted(keys)
        assert np.array_equal(copy.get("row 7").vector, X[7])
        assert copy.get("row 7").label == "class 1"
    with pytest.raises(InvalidInput, match=r"no column 'id'; it has: key, vector, label, metadata"):
        add_lance(index, table, key="id")
