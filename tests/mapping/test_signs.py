import math

import numpy as np
import pytest

import mihash
from mihash.mapping import LinearMapping, NormalizedMapping
from mihash.mapping.signs import LinearSigns, _length
from oracles import ordered_bit

rng = np.random.default_rng(0)


def random_rows(n=40, d=30):
    return rng.standard_normal((n, d)).astype(np.float32)


ROWS = {
    "gaussian": random_rows(),
    "far": random_rows() + np.float32(5000),
    "subnormal": (random_rows().astype(np.float64) * 1e-40).astype(np.float32),
    "tiny": random_rows() * np.float32(1e-30),
    "huge": random_rows() * np.float32(1e30),
    "largest": np.sign(random_rows()) * np.finfo(np.float32).max,
    "mixed": random_rows() * np.float32(10) ** rng.integers(-30, 30, (40, 30)),
    "whole numbers": rng.integers(-2, 3, (40, 30)).astype(np.float32),
    "zeros": np.zeros((3, 30), dtype=np.float32),
}


@pytest.mark.identity
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("kind", ROWS)
def test_bits_are_those_of_the_ordered_sum(kind, unit):
    X = ROWS[kind]
    W = rng.standard_normal((30, 13)).astype(np.float32)
    W[:, :4] = rng.integers(-2, 3, (30, 4))  # exact ties on whole numbers
    W[0, 4] -= X[0] @ W[:, 4] / X[0, 0] if 0 < abs(X[0, 0]) < 1e10 else 0  # a value next to 0
    offset = np.where(rng.random(13) < 0.5, 0, rng.standard_normal(13)).astype(np.float32)
    with np.errstate(all="ignore"):
        bits = mihash.unpack(LinearSigns(W, offset, unit).encode(X), 13)
    expected = [[ordered_bit(x, w, c, unit) for w, c in zip(W.T, offset, strict=True)] for x in X]
    assert np.array_equal(bits, expected)


@pytest.mark.identity
@pytest.mark.parametrize("d", [40, 128, 700])
def test_no_rounding_within_the_bound_changes_a_bit(d):
    X, W = random_rows(200, d), random_rows(d, 24)
    offset = -np.einsum("jk,kj->j", X[:24].astype(float), W).astype(np.float32)  # bit j of row j is next to 0
    signs = LinearSigns(W, offset)
    codes = signs.encode(X)
    bound = d * 2.0**-24 * np.linalg.norm(X, axis=1)[:, None] * np.linalg.norm(W, axis=0)
    exact = X.astype(np.float64) @ W + offset
    for error in (bound, -bound, bound * rng.uniform(-1, 1, bound.shape), -np.sign(exact) * bound):
        assert np.array_equal(signs.encode(X, (exact + error).astype(np.float32)), codes)
    flipped = np.packbits(exact - np.sign(exact) * bound > 0, axis=1, bitorder="little")
    assert not np.array_equal(flipped, codes), "the worst error must flip signs, or nothing was shown"


@pytest.mark.identity
@pytest.mark.parametrize("d", [1024, 1025, 4096, 9000])
def test_bits_next_to_0_of_wide_rows_are_those_of_the_ordered_sum(d):
    X, W = random_rows(12, d), random_rows(d, 12)
    offset = -np.einsum("jk,kj->j", X.astype(float), W).astype(np.float32)  # bit j of row j is next to 0
    bits = mihash.unpack(LinearMapping(W, offset).encode(X), 12)
    expected = [[ordered_bit(x, w, c, False) for w, c in zip(W.T, offset, strict=True)] for x in X]
    assert np.array_equal(bits, expected)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("row", [0, 299, 1000])
def test_encode_names_the_row_that_is_not_finite(bad, unit, row):
    X = random_rows(1200, 2100)  # more than one chunk
    linear = LinearMapping(random_rows(2100, 9))
    X[7] = np.finfo(np.float32).max  # finite, and its square is not
    mappings = (linear, NormalizedMapping(linear, np.full(2100, 0.1), unit=unit))
    codes = [mapping.encode(X) for mapping in mappings]
    assert [len(part) for part in codes] == [1200, 1200]
    X[row, 2099] = bad
    for mapping in mappings:
        with pytest.raises(mihash.errors.InvalidInput, match=f"row {row} has a NaN or an infinity"):
            mapping.encode(X)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_projections_that_are_no_numbers_are_summed_again(value):
    X, W = random_rows(), random_rows(30, 9)
    signs = LinearSigns(W, np.zeros(9))
    assert np.array_equal(signs.encode(X, np.full((40, 9), value, dtype=np.float32)), signs.encode(X))


@pytest.mark.identity
@pytest.mark.parametrize("d", [1, 3, 128, 1024, 1025, 2500])
@pytest.mark.parametrize("unit", [False, True])
def test_a_code_depends_on_its_vector_alone(d, unit):
    X = random_rows(700, d)
    mapping = NormalizedMapping(LinearMapping(random_rows(d, 37)), X[:100].mean(axis=0), 1.3, unit)
    whole = mapping.encode(X)
    for size in (1, 2, 63, 64, 65, 300):
        rows = rng.permutation(700)[:size]
        assert np.array_equal(mapping.encode(X[rows]), whole[rows])
    assert np.array_equal(np.concatenate([mapping.encode(row[None]) for row in X[:70]]), whole[:70])
    assert np.array_equal(mapping.encode(np.asfortranarray(X)), whole)


def test_a_scaled_vector_has_the_same_code_where_only_directions_count():
    X = random_rows()
    mapping = NormalizedMapping(LinearMapping(random_rows(30, 21)), np.full(30, 0.1), 2.0, unit=True)
    codes = mapping.encode(X)
    for factor in (2.0**-100, 0.5, 2.0**100):
        assert np.array_equal(mapping.encode(X * np.float32(factor)), codes)


def test_rows_far_from_the_origin_keep_their_neighbours():
    X = random_rows(300, 16)
    near = NormalizedMapping(LinearMapping(random_rows(16, 32)), np.zeros(16))
    far = NormalizedMapping(near.inner, np.full(16, 4096.0))  # exact in float32 up to 2^-11
    moved = (np.round(X * 2048) / 2048).astype(np.float32)
    assert np.array_equal(far.encode(moved + np.float32(4096)), near.encode(moved))


@pytest.mark.parametrize("exponent", [-44, -38, -30, -20, -19, -15, -10, 0, 10, 15, 18, 19, 25, 38])
def test_the_quick_length_of_a_row_is_never_too_small(exponent):
    for d in (1, 3, 64, 4097):
        row = (random_rows(1, d)[0].astype(np.float64) * 0.1 * 10.0**exponent).astype(np.float32)
        true = math.sqrt(math.fsum(float(value) ** 2 for value in row))
        assert true <= _length(row, exact=False) <= true * (1 + (d + 9) * 2.0**-23)
        assert _length(row, exact=True) == pytest.approx(true, rel=1e-10)
