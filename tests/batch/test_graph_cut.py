import itertools

import numpy as np

from mihash.batch.graph_cut import minimum_cut, settle_by_cut


def energy(A, u, z):
    return float(sum(A[i, j] * z[i] * z[j] for i in range(len(z)) for j in range(i)) + sum(u * z))


def least(A, u):
    return min(energy(A, u, np.array(z)) for z in itertools.product((-1.0, 1.0), repeat=len(u)))


def attracting(k, source):
    A = np.triu(-source.random((k, k)) * (source.random((k, k)) < 0.6), 1).astype(np.float32)
    return A + A.T


def test_a_cut_is_the_least_energy_of_all():
    source = np.random.default_rng(0)
    for scale in (1.0, 1e-4, 1e5):
        for _ in range(20):
            k = int(source.integers(1, 8))
            A, u = scale * attracting(k, source), (scale * source.standard_normal(k)).astype(np.float32)
            assert energy(A, u, minimum_cut(A, u)) <= least(A, u) + 1e-4 * scale


def test_whole_numbers_are_cut_exactly():
    source = np.random.default_rng(1)
    for _ in range(20):
        A = np.round(10 * attracting(6, source)).astype(np.float32)
        u = source.integers(-20, 20, 6).astype(np.float32)
        assert energy(A, u, minimum_cut(A, u)) == least(A, u)


def test_pairs_that_repel_are_left_as_they_were():
    source = np.random.default_rng(2)
    A = attracting(6, source)
    A[0, 1] = A[1, 0] = 3.0
    Z = source.choice(np.array([-1, 1], dtype=np.float32), (6, 3))
    pulls = A @ Z + source.standard_normal((6, 3)).astype(np.float32)
    found = settle_by_cut(A, pulls, Z)
    apart = np.minimum(A, 0)
    for s in range(3):
        u = pulls[:, s] - apart @ Z[:, s]
        assert energy(apart, u, found[:, s]) <= least(apart, u) + 1e-4
