import numpy as np

import mihash

rng = np.random.default_rng(0)


def started(n_bits, d, seed=0):
    learner = mihash.online.RandomRotation(n_bits, seed=seed)
    learner.start(d)
    return learner.mapping.weights.astype(float)


def test_bits_are_axes_of_rotations():
    for n_bits, d in ((5, 8), (8, 8), (21, 8)):
        W = started(n_bits, d)
        assert W.shape == (d, n_bits)
        for first in range(0, n_bits, d):
            part = W[:, first : first + d]
            assert np.allclose(part.T @ part, np.eye(part.shape[1]), atol=1e-6)
    assert not np.allclose(started(8, 8), started(8, 8, seed=1))
    assert np.allclose(started(21, 8)[:, :8], started(8, 8))  # more bits begin with the same ones


def test_with_codes_as_long_as_the_vector_an_index_estimates_distances(tmp_path):
    X = rng.standard_normal((3000, 96)).astype(np.float32)
    with mihash.open(tmp_path / "index", learner="randomrotation") as index:
        index.add(X)
        index.wait()
        assert index.snapshot.n_bits == 96
        assert index._table.edition.has_factors
        rotated = index.evaluate(rescore=100).candidates
    with mihash.open(tmp_path / "other", learner="lsh", n_bits=96, factors=False) as index:
        index.add(X)
        index.wait()
        assert rotated > index.evaluate(rescore=100).candidates
