import os

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from scipy.io import savemat

from mihash.errors import InvalidInput, StoreError
from mihash.paper.scales import OWN, scale_of, stage
from mihash.paper.sources import DATASETS, check_dataset, find_source, is_file

X = np.random.default_rng(0).normal(size=(400, 6))
Y = np.arange(400) % 4


def saved(path, **arrays):
    np.savez(path, **{"features": X, "labels": Y} | arrays)
    return str(path)


def test_the_papers_data_sets_are_called_as_they_are():
    assert [find_source(name).name for name in DATASETS] == list(DATASETS)
    assert [name for name in DATASETS if not find_source(name).has_labels] == ["labelme"]
    assert str(find_source("cifar10")) == "cifar10"


def test_a_file_is_called_by_its_stem_and_its_content(tmp_path):
    (tmp_path / "other").mkdir()
    (tmp_path / "copy").mkdir()
    first = find_source(saved(tmp_path / "mine.npz"))
    other = find_source(saved(tmp_path / "other" / "mine.npz", features=X + 1))
    copy = find_source(saved(tmp_path / "copy" / "mine.npz"))
    stem, _, digest = first.name.rpartition("-")
    assert (stem, len(digest), first.has_labels) == ("mine", 6, True)
    assert str(first) == str(tmp_path / "mine.npz")
    assert first.name != other.name
    assert first.name == copy.name


def test_a_changed_file_is_another_data_set(tmp_path):
    path = saved(tmp_path / "mine.npz")
    first, before = find_source(path), stage(path, OWN)
    assert stage(path, OWN) is before
    saved(path, features=-X)
    os.utime(path, ns=(1, 1))  # a clock that has not moved on cannot hide it
    second, after = find_source(path), stage(path, OWN)
    assert first.name != second.name
    np.testing.assert_array_equal(after.dataset.X, -before.dataset.X)


def test_a_data_set_is_a_name_or_a_file():
    files = ("a.npz", "b/c.NPY", "d.parquet", "e.mat", "f.csv", "g.jsonl")
    assert [is_file(name) for name in (*files, "cifar10", "h.txt", 3)] == [*[True] * 6, *[False] * 3]
    for bad in ("mnist", "h.txt", 3, None, ["cifar10"]):
        with pytest.raises(InvalidInput, match=r"one of 'cifar10', .* or the path of a file \(\.npy, .*; got"):
            check_dataset(bad)


def test_files_that_are_not_there_or_no_data(tmp_path):
    with pytest.raises(StoreError, match=r"The data file '.*none\.npz' does not exist; give the path of a file"):
        find_source(str(tmp_path / "none.npz"))
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(InvalidInput, match="is a folder"):
        find_source(str(tmp_path / "folder.npz"))
    (tmp_path / "bad.npz").write_text("nothing")
    with pytest.raises(InvalidInput):
        find_source(str(tmp_path / "bad.npz"))


def test_a_file_is_used_whole_in_the_papers_proportions(tmp_path):
    for scale in ("smoke", "full", OWN):
        where = stage(saved(tmp_path / "cifar10.npz"), scale, seed=3)  # the paper's name changes nothing
        assert (where.dataset.name, len(where.dataset)) == ("cifar10.npz", 400)
        split, protocol = where.split(0), where.protocol
        assert (len(split.X_query), len(split.X_base), len(split.stream)) == (40, 360, 360)
        assert (protocol.reservoir_size, protocol.interval, protocol.top) == (100, 1, None)


def test_every_kind_of_file(tmp_path):
    savemat(tmp_path / "mine.mat", {"feats": X, "gnd": Y})
    np.save(tmp_path / "mine.npy", X)
    saved(tmp_path / "mine.npz")
    parquet.write_table(pa.table({"emb": list(X), "y": Y}), tmp_path / "mine.parquet")
    for path in tmp_path.iterdir():
        source, where = find_source(str(path)), stage(str(path), OWN)
        assert source.has_labels == (where.dataset.y is not None) == (path.suffix != ".npy")
        np.testing.assert_array_equal(where.dataset.X, X.astype(np.float32))
    assert len({find_source(str(path)).name for path in tmp_path.iterdir()}) == 4


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"features": X[:19], "labels": Y[:19]}, "at least 20 rows to be divided; 'mine.npz' has 19"),
        ({"features": np.where(X > 2.5, np.nan, X)}, "mine.npz: row .* has a NaN or an infinity"),
        ({"labels": np.zeros(400, dtype=int)}, "classes that some rows share .* got 1 for 400 rows"),
        ({"labels": np.arange(400)}, "classes that some rows share .* got 400 for 400 rows"),
        ({"labels": Y[1:]}, "'features' has 400 rows and 'labels' has 399"),
    ],
)
def test_data_that_cannot_be_used(tmp_path, arrays, message):
    with pytest.raises(InvalidInput, match=message):
        stage(saved(tmp_path / "mine.npz", **arrays), OWN)


def test_twenty_rows_are_enough(tmp_path):
    split = stage(saved(tmp_path / "mine.npz", features=X[:20], labels=Y[:20]), OWN).split(0)
    assert (len(split.X_query), len(split.stream)) == (2, 18)


def test_the_scale_of_files_alone_is_their_own():
    assert scale_of(["a.npz", "b.npy"], "full") == OWN
    assert scale_of(["a.npz", "cifar10"], "small") == "small"
    with pytest.raises(InvalidInput, match="`scale` must be one of 'smoke'"):
        scale_of(["a.npz"], "smal")
    with pytest.raises(InvalidInput, match="`scale` must be one of 'smoke'"):
        stage("cifar10", OWN)
