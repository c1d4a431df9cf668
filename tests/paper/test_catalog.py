import os
import subprocess
import sys

import numpy as np
import pytest

from mihash.errors import InvalidInput, NotReady, StoreError, UnknownName
from mihash.paper import datasets
from mihash.paper.datasets import STAND_INS, catalog, cifar10_like, dataset_names, find_protocol, open_dataset


@pytest.fixture
def no_variable(monkeypatch):
    monkeypatch.delenv("MIHASH_DATA", raising=False)


@pytest.fixture
def folder(tmp_path):
    np.savez(tmp_path / "gist22k.npz", features=np.eye(5, dtype=np.float16))
    return tmp_path


@pytest.mark.usefixtures("no_variable")
def test_digits_and_generators_need_no_folder(monkeypatch):
    assert len(open_dataset("digits")) == 1797
    monkeypatch.setitem(catalog._GENERATORS, "cifar10-like", lambda: cifar10_like(n=50, n_features=8))
    assert open_dataset("cifar10-like").X.shape == (50, 8)


@pytest.mark.usefixtures("no_variable")
@pytest.mark.parametrize("name", [*STAND_INS, "cifar10_vgg16"])
def test_without_a_folder_the_error_says_how_to_set_it(name):
    with pytest.raises(NotReady, match=rf"The data set '{name}' is the file .*\.npz.* Set MIHASH_DATA .*`data`"):
        open_dataset(name)


@pytest.mark.usefixtures("no_variable")
def test_folder_as_argument(folder):
    data = open_dataset("labelme", data=folder)
    assert data.name == "gist22k"  # results are called by what the data is
    assert data.X.shape == (5, 5)
    assert len(open_dataset("gist22k", data=str(folder))) == 5


def test_folder_from_the_environment(folder, monkeypatch, tmp_path_factory):
    monkeypatch.setenv("MIHASH_DATA", str(folder))
    assert len(open_dataset("labelme")) == 5
    with pytest.raises(StoreError, match="is not in"):
        open_dataset("labelme", data=tmp_path_factory.mktemp("empty"))


def test_folder_that_is_none(folder):
    with pytest.raises(StoreError, match=r"must be a folder; got '.*nowhere'. Correct `data` or MIHASH_DATA"):
        open_dataset("cifar10", data=folder / "nowhere")
    with pytest.raises(StoreError, match=r"the file cifar10_vgg16\.npz, which is not in"):
        open_dataset("cifar10", data=folder)


def test_own_file(folder):
    assert open_dataset(folder / "gist22k.npz").name == "gist22k"
    assert open_dataset(str(folder / "gist22k.npz")).name == "gist22k"
    with pytest.raises(InvalidInput, match="does not exist"):
        open_dataset(folder / "other.npz")


@pytest.mark.parametrize("name", ["mnist", "", "data.txt"])
def test_unknown_name_lists_the_known_ones(name):
    with pytest.raises(UnknownName, match=r"known: digits, cifar10, .*labelme-like, or the path of a file"):
        open_dataset(name)


def test_names_are_public():
    assert set(datasets.__all__) <= set(dir(datasets))
    assert sorted(dataset_names()) == sorted(set(dataset_names()))


def test_importing_the_room_stays_light():
    heavy = {"scipy", "sklearn", "h5py", "pyarrow", "torch"}
    code = f"import sys, mihash; mihash.datasets; print({heavy} & set(sys.modules))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "set()"


@pytest.mark.skipif(not os.environ.get("MIHASH_DATA"), reason="MIHASH_DATA names no folder of real features")
@pytest.mark.parametrize(
    ("name", "shape", "n_query", "n_stream"),
    [
        ("cifar10", (60_000, 512), 1000, 20_000),
        ("places205", (110_000, 128), 4000, 100_000),
        ("labelme", (22_019, 512), 2000, 20_000),
    ],
)
def test_real_features(name, shape, n_query, n_stream):
    data = open_dataset(name)
    assert data.X.shape == shape
    split = find_protocol(data.name).split(data)
    assert (len(split.X_query), len(split.stream)) == (n_query, n_stream)
    assert len(split.X_base) == shape[0] - n_query


def test_wrong_type_of_file(tmp_path):
    np.savez(tmp_path / "x.npz", features=np.array(["a"]))
    with pytest.raises(InvalidInput, match="has neither a column of lists nor columns of numbers"):
        open_dataset(tmp_path / "x.npz")
