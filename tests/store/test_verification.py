import sqlite3
import warnings

import numpy as np
import pytest
from soak.pages import pages_of

import damage
from mihash.errors import CorruptStore, MIHashError, StoreError, UnknownName
from mihash.mapping import KernelMapping
from mihash.store.sqlite.sqlite_table import SQLiteTable
from mihash.store.sqlite.verification import _mismatched
from stored import FIRST, SECOND, D, X, answer, compact, described, metadata_of, opened


def made(folder, named, full=True):
    """Make a table with something in each part of the file, and return the keys that it holds."""
    table = SQLiteTable.create(folder)
    table.rebuild(FIRST)
    keys = [f"key {i}" if i % 2 else i + 1000 for i in range(60)] if named else list(range(60))
    for start in range(0, 60, 20):
        part = slice(start, start + 20)
        labels = np.arange(60)[part] % 5 if full else None
        table.add(X[part], keys[part] if named else None, labels, metadata_of(20, start) if full else None)
    table.rebuild(SECOND)
    if full:
        table.delete([keys[3], keys[17], keys[40]])
        compact(table)
        table.delete([keys[5], keys[50]])
    table.close()
    gone = (3, 5, 17, 40, 50) if full else ()
    return [key for i, key in enumerate(keys) if i not in gone], [keys[i] for i in gone]


def said(folder, keys, gone, filters=True):
    """Return the answers to many questions: the value, or the class of the error that was raised."""
    questions = [answer, lambda t: answer(t, radius=4), lambda t: answer(t, 7, rescore=30), len]
    if filters:
        questions += [lambda t: answer(t, where={"a": 1}), lambda t: answer(t, where={"a": {"$lt": 2}})]
    questions += [lambda t, key=key: described(t.get(key)) for key in (*keys, *gone)]
    answers = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # codes are made again
        try:
            table = SQLiteTable(folder, read_only=True)
        except Exception as error:
            return [type(error)] * len(questions)
        try:
            for question in questions:
                try:
                    answers.append(question(table))
                except Exception as error:
                    answers.append(type(error))
        finally:
            table.close()
    return answers


def wrong(found, right):
    """Return the answers that are neither right nor an error of the store; that a key is unknown is an answer."""
    pairs = [(got, want) for got, want in zip(found, right, strict=True) if got != want]
    return [(got, want) for got, want in pairs if not (isinstance(got, type) and issubclass(got, StoreError))]


def unnamed(found):
    """Return the errors that are not ours."""
    return {got for got in found if isinstance(got, type) and not issubclass(got, MIHashError)}


@pytest.fixture(scope="module", params=["plain", "named"])
def sound(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("sound") / "index"
    keys, gone = made(folder, request.param == "named")
    right = said(folder, keys, gone)
    assert [answer for answer in right if isinstance(answer, type)] == [UnknownName] * len(gone)
    return folder, keys, gone, right


CHECKED = [
    ("segment", "vectors"),
    ("segment", "checks"),
    ("segment", "digest"),
    ("segment", "n"),
    ("segment", "last"),
    ("item", "seal"),
    ("version", "mapping"),
    ("version", "fingerprint"),
    ("code", "codes"),
    ("code", "digest"),
    ("code", "first"),
    ("code", "last"),
    ("code", "n"),
]
UNCHECKED = [
    pytest.param("segment", "ids"),
    pytest.param("segment", "labels"),
    pytest.param("tombstone", "id"),
]


@pytest.mark.parametrize(("relation", "column"), CHECKED + UNCHECKED)
def test_a_flipped_bit_in_a_column_is_an_error_or_no_matter(sound, tmp_path, relation, column):
    folder, keys, gone, right = sound
    for seed in range(2):
        damaged = damage.copied(folder, tmp_path / "damaged")
        damage.flip_column(damaged, relation, column, np.random.default_rng(seed))
        found = said(damaged, keys, gone)
        assert (wrong(found, right), unnamed(found)) == ([], set())


def test_changed_metadata_are_an_error_where_the_row_is_returned_and_in_verify(sound, tmp_path):
    folder, keys, gone, _ = sound
    right = said(folder, keys, gone, filters=False)
    damaged = damage.copied(folder, tmp_path / "damaged")
    damage.replace(damaged, "item", "metadata", '{"a":1,"b":"xxx"}', '{"a":2,"b":"xxx"}')
    found = said(damaged, keys, gone, filters=False)
    assert (wrong(found, right), unnamed(found)) == ([], set())
    with opened(damaged, read_only=True) as table:
        with pytest.raises(CorruptStore, match="The metadata of row"):
            answer(table, where={"a": 2})  # which finds the rows that say 2 since they are damaged
        assert answer(table, where={"a": 0})[0]
        with pytest.raises(CorruptStore, match="The metadata of row"):
            table.verify()


@pytest.mark.parametrize(
    ("relation", "column"),
    [
        *CHECKED,
        ("item", "key"),  # above it would be changed in the indexes of keys too, as no bad disk does
        ("segment", "ids"),
        ("segment", "labels"),
        ("item", "metadata"),
        pytest.param("tombstone", "id"),
    ],
)
def test_verify_finds_a_flipped_bit(sound, tmp_path, relation, column):
    for seed in range(2):
        damaged = damage.copied(sound[0], tmp_path / "damaged")
        damage.flip_column(damaged, relation, column, np.random.default_rng(seed))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            with pytest.raises(CorruptStore), opened(damaged, read_only=True) as table:
                table.verify()


def test_verify_names_everything_that_is_wrong(sound, tmp_path):
    damaged = damage.copied(sound[0], tmp_path / "damaged")
    for relation, column in (("segment", "vectors"), ("item", "metadata")):
        damage.flip_column(damaged, relation, column, np.random.default_rng(0))
    with opened(damaged, read_only=True) as table, pytest.raises(CorruptStore) as caught:
        table.verify()
    assert "vectors near row" in str(caught.value)
    assert "metadata of row" in str(caught.value)


def test_verify_says_how_much_was_checked(sound):
    with opened(sound[0], read_only=True) as table:
        assert table.verify() == {"items": 55, "versions": 2, "rows": 57, "codes": 57}


SETTINGS = [
    ("dtype", "float16"),
    ("n_features", D + 1),
    ("last", 7),
    ("compactions", 4),
    ("format", 0),
    pytest.param("metric", "cosine"),
    pytest.param("published", 0),
    pytest.param("labels", '["int32", 0]'),
    *(
        pytest.param(name, value)
        for name, value in [
            ("dtype", "flopt32"),
            ("dtype", 3),
            ("n_features", "six"),
            ("labels", "["),
            ("labels", 3),
        ]
    ),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
def test_a_changed_setting_is_an_error_or_no_matter(sound, tmp_path, name, value):
    folder, keys, gone, right = sound
    damaged = damage.copied(folder, tmp_path / "damaged")
    damage.change_setting(damaged, name, value)
    found = said(damaged, keys, gone)
    assert (wrong(found, right), unnamed(found)) == ([], set())


def test_sequence_numbers_are_not_taken_for_keys(tmp_path):
    keys, gone = made(tmp_path / "index", named=True)
    right = said(tmp_path / "index", keys, gone)
    damage.change_setting(tmp_path / "index", "plain_keys", 1)
    assert wrong(said(tmp_path / "index", keys, gone), right) == []


def test_damaged_codes_are_made_again_with_a_warning(sound, tmp_path):
    folder, keys, gone, right = sound
    damaged = damage.copied(folder, tmp_path / "damaged")
    damage.flip_column(damaged, "code", "codes", np.random.default_rng(0))
    with pytest.warns(RuntimeWarning, match="made again from the vectors"):
        table = SQLiteTable(damaged)
    assert answer(table) == right[0]
    table.verify()
    with table.database.write() as connection:
        table.store_codes(connection)
    table.close()
    assert said(damaged, keys, gone) == right
    with opened(damaged) as again:  # and there is nothing to warn of any more
        again.verify()


def test_a_lost_segment_is_noticed(tmp_path):
    keys, gone = made(tmp_path / "index", named=True, full=False)
    right = said(tmp_path / "index", keys, gone, filters=False)
    connection = sqlite3.connect(tmp_path / "index" / "index.db")
    connection.execute("DELETE FROM segment WHERE first = 20")
    connection.commit()
    connection.close()
    assert wrong(said(tmp_path / "index", keys, gone, filters=False), right) == []


def test_a_flipped_bit_in_any_table_or_index_is_a_named_error_or_no_matter(sound, tmp_path):
    folder, keys, gone, right = sound
    rng = np.random.default_rng(0)
    used = damage.used_bytes(folder / "index.db")
    size, pages = pages_of(folder / "index.db")
    assert {"item", "item_key", "item_again", "segment", "setting", "version", "code", "seal"} < pages.keys()
    for relation, numbers in pages.items():
        places = used[np.isin(used // size + 1, numbers)]
        for offset in rng.choice(places, 4).tolist():
            damaged = damage.copied(folder, tmp_path / "damaged")
            damage.flip_byte(damaged / "index.db", offset, int(rng.integers(8)))
            found = said(damaged, keys, gone)
            assert (wrong(found, right), unnamed(found)) == ([], set()), (relation, offset)


def test_every_page_belongs_to_something(sound):
    size, pages = pages_of(sound[0] / "index.db")
    numbers = sorted(number for each in pages.values() for number in each)
    assert numbers == list(range(1, (sound[0] / "index.db").stat().st_size // size + 1))


def test_flipped_bytes_anywhere_are_named_errors_or_no_matter(sound, tmp_path):
    folder, keys, gone, right = sound
    rng = np.random.default_rng(0)
    size, pages = pages_of(folder / "index.db")
    unfiltered = said(folder, keys, gone, filters=False)
    for offset in rng.choice(damage.used_bytes(folder / "index.db"), 16).tolist():
        damaged = damage.copied(folder, tmp_path / "damaged")
        damage.flip_byte(damaged / "index.db", offset, int(rng.integers(8)))
        in_items = offset // size + 1 in pages["item"]  # a filter does not check the metadata of all items
        found = said(damaged, keys, gone, filters=not in_items)
        assert (wrong(found, unfiltered if in_items else right), unnamed(found)) == ([], set()), offset


UNTYPED = [
    ("item", "seal", 1.5),
    ("item", "seal", "x"),
    ("segment", "n", "x"),
    ("code", "n", "x"),
    ("version", "mapping", 5),
]


@pytest.mark.parametrize(("relation", "column", "value"), UNTYPED)
def test_a_value_of_another_type_is_a_named_error(sound, tmp_path, relation, column, value):
    folder, keys, gone, right = sound
    damaged = damage.copied(folder, tmp_path / "damaged")
    old = (
        damage.mapping_blob(damaged, 1) if relation == "version" else damage.values(damaged, relation, column)[-1]
    )
    damage.replace(damaged, relation, column, old, value)
    found = said(damaged, keys, gone)
    assert (wrong(found, right), unnamed(found)) == ([], set())


def test_a_truncated_table_is_an_error(sound, tmp_path):
    folder, keys, gone, _ = sound
    whole = (folder / "index.db").stat().st_size
    for size in np.random.default_rng(0).integers(0, whole, 8).tolist():
        damaged = damage.copied(folder, tmp_path / "damaged")
        with (damaged / "index.db").open("r+b") as file:
            file.truncate(size)
        found = said(damaged, keys, gone)
        assert all(isinstance(got, type) for got in found)
        assert unnamed(found) == set()


def test_a_bit_of_a_kernel_mapping_that_is_next_to_0_may_differ():
    """Another processor may come to another sign of it; a bit whose value is far from 0 is damage."""
    rng = np.random.default_rng(0)
    rows, anchors = rng.standard_normal((2, 50, D)).astype(np.float32)
    weights = rng.standard_normal((50, 16)).astype(np.float32)
    at_zero = KernelMapping(anchors, 3.0, weights).project(rows[:1])[0]
    mapping = KernelMapping(anchors, 3.0, weights, -at_zero)  # row 0 is on the boundary of every bit
    values = np.abs(mapping.project(rows))
    assert values[0].max() < 1e-4 * np.median(values)
    codes = mapping.encode(rows)
    assert not _mismatched(mapping, rows, codes).any()
    codes[0] ^= 0xFF
    assert not _mismatched(mapping, rows, codes).any()
    far = int(values[1].argmax())
    codes[1, far // 8] ^= 1 << far % 8
    assert np.flatnonzero(_mismatched(mapping, rows, codes)).tolist() == [1]
