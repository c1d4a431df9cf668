import shutil
from contextlib import suppress

import numpy as np
import pytest

import damage
from mihash.errors import CorruptStore, DuplicateKey, InvalidInput, NotReady, UnknownName
from mihash.mapping import LinearMapping
from mihash.store.change import Change
from mihash.store.sqlite.sqlite_table import SQLiteTable
from oracles_tables import PlainTable, assert_answers
from stored import FIRST, SECOND, D, Q, X, answer, compact, everything, metadata_of, opened

FILTERS = [
    ({"a": 1}, lambda m: m is not None and m["a"] == 1),
    ({"a": {"$gte": 1}, "b": ["x", "xx"]}, lambda m: m is not None and m["a"] >= 1 and m["b"] in ("x", "xx")),
    ({"a": None}, lambda m: m is None),
    ({"b": "none"}, lambda _: False),
    ({}, lambda _: True),
]


def compared(table, plain, mapping, seed):
    rng = np.random.default_rng(seed)
    queries = rng.standard_normal((2, mapping.n_features)).astype(np.float32)
    for where, accepts in ((None, lambda _: True), FILTERS[seed % len(FILTERS)]):
        for k in (1, 5, 1000):
            for rescore in (0, 10):
                hits = table.search(queries, k, where=where, rescore=rescore)
                assert_answers(hits, [plain.search(q, mapping, k, accepts, rescore) for q in queries], rescore > 0)
        for radius in (0, mapping.n_bits // 2, mapping.n_bits):
            hits = table.search(queries, where=where, radius=radius)
            assert_answers(hits, [plain.search(q, mapping, 1, accepts, 0, radius) for q in queries])
    assert len(table) == len(plain.rows)
    for key in plain.keys()[:5]:
        item, (_, vector, label, metadata) = table.get(key), plain.get(key)
        assert (item.key, type(item.key)) == (key, type(key))
        assert np.array_equal(item.vector, vector)
        assert np.array_equal(item.label, label)
        assert item.metadata == metadata


KEYS = {
    "none": lambda first, n: None,  # noqa: ARG005
    "numbers": lambda first, n: [7 * i - 50 for i in range(first, first + n)],
    "strings": lambda first, n: [f"key {i}" for i in range(first, first + n)],
    "mixed": lambda first, n: [i // 2 if i % 2 else str(i // 2) for i in range(first, first + n)],
}


@pytest.mark.parametrize("seed", range(16))
def test_a_random_life_is_that_of_a_plain_dictionary(folder, seed):
    rng = np.random.default_rng(seed)
    d, b = int(rng.choice([1, 2, 9])), int(rng.choice([1, 7, 16, 64, 70]))
    dtype, metric = ("float32", "float16")[seed % 2], ("euclidean", "cosine")[seed // 2 % 2]
    named = list(KEYS.values())[seed // 4]
    mappings = [LinearMapping(rng.standard_normal((d, b)), rng.standard_normal(b)) for _ in range(3)]
    table, plain = SQLiteTable.create(folder, dtype=dtype, metric=metric), PlainTable(dtype, metric)
    mapping = mappings[0]
    table.rebuild(mapping)
    compared(table, plain, mapping, seed)
    for turn in range(14):
        deed = (
            "add" if turn < 2 else rng.choice(["add", "add", "delete", "update", "rebuild", "compact", "reopen"])
        )
        n = int(rng.integers(1, 12))
        vectors = rng.standard_normal((n, d)).astype(np.float32)
        vectors[rng.random(n) < 0.1] = 0
        some = [plain.keys()[i] for i in rng.permutation(len(plain.rows))[:n]]
        if deed == "add":
            keys, metadata = named(plain.next, n), metadata_of(n, turn) if rng.random() < 0.7 else None
            labels = rng.integers(0, 4, n) if seed % 3 else None
            for each in (table, plain):
                each.add(vectors, keys, labels, metadata)
        elif deed == "delete":
            assert table.delete(some) == len(some)
            plain.delete(some)
        elif deed == "update":
            metadata = metadata_of(len(some)) if rng.random() < 0.5 else None
            table.write(Change.update(some, vectors[: len(some)], None, metadata))
            plain.update(some, vectors[: len(some)], None, metadata)
        elif deed == "rebuild":
            mapping = mappings[turn % 3]
            table.rebuild(mapping)
        elif deed == "compact":
            compact(table)
        else:
            table.close()
            table = SQLiteTable(folder)
        if turn % 3 == 2:
            compared(table, plain, mapping, seed + turn)
    compared(table, plain, mapping, seed)
    table.verify()
    table.close()
    with opened(folder, read_only=True) as reader:
        compared(reader, plain, mapping, seed)
        assert reader.verify()["items"] == len(plain.rows)


def test_before_anything_was_added(folder):
    table = SQLiteTable.create(folder)
    assert (len(table), table.n_features, table.mapping, table.edition, table.last) == (0, None, None, None, -1)
    assert table.search(Q).keys.shape == (3, 0)
    assert table.search(Q).version is None
    assert [len(keys) for keys in table.search(Q, radius=3).keys] == [0, 0, 0]
    table.add(X[:5])  # before the first mapping: stored, and not found yet
    assert len(table) == 5
    assert table.search(Q).keys.shape == (3, 0)
    table.rebuild(FIRST)
    assert table.search(Q).keys.shape == (3, 5)
    assert (table.n_features, table.mapping) == (D, FIRST)
    table.delete([0, 1, 2, 3, 4])
    assert table.search(Q).keys.shape == (3, 0)
    assert table.search(Q, rescore=5).keys.shape == (3, 0)
    compact(table)
    assert table.search(Q).keys.shape == (3, 0)
    table.add(X[:1])
    assert table.search(Q).keys.tolist() == [[5], [5], [5]]
    table.close()


def test_no_queries_and_no_rows(table):
    assert table.add(X[:0])[0] == []
    assert table.write(Change.update([], X[:0]))[0] == []
    assert table.delete([]) == 0
    table.add(X[:5])
    assert len(table.search(X[:0]).keys) == 0
    assert len(table.search(X[:0], radius=2).keys) == 0
    assert len(table) == 5


@pytest.mark.parametrize(
    "call",
    [
        lambda table: table.search(Q, k=0),
        lambda table: table.search(Q, k=1.5),
        lambda table: table.search(Q, rescore=-1),
        lambda table: table.search(Q, radius=-1),
        lambda table: table.search(Q[:, :2]),
        lambda table: table.search(Q[0, :2]),
        lambda table: table.search(Q[None]),
        lambda table: table.search(Q, n_threads=0),
        lambda table: table.search(Q, method="fast"),
        lambda table: table.add(X[:2], labels=[1]),
        lambda table: table.add(X[:2], keys=["new", "new"]),
        lambda table: table.add(X[:1], source=("file", -1)),
        lambda table: table.search(Q * np.nan),
        lambda table: table.search(Q, where={"a": {"$near": 1}}),
        lambda table: table.search(Q, where=[1]),
        lambda table: table.add(X[:2, :3]),
        lambda table: table.add(X[:2], keys=["one"]),
        lambda table: table.add(X[:2], keys=[1.5, 2]),
        lambda table: table.add(X[:2], metadata=[{}]),
        lambda table: table.add(X[:1], metadata=[{"a": object()}]),
        lambda table: table.add(X[:1], keys=["key 3"]),
        lambda table: table.write(Change.update(["key 1", "key 1"], X[:2])),
        lambda table: table.write(Change.update(["key 1"], X[:2])),
        lambda table: table.write(Change.update(["unknown"], X[:1])),
        lambda table: table.write(Change.update(["key 1", "unknown"], X[:2])),
        lambda table: table.delete("unknown"),
        lambda table: table.delete(["key 1", "unknown"]),
        lambda table: table.delete(1.5),
        lambda table: table.get("unknown"),
        lambda table: table.get(None),
        lambda table: table.mapping_of(99),
        lambda table: table.build(99),
    ],
)
def test_a_bad_call_is_named_and_changes_nothing(table, call):
    keys = [f"key {i}" for i in range(10)]
    table.add(X[:10], keys, metadata=metadata_of(10))
    before = everything(table, keys)
    with pytest.raises((InvalidInput, UnknownName)):
        call(table)
    assert everything(table, keys) == before
    table.verify()


def test_a_mapping_of_another_width_changes_nothing(table):
    table.add(X[:10])
    before = answer(table)
    with pytest.raises(InvalidInput, match="holds 6 features; the mapping takes 3"):
        table.rebuild(LinearMapping(np.eye(3)))
    assert answer(table) == before


def test_a_mapping_of_another_width_is_not_waiting(table):
    table.add(X[:10])
    with suppress(InvalidInput):
        table.rebuild(LinearMapping(np.eye(3)))
    assert table.waiting() is None


@pytest.mark.parametrize("keys", [[], ["key 1", "key 2"]])
def test_several_keys_are_a_list_of_items(table, keys):
    table.add(X[:10], [f"key {i}" for i in range(10)])
    assert [item.key for item in table.get(keys)] == keys


@pytest.mark.parametrize(
    "source", [("a", 2**70), (None, 1), ("\ud800", 1), (["a"], 1), ("a",), ("a", 1, 2), 5, ("a", 1.5), ("a", "b")]
)
def test_a_bad_source_is_named(table, source):
    with pytest.raises(InvalidInput):
        table.add(X[:1], source=source)


def test_a_source_is_committed_with_the_rows(table):
    table.add(X[:2], keys=["a", "b"], source=("file", 10))
    with pytest.raises(DuplicateKey):
        table.add(X[:1], keys=["a"], source=("file", 20))
    with table.database.read() as connection:
        assert connection.execute("SELECT name, position FROM source").fetchall() == [("file", 10)]
    table.add(X[:0], source=("file", 30))
    with table.database.read() as connection:
        assert connection.execute("SELECT name, position FROM source").fetchall() == [("file", 30)]


def test_vectors_are_kept_as_they_are_stored(folder):
    table = SQLiteTable.create(folder, dtype="float16")
    table.rebuild(FIRST)
    names, stored = table.add(X[:5], keys=list("abcde"))
    small = X[:5].astype(np.float16).astype(np.float32)
    assert names == list("abcde")
    assert np.array_equal(stored, small)
    assert np.array_equal(table.get("c").vector, small[2])
    assert np.array_equal(table.edition.codes(), FIRST.encode(small))
    with pytest.raises(InvalidInput, match="float16"):
        table.add(X[:1] * 1e6)
    assert len(table) == 5
    table.close()


def test_the_input_is_left_as_it_was(table):
    given, queries = X.copy(), Q.copy()
    table.add(given)
    table.search(queries, rescore=10)
    given[:] = 0
    assert np.array_equal(queries, Q)
    assert np.array_equal(table.get(3).vector, X[3])


@pytest.mark.parametrize("options", [{"dtype": "float64"}, {"metric": "manhattan"}])
def test_bad_options(folder, options):
    with pytest.raises(InvalidInput):
        SQLiteTable.create(folder, **options)
    assert not folder.exists()


def test_labels_come_back(table, folder):
    table.add(X[:3], list("abc"), np.array([5, -1, 2**40]))
    table.add(X[3:4], ["d"])
    assert [table.get(key).label for key in "abcd"] == [5, -1, 2**40, None]
    assert table.label_kind == ("int64", 0)
    table.delete("b")
    compact(table)
    assert [table.get(key).label for key in "acd"] == [5, 2**40, None]
    matrix = SQLiteTable.create(folder.with_name("other"))
    matrix.add(X[:2], None, np.array([[1, 0, 1], [0, 0, 0]], dtype=np.uint8))
    assert matrix.get(0).label.tolist() == [1, 0, 1]
    assert matrix.label_kind == ("uint8", 3)
    matrix.close()


def test_what_was_added_is_there_after_closing_and_opening(table, folder):
    keys = [f"key {i}" for i in range(30)]
    table.add(X[:30], keys, np.arange(30) % 3, metadata_of(30))
    table.delete(keys[5])
    before = everything(table, keys[:5])
    table.close()
    table.close()
    for call in (lambda: table.search(Q), lambda: table.add(X[:1]), lambda: table.get("key 1"), table.verify):
        with pytest.raises(NotReady, match="closed"):
            call()
    with opened(folder) as again:
        assert everything(again, keys[:5]) == before
        with pytest.raises(DuplicateKey):
            again.add(X[:1], ["key 3"])
        again.add(X[:1], ["key 5"])


@pytest.mark.parametrize("stored", [False, True])
def test_codes_that_are_not_stored_are_made_from_the_vectors(table, folder, stored):
    table.add(X[:20])
    if stored:
        with table.database.write() as connection:
            table.store_codes(connection)
        table.add(X[20:30])
        with table.database.write() as connection:
            table.store_codes(connection)
    table.add(X[30:40])
    before = answer(table)
    table.close()
    with opened(folder, read_only=True) as reader:
        assert answer(reader) == before
        rows = np.arange(40) if stored else np.r_[:20, 30:40]
        assert np.array_equal(reader.edition.codes(), FIRST.encode(X[rows]))


def test_compacting_keeps_the_answers_and_gives_room_back(table, folder):
    n = 4000
    vectors = np.random.default_rng(0).standard_normal((n, D)).astype(np.float32)
    keys = [f"key {i}" for i in range(n)]
    for start in range(0, n, 250):
        part = slice(start, start + 250)
        table.add(vectors[part], keys[part], np.arange(n)[part], metadata_of(250))
    table.delete([key for i, key in enumerate(keys) if i % 10])
    before, kept = everything(table, keys[::100]), keys[::100]
    table.close()
    size = (folder / "index.db").stat().st_size
    with opened(folder) as again:
        compact(again)
        assert everything(again, kept) == before
        assert again.verify() == {"items": 400, "versions": 1, "rows": 400, "codes": 400}
        compact(again)
        assert everything(again, kept) == before
        again.add(X[:1], ["later"])
        assert again.last == n
    assert (folder / "index.db").stat().st_size < size / 2
    with opened(folder, read_only=True) as reader:
        assert everything(reader, kept)[4] == before[4]


def test_a_backup_has_the_same_answers(table, folder):
    keys = [f"key {i}" for i in range(30)]
    table.add(X[:30], keys, metadata=metadata_of(30))
    table.delete("key 7")
    before = everything(table, keys[:5])
    table.database.backup(folder.with_name("copy"))
    table.delete("key 8")
    with opened(folder.with_name("copy")) as copy:
        assert everything(copy, keys[:5]) == before
        copy.verify()
        copy.add(X[:1], ["mine"])
    with pytest.raises(UnknownName):
        table.get("mine")


def test_a_crashed_table_is_all_that_was_acknowledged(table, folder):
    crashed = folder.with_name("crashed")
    for turn in range(4):
        table.add(X[10 * turn : 10 * turn + 10])
        table.delete([10 * turn])
        if turn == 2:
            table.rebuild(SECOND)
        shutil.rmtree(crashed, ignore_errors=True)
        shutil.copytree(folder, crashed)  # what a kill would leave
        with opened(crashed) as again:
            assert answer(again) == answer(table)
            again.verify()


def test_the_lock_is_free_after_a_failed_open(table, folder):
    table.close()
    sound = damage.mapping_blob(folder, 0)
    damage.replace(folder, "version", "mapping", sound, sound[:-1])
    with pytest.raises(CorruptStore) as kept:
        SQLiteTable(folder)
    with pytest.raises(CorruptStore):  # not StoreLocked, by whom the error holds on to
        SQLiteTable(folder)
    assert kept.value is not None
