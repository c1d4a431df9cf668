"""Without labels: where MomentHash begins, and who counts as near when distances tie."""

import numpy as np
import pytest

import mihash
from mihash.online import MomentHash
from mihash.online.drawn_rows import nearest_share
from mihash.online.moment_basis import principal_hyperplanes, rotations

_NEAR = 0.02


def blobs(n, d, n_centres, distance, seed):
    """Return round clusters of unit spread, whose centres lie ``distance`` spreads apart."""
    rng = np.random.default_rng(seed)
    centres = distance * rng.standard_normal((n_centres, d)) / np.sqrt(2 * d)
    return (centres[rng.integers(0, n_centres, n)] + rng.standard_normal((n, d)) / np.sqrt(d)).astype(np.float32)


def learned(X, n_bits=32, seed=0):
    system = mihash.OnlineHashing(MomentHash(n_bits, seed=seed), mihash.FixedRate(1000), reservoir_size=2000)
    system.feed(X)
    return system


def plain_nearest(Z, n_anchors, n_block):
    """State the rule as loops, for rows whose distances are exact."""
    near = np.zeros((n_anchors, len(Z)), dtype=np.uint8)
    n_near = max(2, int(_NEAR * (len(Z) - n_block)))
    distances = [
        [sum((a - b) ** 2 for a, b in zip(Z[i], row, strict=True)) for row in Z] for i in range(n_anchors)
    ]
    bounds = [sorted(each[n_block:])[n_near - 1] for each in distances]
    tied = [
        sum(far <= bound for far in each[n_block:]) > 2 * n_near
        for each, bound in zip(distances, bounds, strict=True)
    ]
    equal = [is_tied and bound == 0 for is_tied, bound in zip(tied, bounds, strict=True)]
    keeps_equal = 2 * sum(equal) > n_anchors
    for i, (each, bound) in enumerate(zip(distances, bounds, strict=True)):
        strict = tied[i] and not (equal[i] and keeps_equal)
        near[i] = [far < bound if strict else far <= bound for far in each]
    return near


@pytest.mark.parametrize("kind", ["sparse", "few rows", "zeros", "different"])
def test_who_is_near_is_told_as_plain_loops_do(kind):
    rng = np.random.default_rng(3)
    Z = (rng.integers(0, 3, (160, 12)) * (rng.random((160, 12)) < 0.1)).astype(np.float32)
    if kind == "few rows":
        Z = Z[rng.integers(0, 6, 160)]
    elif kind == "zeros":
        Z[rng.random(160) < 0.3] = 0
    elif kind == "different":
        Z = rng.integers(-50, 50, (160, 12)).astype(np.float32)
    found = nearest_share(Z, 30, 40)
    assert np.array_equal(found, plain_nearest(Z.tolist(), 30, 40))


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_items_of_far_clusters_have_codes_of_their_own(seed):
    X = blobs(2400, 32, 3, 30, seed)
    system = learned(X, seed=seed)
    assert len(np.unique(system.current.encode(X[:1000]), axis=0)) > 500
    near = np.argsort(((X[:100, None] - X[None, 1000:]) ** 2).sum(axis=2), axis=1)[:, :10]
    found = np.argsort(mihash.hamming(*(system.current.encode(part) for part in (X[:100], X[1000:]))), axis=1)
    among = np.mean([np.isin(true, each[:100]).mean() for true, each in zip(near, found, strict=True)])
    assert among > 0.35  # plain components: 0.20 to 0.22, with three codes in all


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_rows_without_far_clusters_begin_with_plain_components(seed):
    rng = np.random.default_rng(seed)
    P = (rng.standard_normal((1500, 16)) * np.geomspace(1, 0.2, 16)).astype(np.float32)
    near = nearest_share(P, 200, 200)
    M, whitened = principal_hyperplanes(P, P.var(axis=0).astype(np.float64), 16, seed, near)
    assert not whitened
    assert np.array_equal(M, rotations(P, 16, seed))


def test_a_whitened_start_is_saved_and_resumed(tmp_path):
    X = blobs(3000, 32, 3, 30, 5)
    whole, first = learned(X), learned(X[:2000])
    first.save(tmp_path / "state")
    again = mihash.OnlineHashing.load(tmp_path / "state")
    assert again.learner._planes.whitened
    again.feed(X[2000:])
    assert again.current == whole.current
