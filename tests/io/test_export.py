"""Export: what comes out is what is in, of one moment, and searches as it does here."""

import json
import sqlite3
import sys
import threading
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mihash
from mihash.errors import CorruptStore, InvalidInput, NotReady, StoreError, UnsupportedVersion
from mihash.io import export
from mihash.io.export import code_rows as exported
from mihash.mapping import LinearMapping
from mihash.paper.datasets import load
from mihash.store.sqlite.sqlite_table import SQLiteTable

rng = np.random.default_rng(0)
D = 6
X = rng.standard_normal((300, D)).astype(np.float32)
Q = rng.standard_normal((20, D)).astype(np.float32)
NEEDS_FAISS = pytest.mark.needs("faiss")
NAMES = [f"item {i}" for i in range(300)]


def metadata(n):
    return [None if i % 7 == 6 else {"a": i, "b": "ü"} for i in range(n)]


@pytest.fixture
def index(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=20, learner="lsh") as made:
        yield made


@pytest.fixture
def full(index):
    """Return an index with strings as keys, where some were deleted and some were updated."""
    index.add(X, keys=NAMES, metadata=metadata(300))
    index.delete(NAMES[:50:2])
    index.update(NAMES[1:9:2], X[:4])
    index.wait()
    return index


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(exported, "_batch_rows", lambda _: 32)


def memory_table(n_bits=20, keys=None):
    table = mihash.MemoryTable()
    table.add(X, keys)
    table.rebuild(LinearMapping(np.random.default_rng(1).standard_normal((D, n_bits))))
    return table


def answers(saved, k):
    table = mihash.MemoryTable.from_codes(saved.codes, saved.n_bits, saved.keys)
    keys, distances = table.search_codes(saved.mapping.encode(Q), k)
    return keys.tolist(), distances.tolist()


def expected(source, k):
    how = {} if isinstance(source, mihash.MemoryTable) else {"rescore": 0}
    found = source.search(Q, k, margins=False, **how)
    return found[0].tolist(), found[1].tolist()


def same(a, b):
    assert a.codes.dtype == np.uint8
    assert a.keys.dtype == b.keys.dtype
    assert (a.codes.tolist(), a.keys.tolist()) == (b.codes.tolist(), b.keys.tolist())
    assert (a.n_bits, a.mapping, a.version) == (b.n_bits, b.mapping, b.version)


# Parquet and Arrow


@pytest.mark.usefixtures("small_batches")
def test_an_index_comes_back_from_parquet_and_answers_the_same(full, tmp_path):
    file = tmp_path / "codes.parquet"
    assert export.to_parquet(full, file) == len(full) == 275
    saved = export.read_parquet(file)
    assert (saved.n_bits, saved.mapping, saved.version) == (20, full.snapshot, full.version)
    assert answers(saved, 300) == expected(full, 300)
    same(saved, export.codes_of(full))
    same(saved, export.from_arrow(export.to_arrow(full)))
    with pq.ParquetFile(file) as written:
        assert written.num_row_groups == -(-304 // 32)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["codes.parquet", "index"]


def test_what_was_learned_comes_back(tmp_path):
    colour = rng.integers(0, 3, size=600)
    Z = 3 * rng.standard_normal((3, D))[colour] + rng.standard_normal((600, D))
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16, metric="cosine") as index:
        index.add(Z, colour)
        index.wait()
        export.to_parquet(index, tmp_path / "codes.parquet")
        saved = export.read_parquet(tmp_path / "codes.parquet")
        assert saved.version == index.version > 0
        assert answers(saved, 50) == expected(index, 50)


@pytest.mark.parametrize(
    ("keys", "kind"),
    [
        (None, pa.int64()),
        ([-(2**63), -1, *range(1, 299)], pa.int64()),
        (NAMES, pa.string()),
        (["1", 1, *range(2, 300)], pa.string()),
        ([*range(299), '"ü"'], pa.string()),
    ],
    ids=["none", "integers", "strings", "mixed", "one string"],
)
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.usefixtures("small_batches")
def test_keys(index, tmp_path, keys, kind, durable):
    table = memory_table(keys=keys)
    if durable:
        index.add(X, keys=keys)
        index.wait()
        table = index
    export.to_parquet(table, tmp_path / "codes.parquet")
    assert pq.read_schema(tmp_path / "codes.parquet").field("key").type == kind
    saved = export.read_parquet(tmp_path / "codes.parquet")
    assert saved.keys.tolist() == (list(range(300)) if keys is None else keys)
    assert saved.keys.dtype == (np.int64 if kind == pa.int64() else object)
    assert answers(saved, 10) == expected(table, 10)


@given(
    st.lists(
        st.integers(-(2**63), 2**63 - 1)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        unique_by=lambda key: (type(key), key),
    ),
    st.integers(1, 70),
)
def test_any_keys_and_lengths_come_back(keys, n_bits):
    codes = mihash.pack(np.random.default_rng(n_bits).random((len(keys), n_bits)) < 0.5)
    table = mihash.MemoryTable.from_codes(codes, n_bits, keys)
    saved = export.from_arrow(export.to_arrow(table))
    assert (saved.keys.tolist(), saved.codes.tolist(), saved.n_bits) == (keys, codes.tolist(), n_bits)
    assert saved.mapping is None
    assert saved.version is None
    same(saved, export.from_arrow(export.to_arrow(saved)))


def test_the_schema_says_what_the_codes_are(full):
    table = export.to_arrow(full)
    told = {name.decode(): value.decode() for name, value in table.schema.metadata.items()}
    assert told.pop("mihash.mapping")
    assert told == {
        "mihash.format": "1",
        "mihash.n_bits": "20",
        "mihash.bit_order": "little",
        "mihash.keys": "strings",
        "mihash.version": str(full.version),
        "mihash.fingerprint": full.snapshot.fingerprint,
    }
    assert table.schema.names == ["key", "code"]
    assert table.schema.field("code").type == pa.binary(3)
    item = table.slice(100, 1).to_pylist()[0]
    assert item["code"] == full.snapshot.encode(full.get(item["key"]).vector[None]).tobytes()


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.usefixtures("small_batches")
def test_metadata_and_vectors(tmp_path, dtype):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=20, learner="lsh", dtype=dtype) as index:
        for start in range(0, 300, 50):
            index.add(X[start : start + 50], metadata=metadata(50))
        index.delete(range(100, 160))
        index.compact()
        index.delete(range(0, 300, 3 * 60))
        index.wait()
        export.to_parquet(index, tmp_path / "codes.parquet", metadata=True, vectors=True)
        table = pq.read_table(tmp_path / "codes.parquet")
        assert table.schema.field("vector").type == pa.list_(pa.float32(), D)
        assert len(table) == len(index) == 238
        for row in table.to_pylist():
            item = index.get(row["key"])
            assert row["vector"] == item.vector.tolist()
            assert (None if row["metadata"] is None else json.loads(row["metadata"])) == item.metadata
        assert answers(export.read_parquet(tmp_path / "codes.parquet"), 20) == expected(index, 20)


def test_a_file_with_vectors_is_a_data_set(tmp_path):
    export.to_parquet(memory_table(keys=NAMES), tmp_path / "codes.parquet", vectors=True)
    np.testing.assert_array_equal(load(tmp_path / "codes.parquet").X, X)


def test_a_table_on_the_disk(tmp_path):
    table = SQLiteTable.create(tmp_path / "table")
    with pytest.raises(NotReady, match="add vectors first"):
        export.codes_of(table)
    table.rebuild(LinearMapping(np.eye(D)))
    assert export.codes_of(table).codes.shape == (0, 1)
    table.add(X, keys=NAMES)
    saved = export.codes_of(table)
    assert answers(saved, 9) == expected(table, 9)
    table.close()


def test_codes_that_were_read_are_written_again(full, tmp_path):
    saved = export.codes_of(full)
    export.to_parquet(saved, tmp_path / "codes.parquet")
    same(export.read_parquet(tmp_path / "codes.parquet"), saved)


# One moment


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.usefixtures("small_batches")
def test_an_export_is_of_the_moment_it_began(full, read_only):
    before, answer = export.codes_of(full), expected(full, 300)
    reader = mihash.OnlineIndex.open(full.folder, read_only=True)
    with reader, exported.opened(reader if read_only else full, metadata=True, vectors=True) as rows:
        batches = [next(rows.batches)]
        full.delete(NAMES[60:200])
        full.update(NAMES[200:210], X[:10])
        full.add(X, metadata=metadata(300))
        batches.append(next(rows.batches))
        full.rehash()
        full.wait()
        batches.extend(rows.batches)
    saved = export.Codes(
        np.concatenate([batch.codes for batch in batches]),
        np.concatenate([batch.keys for batch in batches]),
        rows.n_bits,
        rows.mapping,
        rows.version,
    )
    same(saved, before)
    assert answers(saved, 300) == answer
    vectors = np.concatenate([batch.vectors for batch in batches])
    np.testing.assert_array_equal(rows.mapping.encode(vectors), before.codes)
    after = export.codes_of(full)
    assert answers(after, 700) == expected(full, 700)
    assert after.version > before.version


def test_exports_beside_a_writer(index):
    """Key k has the vector X[k % 300]: each export must hold whole calls, and codes of its own mapping."""
    index.add(X)
    failures = []

    def write():
        try:
            for i in range(1, 8):
                index.add(X)
                index.delete(range(300 * (i - 1), 300 * i))
                if i % 3 == 0:
                    index.rehash()
        except Exception as error:
            failures.append(error)

    writer = threading.Thread(target=write)
    writer.start()
    n = 0
    while writer.is_alive() or not n:
        saved = export.codes_of(index)
        assert len(saved.keys) in (300, 600)
        assert saved.codes.tolist() == saved.mapping.encode(X[saved.keys % 300]).tolist()
        n += 1
    writer.join()
    assert failures == []


# Files that are whole, or not there


@NEEDS_FAISS
def test_a_file_is_replaced_as_a_whole(full, tmp_path, monkeypatch):
    file = tmp_path / "codes.parquet"
    file.write_bytes(b"before")
    monkeypatch.setattr(exported, "_live", lambda *_: (_ for _ in ()).throw(CorruptStore("broken")))
    with pytest.raises(CorruptStore, match="broken"):
        export.to_parquet(full, file)
    with pytest.raises(CorruptStore, match="broken"):
        export.write_faiss(full, file, ids="rows")
    assert file.read_bytes() == b"before"
    assert sorted(each.name for each in tmp_path.iterdir()) == ["codes.parquet", "index"]


@pytest.mark.parametrize("write", [export.to_parquet, pytest.param(export.write_faiss, marks=NEEDS_FAISS)])
def test_a_file_that_cannot_be_written(tmp_path, write):
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "missing" / "codes", tmp_path / "folder"):
        with pytest.raises(StoreError, match="Cannot write"):
            write(memory_table(), path)
    assert [each.name for each in tmp_path.iterdir()] == ["folder"]


def test_files_that_are_not_codes(tmp_path):
    with pytest.raises(StoreError, match="Cannot read"):
        export.read_parquet(tmp_path / "missing.parquet")
    file = tmp_path / "codes.parquet"
    file.write_bytes(b"PAR1 no")
    with pytest.raises(CorruptStore, match="not a Parquet file"):
        export.read_parquet(file)
    pq.write_table(pa.table({"key": [1], "code": [b"a"]}), file)
    with pytest.raises(InvalidInput, match=r"codes\.parquet.*not exported by mihash"):
        export.read_parquet(file)


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("format", "2", UnsupportedVersion),
        ("format", "one", CorruptStore),
        ("n_bits", "24", CorruptStore),
        ("n_bits", "40", CorruptStore),
        ("n_bits", "0", CorruptStore),
        ("bit_order", "big", CorruptStore),
        ("keys", "bytes", CorruptStore),
        ("version", "x", CorruptStore),
        ("fingerprint", "00", CorruptStore),
        ("mapping", "AAAA", CorruptStore),
        ("mapping", "*", CorruptStore),
    ],
)
def test_a_schema_that_was_changed(name, value, error):
    table = export.to_arrow(memory_table())
    changed = table.replace_schema_metadata({**table.schema.metadata, f"mihash.{name}".encode(): value})
    with pytest.raises(error):
        export.from_arrow(changed)
    missing = {key: held for key, held in table.schema.metadata.items() if key != f"mihash.{name}".encode()}
    if name not in ("version", "mapping"):
        with pytest.raises((CorruptStore, InvalidInput)):
            export.from_arrow(table.replace_schema_metadata(missing))


def test_columns_that_were_changed():
    table = export.to_arrow(memory_table())
    for codes in (
        pa.array([b"abc"] * 300, pa.binary()),
        pa.array([None] * 300, pa.binary(3)),
        pa.array([b"\xff\xff\xff"] * 300, pa.binary(3)),
    ):
        with pytest.raises(CorruptStore):
            export.from_arrow(table.set_column(1, "code", codes))
    for keys in (pa.array(["a"] * 300), pa.array([None] * 300, pa.int64())):
        with pytest.raises(CorruptStore):
            export.from_arrow(table.set_column(0, "key", keys))
    assert export.from_arrow(table.slice(7, 5)).keys.tolist() == [7, 8, 9, 10, 11]


def test_a_wrong_byte_is_noticed(tmp_path):
    file = tmp_path / "codes.parquet"
    export.to_parquet(memory_table(), file)
    whole = file.read_bytes()
    code = memory_table().codes[5].tobytes()
    at = whole.index(code)
    file.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    with pytest.raises(CorruptStore, match="damaged"):
        export.read_parquet(file)
    file.write_bytes(whole[:-20])
    with pytest.raises(CorruptStore, match="damaged"):
        export.read_parquet(file)


# FAISS


@NEEDS_FAISS
@pytest.mark.parametrize("n_bits", [1, 8, 12, 32, 64, 100, 128, 256])
def test_faiss_finds_the_same(n_bits, tmp_path):
    import faiss

    random = np.random.default_rng(n_bits)
    codes = mihash.pack(random.random((2000, n_bits)) < 0.5)
    queries = mihash.pack(random.random((50, n_bits)) < 0.5)
    keys = random.permutation(2000) * 7 + 2**40
    table = mihash.MemoryTable.from_codes(codes, n_bits, keys)
    file = tmp_path / "codes.faiss"
    assert export.write_faiss(table, file) == 2000
    index = faiss.read_index_binary(str(file))
    assert isinstance(index, faiss.IndexBinaryIDMap2)
    assert index.d == 8 * codes.shape[1]
    compare(table.search_codes(queries, 25), index.search(queries, 25))
    assert index.reconstruct(int(keys[3])).tolist() == codes[3].tolist()


def compare(ours, theirs):
    """Check that distances are the same, and ids wherever the tie is not cut off."""
    for ids, distances, found, others in zip(*ours, *reversed(theirs), strict=True):
        assert distances.tolist() == others.tolist()
        whole = distances < distances[-1]
        assert sorted(zip(distances[whole], ids[whole], strict=True)) == sorted(
            zip(others[whole], found[whole], strict=True)
        )


@NEEDS_FAISS
@pytest.mark.usefixtures("small_batches")
def test_faiss_has_what_the_index_has(index):
    index.add(X)
    index.delete(range(0, 300, 7))
    index.wait()
    made = export.to_faiss(index)
    assert made.ntotal == len(index)
    compare(index.search(Q, 30, rescore=0, margins=False)[:2], made.search(index.snapshot.encode(Q), 30))


@NEEDS_FAISS
def test_faiss_wants_numbers(full):
    with pytest.raises(InvalidInput, match='ids="rows"'):
        export.to_faiss(full)
    with pytest.raises(InvalidInput, match='ids="rows"'):
        export.to_faiss(memory_table(keys=[-1, *range(299)]))
    with pytest.raises(InvalidInput, match="`ids` must be one of"):
        export.to_faiss(full, ids="names")
    saved = export.codes_of(full)
    distances, rows = export.to_faiss(saved, ids="rows").search(saved.mapping.encode(Q), 30)
    compare(full.search(Q, 30, rescore=0, margins=False)[:2], (distances, saved.keys[rows]))


# What cannot be exported


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ("DELETE FROM item WHERE id = 150", {}),
        ("DELETE FROM item WHERE id = 150", {"metadata": True}),
        ("UPDATE item SET key = 'other' WHERE id = 150", {}),
        ("UPDATE item SET metadata = '{}' WHERE id = 150", {"metadata": True}),
        ("UPDATE segment SET vectors = zeroblob(length(vectors))", {"vectors": True}),
    ],
)
def test_a_damaged_index_is_not_exported(full, tmp_path, change, options):
    full.close()
    with closing(sqlite3.connect(full.folder / "index.db")) as connection, connection:
        connection.execute(change)
    with mihash.OnlineIndex.open(full.folder, read_only=True) as damaged, pytest.raises(CorruptStore):
        export.to_parquet(damaged, tmp_path / "codes.parquet", **options)
    assert not (tmp_path / "codes.parquet").exists()


@NEEDS_FAISS
def test_nothing_to_export(index, tmp_path):
    for empty in (index, mihash.MemoryTable()):
        with pytest.raises(NotReady):
            export.to_parquet(empty, tmp_path / "codes.parquet")
    keys = index.add(X, keys=NAMES)
    index.delete(keys)
    assert export.to_parquet(index, tmp_path / "codes.parquet", metadata=True, vectors=True) == 0
    assert export.read_parquet(tmp_path / "codes.parquet").codes.shape == (0, 3)
    assert export.to_faiss(index).ntotal == 0
    index.close()
    with pytest.raises(NotReady, match="closed"):
        export.codes_of(index)


def test_what_a_source_does_not_hold():
    bare = mihash.MemoryTable.from_codes(mihash.pack([[0, 1]]), 2)
    for source in (bare, export.codes_of(bare)):
        with pytest.raises(NotReady, match="vectors"):
            export.to_arrow(source, vectors=True)
        with pytest.raises(NotReady, match="metadata"):
            export.to_arrow(source, metadata=True)
    with pytest.raises(InvalidInput, match="`source` must be an OnlineIndex"):
        export.to_arrow(X)
    with pytest.raises(InvalidInput, match="`keys` must be 1 key"):
        export.to_arrow(export.codes_of(bare)._replace(keys=np.arange(2)))
    with pytest.raises(InvalidInput, match="ones beyond its 1 bits"):
        export.to_arrow(export.codes_of(bare)._replace(n_bits=1))


@pytest.mark.parametrize(
    ("module", "call"),
    [
        ("pyarrow", export.to_arrow),
        ("pyarrow", lambda table: export.to_parquet(table, "never")),
        ("pyarrow", lambda _: export.read_parquet("never")),
        ("faiss", export.to_faiss),
        ("faiss", lambda table: export.write_faiss(table, "never")),
    ],
)
def test_a_missing_extra_says_what_to_install(monkeypatch, module, call):
    for name in (module, f"{module}.parquet"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(NotReady, match=r"pip install 'mihash\[(arrow|faiss)\]'"):
        call(memory_table())
