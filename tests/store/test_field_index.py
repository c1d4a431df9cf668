"""Indexes on fields find what a walk over all metadata finds, through every change, and damage is noticed."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from hypothesis import given, settings
from test_filters import filters, items, st

from mihash.errors import CorruptStore
from mihash.store.change import Change
from mihash.store.filters import compile_filter
from mihash.store.sqlite import answers, field_index
from mihash.store.sqlite import items as items_module
from mihash.store.sqlite.field_index import (
    can_index,
    enter,
    filtered_fields,
    index_field,
    leave,
    mask_of,
    possible_ids,
)
from mihash.store.sqlite.file_format import create_schema
from mihash.store.sqlite.items import describe_items, insert_items, list_items, remove_items
from stored import FIRST, X, opened

from mihash.store.metadata import encode_metadata  # isort: skip

VALUES = [
    1,
    1.0,
    "1",
    True,
    None,
    [1, "a"],
    ["a", "a", None],
    {"x": 1},
    "abc",
    "ab",
    "",
    "b\U0010ffff",
    2.5,
    [],
    -3,
]


def walked(connection, where, column="id"):
    """What a walk over all metadata finds."""
    sql, parameters, _ = compile_filter(where)
    return [
        value for (value,) in connection.execute(f"SELECT {column} FROM item WHERE {sql} ORDER BY id", parameters)
    ]


def keys_walked(table, where):
    with table.database.read() as connection:
        return sorted(walked(connection, where, "key"))


def check_listed(connection, where):
    """Lists of all items, of pages and of what comes after an item are those of a walk."""
    condition, expected = compile_filter(where), walked(connection, where)
    assert list_items(connection, condition)[0] == expected
    for limit, after in ((0, -1), (1, -1), (2, 0), (3, 1), (99, 2), (None, 1)):
        rest = [number for number in expected if number > after]
        assert list_items(connection, condition, after, limit)[0] == rest[:limit]


def masks(connection, where, ids):
    condition = compile_filter(where)
    found = set(walked(connection, where))
    fields = filtered_fields(connection)
    if not all(can_index(leaf) and leaf.name in fields for leaf in condition.leaves):
        return None
    return mask_of(connection, condition.tree, ids, fields).tolist(), [number in found for number in ids.tolist()]


@settings(max_examples=100)
@given(st.lists(items, min_size=1, max_size=8), st.lists(items, min_size=3, max_size=3), filters)
def test_an_index_finds_what_a_walk_finds(stored, more, where):
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection)
        n = len(stored)
        insert_items(connection, np.arange(n), list(range(n)), [encode_metadata(each) for each in stored])
        for name in compile_filter(where).fields:
            if can_index(compile_filter({f"${name}" if name.startswith("$") else name: 1}).leaves[0]):
                index_field(connection, name)
        found = masks(connection, where, np.arange(n))
        assert found is None or found[0] == found[1]
        check_listed(connection, where)
        ids = np.arange(n, n + 3)
        insert_items(connection, ids, ids.tolist(), [encode_metadata(each) for each in more])
        enter(connection, ids.tolist())
        leave(connection, [0, n])
        remove_items(connection, [0], 0)
        describe_items(connection, [n], [encode_metadata(stored[0])])
        enter(connection, [n])
        found = masks(connection, where, np.arange(1, n + 3))
        assert found is None or found[0] == found[1]
        check_listed(connection, where)


@pytest.mark.parametrize("name", ["f", "a.f"])
def test_every_operator_on_every_kind_of_value(name, monkeypatch):
    monkeypatch.setattr(items_module, "_NEAR", 1)
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        create_schema(connection)
        stored = [{"f": value, "a": {"f": value}} for value in VALUES] + [{}, None, {"a.f": 1, "a": {"f": "abc"}}]
        ids = np.arange(len(stored))
        insert_items(connection, ids, ids.tolist(), [encode_metadata(each) for each in stored])
        index_field(connection, name)
        operands = [value for value in VALUES if not isinstance(value, list | dict)]
        wheres = [{name: value} for value in operands] + [{name: {"$nin": [None, "a", 1]}}, {name: []}, {}]
        wheres += [{name: {sign: value}} for sign in ("<", "<=", ">", ">=") for value in (1, 2.5, "ab", "")]
        wheres += [
            {name: {"$startswith": text}} for text in ("", "a", "abc", "b\U0010ffff", "\U0010ffff", "\ud7ff")
        ]
        wheres += [{name: {"$exists": truth}} for truth in (True, False)]
        for where in wheres:
            mine, theirs = masks(connection, where, ids)
            assert mine == theirs, where
            check_listed(connection, where)


@pytest.fixture
def small(monkeypatch):
    monkeypatch.setattr(answers, "FEWEST_ITEMS", 1)


@pytest.mark.usefixtures("small")
def test_a_filter_makes_an_index_that_every_change_keeps(table, folder):
    table.add(X[:40], [f"k{i}" for i in range(40)], metadata=[{"a": i % 4, "b": {"c": str(i)}} for i in range(40)])

    def found(where, which=None):
        return sorted((which or table).search(X[:1], 99, where=where, rescore=0).keys[0].tolist())

    for where in ({"a": 1}, {"a": 2, "b.c": {"$startswith": "1"}}, {"a": {"$gt": 2}}, {"a": 7}):
        assert found(where) == keys_walked(table, where)
    with table.database.read() as connection:
        assert filtered_fields(connection) == {"a": 0, "b.c": 1}
    table.add(X[40:50], [f"k{i}" for i in range(40, 50)], metadata=[{"a": 1}] * 10)
    table.write(Change.upsert(X[50:53], ["k1", "k5", "new"], metadata=[{"a": 2}, None, {"a": 1}]))
    table.write(Change.update(["k2", "k6"], metadata=[{"a": 1}, {}]))
    table.write(Change.update(["k3"], X[53:54]))
    table.delete(["k9", "k13"])
    for where in ({"a": 1}, {"a": [2, 3]}, {"a": {"$ne": 1}}, {"a": None}, {"b.c": "3"}):
        assert found(where) == keys_walked(table, where)
        assert table.count(compile_filter(where)) == len(keys_walked(table, where))
    table.verify()
    with opened(folder, read_only=True) as reader:
        assert found({"a": 1}, reader) == found({"a": 1})
        with reader.database.read() as connection:
            query = "SELECT id FROM field WHERE number = 0 AND element IN (0, 1) AND type = 'text' AND value IN "
            plan = connection.execute(f"EXPLAIN QUERY PLAN {query} (SELECT atom FROM json_each('[1]'))").fetchall()
    assert "SEARCH field USING PRIMARY KEY (number=? AND element=? AND type=? AND value=?)" in str(plan)


@pytest.mark.usefixtures("small")
def test_an_index_that_finds_the_wrong_items_is_damage(table, folder):
    table.add(X[:20], metadata=[{"a": i % 2} for i in range(20)])
    assert table.search(X[:1], 99, where={"a": 1}).keys.shape == (1, 10)
    table.close()
    with closing(sqlite3.connect(folder / "index.db")) as connection:
        connection.execute("UPDATE field SET value = 1 WHERE id = 4")
        connection.commit()
    with opened(folder) as again:
        with pytest.raises(CorruptStore, match="does not match the metadata"):
            again.search(X[:1], 99, where={"a": 1})
        with pytest.raises(CorruptStore, match="index of the field 'a'"):
            again.verify()


def test_few_items_and_parts_of_strings_get_no_index(table, monkeypatch):
    table.add(X[:20], metadata=[{"a": "xyz"}] * 20)
    table.search(X[:1], where={"a": "xyz"})
    monkeypatch.setattr(answers, "FEWEST_ITEMS", 1)
    assert table.search(X[:1], 5, where={"a": {"$contains": "y"}}).keys.shape == (1, 5)
    with table.database.read() as connection:
        assert filtered_fields(connection) == {}
    table.rebuild(FIRST)


def described(i):
    return {
        "text": "long " * 10,
        "id": f"{i:06d}",
        "rare" if i % 5 == 0 else "often": "x",
        "box": {"x": i},
        "kind": i % 3,
        'a"b': 1,
        "many": [1] * 9,
        "tags": ["a", str(i % 2)],
        "price": i / 7,
        "last": i % 2,
    }


def test_a_table_that_becomes_large_gets_indexes_of_its_common_repeated_fields(table, monkeypatch):
    monkeypatch.setattr(field_index, "FEWEST_ITEMS", 30)
    table.add(X[:29], metadata=[described(i) for i in range(29)])
    with table.database.read() as connection:
        assert filtered_fields(connection) == {}
    table.add(X[29:31], metadata=[described(i) for i in range(29, 31)])
    table.add(X[31:35], metadata=[described(i) | {"new": 1} for i in range(31, 35)])
    with table.database.read() as connection:
        assert filtered_fields(connection) == {"kind": 0, "tags": 1}
    for where in ({"kind": 1}, {"tags": "1"}, {"often": None}, {"often": "x", "last": 1}):
        found = table.search(X[:1], 99, where=where, rescore=0).keys[0].tolist()
        assert sorted(found) == keys_walked(table, where)
    table.verify()


def test_fields_are_chosen_once_by_the_number_of_items(table, monkeypatch):
    monkeypatch.setattr(field_index, "FEWEST_ITEMS", 30)
    table.add(X[:4], keys=[50_000, 1, 2, 3], metadata=[{"a": 1}] * 4)  # large keys, few items
    table.add(X[4:40])  # large now, but nothing was described
    with table.database.read() as connection:
        assert filtered_fields(connection) == {}
    table.add(X[40:41], metadata=[{"a": 1}])
    with table.database.read() as connection:
        assert filtered_fields(connection) == {"a": 0}
    table.add(X[41:50], metadata=[{"b": 1}] * 9)
    with table.database.read() as connection:
        assert filtered_fields(connection) == {"a": 0}


def test_rows_are_added_beside_damaged_metadata(table, monkeypatch):
    monkeypatch.setattr(field_index, "FEWEST_ITEMS", 30)
    table.add(X[:20], metadata=[{"a": 1}] * 20)
    with table.database.write() as connection:
        connection.execute("UPDATE item SET metadata = '{\"a\": ' WHERE id = 7")
    table.add(X[20:40], metadata=[{"a": 1}] * 20)
    assert len(table) == 40
    with pytest.raises(CorruptStore):
        table.verify()


def test_a_large_table_without_metadata_gets_no_index(table, monkeypatch):
    monkeypatch.setattr(field_index, "FEWEST_ITEMS", 30)
    table.add(X[:50])
    with table.database.read() as connection:
        assert filtered_fields(connection) == {}


def test_a_page_may_be_as_long_as_a_number_can_be(table):
    table.add(X[:50], metadata=[{"a": i % 3} for i in range(50)])
    with table.database.read() as connection:
        assert list_items(connection, compile_filter({"a": 1}), limit=2**62)[0] == list(range(1, 50, 3))


def test_a_condition_that_many_items_meet_is_no_reason_to_read_an_index(table):
    table.add(X[:60], metadata=[{"a": i % 30, "b": i % 2, "c": [i % 2, True]} for i in range(60)])
    with table.database.write() as connection:
        for name in ("a", "b", "c"):
            index_field(connection, name)
        for where, possible in (
            ({"a": 29}, [29, 59]),
            ({"a": 29, "b": 1}, [29, 59]),
            ({"b": 1}, None),
            ({"a": {"$gte": 0}}, None),
            ({"c": True}, None),
            ({"$or": [{"a": 29}, {"b": 1}]}, None),
            ({"$or": [{"a": 29}, {"a": 0}]}, [0, 29, 30, 59]),
            ({"a": {"$ne": 29}}, None),
        ):
            found = possible_ids(connection, compile_filter(where).tree)
            assert (found if found is None else found.tolist()) == possible, where
            check_listed(connection, where)


@pytest.mark.parametrize("limit", [None, 1, 7])
def test_a_rare_value_is_listed_without_a_walk(table, limit, monkeypatch):
    monkeypatch.setattr(items_module, "_NEAR", 1)
    table.add(X[:60], metadata=[{"a": i % 30, "b": i % 2} for i in range(60)])
    with table.database.write() as connection:
        index_field(connection, "a")
    read = []
    with table.database.read() as connection:
        connection.set_trace_callback(read.append)
        found = list_items(connection, compile_filter({"a": 29, "b": 1}), limit=limit)[0]
        connection.set_trace_callback(None)
    assert found == [29, 59][:limit]
    walks = [query for query in read if "FROM item WHERE id >" in query]
    assert walks == [] if limit is None else all("id <=" in query for query in walks)
