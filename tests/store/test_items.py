import sqlite3
import zlib
from contextlib import closing
from enum import StrEnum

import numpy as np
import pytest
from soak.pages import pages_of

from damage import flip_column, replace
from mihash.errors import CorruptStore, DuplicateKey, InvalidInput
from mihash.store.keys import as_keys, readings
from mihash.store.metadata import as_metadata, decode_metadata
from mihash.store.sqlite.database import Database
from mihash.store.sqlite.items import (
    check_items,
    ids_of,
    insert_items,
    keys_of,
    remove_items,
    removed_items,
    texts_of,
    top_key,
)
from mihash.store.sqlite.positions import as_position
from mihash.store.sqlite.sqlite_table import SQLiteTable
from stored import FIRST, X, opened

ODD_KEYS = [
    "a",
    "1",
    1,
    0,
    -1,
    2**63 - 1,
    -(2**63),
    "",
    " ",
    "a b",
    "naïve",
    "😀",
    "a'b",
    'a"b',
    "a\\b",
    "\t\n",
    "null",
    "NULL",
    "1.0",
    "01",
    "%",
    "A",
]


def insert(database, keys, texts=None, first=0):
    with database.write() as connection:
        ids = np.arange(first, first + len(keys))
        insert_items(connection, ids, as_keys(keys), [None] * len(keys) if texts is None else texts)


def reading(database, function, *arguments):
    with database.read() as connection:
        return function(connection, *arguments)


def test_keys_are_found_alone_and_together_and_backwards(database):
    insert(database, ODD_KEYS)
    assert reading(database, ids_of, ODD_KEYS) == list(range(len(ODD_KEYS)))
    assert [reading(database, ids_of, [key]) for key in ODD_KEYS] == [[i] for i in range(len(ODD_KEYS))]
    found = reading(database, keys_of, np.arange(len(ODD_KEYS)))
    assert [found[i] for i in range(len(ODD_KEYS))] == ODD_KEYS
    assert [type(found[i]) for i in range(len(ODD_KEYS))] == [type(key) for key in ODD_KEYS]
    assert reading(database, ids_of, ["none", 77, "a"]) == [None, None, 0]
    assert reading(database, ids_of, []) == []
    assert reading(database, keys_of, np.array([0, 500])) == {0: "a"}


def test_a_number_and_a_string_of_the_same_look_are_different_keys(database):
    insert(database, [5, "5"])
    assert reading(database, ids_of, [5, "5"]) == [0, 1]
    assert reading(database, ids_of, ["5"]) == [1]
    with database.write() as connection:
        remove_items(connection, [0], 0)
    assert reading(database, ids_of, [5, "5"]) == [None, 1]
    insert(database, [5], first=2)
    with pytest.raises(DuplicateKey, match="'5'"):
        insert(database, ["5"], first=3)


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        (["x", "b", "y"], "'b' is stored already"),
        (["2", 2], "2 is stored already"),
    ],
)
def test_a_key_that_is_there_already_is_named_and_nothing_is_stored(database, keys, named):
    insert(database, ["a", "b", 2])
    with pytest.raises(DuplicateKey, match=f"The key {named}"):
        insert(database, keys, first=3)
    assert reading(database, lambda c: c.execute("SELECT count(*) FROM item").fetchone()) == (3,)
    insert(database, ["x"], first=3)


@pytest.mark.parametrize(
    "keys", [[1.5], [None], [True], [np.True_], [2**63], [-(2**63) - 1], ["\ud800"], [b"a"], [[1]], [("a",)]]
)
def test_what_is_not_a_key(keys):
    with pytest.raises(InvalidInput, match="A key must be a string or a whole number"):
        as_keys(keys)


def test_one_key_may_stand_alone_where_no_number_is_asked_for():
    assert as_keys(5) == [5]
    assert as_keys("abc") == ["abc"]
    assert as_keys(np.int64(5)) == [5]
    assert as_keys(np.array(5)) == [5]
    with pytest.raises(InvalidInput, match="must be 3 keys"):
        as_keys("abc", 3)
    with pytest.raises(InvalidInput, match="must be 2 keys, one for each row; got 1"):
        as_keys([1], 2)


@pytest.mark.parametrize(
    "keys",
    [[3, 1], (3, 1), np.array([3, 1]), np.array([3, 1], np.uint8), iter([3, 1]), {3: 0, 1: 0}, [np.int8(3), 1]],
)
def test_keys_become_plain_numbers(keys):
    found = as_keys(keys, 2)
    assert found == [3, 1]
    assert {type(key) for key in found} == {int}


class Fruit(StrEnum):
    APPLE = "apple"


@pytest.mark.parametrize("keys", [list(np.array(["a", "b"])), [Fruit.APPLE, "b"]])
def test_strings_of_another_make_are_strings(database, keys):
    insert(database, keys)
    assert reading(database, ids_of, keys) == [0, 1]
    assert {type(key) for key in as_keys(keys)} == {str}


@pytest.mark.parametrize("key", [b"a", bytearray(b"ab")])
def test_bytes_are_no_key(key):
    with pytest.raises(InvalidInput, match="A key must be a string"):
        as_keys(key)


def test_a_key_with_nul_is_refused_or_found(database):
    try:
        keys = as_keys(["a\0b", "c", "a"])
    except InvalidInput:
        return
    insert(database, keys)
    assert reading(database, ids_of, keys) == [0, 1, 2]


@pytest.mark.parametrize(
    ("text", "keys"),
    [
        ("0", [0, "0"]),
        ("-1", [-1, "-1"]),
        ("01", ["01"]),
        ("-0", ["-0"]),
        ("9223372036854775807", [2**63 - 1, "9223372036854775807"]),
        ("9223372036854775808", ["9223372036854775808"]),
        ('"17"', ["17", '"17"']),
        ('""', ["", '""']),
        ('"', ['"']),
        ("", [""]),
    ],
)
def test_what_a_key_in_a_command_may_stand_for(text, keys):
    assert readings(text) == keys


def test_positions_in_sources():
    assert as_position(("a", 2**63 - 1)) == ("a", 2**63 - 1)
    for source in ("a5", ("a",), ("a", 5, 6), (5, 5), ("a\0b", 5), ("\ud800", 5), ("a", -1), ("a", 2**63)):
        with pytest.raises(InvalidInput):
            as_position(source)


def test_metadata_come_back(database):
    given = [{"a": 1, "b": [1.5, None]}, None, {}, {"ü": "😀"}]
    insert(database, ["a", "b", "c", "d"], as_metadata(given, 4))
    assert [decode_metadata(text) for text in reading(database, texts_of, range(4))] == given
    assert reading(database, texts_of, [3, 0]) == ['{"ü":"😀"}', '{"a":1,"b":[1.5,null]}']
    assert as_metadata({"a": 1}, 1) == ['{"a":1}']
    assert as_metadata(None, 2) is None


@pytest.mark.parametrize(("metadata", "n"), [([{}], 2), ({"a": 1}, 2), ([], 1), (["a"], 1), ("a", 1)])
def test_bad_metadata(metadata, n):
    with pytest.raises(InvalidInput, match="metadata"):
        as_metadata(metadata, n)


def test_metadata_that_cannot_be_a_list():
    with pytest.raises(InvalidInput):
        as_metadata(5, 1)


def test_a_seal_is_two_crc32(database):
    insert(database, ["a", -3], ['{"x":1}', None], first=41)
    rows = reading(database, lambda c: c.execute("SELECT key, metadata, seal FROM item ORDER BY id").fetchall())
    for number, (key, text, seal) in zip((41, 42), rows, strict=True):
        upper = zlib.crc32(f"{number} {type(key).__name__} {key}".encode())
        lower = zlib.crc32(f"{number} {type(text).__name__} {text}".encode())
        assert seal % 2**64 == upper << 32 | lower
    assert rows[0][2] == -3497522604836044019


@pytest.mark.parametrize("column", ["key", "seal"])
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_key_is_not_handed_out(database, column, seed):
    keys = [f"key {i}" for i in range(8)]
    insert(database, keys, as_metadata([{"a": i} for i in range(8)], 8))
    rng = np.random.default_rng(seed)
    if column == "key":
        flip_column(database.folder, "item", "key", rng)
    else:
        (seal,) = reading(database, lambda c: c.execute("SELECT seal FROM item WHERE id = 3").fetchone())
        changed = (seal % 2**64) ^ (1 << int(rng.integers(32, 64)))
        replace(database.folder, "item", "seal", seal, changed - 2**64 if changed >= 2**63 else changed)
    with pytest.raises(CorruptStore, match=r"key of row \d is damaged"):
        reading(database, keys_of, np.arange(8))
    with pytest.raises(CorruptStore):
        reading(database, check_items, np.arange(8))


@pytest.mark.parametrize("seed", range(4))
def test_damaged_metadata_are_not_handed_out(database, seed):
    insert(database, [f"key {i}" for i in range(8)], as_metadata([{"a": i} for i in range(8)], 8))
    flip_column(database.folder, "item", "metadata", np.random.default_rng(seed))
    with pytest.raises(CorruptStore, match=r"metadata of row \d is damaged"):
        reading(database, texts_of, list(range(8)))
    with pytest.raises(CorruptStore):
        reading(database, check_items, np.arange(8))
    assert len(reading(database, keys_of, np.arange(8))) == 8


@pytest.mark.parametrize(("old", "new"), [("5", 5), (5, "5"), ("a", b"a"), ("a", 1.5)])
def test_a_key_of_another_type_is_damage(database, old, new):
    insert(database, [old])
    replace(database.folder, "item", "key", old, new)
    with pytest.raises(CorruptStore):
        reading(database, keys_of, np.array([0]))


def test_metadata_that_are_gone_are_damage(database):
    insert(database, ["a"], ['{"x":1}'])
    replace(database.folder, "item", "metadata", '{"x":1}', None)
    with pytest.raises(CorruptStore):
        reading(database, texts_of, [0])


@pytest.mark.parametrize("seal", ["x", b"x", 1.5])
def test_a_seal_of_another_type_is_damage(database, seal):
    insert(database, ["a"])
    (old,) = reading(database, lambda c: c.execute("SELECT seal FROM item").fetchone())
    replace(database.folder, "item", "seal", old, seal)
    with pytest.raises(CorruptStore):
        reading(database, keys_of, np.array([0]))


def test_an_id_in_exchange_is_damage(database):
    insert(database, ["a", "b"])
    connection = sqlite3.connect(database.path)
    connection.execute("UPDATE item SET id = id + 10")
    connection.commit()
    connection.close()
    with pytest.raises(CorruptStore):
        reading(database, ids_of, ["a"])
    with pytest.raises(CorruptStore):
        reading(database, keys_of, np.array([10, 11]))


def test_removing_leaves_tombstones_and_frees_the_key(database):
    insert(database, ["a", "b", "c"])
    with database.write() as connection:
        remove_items(connection, [1, 0], 7)
    assert reading(database, ids_of, ["a", "b", "c"]) == [None, None, 2]
    dead = reading(database, lambda c: c.execute("SELECT number, id FROM tombstone ORDER BY number").fetchall())
    assert dead == [(7, 1), (8, 0)]
    assert reading(database, removed_items, 7, 9) == [1, 0]
    for after, expected in ((7, 10), (6, 9), (8, 8)):
        with pytest.raises(CorruptStore, match="deleted rows"):
            reading(database, removed_items, after, expected)
    insert(database, ["a"], first=3)
    assert reading(database, ids_of, ["a"]) == [3]
    assert reading(database, check_items, np.arange(10)) == 2


def flip_in_index(folder, index, key):
    """Change one bit of a key, given as bytes, where an index of SQLite holds it, not the table."""
    path = folder / "index.db"
    size, pages = pages_of(path)
    data = bytearray(path.read_bytes())
    for page in pages[index]:
        at = data.find(key, (page - 1) * size, page * size)
        if at >= 0:
            data[at + len(key) - 1] ^= 64
            path.write_bytes(bytes(data))
            return
    raise AssertionError("the key is not in the index")


@pytest.mark.parametrize("index", ["item_key", "item_again"])
def test_a_key_that_one_index_has_lost_is_not_unknown_and_not_taken_twice(tmp_path, index):
    folder = tmp_path / "index"
    table = SQLiteTable.create(folder)
    table.rebuild(FIRST)
    keys = [f"key {number:03d}" for number in range(40)]
    table.add(X[:40], keys)
    table.close()
    flip_in_index(folder, index, b"key 017")
    with opened(folder, read_only=True) as reader:
        if index == "item_key":
            for ask in (reader.get, reader.contains, lambda key: reader.contains([key, "b"])):
                with pytest.raises(CorruptStore, match="index of keys is damaged"):
                    ask("key 017")
        else:  # the first index is enough for a key that is there
            assert reader.get("key 017").key == "key 017"
        assert reader.get("key 016").key == "key 016"
        assert not reader.contains("key 040").any()
        with pytest.raises(CorruptStore, match=r"SQLite: .*index"):
            reader.verify()
    with opened(folder) as writer:
        with pytest.raises(DuplicateKey):
            writer.add(X[40:41], ["key 017"])
        assert len(writer) == 40


def test_the_index_of_an_older_file_is_checked_against_the_table(tmp_path):
    folder = tmp_path / "index"
    table = SQLiteTable.create(folder)
    table.add(X[:40], [f"key {number:03d}" for number in range(40)])
    table.close()
    with closing(sqlite3.connect(folder / "index.db")) as connection:
        connection.execute("DROP INDEX item_again")
    flip_in_index(folder, "item_key", b"key 017")
    with opened(folder, read_only=True) as reader:
        assert reader.get("key 016").key == "key 016"
        with pytest.raises(CorruptStore, match="'item' is damaged"):
            reader.get("key 017")


@pytest.mark.parametrize("index", ["item_key", "item_again"])
def test_the_largest_number_is_asked_of_both_indexes(tmp_path, database, index):
    insert(database, [5, 900, "a"])
    database.close()
    flip_in_index(tmp_path / "index", index, (900).to_bytes(2, "big"))
    with (
        closing(Database(tmp_path / "index", read_only=True)) as again,
        again.read() as connection,
        pytest.raises(CorruptStore, match="largest key is 900 in one index and 964 in the other"),
    ):
        top_key(connection)
