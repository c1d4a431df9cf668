import numpy as np
import pytest
import torch
from torch import nn

import mihash
from mihash import state
from mihash.deep import ModuleMapping, build_network, register_network
from mihash.errors import CorruptStore, InvalidInput, UnknownName
from mihash.mapping import mapping_from_state
from mihash.store.sqlite.sqlite_table import SQLiteTable


@pytest.fixture(scope="module")
def mapping():
    network = build_network("resnet", 24, width=2, scale=2.0, mirror=True, seed=3)
    with torch.no_grad():
        network.train()(torch.rand(64, 3, 16, 16) * 255)  # running means that are not those of the start
    return ModuleMapping(network, (3, 16, 16))


@pytest.fixture(scope="module")
def X():
    return np.random.default_rng(0).integers(0, 256, (150, 3 * 16 * 16)).astype(np.float32)


def test_round_trip_through_bytes(mapping, X):
    saved = state.dump(mapping.state())
    assert b"pickle" not in saved
    again = mapping_from_state(state.load(saved))
    assert again == mapping
    assert again.fingerprint == mapping.fingerprint
    assert np.array_equal(again.encode(X), mapping.encode(X))
    assert again.input_shape == (3, 16, 16)


def test_bits_are_the_signs_of_the_outputs(mapping, X):
    network = mapping._network
    with torch.no_grad():
        outputs = network(torch.from_numpy(X).view(-1, 3, 16, 16)).numpy()
    clear = np.abs(outputs) > 1e-5
    assert np.array_equal(mihash.unpack(mapping.encode(X), 24)[clear], (outputs > 0)[clear])


def test_a_code_does_not_depend_on_the_rest_of_the_batch(mapping, X):
    together = mapping.encode(X)
    alone = np.concatenate([mapping.encode(X[i : i + 1]) for i in range(0, 150, 10)])
    assert np.array_equal(alone, together[::10])
    assert np.array_equal(mapping.encode(X[::-1]), together[::-1])


def test_it_is_frozen(X):
    network = build_network("resnet", 8, width=2)
    mapping = ModuleMapping(network, (3, 16, 16))
    before = mapping.encode(X)
    nn.init.zeros_(network.head[0].weight)
    assert np.array_equal(mapping.encode(X), before)
    with pytest.raises(ValueError, match="read-only"):
        mapping.arrays()["head.0.weight"][0] = 0


def test_what_is_kept_is_what_is_loaded(X):
    """Attributes that were set after `build_network` are no part of the architecture."""
    network = build_network("resnet", 8, width=2)
    network.mirror = True
    mapping = ModuleMapping(network, (3, 16, 16))
    again = mapping_from_state(mapping.state())
    assert np.array_equal(mapping.project(X), again.project(X))
    network.head[0] = nn.Linear(16, 9, bias=False)
    with pytest.raises(InvalidInput, match="do not fit"):
        ModuleMapping(network, (3, 16, 16))


def test_distance(mapping):
    other = ModuleMapping(build_network("resnet", 24, width=2, scale=2.0, mirror=True, seed=4), (3, 16, 16))
    wider = ModuleMapping(build_network("resnet", 24, width=3), (3, 16, 16))
    assert mapping.distance(mapping) == 0
    assert 0 < mapping.distance(other) < np.inf
    assert mapping.distance(wider) == np.inf
    assert mapping.distance(mihash.mapping.LinearMapping(np.eye(3))) == np.inf
    assert mapping.to("cpu") == mapping != other


def test_in_a_table_and_under_the_trigger(mapping, X):
    table = mihash.MemoryTable()
    table.add(X)
    table.rebuild(mapping)
    distances = table.search(X[:5], k=1).distances
    assert not distances.any()
    assert np.array_equal(table.codes, mapping.encode(X))
    again = mihash.MemoryTable()
    again.restore(table.state())
    assert again.mapping == mapping
    other = ModuleMapping(build_network("resnet", 24, width=2, scale=2.0, seed=5), (3, 16, 16))
    y = np.arange(150) % 3
    decision = mihash.TriggerUpdate(theta=0.0).decide(other, mapping, X, y)
    assert decision.gain == pytest.approx(
        mihash.quality(other.encode(X), y, 24) - mihash.quality(mapping.encode(X), y, 24)
    )


def test_in_the_store_of_the_index(mapping, X, tmp_path):
    table = SQLiteTable.create(tmp_path)
    table.rebuild(mapping)
    table.add(X)
    before = table.search(X[:5], k=3)
    table.close()
    opened = SQLiteTable(tmp_path)
    assert opened.mapping == mapping
    after = opened.search(X[:5], k=3)
    opened.close()
    assert np.array_equal(before.keys, after.keys)
    assert not before.distances[:, 0].any()


def test_a_network_of_your_own():
    register_network(
        "of my own", lambda n_bits, width: nn.Sequential(nn.Linear(6, width), nn.Linear(width, n_bits))
    )
    mapping = ModuleMapping(build_network("of my own", 5, width=3), (6,))
    assert mapping.n_bits == 5
    assert mapping_from_state(mapping.state()) == mapping


def test_refusals(mapping):
    with pytest.raises(InvalidInput, match="register_network"):
        ModuleMapping(nn.Linear(3, 4), (3,))
    with pytest.raises(InvalidInput, match="does not take inputs"):
        ModuleMapping(build_network("resnet", 8, width=2), (5, 16, 16))
    with pytest.raises(CorruptStore, match="architecture"):
        ModuleMapping.from_arrays(weight=np.zeros(3))
    broken = build_network("resnet", 8, width=2)
    nn.init.constant_(broken.head[0].weight, torch.nan)
    with pytest.raises(InvalidInput, match=r"finite.*head\.0\.weight"):
        ModuleMapping(broken, (3, 16, 16))
    with pytest.raises(InvalidInput, match="no device"):
        mapping.to("gpu")
    arrays = mapping.arrays()
    odd = np.frombuffer(bytes(arrays["architecture"]).replace(b"resnet", b"nonets"), dtype=np.uint8)
    with pytest.raises(UnknownName, match=r"nonets.*register_network"):
        ModuleMapping.from_arrays(**{**arrays, "architecture": odd})
    with pytest.raises(InvalidInput, match=r"head\.0\.weight"):
        ModuleMapping.from_arrays(**{**arrays, "head.0.weight": np.zeros((2, 2), dtype=np.float32)})
