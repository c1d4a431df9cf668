import copy

import numpy as np
import pytest

import mihash
from mihash.errors import CorruptStore, InvalidInput
from mihash.mapping import KernelMapping, LinearMapping, NormalizedMapping, mapping_from_state
from oracles_tables import plain_margins

rng = np.random.default_rng(0)


def test_encode_is_the_sign_of_the_projection():
    X, W, offset = rng.standard_normal((9000, 20)), rng.standard_normal((20, 13)), rng.standard_normal(13)
    mapping = LinearMapping(W, offset)
    bits = X @ W + offset > 0
    clear = np.abs(X @ W + offset) > 1e-4
    assert clear.mean() > 0.999
    assert (mihash.unpack(mapping.encode(X), 13) == bits)[clear].all()
    assert (mapping.n_bits, mapping.n_features) == (13, 20)
    assert mapping.encode(np.zeros((0, 20))).shape == (0, 2)


def test_zero_maps_to_bit_0():
    assert LinearMapping(np.ones((1, 1))).encode([[0.0]]).item() == 0


def test_a_mapping_is_frozen():
    W = np.eye(3)
    mapping = LinearMapping(W)
    before = mapping.fingerprint
    W[:] = 7
    assert LinearMapping(mapping.weights, mapping.offset).fingerprint == before
    assert copy.deepcopy(mapping) is copy.copy(mapping) is mapping
    with pytest.raises(ValueError, match="read-only"):
        mapping.weights[0, 0] = 1


def test_fingerprint_and_equality():
    a, b = LinearMapping(np.eye(3)), LinearMapping(np.eye(3))
    c = LinearMapping(np.eye(3), [0, 0, 1e-3])
    assert a == b
    assert hash(a) == hash(b)
    assert a != c
    assert a != "a"
    assert len(a.fingerprint) == 32


def test_distance():
    a = LinearMapping(np.zeros((2, 2)))
    assert a.distance(LinearMapping(np.zeros((2, 2)), [3, 4])) == 5
    assert a.distance(LinearMapping(np.zeros((2, 3)))) == np.inf


def test_distance_of_large_weights_is_finite():
    a = LinearMapping(np.zeros((2, 2)))
    assert a.distance(LinearMapping(np.full((2, 2), 1e25))) == pytest.approx(2e25)


def test_round_trip():
    mapping = LinearMapping(rng.standard_normal((4, 9)), rng.standard_normal(9))
    assert mapping_from_state(mapping.state()) == mapping
    with pytest.raises(CorruptStore, match="unknown kind 'cubic'"):
        mapping_from_state({"kind": "cubic"})


@pytest.mark.parametrize(
    ("weights", "offset"),
    [
        (np.zeros(3), None),
        (np.zeros((0, 2)), None),
        ([[np.nan]], None),
        (np.eye(2), [1.0]),
        (np.eye(2), [1.0, np.inf]),
    ],
)
def test_bad_parameters(weights, offset):
    with pytest.raises(InvalidInput):
        LinearMapping(weights, offset)


def test_kernel_mapping():
    X, anchors = rng.standard_normal((300, 5)) + 40, rng.standard_normal((12, 5)) + 40
    W, offset = rng.standard_normal((12, 9)), rng.standard_normal(9)
    mapping = KernelMapping(anchors, 1.5, W, offset)
    squares = ((X[:, None] - anchors) ** 2).sum(axis=2)
    bits = np.exp(-squares / (2 * 1.5**2)) @ W + offset > 0
    assert (mihash.unpack(mapping.encode(X), 9) == bits).mean() > 0.999
    assert (mapping.n_bits, mapping.n_features) == (9, 5)
    rows = rng.permutation(300)[:77]
    assert np.array_equal(mapping.encode(X[rows]), mapping.encode(X)[rows])
    again = mapping_from_state(mapping.state())
    assert again == mapping
    assert mapping.distance(again) == 0
    with pytest.raises(InvalidInput, match="12 anchors; got 11"):
        KernelMapping(anchors, 1.5, W[:11])
    with pytest.raises(InvalidInput, match="above 0"):
        KernelMapping(anchors, 0.0, W)


def test_encode_refuses_other_widths_and_nan():
    mapping = LinearMapping(np.eye(3))
    with pytest.raises(InvalidInput, match="3 features"):
        mapping.encode(np.zeros((1, 4)))
    with pytest.raises(InvalidInput, match="NaN"):
        mapping.encode([[0.0, 0.0, np.nan]])


@pytest.mark.identity
def test_margins_are_distances_to_the_hyperplanes():
    mapping = LinearMapping(rng.standard_normal((7, 20)), rng.standard_normal(20))
    X = rng.standard_normal((5, 7)).astype(np.float32)
    margins = mapping.margins(X)
    assert np.array_equal(margins, [plain_margins(mapping, x) for x in X])
    assert np.array_equal(mapping.margins(X[2:3])[0], margins[2])  # of one row as of many
    signs = 2.0 * np.unpackbits(mapping.encode(X), axis=1, bitorder="little", count=20) - 1
    weights = mapping.weights / np.linalg.norm(mapping.weights, axis=0)
    for x, own, side in zip(X, margins, signs, strict=True):
        feet = x[:, None] - side * own * weights  # the nearest point of each hyperplane
        assert np.allclose((feet * mapping.weights).sum(axis=0) + mapping.offset, 0, atol=1e-4)


def test_margins_of_normalised_features_are_those_of_the_inner_mapping():
    inner = LinearMapping(rng.standard_normal((4, 9)), rng.standard_normal(9))
    X = rng.standard_normal((6, 4)).astype(np.float32)
    for unit in (False, True):
        mapping = NormalizedMapping(inner, mean=[0.1, 0.2, 0.0, -3.0], gain=0.7, unit=unit)
        assert mapping.has_margins
        assert np.array_equal(mapping.margins(X), inner.margins(mapping.normalize(X)))


def test_margins_without_a_hyperplane_or_beyond_the_numbers():
    mapping = LinearMapping([[0.0, 1.0, 3e38], [0.0, 1.0, -3e38]], offset=[2.0, 0.0, 0.0])
    margins = mapping.margins(np.array([[1, 1], [3e38, 3e38]], dtype=np.float32))
    assert np.isfinite(margins).all()
    assert margins[:, 0].tolist() == [0, 0]  # its bit is the same for all
    kernel = KernelMapping([[0.0, 1.0]], 1.0, [[1.0]])
    assert not kernel.has_margins
    assert not NormalizedMapping(kernel, mean=[0.0, 0.0]).has_margins
    with pytest.raises(InvalidInput, match="no margins"):
        kernel.margins(np.zeros((1, 2), dtype=np.float32))
