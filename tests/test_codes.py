import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import mihash
import oracles
from mihash.codes import as_words
from mihash.errors import InvalidInput

bits = st.tuples(st.integers(1, 6), st.integers(1, 140)).flatmap(lambda shape: arrays(np.bool_, shape))


@given(bits)
def test_pack_and_unpack_are_inverse(values):
    b = values.shape[1]
    codes = mihash.pack(values)
    assert codes.shape == (len(values), -(-b // 8))
    assert np.array_equal(mihash.unpack(codes, b), values)
    assert np.array_equal(codes, mihash.pack(values.astype(int)))
    assert np.array_equal(codes, mihash.pack(np.where(values, 1.0, -1.0)))
    assert np.array_equal(codes, np.packbits(values, axis=1, bitorder="little"))


@given(bits)
def test_hamming_is_the_paper_s_and_a_metric(values):
    signs = np.where(values, 1, -1)
    distances = mihash.hamming(mihash.pack(values), mihash.pack(values))
    assert distances.tolist() == [[oracles.hamming(a, b) for b in signs] for a in signs]
    assert np.array_equal(distances, distances.T)
    assert not distances.diagonal().any()
    for i in range(len(values)):
        assert (distances <= distances[:, i : i + 1] + distances[i]).all()


def test_complement_is_at_distance_b():
    ones = np.ones((1, 77), dtype=bool)
    assert mihash.hamming(mihash.pack(ones), mihash.pack(~ones)).item() == 77


def test_bit_0_comes_first():
    assert mihash.pack([[1] + [0] * 8]).tolist() == [[1, 0]]


@pytest.mark.parametrize(
    "wrong", [[[0, -1]], [[0.5]], [[np.nan]], [1, 0], [["a"]], [[1], [1, 0]], np.zeros((2, 0)), [[2, 1]]]
)
def test_pack_refuses(wrong):
    with pytest.raises(InvalidInput, match="`bits`"):
        mihash.pack(wrong)


def test_hamming_refuses_other_widths():
    with pytest.raises(InvalidInput, match="same length"):
        mihash.hamming(np.zeros((1, 1), np.uint8), np.zeros((1, 2), np.uint8))


def test_unpack_refuses_other_widths():
    with pytest.raises(InvalidInput, match="2 bytes for 12 bits"):
        mihash.unpack(np.zeros((1, 1), np.uint8), 12)


def test_words_pad_with_zeros():
    assert as_words(np.full((2, 9), 255, np.uint8)).tolist() == [[2**64 - 1, 255]] * 2
