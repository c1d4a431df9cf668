import numpy as np
import pytest

import mihash
import oracles_sketch
from checks import clusters
from mihash.errors import InvalidInput
from mihash.online.online_learner import hyperplanes
from mihash.online.sketchhash import SketchHash, _principal

INFINITE = float("inf")


def decaying(n=700, d=40, decay=0.9, offset=3.0, seed=0):
    """Examples whose directions have falling variances, about a mean that drifts."""
    rng = np.random.default_rng(seed)
    basis = np.linalg.qr(rng.standard_normal((d, d)))[0] * decay ** np.arange(d)[:, None]
    drift = np.linspace(0, 1, n)[:, None] * rng.standard_normal(d)
    return (rng.standard_normal((n, d)) @ basis + drift + offset).astype(np.float32)


def learned(X, sizes=None, **options):
    """A learner that was given X, in batches of ``sizes`` or of its own batch size."""
    learner = SketchHash(**options)
    learner.start(X.shape[1])
    reservoir = mihash.Reservoir(10)
    sizes = sizes or [learner.batch_size] * (-(-len(X) // learner.batch_size))
    start = 0
    for size in sizes:
        learner.learn(X[start : start + size], None, reservoir, np.full(size, -1))
        start += size
    assert start >= len(X)
    return learner


def scatter(X):
    centred = X.astype(np.float64) - X.mean(axis=0, dtype=np.float64)
    return centred.T @ centred


def sketched(learner):
    B = learner.learned()["sketch"]
    return B.T @ B


@pytest.mark.parametrize("d", [8, 15, 60])
@pytest.mark.parametrize("sketch_size", [2, 10, 50])
@pytest.mark.parametrize("batch_size", [1, 7, 50, 290])
def test_the_sketch_is_the_oracles(d, sketch_size, batch_size):
    X = decaying(n=310, d=d)
    learner = learned(X, n_bits=4, sketch_size=sketch_size, batch_size=batch_size)
    rows, mean = oracles_sketch.centred_rows(X, batch_size)
    B = oracles_sketch.frequent_directions(rows, sketch_size)
    total = np.trace(scatter(X))
    assert np.allclose(sketched(learner), B.T @ B, atol=1e-10 * total)
    assert np.allclose(learner.learned()["mean"], mean, atol=1e-12)


@pytest.mark.parametrize("sketch_size", [2, 10, 20, 30, 60, 100])
def test_frequent_directions_guarantee(sketch_size):
    X = decaying(n=1000, d=50, decay=0.97)
    missing = np.linalg.eigvalsh(scatter(X) - sketched(learned(X, sketch_size=sketch_size)))
    total = np.trace(scatter(X))
    assert missing[0] > -1e-12 * total
    assert missing[-1] <= 2 * total / sketch_size
    if sketch_size == 10:
        assert missing[-1] > 0.01 * total  # the bound is not met for want of shrinking


def test_the_rows_that_enter_have_the_scatter_about_the_mean():
    X = decaying()
    rows, _ = oracles_sketch.centred_rows(X, 50)
    assert np.allclose(rows.T @ rows, scatter(X))


@pytest.mark.parametrize("n", [1, 50, 51, 130, 197])
def test_a_sketch_that_was_never_full_is_exact(n):
    X = decaying(n=n, d=60)
    learner = learned(X, sketch_size=200)
    assert np.allclose(sketched(learner), scatter(X), atol=1e-10)


def test_a_sketch_of_twice_the_dimension_is_exact():
    X = decaying(n=1000, d=12)
    assert np.allclose(sketched(learned(X, sketch_size=24)), scatter(X), rtol=1e-9)


@pytest.mark.parametrize("sizes", [None, [1, 2, 3, 694], [350, 350], [699, 1]])
def test_the_streaming_mean_is_the_mean(sizes):
    X = decaying(offset=100.0)
    learner = learned(X, sizes)
    assert np.allclose(learner.learned()["mean"], X.mean(axis=0, dtype=np.float64), rtol=1e-12)
    assert learner.learned()["n_seen"] == 700


def test_the_sketch_is_kept_between_batches():
    """A direction of the first batch alone is still there after ten others."""
    X = np.random.default_rng(0).standard_normal((550, 30)).astype(np.float32)
    X[:, 0] = 0
    X[:50, 0] = 100 * np.random.default_rng(1).standard_normal(50)
    W = learned(X, n_bits=1, sketch_size=20, rotate=None).mapping.weights
    assert W[0, 0] > 0.99


def test_at_most_half_of_a_shrunk_sketch_is_used():
    X = decaying(n=103, d=40)
    learner = learned(X, [100, 3], sketch_size=10)
    rows = np.linalg.norm(learner.learned()["sketch"], axis=1)
    used = learner.learned()["n_rows"]
    assert used <= 10
    assert (rows[:used] > 0).all()
    assert not rows[used:].any()
    learner._sketch[:] = np.random.default_rng(0).standard_normal((10, 40))
    learner._n_rows = 10
    learner._shrink()
    assert learner._n_rows == 5


def test_equal_singular_values_cancel_out():
    """Then nothing is left, and the next row starts afresh."""
    learner = learned(np.zeros((1, 8), dtype=np.float32), n_bits=2, sketch_size=4, rotate=None)
    learner._sketch[:] = np.eye(4, 8)
    learner._n_rows = 4
    learner._insert(np.full((1, 8), 2.0))
    assert learner._n_rows == 1
    assert np.allclose(np.abs(learner.learned()["sketch"][0]), 2.0)


@pytest.mark.parametrize("d", [40, 80])
@pytest.mark.parametrize("sketch_size", [30, 60])
def test_directions_are_the_oracles(d, sketch_size):
    X = decaying(n=400, d=d)
    rows, _ = oracles_sketch.centred_rows(X, 50)
    expected = oracles_sketch.directions(oracles_sketch.frequent_directions(rows, sketch_size), 8)
    W = learned(X, n_bits=8, sketch_size=sketch_size, rotate=None).mapping.weights
    assert np.allclose(W, expected, atol=1e-5)
    for rotate in ("batch", "once"):
        rotated = learned(X, n_bits=8, sketch_size=sketch_size, rotate=rotate).mapping.weights
        assert not np.allclose(rotated, expected, atol=0.1)
        assert np.allclose(rotated @ rotated.T, expected @ expected.T, atol=1e-5)  # the same subspace


@pytest.mark.parametrize("rotate", ["batch", "once", None])
@pytest.mark.parametrize(("d", "n_bits"), [(40, 1), (40, 16), (40, 40), (300, 32), (300, 100)])
def test_hash_functions_are_orthonormal(rotate, d, n_bits):
    W = learned(decaying(d=d, decay=0.97), n_bits=n_bits, rotate=rotate).mapping.weights
    assert np.allclose(W.T @ W, np.eye(n_bits), atol=1e-5)


@pytest.mark.parametrize("d", [40, 120, 300])
def test_directions_of_small_variance_are_orthonormal_too(d):
    """The Gram matrix squares the condition; singular values here span six orders of magnitude."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((d, 30)))[0].T
    singular = np.logspace(0, -6, 30)
    squares, V = _principal((np.linalg.qr(rng.standard_normal((60, 30)))[0] * singular) @ basis, 30)
    assert np.allclose(squares[:30], singular**2, atol=1e-14)
    assert np.allclose(V @ V.T, np.eye(30), atol=1e-12)
    assert np.allclose(V.T @ V, basis.T @ basis, atol=1e-4)
    assert len(_principal(basis * singular[:, None] ** 2, 30)[1]) < 30  # the last ones are below rounding


@pytest.mark.parametrize("rotate", ["batch", "once", None])
@pytest.mark.parametrize(
    ("n", "d", "rank"), [(50, 12, 12), (700, 12, 12), (20, 300, 19), (700, 300, 100), (2, 5, 1)]
)
def test_more_bits_than_directions(rotate, n, d, rank):
    """All r directions are used, by a matrix with orthonormal rows."""
    X = decaying(n, d, decay=0.99)
    learner = learned(X, n_bits=128, rotate=rotate, sketch_size=200 if n < 700 else 100)
    learner_rank = np.linalg.matrix_rank(learner.learned()["sketch"])
    assert learner_rank <= rank
    W = learner.mapping.weights.astype(np.float64)
    s = np.linalg.svd(W, compute_uv=False)
    assert np.allclose(s[:learner_rank], 1, atol=1e-5)
    assert np.allclose(s[learner_rank:], 0, atol=1e-5)
    assert (np.linalg.norm(W, axis=0) > 0).all()


def test_rotations():
    X = decaying(n=800, d=30)
    turns = {}
    for rotate in ("batch", "once"):
        learner = SketchHash(n_bits=6, rotate=rotate)
        learner.start(30)
        turns[rotate] = []
        for start in range(0, 800, 50):
            learner.learn(X[start : start + 50], None, mihash.Reservoir(2), np.full(50, -1))
            turns[rotate].append(learner._rotation(6))
    assert all(np.allclose(Q @ Q.T, np.eye(6)) for Q in turns["batch"] + turns["once"])
    assert all(np.array_equal(Q, turns["once"][0]) for Q in turns["once"])
    assert all(not np.allclose(a, b) for a, b in zip(turns["batch"], turns["batch"][1:], strict=False))
    again = learned(X, n_bits=6)
    assert np.array_equal(again._rotation(6), turns["batch"][-1])
    assert not np.allclose(learned(X, n_bits=6, seed=1)._rotation(6), turns["batch"][-1])


def test_the_mapping_carries_the_mean():
    X = decaying(offset=30.0)
    mapping = learned(X, n_bits=16).mapping
    mean = X.mean(axis=0, dtype=np.float64)
    assert np.allclose(mapping.offset, -mean @ mapping.weights, rtol=1e-5)
    shares = mihash.unpack(mapping.encode(X), 16).mean(axis=0)
    assert ((shares > 0.2) & (shares < 0.8)).all()
    away = learned(X - np.float32(30), n_bits=16).mapping  # codes do not depend on where the data lie
    assert (
        mihash.unpack(away.encode(X - np.float32(30)), 16) == mihash.unpack(mapping.encode(X), 16)
    ).mean() > 0.99


def test_labels_are_ignored():
    X, y = clusters()
    mappings = []
    for target in (None, y, np.eye(5, dtype=int)[y]):
        system = mihash.OnlineHashing(SketchHash(8), reservoir_size=50)
        system.feed(X, target)
        mappings.append(system.current)
    assert mappings[0] == mappings[1] == mappings[2]


@pytest.mark.parametrize("n", [1, 120])
def test_equal_examples_have_no_direction(n):
    """The mapping then stays what it was."""
    X = np.tile(np.random.default_rng(0).standard_normal(7).astype(np.float32), (n, 1))
    mapping = learned(X, [50] * (n // 50) + [n % 50], n_bits=8, seed=3).mapping
    assert np.array_equal(mapping.weights, hyperplanes(7, 8, seed=3))
    assert not mapping.offset.any()


def test_the_first_mapping_is_seeded_hyperplanes():
    learner = SketchHash(8, seed=3)
    learner.start(5)
    assert np.array_equal(learner.mapping.weights, hyperplanes(5, 8, seed=3))


def test_forced_updates():
    """App. D.2: after every batch up to the sketch size, whatever the trigger says; the first table counts too."""
    X, y = clusters(n=1050)
    for interval in (50, 100, 1000):
        never = mihash.OnlineHashing(SketchHash(8), mihash.TriggerUpdate(INFINITE, interval), reservoir_size=100)
        never.feed(X, y)
        assert never.updates == 1 + 4
        assert [check.seen for check in never.history() if check.accepted] == [0, 50, 100, 150, 200]
    short = mihash.OnlineHashing(
        SketchHash(8, sketch_size=100), mihash.TriggerUpdate(INFINITE), reservoir_size=100
    )
    short.feed(X, y)
    assert short.updates == 1 + 2


@pytest.mark.parametrize(("interval", "expected"), [(1000, 1 + 4 + 3), (100, 1 + 32), (50, 1 + 60)])
def test_updates_at_a_fixed_rate(interval, expected):
    """The paper's 24, 202 and 400 in 20,000 examples, without the first table."""
    X, y = clusters(n=3000)
    system = mihash.OnlineHashing(SketchHash(8), mihash.FixedRate(interval), reservoir_size=100)
    system.feed(X, y)
    assert system.updates == expected


def test_what_was_learned_is_taken_over_to_the_bit():
    X = decaying(n=900, d=60)
    for cut in (50, 400):
        whole = learned(X[:cut], n_bits=8, sketch_size=20)
        other = SketchHash(n_bits=8, sketch_size=20)
        state = whole.state()
        other.restore(state)
        assert other.mapping == whole.mapping
        for start in range(cut, 900, 50):
            for learner in (whole, other):
                learner.learn(X[start : start + 50], None, mihash.Reservoir(2), np.full(50, -1))
        assert other.mapping == whole.mapping
        third = SketchHash(n_bits=8, sketch_size=20)
        third.restore(state)  # the state handed out did not move
        assert third.learned()["n_seen"] == cut
        assert third.mapping == learned(X[:cut], n_bits=8, sketch_size=20).mapping


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sketch_size": 7}, "`sketch_size` must be even.* got 7"),
        ({"sketch_size": 0}, "`sketch_size` must be a whole number of at least 2; got 0"),
        ({"batch_size": 0}, "`batch_size` must be a whole number of at least 1; got 0"),
        ({"batch_size": 2.5}, "`batch_size` must be a whole number"),
        ({"rotate": "always"}, "`rotate` must be one of 'batch', 'once', None; got 'always'"),
    ],
)
def test_bad_parameters(options, message):
    with pytest.raises(InvalidInput, match=message):
        SketchHash(**options)


def test_blocks_are_batches():
    learner = SketchHash(sketch_size=60, batch_size=20)
    assert (learner.block_size, learner.forced_until) == (20, 60)
    assert SketchHash.block_size == 100  # the class is untouched


@pytest.mark.parametrize(("sketch_size", "batch_size", "forced"), [(200, 50, 4), (100, 128, 1), (128, 100, 2)])
def test_updates_are_forced_until_the_sketch_is_full(sketch_size, batch_size, forced):
    learner = SketchHash(8, sketch_size=sketch_size, batch_size=batch_size)
    system = mihash.OnlineHashing(learner, mihash.TriggerUpdate(float("inf")), 50)
    system.feed(np.random.default_rng(0).standard_normal((1500, 6)))
    assert system.updates == 1 + forced
