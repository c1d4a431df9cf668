import math

import numpy as np
import pytest

from mihash.mapping import KernelMapping, LinearMapping, NormalizedMapping
from mihash.mapping.factors import LENGTHS, SQUARES, estimates, factors_of

rng = np.random.default_rng(0)


def nearest(scale, value):
    """Return the place of the nearest number of a scale."""
    return min(range(256), key=lambda place: abs(scale[place] - value))


def test_the_ends_of_the_scales():
    assert SQUARES[0] == 2.0**-8
    assert LENGTHS[0] == 2.0**-4
    assert SQUARES[-1] == pytest.approx(2**4, rel=1e-9)
    assert LENGTHS[-1] == pytest.approx(2**2, rel=1e-9)


@pytest.mark.identity
@pytest.mark.parametrize("b", [1, 7, 64, 130])
@pytest.mark.parametrize("d", [8, 200])
def test_factors_are_those_of_plain_loops(b, d):
    margins = (rng.exponential(size=(40, b)) / math.sqrt(b) * rng.exponential(size=(40, 1))).astype(np.float32)
    margins[0] = 0
    margins[1] = 1e6
    found, excess = factors_of(margins, d), max(1, b / d)
    for row, (square, length) in zip(margins, found, strict=True):
        size = total = 0.0
        for value in row:
            total += float(value) ** 2
            size += float(value)
        assert square == nearest(SQUARES, total / excess)
        assert length == nearest(LENGTHS, math.sqrt(b / excess) * total / size if size else 0)
    assert found[0].tolist() == [0, 0]
    assert found[1].tolist() == [255, 255]


def test_estimates_are_near_the_distances_of_the_projections():
    d = 128
    W = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((200, d)) / math.sqrt(d) * rng.uniform(0.5, 2, (200, 1))
    q = (X[0] + 0.3 * rng.standard_normal(d) / math.sqrt(d))[None]
    mapping = LinearMapping(W)
    X, q = X.astype(np.float32), q.astype(np.float32)
    margins, signs = mapping.margins(q), np.sign(X @ W) != np.sign(q @ W)
    sums = (margins * signs).sum(axis=1)[None].astype(np.float32)
    factors = factors_of(mapping.margins(X), d)
    found = estimates(sums, margins, factors, np.arange(len(factors))[None], d)[0]
    f = LENGTHS[factors[:, 1]] / math.sqrt(d)
    plain = []
    for i, square in enumerate(SQUARES[factors[:, 0]]):
        product = min(f[i] * (margins.sum() - 2 * sums[0, i]), math.sqrt(square * (margins**2).sum()))
        plain.append(square - 2 * product)
    assert found == pytest.approx(plain, rel=1e-4, abs=1e-5)
    true = ((X - q) ** 2).sum(axis=1) - (q**2).sum()
    assert np.corrcoef(found, true)[0, 1] > 0.95
    assert np.argmin(found) == 0


def test_nothing_is_much_nearer_than_the_item_itself():
    mapping = LinearMapping(rng.standard_normal((4, 16)))  # short codes: many items share one
    X = (rng.standard_normal((400, 4)) / 2).astype(np.float32)
    margins, codes = mapping.margins(X), np.unpackbits(mapping.encode(X), axis=1, bitorder="little")
    factors = factors_of(margins, 4)
    for i in range(20):
        sums = (margins[i] * (codes != codes[i])).sum(axis=1)[None].astype(np.float32)
        found = estimates(sums, margins[i : i + 1], factors, np.arange(len(factors))[None], 4)[0]
        assert found[i] < found.min() + 0.1 * (margins[i] ** 2).sum()


def test_only_linear_mappings_of_normalised_features_have_factors():
    linear = LinearMapping(np.eye(2))
    assert not linear.has_factors
    assert NormalizedMapping(linear, mean=[0, 0]).has_factors
    assert not NormalizedMapping(KernelMapping([[0.0, 1.0]], 1.0, [[1.0]]), mean=[0, 0]).has_factors
