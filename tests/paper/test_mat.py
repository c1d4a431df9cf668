import sys

import numpy as np
import pytest
from scipy.io import savemat

from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.paper.datasets import load

X = np.random.default_rng(0).normal(size=(60, 5)).astype(np.float32)
Y = np.random.default_rng(1).integers(10, size=60)
SEVERAL = np.random.default_rng(2).integers(2, size=(60, 3))


def write_v5(path, variables):
    savemat(path, variables, do_compression=True)


def write_v73(path, variables):
    """Write as MATLAB does: a 512-byte header, then HDF5 with every matrix transposed."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w", userblock_size=512) as file:
        file.create_group("#refs#")
        for name, value in variables.items():
            matrix = np.atleast_2d(value)
            item = file.create_dataset(name, data=matrix.T, compression="gzip")
            item.attrs["MATLAB_class"] = np.bytes_("single" if matrix.dtype == np.float32 else "double")
    with path.open("r+b") as file:
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(512))


@pytest.fixture(params=[write_v5, write_v73], ids=["v5", "v7.3"])
def write(request):
    return request.param


def test_features_and_labels_are_found(tmp_path, write):
    write(tmp_path / "Places205.mat", {"pca_feats": X, "labels": Y[:, None].astype(float)})
    data = load(tmp_path / "Places205.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    assert data.is_test is None


def test_features_alone(tmp_path, write):
    write(tmp_path / "LabelMe_GIST.mat", {"gist": X})
    data = load(tmp_path / "LabelMe_GIST.mat")
    np.testing.assert_array_equal(data.X, X)
    assert data.y is None


def test_train_and_test_are_joined(tmp_path, write):
    write(
        tmp_path / "cifar.mat",
        {"testCNN": X[50:], "testLabels": Y[50:, None], "trainCNN": X[:50], "trainLabels": Y[:50, None]},
    )
    data = load(tmp_path / "cifar.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)
    np.testing.assert_array_equal(data.is_test, np.arange(60) >= 50)


def test_named_train_and_test(tmp_path, write):
    write(tmp_path / "c.mat", {"a": X[:50], "b": X[50:], "la": Y[:50], "lb": Y[50:], "c": X})
    data = load(tmp_path / "c.mat", features=("a", "b"), labels=("la", "lb"))
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, Y)


def test_labels_that_fit_the_columns_transpose_the_features(tmp_path, write):
    write(tmp_path / "t.mat", {"feats": X.T, "y": Y[None, :]})
    np.testing.assert_array_equal(load(tmp_path / "t.mat").X, X)
    np.testing.assert_array_equal(load(tmp_path / "t.mat", features="feats", labels="y").X, X)


@pytest.mark.parametrize("several", [SEVERAL, SEVERAL.T], ids=["rows", "columns"])
def test_multi_label(tmp_path, write, several):
    write(tmp_path / "m.mat", {"feats": X, "tags": several})
    data = load(tmp_path / "m.mat")
    np.testing.assert_array_equal(data.X, X)
    np.testing.assert_array_equal(data.y, SEVERAL)


def test_other_vectors_and_text_are_no_labels(tmp_path):
    write_v5(tmp_path / "o.mat", {"feats": X, "mean": X.mean(axis=0), "weights": X[:, 0], "note": "hello"})
    assert load(tmp_path / "o.mat").y is None


def test_two_matrices_are_ambiguous(tmp_path, write):
    write(tmp_path / "two.mat", {"A": X, "B": X[:, :4], "labels": Y})
    with pytest.raises(InvalidInput, match=r"2 matrices could be the features; .*A 60x5, B 60x4.*`features`"):
        load(tmp_path / "two.mat")
    np.testing.assert_array_equal(load(tmp_path / "two.mat", features="B").y, Y)


def test_two_label_vectors(tmp_path, write):
    write(tmp_path / "two.mat", {"A": X, "coarse": Y // 2, "fine": Y})
    with pytest.raises(InvalidInput, match="2 variables could be the labels"):
        load(tmp_path / "two.mat")
    np.testing.assert_array_equal(load(tmp_path / "two.mat", labels="fine").y, Y)
    write(tmp_path / "named.mat", {"A": X, "ids": np.arange(60), "labels": Y})
    np.testing.assert_array_equal(load(tmp_path / "named.mat").y, Y)


def test_no_matrix(tmp_path, write):
    write(tmp_path / "none.mat", {"labels": Y})
    with pytest.raises(InvalidInput, match="no matrix could be the features"):
        load(tmp_path / "none.mat")


def test_unknown_names_and_labels_that_do_not_fit(tmp_path, write):
    write(tmp_path / "n.mat", {"A": X, "short": Y[:-1]})
    with pytest.raises(UnknownName, match=r"has no numeric matrix 'B'; its numeric matrices: A 60x5"):
        load(tmp_path / "n.mat", features="B")
    with pytest.raises(InvalidInput, match="fit neither the rows nor the columns"):
        load(tmp_path / "n.mat", labels="short")
    with pytest.raises(UnknownName, match="has no numeric matrix"):
        load(tmp_path / "n.mat", labels=tmp_path / "y.npy")
    with pytest.raises(InvalidInput, match="must be names of variables"):
        load(tmp_path / "n.mat", features=[])


def test_different_widths(tmp_path, write):
    write(tmp_path / "w.mat", {"trainX": X, "testX": X[:, :4]})
    with pytest.raises(InvalidInput, match="trainX, testX have different widths"):
        load(tmp_path / "w.mat")


def test_cut_short(tmp_path, write):
    path = tmp_path / "x.mat"
    write(path, {"feats": X})
    whole = path.read_bytes()
    for n in (0, 10, 200, len(whole) // 2, len(whole) - 20):
        path.write_bytes(whole[:n])
        with pytest.raises(InvalidInput, match="damaged, cut short or not a MATLAB file"):
            load(path)


def test_v73_without_h5py_says_what_to_install(tmp_path, monkeypatch):
    write_v73(tmp_path / "x.mat", {"feats": X})
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(NotReady, match=r"pip install 'mihash\[mat\]'"):
        load(tmp_path / "x.mat")
