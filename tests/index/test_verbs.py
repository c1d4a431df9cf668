"""Upsert, update, delete by filter, get of many, iteration and pages of keys, through a kill and a reader."""

import datetime
import itertools

import numpy as np
import pytest

import mihash
from mihash.errors import DuplicateKey, InvalidInput, NotReady, UnknownField, UnknownName
from mihash.store.change import Change

rng = np.random.default_rng(3)
X = rng.standard_normal((60, 5)).astype(np.float32)
NAMES = [f"k{i}" for i in range(40)]


@pytest.fixture
def index(tmp_path):
    made = mihash.open(tmp_path / "index", n_bits=16)
    made.add(X[:40], keys=NAMES, metadata=[{"group": i % 4, "i": i} for i in range(40)])
    yield made
    made.close()


def contents(index):
    return [(item.key, item.vector.tolist(), item.label, item.metadata) for item in index.get(list(index))]


def test_an_upsert_replaces_what_is_stored_and_adds_the_rest(index):
    keys = index.upsert(X[40:44], ["k3", "new", "k5", 17])
    assert keys == ["k3", "new", "k5", 17]
    assert len(index) == 42
    assert np.array_equal(index.get("k3").vector, X[40])
    assert [item.metadata for item in index.get(keys)] == [{"group": 3, "i": 3}, None, {"group": 1, "i": 5}, None]
    index.upsert(X[44:46], ["k3", "other"], metadata=[None, {"group": 9}])
    assert [item.metadata for item in index.get(["k3", "other"])] == [None, {"group": 9}]
    assert list(index)[-2:] == ["k3", "other"]
    assert index.search(X[44], k=1, rescore=100).keys.tolist() == ["k3"]
    assert index.upsert(X[46], "k3") == ["k3"]
    assert index.upsert(np.empty((0, 5)), []) == []
    index.wait()
    index.verify()


def test_an_upsert_of_new_keys_is_an_add(tmp_path):
    made = []
    for name in ("add", "upsert"):
        with mihash.open(tmp_path / name, n_bits=16) as index:
            if name == "add":
                index.add(X, keys=range(60))
            else:
                index.upsert(X, range(60))
            index.wait()
            made.append((contents(index), index.current.fingerprint, index.seen))
    assert made[0] == made[1]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (lambda index: index.upsert(X[:2], ["a", "a"]), DuplicateKey, "'a' is given twice. Nothing was changed"),
        (lambda index: index.upsert(X[:2], ["a"]), InvalidInput, "2 keys"),
        (lambda index: index.upsert(X[:2], None), InvalidInput, "`keys`|A key must be"),
        (lambda index: index.upsert(X[:2, :3], ["a", "b"]), InvalidInput, "5 features"),
        (lambda index: index.upsert(X[:2], ["a", "b"], y=[1, 2]), InvalidInput, "began without labels"),
        (lambda index: index.update("k1"), InvalidInput, "needs `X`, `metadata` or both"),
        (lambda index: index.update("k1", y=[1]), InvalidInput, "`y` only with `X`"),
        (lambda index: index.update(["k1", "no"], metadata=[{}, {}]), UnknownName, "'no' is not stored"),
        (lambda index: index.update(["k1", "k2"], metadata=[{}]), InvalidInput, "2 dictionaries"),
        (lambda index: index.update(["k1", "k1"], metadata=[{}, {}]), DuplicateKey, "given twice"),
        (lambda index: index.delete(), InvalidInput, "exactly one of `keys` and `where`"),
        (
            lambda index: index.delete(["k1"], where={"group": 1}),
            InvalidInput,
            "exactly one of `keys` and `where`",
        ),
        (lambda index: index.delete(["k1", "no"]), UnknownName, "'no' is not stored"),
        (lambda index: index.delete(where={"group": {"$near": 1}}), InvalidInput, "known operators"),
        (lambda index: index.get(["k1", "no"]), UnknownName, "'no' is not stored"),
        (lambda index: index.keys(after="no"), UnknownName, "'no' is not stored"),
        (lambda index: index.keys(limit=-1), InvalidInput, "`limit`"),
    ],
)
def test_what_is_refused_changes_nothing(index, change, error, message):
    before = contents(index)
    with pytest.raises(error, match=message):
        change(index)
    assert contents(index) == before


def test_metadata_alone_changes_and_nothing_is_learned(index):
    assert index.search(X[:1], k=40, where={"group": 1}).keys.shape == (1, 10)
    seen, before = index.seen, index.get("k4")
    index.update(["k4", "k9"], metadata=[{"group": 1, "at": datetime.datetime(2026, 1, 2)}, None])
    after = index.get("k4")
    assert np.array_equal(after.vector, before.vector)
    assert after.metadata == {"group": 1, "at": "2026-01-02T00:00:00"}
    assert index.get("k9").metadata is None
    assert index.seen == seen
    assert len(index) == 40
    found = index.search(X[:1], k=40, where={"group": 1}).keys[0].tolist()
    assert sorted(found) == sorted({f"k{i}" for i in range(40) if i % 4 == 1} - {"k9"} | {"k4"})
    assert index.keys(where={"at": {"<": datetime.date(2026, 1, 3)}}) == ["k4"]
    assert list(index) == NAMES
    index.update("k4", metadata={"group": 7})
    assert index.search(X[:1], where={"group": 7}).keys.tolist() == [["k4"]]
    index.wait()
    index.verify()


def test_a_reader_follows_changes_of_metadata(index):
    with mihash.open(index.folder, read_only=True) as reader:
        assert reader.search(X[0], where={"group": 2}).keys.size == 10
        index.update(["k1", "k2"], metadata=[{"group": 2}, {"group": 3}])
        assert sorted(reader.search(X[0], 99, where={"group": 2}).keys) == sorted(index.keys(where={"group": 2}))
        index.upsert(X[50:52], ["k2", "new"], metadata=[{"group": 2}] * 2)
        assert sorted(reader.search(X[0], 99, where={"group": 2}).keys) == sorted(index.keys(where={"group": 2}))
        assert list(reader) == list(index)


def test_count_is_the_number_of_keys(index):
    assert (index.count(), index.count({}), index.count({"group": 1})) == (40, 40, 10)
    with mihash.open(index.folder, read_only=True) as reader:
        assert reader.count({"group": 1, "i": {"<": 20}}) == 5
        index.delete(["k1", "k2"])
        index.update("k3", metadata={"group": 1})
        index.add(X[40:43], keys=["a", "b", "c"], metadata=[{"group": 1}, None, {}])
        for each in (index, reader):
            for where in (None, {"group": 1}, {"group": {"$ne": 1}}, {"i": {"$exists": False}}):
                assert each.count(where) == len(index.keys(where))
    with pytest.raises(InvalidInput, match="known operators"):
        index.count({"group": {"$near": 1}})


def test_count_without_a_version(tmp_path):
    with mihash.open(tmp_path / "new", n_bits=16) as empty:
        assert (empty.count(), empty.count({"group": 1})) == (0, 0)


def test_delete_by_filter(index):
    assert index.delete(where={"group": 1, "i": {"<": 20}}) == 5
    assert [int(key[1:]) for key in index] == [i for i in range(40) if i % 4 != 1 or i >= 20]
    assert index.search(X[0], 99, where={"group": 1}).keys.size == 5
    assert index.delete(where={}) == 35
    assert len(index) == 0
    assert list(index) == index.keys() == []


def test_a_field_that_no_item_has_is_named(index):
    with pytest.warns(UnknownField, match="No item has the field 'grup', which `where` asks for"):
        assert index.search(X[0], where={"grup": 1, "i": {">": 3}}).keys.size == 0
    with pytest.warns(UnknownField, match="'grup'") as caught:
        assert index.delete(where={"grup": 1}) == 0
    assert caught[0].filename == __file__
    with pytest.warns(UnknownField, match="'grup'") as caught:
        assert index.keys(where={"grup": 1}) == []
    assert caught[0].filename == __file__
    with pytest.warns(UnknownField, match="'grup'") as caught:
        assert index.count({"grup": 1}) == 0
    assert caught[0].filename == __file__
    with pytest.warns(UnknownField, match="'a.b', 'c'"):
        index.search(X[:2], where={"$or": [{"a.b": 1}, {"c": 2}]}, radius=16)
    assert index.unknown_fields({"grup": 1, "group": 2}) == ["grup"]
    assert index.search(X[0], where={"group": 77}).keys.size == 0  # it is there, and has no such value
    assert (index.keys(where={"group": 77}), index.delete(where={"group": 77})) == ([], 0)
    assert index.search(X[0], where={"grup": {"$ne": 1}}).keys.size == 10


def test_a_search_takes_one_key(index):
    for several in (["k1", "k2"], ("k1",), np.array(["k1", "k2"]), []):
        with pytest.raises(InvalidInput, match="`key` must be one key; got"):
            index.search(key=several)


def test_pages_go_on_where_they_ended_whatever_became_of_the_last_key(index):
    for change in (lambda key: index.upsert(X[50], key), index.delete):
        before, pages = list(index), [index.keys(limit=10)]
        while page := index.keys(after=pages[-1][-1], limit=10):
            if len(pages) == 1:
                change(pages[0][-1])  # the third page, and the second one again, begin where they began
                assert index.keys(after=pages[0][-1], limit=10) == page
            pages.append(page)
        found = list(itertools.chain(*pages))
        assert found[: len(before)] == before
    assert index.keys(where={"group": 1}, after="k1", limit=1) == ["k5"]
    assert index.keys(after=index.keys()[-1]) == []


def test_pages_of_an_index_by_an_opaque_place(index):
    first = index.page(limit=15)
    assert (first.keys, index.page(limit=40).next) == (NAMES[:15], None)
    index.delete("k14")
    index.upsert(X[50], "k15")
    second = index.page(after=first.next, limit=15)
    assert second.keys == NAMES[16:31]
    with mihash.open(index.folder, read_only=True) as reader:
        assert reader.page(after=second.next).keys == [*NAMES[31:], "k15"]
    assert index.page({"group": 1}, limit=2).keys == ["k1", "k5"]
    for wrong in ("k3", 3, "", "next:1:x", "next:-1:3", 3.5):
        with pytest.raises(InvalidInput, match="`after` must be the `next` value of an earlier page"):
            index.page(after=wrong)
    with pytest.raises(NotReady, match="list from the start"):
        index.page(after="next:7:3")


def test_keys_in_pages_and_iteration(index):
    assert index.keys() == list(index) == NAMES
    assert index.keys(limit=3) == NAMES[:3]
    assert index.keys(after="k36") == NAMES[37:]
    assert index.keys({"group": 0}, after="k8", limit=2) == ["k12", "k16"]
    assert index.keys(limit=0) == index.keys(after="k39") == []
    pages, after = [], None
    while page := index.keys(after=after, limit=7):
        pages.append(page)
        after = page[-1]
    assert list(itertools.chain(*pages)) == NAMES
    walked = []
    for key in index:
        walked.append(key)
        if key == "k7":
            index.delete(["k8", "k7"])
    assert walked == NAMES  # the page was read before
    index.add(X[40:42])
    assert list(index)[-2:] == [40, 41]


def test_membership_is_that_of_keys(index):
    number = index.add(X[40])[0]
    assert "k3" in index
    assert number in index
    assert np.int64(number) in index
    for other in ("k40", str(number), 3.5, None, b"k3", ["k3"], 2**70):
        assert other not in index


def test_get_of_many_keeps_the_order_and_repetitions(index):
    wanted = ["k7", "k1", "k7", "k39"]
    items = index.get(wanted)
    assert [item.key for item in items] == wanted
    assert np.array_equal([item.vector for item in items], X[[7, 1, 7, 39]])
    assert index.get([]) == []
    assert [item.key for item in index.get(("k2",))] == ["k2"]
    assert [item.key for item in index.get(np.array(["k2", "k3"]))] == ["k2", "k3"]


def test_labels_come_with_vectors(tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        index.add(X[:4], ["cat", "dog", "cat", "bird"], keys=list("abcd"))
        index.upsert(X[4:6], ["b", "e"], y=["cat", "fish"])
        index.upsert(X[6], "c")
        assert [item.label for item in index.get(list("abcde"))] == ["cat", "cat", None, "bird", "fish"]
        assert index.seen == 6
    with mihash.open(tmp_path / "numbers", n_bits=16) as index:
        index.add(X[:2], [3, 4])
        assert [(type(item.label), item.label) for item in index.get([0, 1])] == [(int, 3), (int, 4)]
        with pytest.raises(InvalidInput, match="`metadata` must be 1 dictionary; got"):
            index.add(X[0], 3, metadata=[{}, {}])
        with pytest.raises(DuplicateKey, match=r"0 is stored already; nothing was stored. .* use `upsert`"):
            index.add(X[0], 3, keys=0)
        with pytest.raises(InvalidInput, match="`X` must"):
            index.search([float("nan")] * 5)


def test_a_kill_after_upserts_changes_nothing_that_was_learned(tmp_path):
    """The same rows, with and without a loss of all that was learned in memory, lead to the same bits."""
    many = np.random.default_rng(0).standard_normal((900, 5)).astype(np.float32)
    made = []
    for name, killed in (("whole", False), ("killed", True)):
        index = mihash.open(tmp_path / name, n_bits=16)
        for start in range(0, 900, 90):
            index.upsert(many[start : start + 90], [f"k{i % 200}" for i in range(start, start + 90)])
            index.update(f"k{start % 200}", metadata={"start": start})
            if killed and start % 180 == 0:
                index._table.database.close()  # as a kill does: no checkpoint is written
                index = mihash.open(tmp_path / name)
        index.wait()
        index.catch_up()
        made.append((contents(index), index.current.fingerprint, index.seen, len(index)))
        index.close()
    assert made[0] == made[1]


def test_a_change_is_one_transaction(index, monkeypatch):
    """A failure amid an upsert or a change of metadata leaves everything as it was."""
    before, table = contents(index), index._table

    def fails(*_, **__):
        raise RuntimeError("amid")

    monkeypatch.setattr(table.segments, "append", fails)
    with pytest.raises(RuntimeError):
        table.write(Change.upsert(X[40:44], ["k1", "k2", "new", "newer"]))
    monkeypatch.undo()
    monkeypatch.setattr("mihash.store.table.write_settings", fails)
    with pytest.raises(RuntimeError):
        table.write(Change.update(["k1"], metadata=[{"changed": True}]))
    monkeypatch.undo()
    assert contents(index) == before
