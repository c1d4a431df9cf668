import json

import numpy as np
import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.io.readers.layout import FEATURE_NAMES, LABEL_NAMES
from mihash.paper.datasets import has_labels, load

X = np.random.default_rng(0).normal(size=(1000, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(10, size=1000)


def write_npz(path, **arrays):
    np.savez_compressed(path, **arrays)
    return path


def test_npz_round_trip(tmp_path):
    data = load(write_npz(tmp_path / "mine.npz", features=X, labels=Y.astype(np.uint8), is_test=Y == 0))
    assert data.name == "mine"
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(data.is_test, Y == 0)


def test_npz_without_labels(tmp_path):
    data = load(write_npz(tmp_path / "mine.npz", features=X))
    assert data.y is None
    assert data.is_test is None


def test_npz_other_names(tmp_path):
    data = load(write_npz(tmp_path / "mine.npz", a=X, b=Y), features="a", labels="b")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


@pytest.mark.parametrize("features", FEATURE_NAMES)
@pytest.mark.parametrize("labels", LABEL_NAMES)
def test_npz_usual_names(tmp_path, features, labels):
    data = load(write_npz(tmp_path / "mine.npz", **{labels: Y, "id": Y, features: X}))
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


def test_whether_there_are_labels_is_what_load_finds(tmp_path):
    from scipy.io import savemat

    savemat(tmp_path / "with.mat", {"feats": X, "gnd": Y})
    savemat(tmp_path / "without.mat", {"feats": X})
    np.save(tmp_path / "x.npy", X)
    write_npz(tmp_path / "with.npz", features=X, y=Y)
    write_npz(tmp_path / "without.npz", features=X, is_test=Y == 0)
    found = {path.name: has_labels(path) for path in tmp_path.iterdir()}
    assert found == {path.name: load(path).y is not None for path in tmp_path.iterdir()}
    assert sum(found.values()) == 2


def test_whether_there_are_labels_needs_a_file_that_is_whole(tmp_path):
    with pytest.raises(InvalidInput, match="does not exist"):
        has_labels(tmp_path / "none.npz")
    (tmp_path / "x.npz").write_text("no archive")
    with pytest.raises(InvalidInput):
        has_labels(tmp_path / "x.npz")


def test_npz_multi_label(tmp_path):
    several = np.eye(10, dtype=np.int64)[Y]
    assert load(write_npz(tmp_path / "mine.npz", features=X, labels=several)).y.shape == (1000, 10)


@pytest.mark.parametrize("options", [{"features": "X"}, {"features": "b", "labels": "z"}])
def test_npz_missing_array_lists_the_others(tmp_path, options):
    path = write_npz(tmp_path / "mine.npz", a=X, b=X)
    with pytest.raises(UnknownName, match=r"has no column '(X|z)' \(`(features|labels)`\); its columns: a, b\."):
        load(path, **options)
    with pytest.raises(
        InvalidInput, match=r"several columns of lists \(a, b\); name the vector column with `features`"
    ):
        load(path)


def test_features_may_be_several_columns_of_numbers(tmp_path):
    path = write_npz(tmp_path / "mine.npz", a=X[:, 0], b=X[:, 1], c=X)
    np.testing.assert_array_equal(load(path, features=("b", "a")).X, X[:, [1, 0]])
    with pytest.raises(InvalidInput, match=r"'c' of .* must hold one number in each row: `features` names it"):
        load(path, features=("a", "c"))


@pytest.mark.parametrize("write", ["csv", "jsonl"])
def test_text_is_read_too(tmp_path, write):
    path = tmp_path / f"mine.{write}"
    names = np.array(["dog", "cat"])[Y % 2]
    rows = [
        {"embedding": row.tolist(), "label": name, "is_test": bool(y == 0)}
        for row, name, y in zip(X, names, Y, strict=True)
    ]
    if write == "jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        lines = [f'"{row["embedding"]}",{row["label"]},{row["is_test"]}' for row in rows]
        path.write_text("\n".join(["embedding,label,is_test", *lines]))
    data = load(path)
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, 1 - Y % 2)
    np.testing.assert_array_equal(data.is_test, Y == 0)
    assert has_labels(path)


def test_npy_round_trip(tmp_path):
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", Y)
    assert load(tmp_path / "x.npy").y is None
    data = load(str(tmp_path / "x.npy"), labels=tmp_path / "y.npy")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


def test_npy_bad_options(tmp_path):
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InvalidInput, match="leave `features` out"):
        load(tmp_path / "x.npy", features="x")
    with pytest.raises(UnknownName, match=r"as paths of \.npy files; got 'y'"):
        load(tmp_path / "x.npy", labels="y")
    with pytest.raises(UnknownName, match=r"as paths of \.npy files"):
        load(tmp_path / "x.npy", labels=tmp_path / "y.npy")


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_float16_becomes_float32_before_arithmetic(tmp_path, suffix):
    half = np.full((4000, 3), 60000, dtype=np.float16)
    path = tmp_path / f"half.{suffix}"
    if suffix == "npz":
        write_npz(path, features=half)
    else:
        np.save(path, half)
    data = load(path)
    assert data.X.dtype == np.float32
    assert data.X.mean() == np.float32(np.float16(60000))


def test_nan_names_its_row(tmp_path):
    bad = X.copy()
    bad[777, 2] = np.nan
    path = write_npz(tmp_path / "bad.npz", features=bad)
    with pytest.raises(InvalidInput, match=r"bad\.npz: row 777 has a NaN or an infinity"):
        load(path)


def test_labels_of_another_length(tmp_path):
    path = write_npz(tmp_path / "bad.npz", features=X, labels=Y[:-1])
    with pytest.raises(InvalidInput, match=r"'features' has 1000 rows and 'labels' has 999"):
        load(path)


def test_features_of_three_dimensions(tmp_path):
    with pytest.raises(InvalidInput, match="has neither a column of lists nor columns of numbers"):
        load(write_npz(tmp_path / "bad.npz", features=X[None]))


def test_missing_file_folder_and_wrong_extension(tmp_path):
    with pytest.raises(InvalidInput, match="does not exist"):
        load(tmp_path / "none.npz")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"):
        load(tmp_path / "folder.npz")
    (tmp_path / "data.txt").write_text("1,2")
    with pytest.raises(InvalidInput, match=r"data\.txt must end in \.npy, \.npz, .*, \.mat"):
        load(tmp_path / "data.txt")


@pytest.mark.parametrize("suffix", ["npz", "npy"])
def test_cut_short(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    if suffix == "npz":
        write_npz(path, features=X)
    else:
        np.save(path, X)
    whole = path.read_bytes()
    for n in (0, 1, 5, 20, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(InvalidInput):
            load(path)


def test_changed_bytes_in_an_archive(tmp_path):
    path = write_npz(tmp_path / "x.npz", features=X)
    damaged = bytearray(path.read_bytes())
    middle = len(damaged) // 2
    damaged[middle : middle + 50] = bytes(50)
    path.write_bytes(damaged)
    with pytest.raises(InvalidInput, match="damaged or cut short"):
        load(path)


def test_a_member_that_is_no_array(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("features", "hello")
    with pytest.raises(InvalidInput, match="has no columns"):
        load(tmp_path / "x.npz")


def test_pickles_are_refused(tmp_path):
    objects = np.array([{"a": 1}, None], dtype=object)
    np.save(tmp_path / "x.npy", objects, allow_pickle=True)
    np.savez(tmp_path / "x.npz", features=objects)
    for name in ("x.npy", "x.npz"):
        with pytest.raises(InvalidInput, match="pickled Python objects"):
            load(tmp_path / name)


@pytest.mark.parametrize("suffix", ["npz", "npy", "parquet", "mat"])
def test_text_with_the_wrong_name(tmp_path, suffix):
    path = tmp_path / f"x.{suffix}"
    path.write_text("a,b,c\n1,2,3\n" * 100)
    with pytest.raises(InvalidInput):
        load(path)
