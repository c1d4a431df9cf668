import numpy as np
import pytest

import mihash
from mihash.errors import DuplicateKey, InvalidInput, NotReady, SnapshotMismatch
from mihash.mapping import LinearMapping
from oracles_tables import PlainTable, assert_answers

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 6)).astype(np.float32)
first, second = (LinearMapping(rng.standard_normal((6, 12))) for _ in range(2))


def filled(keys=None):
    table = mihash.MemoryTable()
    table.add(X, keys)
    table.rebuild(first)
    return table


def test_search_finds_what_is_stored():
    keys, distances, version, measure = filled().search(X, k=1)
    assert (version, measure) == (0, "margin")
    assert (distances == 0).all()
    codes = first.encode(X)
    assert (codes[keys[:, 0]] == codes).all()


def test_codes_are_ranked_by_margins():
    plain = PlainTable()
    plain.add(X)
    for k in (1, 5, len(X) + 3):
        hits = filled().search(X[:4] + 0.1, k=k)
        assert_answers(hits, [plain.search(x, first, k) for x in X[:4] + 0.1])
    assert filled().search(X[:0]).keys.shape == (0, 10)


def test_rebuild_recomputes_every_code():
    table = filled()
    assert np.array_equal(table.codes, first.encode(X))
    table.rebuild(second)
    assert np.array_equal(table.codes, second.encode(X))
    assert table.mapping == second


def test_rows_added_in_parts_are_the_same_table():
    table = mihash.MemoryTable()
    table.rebuild(first)
    for start in range(0, 50, 7):
        table.add(X[start : start + 7])
        table.search(X[:2])
    assert len(table) == 50
    assert np.array_equal(table.codes, filled().codes)
    assert np.array_equal(table.search(X, 5)[0], filled().search(X, 5)[0])


def test_keys_are_strings_or_integers_and_unique():
    names = [f"item {i}" for i in range(50)]
    table = filled(names)
    assert table.search(X[3:4], k=50)[0][0, 0] in names
    with pytest.raises(DuplicateKey, match="'item 7'"):
        table.add(X[:2], ["new", "item 7"])
    with pytest.raises(DuplicateKey, match="'twice'"):
        table.add(X[:2], ["twice", "twice"])
    assert len(table) == 50
    table.add(X[:2], [1, 2])
    assert table.keys[-2:].tolist() == [1, 2]


@pytest.mark.parametrize("keys", [[1.5, 2.5], ["a"], [[1], [2]], [True, "b"], [None, 1], [2**70, 1], 5, "ab"])
def test_bad_keys(keys):
    table = mihash.MemoryTable()
    with pytest.raises(InvalidInput, match=r"`keys` must be|A key must be a string or a whole number"):
        table.add(X[:2], keys)
    assert len(table) == 0


def test_codes_alone_can_be_searched_within_a_radius_and_under_a_mask():
    codes = first.encode(X)
    table = mihash.MemoryTable.from_codes(codes, n_bits=12, keys=[f"item {i}" for i in range(len(X))])
    distances = mihash.hamming(codes[:4], codes)
    mask = np.arange(len(X)) % 2 == 0
    for method in ("scan", "multi-index"):
        keys, found = table.search_codes(codes[:4], radius=3, mask=mask, method=method)
        for row, names, each in zip(distances, keys, found, strict=True):
            near = np.flatnonzero((row <= 3) & mask)
            order = near[np.argsort(row[near], kind="stable")]
            assert names.tolist() == [f"item {i}" for i in order]
            assert each.tolist() == row[order].tolist()
        keys, found = table.search_codes(codes[1:2], k=1, mask=mask, method=method)
        assert found[0, 0] == distances[1, mask].min()
    for wrong in ({"mask": mask[1:]}, {"mask": np.arange(len(X))}, {"radius": -1}):
        with pytest.raises(InvalidInput):
            table.search_codes(codes[:1], **wrong)


def test_a_table_of_no_codes_takes_no_vectors():
    table = mihash.MemoryTable.from_codes(np.empty((0, 2), np.uint8), n_bits=12)
    assert table.search_codes(first.encode(X[:2]))[0].shape == (2, 0)
    with pytest.raises(NotReady):
        table.add(X)


def test_codes_alone_can_be_searched():
    codes = first.encode(X)
    table = mihash.MemoryTable.from_codes(codes, n_bits=12)
    keys, distances = table.search_codes(codes[:4], k=3)
    expected = filled().search(X[:4], k=3, margins=False)
    assert expected.measure == "hamming"
    assert np.array_equal(keys, expected[0])
    assert np.array_equal(distances, expected[1])
    for call in (lambda: table.add(X), lambda: table.rebuild(first), lambda: table.search(X), table.state):
        with pytest.raises(NotReady):
            call()


def test_codes_of_another_mapping_are_refused():
    table = filled()
    table.search_codes(first.encode(X), fingerprint=first.fingerprint)
    with pytest.raises(SnapshotMismatch, match="another mapping"):
        table.search_codes(second.encode(X), fingerprint=second.fingerprint)


def test_bad_calls():
    table = filled()
    for call in (
        lambda: table.search(X, k=0),
        lambda: table.search(X[:, :2]),
        lambda: table.add(X[:, :2]),
        lambda: table.rebuild(LinearMapping(np.eye(3))),
        lambda: table.search_codes(np.zeros((1, 9), np.uint8)),
        lambda: mihash.MemoryTable.from_codes(first.encode(X), n_bits=99),
    ):
        with pytest.raises(InvalidInput):
            call()
    with pytest.raises(NotReady):
        mihash.MemoryTable().search(X)
    assert len(table) == 50


@pytest.mark.parametrize("keys", [None, [f"k{i}" for i in range(50)]])
def test_round_trip(keys):
    again = mihash.MemoryTable()
    again.restore(filled(keys).state())
    assert np.array_equal(again.codes, filled(keys).codes)
    assert again.keys.tolist() == filled(keys).keys.tolist()


def test_running_numbers_go_on_above_keys_that_are_taken():
    table = mihash.MemoryTable()
    table.add(np.eye(3), keys=[1, 2, 3])
    table.add(np.eye(2, 3))
    table.add([1.0, 2.0, 3.0], keys="a")
    table.add([1.0, 2.0, 3.0])
    assert table.keys.tolist() == [1, 2, 3, 4, 5, "a", 6]


def test_codes_are_made_at_the_next_need_and_only_those_that_are_missing(monkeypatch):
    made = []
    encode = LinearMapping.encode_rows

    def counted(self, rows):
        made.append(len(rows))
        return encode(self, rows)

    monkeypatch.setattr(LinearMapping, "encode_rows", counted)
    table = filled()
    table.rebuild(second)
    assert made == []
    table.search(X[:3])
    table.add(X[:4])
    table.search(X[:3])
    assert sorted(made) == [3, 3, 4, 50]


def test_the_first_key_that_is_taken_is_named():
    table = mihash.MemoryTable()
    table.add(X[:3])
    for keys, wrong in (([5, 2, 5, 1], 2), ([5, 5, 2], 5)):
        with pytest.raises(DuplicateKey, match=f"key {wrong} is"):
            table.add(X[: len(keys)], keys)
    assert table.keys.tolist() == [0, 1, 2]
