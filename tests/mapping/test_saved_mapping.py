import os

import numpy as np
import pytest

import mihash
from mihash import state
from mihash.errors import CorruptStore, StoreError, UnsupportedVersion
from mihash.mapping import ForestMapping, KernelMapping, LinearMapping, NetworkMapping, NormalizedMapping

rng = np.random.default_rng(0)
X = rng.standard_normal((50, 6)).astype(np.float32)


def linear():
    return LinearMapping(rng.standard_normal((6, 19)), rng.standard_normal(19))


def kernel():
    return KernelMapping(X[:7], 1.5, rng.standard_normal((7, 9)), rng.standard_normal(9))


def forest():
    split = {"feature": [0, 0, 0, 1, 0, 0], "threshold": [0.1, 0, 0, 0.2, 0, 0], "left": [1, 1, 2, 4, 4, 5]}
    return ForestMapping(**split, value=[0, -1, 1 / 3, 0, -1, 1], roots=[0, 3], n_trees=[1, 1], n_features=6)


def network():
    weights = rng.standard_normal((6, 5)), rng.standard_normal((5, 17))
    return NetworkMapping(weights, [rng.standard_normal(5), rng.standard_normal(17)], "tanh")


def normalized_linear():
    return NormalizedMapping(linear(), rng.standard_normal(6), gain=0.7, unit=True)


def normalized_kernel():
    return NormalizedMapping(kernel(), rng.standard_normal(6), gain=1.3)


def module():
    from mihash import deep

    return deep.ModuleMapping(deep.build_network("resnet", 8, width=2, seed=5), (3, 8, 8))


KINDS = (
    *(linear, kernel, forest, network, normalized_linear, normalized_kernel),
    pytest.param(module, marks=pytest.mark.needs("torch")),
)


@pytest.mark.parametrize("make", KINDS)
def test_every_kind_comes_back_with_its_fingerprint_and_codes(tmp_path, make):
    mapping = make()
    mapping.save(tmp_path / "mapping")
    again = mihash.load_mapping(tmp_path / "mapping")
    assert again.fingerprint == mapping.fingerprint
    assert type(again) is type(mapping)
    vectors = rng.standard_normal((20, mapping.n_features)).astype(np.float32)
    assert np.array_equal(again.encode(vectors), mapping.encode(vectors))


@pytest.mark.parametrize("make", KINDS)
def test_a_single_vector_gives_a_single_code(make):
    mapping = make()
    vectors = rng.standard_normal((3, mapping.n_features)).astype(np.float32)
    code = mapping.encode(vectors[1])
    assert code.shape == (-(-mapping.n_bits // 8),)
    assert np.array_equal(code, mapping.encode(vectors)[1])
    with pytest.raises(mihash.errors.InvalidInput, match="features"):
        mapping.encode(vectors[1, :-1])
    with pytest.raises(mihash.errors.InvalidInput, match="must not be empty"):
        mapping.encode([])


def test_the_file_is_arrays_behind_a_json_header(tmp_path):
    mapping = linear()
    mapping.save(str(tmp_path / "mapping"))
    data = (tmp_path / "mapping").read_bytes()
    assert data[:8] == b"mihash01"
    assert mapping.weights.astype("<f4").tobytes() in data
    assert mapping.fingerprint.encode() in data


def test_any_damage_is_noticed_and_the_path_named(tmp_path):
    path = tmp_path / "mapping"
    linear().save(path)
    data = path.read_bytes()
    broken = [data[:n] for n in (0, 7, 20, len(data) // 2, len(data) - 1)]
    for place in range(0, len(data), 37):
        flipped = bytearray(data)
        flipped[place] ^= 4
        broken.append(bytes(flipped))
    for each in broken:
        path.write_bytes(each)
        with pytest.raises((CorruptStore, UnsupportedVersion), match=str(path)):
            mihash.load_mapping(path)


@pytest.mark.parametrize(
    "content",
    [
        {"a": 1},
        {"mapping": 3, "fingerprint": ""},
        {"mapping": {"kind": "cubic"}, "fingerprint": ""},
        {"mapping": {"kind": "linear", "arrays": {"weights": np.full((2, 2), np.nan)}}, "fingerprint": ""},
        {"mapping": {"kind": "linear", "arrays": {"planes": np.eye(2)}}, "fingerprint": ""},
        {"mapping": {"kind": "linear", "arrays": {"weights": np.eye(2)}}},
        {"mapping": {"kind": "linear", "arrays": {"weights": np.eye(2)}}, "fingerprint": "0" * 32},
        {"mapping": {"kind": "network", "arrays": {}}, "fingerprint": ""},
        {"mapping": {"kind": "normalized", "inner": {}}, "fingerprint": ""},
        ["a", "list"],
    ],
)
def test_a_state_of_something_else_is_refused_and_the_path_named(tmp_path, content):
    path = tmp_path / "other"
    state.write(path, content)
    with pytest.raises(CorruptStore, match=str(path)):
        mihash.load_mapping(path)


def test_foreign_and_missing_files(tmp_path):
    np.save(tmp_path / "weights.npy", np.eye(3))
    with pytest.raises(CorruptStore, match=r"weights.npy.*not a saved mihash state"):
        mihash.load_mapping(tmp_path / "weights.npy")
    with pytest.raises(StoreError, match=r"There is no file .*none"):
        mihash.load_mapping(tmp_path / "none")
    with pytest.raises(StoreError, match="Cannot write"):
        linear().save(tmp_path / "no" / "folder")


def test_a_newer_format_is_named(tmp_path):
    (tmp_path / "newer").write_bytes(b"mihash99" + bytes(100))
    with pytest.raises(UnsupportedVersion, match=r"newer.*format 99"):
        mihash.load_mapping(tmp_path / "newer")


@pytest.mark.needs("torch")
def test_a_network_that_is_not_registered_is_named(tmp_path, monkeypatch):
    from mihash.deep import networks

    module().save(tmp_path / "mapping")
    monkeypatch.delitem(networks._NETWORKS, "resnet")
    with pytest.raises(mihash.errors.UnknownName, match="no network 'resnet'"):
        mihash.load_mapping(tmp_path / "mapping")


def test_a_write_that_fails_leaves_the_old_file(tmp_path, monkeypatch):
    first, second = linear(), linear()
    path = tmp_path / "mapping"
    first.save(path)

    def no_space(_descriptor):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", no_space)
        with pytest.raises(StoreError, match="No space"):
            second.save(path)
    assert mihash.load_mapping(path) == first
    assert [file.name for file in tmp_path.iterdir()] == ["mapping"]
    second.save(path)
    assert mihash.load_mapping(path) == second
