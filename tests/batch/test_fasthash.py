import numpy as np
import pytest
import threadpoolctl

import mihash
import oracles_fasthash as oracle
from mihash import state as saved
from mihash.batch.fasthash import LOSSES, FastHash, _forest, infer_bit, pair_weights
from mihash.codes import as_words, pack
from mihash.errors import InvalidInput
from mihash.mapping import ForestMapping, mapping_from_state
from mihash.neighbors import label_neighborhood

rng = np.random.default_rng(0)
DIGITS = mihash.datasets.digits()


def draw(n, n_classes, length, seed):
    """Return classes, random codes (-1/+1) and the codes as words."""
    source = np.random.default_rng(seed)
    codes = source.choice((-1, 1), (n, length))
    words = as_words(pack(codes)) if length else np.zeros((n, 1), dtype=np.uint64)
    return source.integers(0, n_classes, n), codes, words


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("length", [1, 2, 5, 64, 65])
def test_pair_weights_are_differences_of_the_loss(loss, length):
    weights = pair_weights(loss, length)
    for d in range(length):
        a, b = np.ones(length), np.ones(length)
        b[:d] = -1
        for neighbors in (False, True):
            alike = oracle.pair_loss(loss, a, b, neighbors)
            b[-1] = -1
            different = oracle.pair_loss(loss, a, b, neighbors)
            b[-1] = 1
            assert weights[int(neighbors), d] == alike - different
    assert (weights[1] < 0).all()
    assert (weights[0] >= 0).all()


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("length", [0, 4, 70])
@pytest.mark.parametrize("block_size", [3, 1000])
def test_the_loss_never_rises(loss, length, block_size):
    y, codes, words = draw(40, 7, length, seed=length)
    neighbors = label_neighborhood(y).between(None, y, None, y)
    options = {"n_starts": 1, "block_size": block_size}
    falls = []
    for seed in range(4):
        losses = []
        for n_sweeps in range(4):
            source = np.random.default_rng(seed)
            z = infer_bit(words, y, pair_weights(loss, length + 1), source, n_sweeps=n_sweeps, **options)
            losses.append(oracle.total_loss(loss, oracle.with_bit(codes, z), neighbors))
        assert losses == sorted(losses, reverse=True)
        falls.append(losses[0] - losses[-1])
    assert max(falls) > 0


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_the_best_bit_of_all(loss, seed):
    y, codes, words = draw(9, 3, 5, seed)
    neighbors = label_neighborhood(y).between(None, y, None, y)
    z = infer_bit(words, y, pair_weights(loss, 6), np.random.default_rng(seed), n_starts=8)
    found = oracle.total_loss(loss, oracle.with_bit(codes, z), neighbors)
    assert found == oracle.best_bit(loss, codes, neighbors)


@pytest.mark.parametrize("loss", LOSSES)
def test_no_single_change_helps(loss):
    y, codes, words = draw(30, 3, 6, seed=5)
    neighbors = label_neighborhood(y).between(None, y, None, y)
    z = infer_bit(words, y, pair_weights(loss, 7), np.random.default_rng(0), n_sweeps=10)
    least = oracle.total_loss(loss, oracle.with_bit(codes, z), neighbors)
    for i in range(30):
        z[i] = not z[i]
        assert oracle.total_loss(loss, oracle.with_bit(codes, z), neighbors) >= least
        z[i] = not z[i]


def test_shared_labels():
    Y = (rng.random((60, 5)) < 0.3).astype(np.uint8)
    neighbors = label_neighborhood(Y).between(None, Y, None, Y)
    codes, words = np.empty((60, 0), dtype=int), np.zeros((60, 1), dtype=np.uint64)
    start, end = (
        infer_bit(words, Y, pair_weights("ksh", 1), np.random.default_rng(0), n_starts=1, n_sweeps=n)
        for n in (0, 3)
    )
    losses = [oracle.total_loss("ksh", oracle.with_bit(codes, z), neighbors) for z in (start, end)]
    assert losses[1] < losses[0]


def test_bits_fit_the_classes():
    X, y = DIGITS.X[:900], DIGITS.y[:900]
    mapping = FastHash(n_bits=16, iterations=40, seed=1).fit(X, y)
    assert isinstance(mapping, ForestMapping)
    assert (mapping.n_bits, mapping.n_features) == (16, X.shape[1])
    bits = mihash.unpack(mapping.encode(X), 16)
    share = np.array([bits[y == label].mean(axis=0) for label in range(10)])
    assert np.abs(share - 0.5).mean() > 0.47  # a class has one code
    assert 0.3 < share.mean() < 0.7
    test, base = slice(900, 1100), slice(1100, None)
    score = mihash.mean_average_precision(
        mapping.encode(DIGITS.X[test]), mapping.encode(DIGITS.X[base]), (DIGITS.y[test], DIGITS.y[base]), 16
    )
    assert score > 0.8


@pytest.mark.parametrize("options", [{"inference": "cut", "n_starts": 1}, {"boosting": "exponential"}])
def test_the_published_steps_learn_too(options):
    mapping = FastHash(n_bits=8, iterations=20, **options).fit(DIGITS.X[:500], DIGITS.y[:500])
    codes, queries = mapping.encode(DIGITS.X[:500]), mapping.encode(DIGITS.X[500:700])
    score = mihash.mean_average_precision(queries, codes, (DIGITS.y[500:700], DIGITS.y[:500]), 8)
    assert score > 0.6


@pytest.mark.parametrize("loss", LOSSES)
def test_cuts_never_raise_the_loss(loss):
    y, codes, words = draw(40, 4, 5, seed=1)
    neighbors = label_neighborhood(y).between(None, y, None, y)
    losses = []
    for n_sweeps in range(4):
        source = np.random.default_rng(3)
        options = {"n_starts": 1, "inference": "cut"}
        z = infer_bit(words, y, pair_weights(loss, 6), source, n_sweeps=n_sweeps, **options)
        losses.append(oracle.total_loss(loss, oracle.with_bit(codes, z), neighbors))
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0]


def test_short_codes_begin_long_ones():
    X, y = DIGITS.X[:300], DIGITS.y[:300]
    short, long = (FastHash(n_bits=n, iterations=5).fit(X, y) for n in (3, 6))
    assert np.array_equal(mihash.unpack(long.encode(X), 6)[:, :3], mihash.unpack(short.encode(X), 3))


def test_same_seed_same_bits():
    X, y = DIGITS.X[:300], DIGITS.y[:300]
    make = {"n_bits": 3, "iterations": 5, "n_candidates": 40}
    one = FastHash(**make, seed=3).fit(X, y)
    assert FastHash(**make, seed=3).fit(X, y) == one
    assert FastHash(**make, seed=4).fit(X, y) != one
    assert mapping_from_state(saved.load(saved.dump(one.state()))) == one


def test_the_number_of_threads_does_not_matter():
    found = []
    for n_threads in (1, 2):
        with threadpoolctl.threadpool_limits(n_threads):
            found.append(FastHash(n_bits=1, iterations=3).fit(DIGITS.X[:300], DIGITS.y[:300]))
    assert found[0] == found[1]


def test_candidates_bound_the_features_of_a_bit():
    X, y = DIGITS.X[:300], DIGITS.y[:300]
    found = FastHash(n_bits=2, iterations=5, n_candidates=4).fit(X, y).arrays()
    leaf = found["left"] == np.arange(len(found["left"]))
    second = found["roots"][found["n_trees"][0]]
    for part in (slice(0, second), slice(second, None)):
        assert len(np.unique(found["feature"][part][~leaf[part]])) <= 4


def test_labels_of_several_classes():
    X = rng.standard_normal((200, 4)).astype(np.float32)
    mapping = FastHash(n_bits=5, iterations=20).fit(X, (X > 0.8).astype(int))
    assert mapping.encode(X).shape == (200, 1)


def test_input_is_not_changed():
    X, y = DIGITS.X[:200].copy(), DIGITS.y[:200].copy()
    FastHash(n_bits=2, iterations=2).fit(X, y)
    assert np.array_equal(X, DIGITS.X[:200])
    assert np.array_equal(y, DIGITS.y[:200])


def test_progress_is_told():
    calls = []
    FastHash(n_bits=2, iterations=2).fit(DIGITS.X[:200], DIGITS.y[:200], progress=lambda *call: calls.append(call))
    assert calls == [(1, 2), (2, 2)]


def test_a_bit_that_no_example_needs_is_constant():
    X = rng.standard_normal((50, 3)).astype(np.float32)
    for value in (False, True):
        trees = FastHash(n_bits=2)._boost(X, np.full(50, value), rng)
        assert ((_forest([trees], 3).project(X) > 0) == value).all()


def test_boosting_stops_when_the_loss_does():
    X, y = DIGITS.X[:200], DIGITS.y[:200]
    sizes = [
        FastHash(n_bits=2, iterations=60, tolerance=tolerance).fit(X, y).arrays()["n_trees"]
        for tolerance in (None, 1e-6, 0.05)
    ]
    assert sizes[0].tolist() == [60, 60]
    assert (sizes[2] > 10).all()
    assert (sizes[2] < 60).all()
    assert (sizes[2] <= sizes[1]).all()


def test_a_short_code_is_the_beginning_of_a_longer_one():
    X, y = DIGITS.X[:300], DIGITS.y[:300]
    short, long = (FastHash(n_bits, iterations=4).fit(X, y).encode(X) for n_bits in (8, 12))
    assert np.array_equal(short[:, 0], long[:, 0])


def test_history_is_what_the_trees_miss():
    method = FastHash(n_bits=3, iterations=2)
    method.fit(DIGITS.X[:300], DIGITS.y[:300])
    weak = method.history
    assert len(weak) == 3
    method = FastHash(n_bits=3, iterations=60)
    method.fit(DIGITS.X[:300], DIGITS.y[:300])
    assert max(method.history) < min(weak)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_bits": 0}, "`n_bits`"),
        ({"loss": "square"}, "`loss` must be one of 'ksh', 'hinge'"),
        ({"iterations": 0}, "`iterations`"),
        ({"tolerance": -1.0}, "`tolerance`"),
        ({"tree_depth": 0}, "`tree_depth`"),
        ({"learning_rate": 0.0}, "`learning_rate`"),
        ({"n_candidates": 0}, "`n_candidates`"),
        ({"n_starts": 0}, "`n_starts`"),
        ({"block_size": 0}, "`block_size`"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_bad_parameters(change, message):
    with pytest.raises(InvalidInput, match=message):
        FastHash(**change)


def test_bad_data():
    with pytest.raises(InvalidInput, match="at least 2 classes"):
        FastHash().fit(np.eye(3), [1, 1, 1])
    with pytest.raises(InvalidInput, match="one label for each"):
        FastHash().fit(np.eye(3), [1, 2])
    with pytest.raises(InvalidInput, match="NaN"):
        FastHash().fit([[np.nan], [1.0]], [1, 2])
