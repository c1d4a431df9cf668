from itertools import pairwise

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.mapping import LinearMapping, NetworkMapping, mapping_from_state


def layers(rng, widths=(6, 5, 4, 11)):
    return [rng.standard_normal(shape) for shape in pairwise(widths)], [
        rng.standard_normal(width) for width in widths[1:]
    ]


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_bits_are_the_signs_of_the_last_layer(activation):
    rng = np.random.default_rng(0)
    weights, offsets = layers(rng)
    mapping = NetworkMapping(weights, offsets, activation)
    X = rng.standard_normal((130, 6)).astype(np.float32)
    values = X.astype(np.float64)
    for i, (W, c) in enumerate(zip(weights, offsets, strict=True)):
        values = values @ W + c
        if i < 2:
            values = np.maximum(values, 0) if activation == "relu" else np.tanh(values)
    assert np.allclose(mapping.project(X), values, atol=1e-4)
    assert np.array_equal(mapping.encode(X), mihash.pack(mapping.project(X) > 0))
    assert np.array_equal(mapping.encode(X[7:8]), mapping.encode(X)[7:8])
    assert mapping.n_features == 6
    assert mapping.n_bits == 11


def test_round_trip_distance_and_identity():
    weights, offsets = layers(np.random.default_rng(1))
    mapping = NetworkMapping(weights, offsets)
    assert mapping_from_state(mapping.state()) == mapping
    assert mapping != NetworkMapping(weights, offsets, "tanh")
    weights[0][0, 0] += 3
    assert mapping.distance(NetworkMapping(weights, offsets)) == pytest.approx(3)
    assert mapping.distance(NetworkMapping(weights[:1], offsets[:1])) == np.inf
    assert mapping.distance(LinearMapping(weights[0])) == np.inf


def test_refusals():
    weights, offsets = layers(np.random.default_rng(2))
    for bad in (
        ([], []),
        (weights[::-1], offsets),
        (weights, offsets[:-1]),
        (weights, [*offsets[:-1], [1.0]]),
        ([np.full((2, 2), np.nan)], [[0, 0]]),
    ):
        with pytest.raises(InvalidInput):
            NetworkMapping(*bad)
    with pytest.raises(InvalidInput, match="activation"):
        NetworkMapping(weights, offsets, "sine")
