import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.io.readers.layout import FEATURE_NAMES, LABEL_NAMES
from mihash.paper.datasets import has_labels, load, open_dataset

X = np.random.default_rng(0).normal(size=(300, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(10, size=300)
LISTS = pa.array(list(X))
FIXED = pa.FixedSizeListArray.from_arrays(pa.array(X.ravel()), 5)
WIDE = {f"x{index}": X[:, index] for index in range(5)}


def write(folder, columns, **options):
    path = folder / "mine.parquet"
    parquet.write_table(pa.table(columns), path, **options)
    return path


@pytest.mark.parametrize("vectors", [LISTS, FIXED, LISTS.cast(pa.large_list(pa.float64()))], ids=lambda v: v.type)
@pytest.mark.parametrize("name", FEATURE_NAMES)
def test_a_column_of_lists(tmp_path, name, vectors):
    columns = {"id": np.arange(300), name: vectors, "label": Y, "text": ["a"] * 300}
    path = write(tmp_path, columns, row_group_size=70)  # read in pieces, put together in order
    data = load(path)
    assert data.name == "mine"
    assert data.X.dtype == np.float32
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


@pytest.mark.parametrize("name", LABEL_NAMES)
def test_a_column_for_each_feature(tmp_path, name):
    columns = {name: Y, **WIDE, "text": ["a"] * 300, "is_test": Y == 0, "__index_level_0__": np.arange(300)}
    data = open_dataset(write(tmp_path, columns))
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(data.is_test, Y == 0)


def test_whole_numbers_and_fractions_together(tmp_path):
    path = write(tmp_path, {"a": np.arange(30, dtype=np.int8), "b": np.linspace(0, 1, 30)})
    data = load(path)
    assert data.y is None
    assert not has_labels(path)
    np.testing.assert_array_equal(data.X, np.column_stack([np.arange(30), np.linspace(0, 1, 30)]).astype("f4"))


def test_names_that_are_given(tmp_path):
    path = write(tmp_path, {**WIDE, "mine": LISTS, "kind": Y, "label": np.zeros(300, dtype=int)})
    data = load(path, features="mine", labels="kind")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(load(path, features=["x3", "x1"]).X, X[:, [3, 1]])
    np.testing.assert_array_equal(load(path, features="x2").X, X[:, [2]])


def test_labels_may_be_names_several_or_true_and_false(tmp_path):
    words = np.array(["dog", "cat", "emu"])[Y % 3]
    for column in (pa.array(words), pa.array(words).dictionary_encode(), pa.array(words).cast(pa.large_string())):
        path = write(tmp_path, {"emb": LISTS, "label": column})
        assert has_labels(path)
        np.testing.assert_array_equal(load(path).y, np.array([1, 0, 2])[Y % 3])
    several = np.eye(10, dtype=np.int64)[Y]
    np.testing.assert_array_equal(load(write(tmp_path, {"emb": LISTS, "y": list(several)})).y, several)
    assert load(write(tmp_path, {"emb": LISTS, "y": Y > 4})).n_classes == 2


def with_null(values, row):
    values = list(values)
    values[row] = None
    return values


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"emb": with_null(X, 7)}, "row 7 has nothing in the column 'emb'"),
        ({"emb": [*X, X[0, :4]]}, "row 300 has a vector of 4 numbers in 'emb', and row 0 one of 5"),
        ({"emb": [*X, with_null(X[0], 2)]}, "row 300 lacks a number in 'emb'"),
        ({"a": with_null(Y, 9)}, "row 9 has nothing in the column 'a'"),
        ({"emb": LISTS, "y": with_null(Y, 2)}, "row 2 has no label"),
        ({"emb": LISTS, "y": X[:, 0]}, "row 0 has the label 0.*; a label is a whole number"),
        ({"label": Y}, "neither a column of lists nor columns of numbers for a vector; its columns: label"),
        ({"emb": pa.array([], pa.list_(pa.float32()))}, "is empty: it has no rows"),
    ],
)
def test_bad_columns(tmp_path, columns, message):
    with pytest.raises(InvalidInput, match=message):
        load(write(tmp_path, columns))


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, InvalidInput, "several columns of lists .*name the vector column with `features`"),
        ({"features": "emb"}, UnknownName, r"has no column 'emb' \(`features`\); its columns: id, a, b"),
        ({"features": "a", "labels": "z"}, UnknownName, "has no column 'z'"),
        ({"features": "text"}, InvalidInput, "'text' of .* must hold numbers, or lists of numbers"),
        ({"features": ["id", "a"]}, InvalidInput, "'a' of .* must hold one number in each row"),
        ({"features": "a", "labels": ["id", "b"]}, UnknownName, "has no column "),
    ],
)
def test_names_that_do_not_fit(tmp_path, options, error, message):
    path = write(tmp_path, {"id": np.arange(300), "a": LISTS, "b": LISTS, "text": ["a"] * 300})
    with pytest.raises(error, match=message):
        load(path, **options)


def test_a_path_for_labels_is_refused(tmp_path):
    path = write(tmp_path, {"emb": LISTS})
    with pytest.raises(UnknownName, match=r"has no column '.*mine\.parquet' \(`labels`\)"):
        load(path, labels=path)


def test_cut_short(tmp_path):
    path = write(tmp_path, {"emb": LISTS, "y": Y})
    whole = path.read_bytes()
    for n in (0, 1, 5, 20, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(InvalidInput, match=r"damaged, cut short or not a Parquet file"):
            load(path)
        with pytest.raises(InvalidInput):
            has_labels(path)


def test_changed_bytes_show_where_the_pages_have_checksums(tmp_path):
    path = write(tmp_path, {"emb": LISTS}, use_dictionary=False, compression="none", write_page_checksum=True)
    damaged = bytearray(path.read_bytes())
    damaged[len(damaged) // 2] ^= 1  # another number, as good as the first
    path.write_bytes(damaged)
    with pytest.raises(InvalidInput, match="CRC"):
        load(path)


def test_without_pyarrow_the_error_says_what_to_install(tmp_path, monkeypatch):
    path = write(tmp_path, {"emb": LISTS})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(NotReady, match=r"needs pyarrow: pip install 'mihash\[arrow\]'"):
        load(path)
