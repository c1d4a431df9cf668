import numpy as np
import pytest

from mihash.codes import hamming, pack
from mihash.errors import InvalidInput
from mihash.paper.datasets import Synthetic, cifar10_like, labelme_like, normalize, places205_like
from mihash.paper.datasets.generators import CHUNK_ROWS, _rotation


@pytest.mark.parametrize(
    ("source", "shape"),
    [(cifar10_like(), (60_000, 512)), (places205_like(), (2_500_000, 128)), (labelme_like(), (22_019, 512))],
    ids=lambda value: getattr(value, "name", ""),
)
def test_shapes_of_the_paper(source, shape):
    assert (len(source), source.n_features) == shape
    X, _ = source.chunk(source.n_chunks - 1)
    assert X.dtype == np.float32
    assert X.shape == (shape[0] - (source.n_chunks - 1) * CHUNK_ROWS, shape[1])


def test_labels():
    assert set(cifar10_like(n=1000, n_features=8).dataset().y) == set(range(10))
    y = places205_like(n=10_000, n_features=8).dataset().y
    assert (y.min(), y.max()) == (0, 204)
    assert labelme_like(n=100, n_features=8).dataset().y is None


def test_same_seed_same_data_other_seed_other_data():
    first = cifar10_like(n=300, n_features=16, seed=1).dataset()
    again = cifar10_like(n=300, n_features=16, seed=1).dataset()
    other = cifar10_like(n=300, n_features=16, seed=2).dataset()
    np.testing.assert_array_equal(first.X, again.X)
    np.testing.assert_array_equal(first.y, again.y)
    assert (first.X != other.X).any(axis=1).all()


def test_chunks_do_not_depend_on_order_or_on_n():
    source = places205_like(n=3 * CHUNK_ROWS - 10, n_features=16)
    whole = source.dataset()
    for number in (2, 0, 1):
        X, y = source.chunk(number)
        start = number * CHUNK_ROWS
        np.testing.assert_array_equal(X, whole.X[start : start + CHUNK_ROWS])
        np.testing.assert_array_equal(y, whole.y[start : start + CHUNK_ROWS])
    np.testing.assert_array_equal(np.concatenate([X for X, _ in source.chunks()]), whole.X)
    small = places205_like(n=CHUNK_ROWS + 7, n_features=16).dataset()
    np.testing.assert_array_equal(small.X, whole.X[: len(small)])
    np.testing.assert_array_equal(small.y, whole.y[: len(small)])


@pytest.mark.parametrize(("start", "stop"), [(0, 1), (4000, 4100), (4095, 4097), (10, 9000), (4096, 8192)])
def test_any_slice(start, stop):
    source = cifar10_like(n=9000, n_features=8)
    whole = source.dataset()
    X, y = source.rows(start, stop)
    np.testing.assert_array_equal(X, whole.X[start:stop])
    np.testing.assert_array_equal(y, whole.y[start:stop])


@pytest.mark.parametrize("d", [1, 2, 7, 64])
def test_rotation_is_orthogonal(d):
    Q = _rotation(d, np.random.default_rng(0))
    np.testing.assert_allclose(Q @ Q.T, np.eye(d), atol=1e-12)


def test_chunks_share_no_rows():
    source = cifar10_like(n=2 * CHUNK_ROWS, n_features=8)
    assert not np.isin(source.chunk(0)[0][:, 0], source.chunk(1)[0][:, 0]).all()


def test_classes_overlap_but_can_be_told_apart():
    """A ridge probe lands between chance and perfect, near what real CIFAR-10 features give (82 %)."""
    data = cifar10_like(n=12_000).dataset()
    X = normalize(data.X)
    targets = np.eye(10)[data.y]
    train, test = slice(0, 10_000), slice(10_000, None)
    W = np.linalg.solve(X[train].T @ X[train] + np.eye(512), X[train].T @ (targets[train] - 0.1))
    accuracy = np.mean((X[test] @ W).argmax(axis=1) == data.y[test])
    assert 0.70 < accuracy < 0.90


def test_random_hyperplanes_find_classes_a_little():
    """mAP of 32 random bits is near 0.2, twice chance, as on real CIFAR-10 features."""
    data = cifar10_like(n=6000).dataset()
    W = np.random.default_rng(0).standard_normal((512, 32))
    codes = pack(normalize(data.X) @ W > 0)
    distances = hamming(codes[:200], codes[200:])
    precisions = []
    for row, label in zip(distances, data.y[:200], strict=True):
        hits = data.y[200:][np.argsort(row, kind="stable")] == label
        precisions.append((np.cumsum(hits) / np.arange(1, len(hits) + 1))[hits].mean())
    assert 0.15 < np.mean(precisions) < 0.27


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n": 0}, "`n` must be a whole number of at least 1"),
        ({"n_features": 2.5}, "`n_features`"),
        ({"n_classes": 0}, "`n_classes`"),
        ({"mean_share": 1.0}, "`mean_share` must leave noise"),
        ({"mean_share": -0.1}, "`mean_share`"),
        ({"noise_decay": float("nan")}, "`noise_decay`"),
        ({"seed": -1}, "`seed`"),
    ],
)
def test_bad_options(options, message):
    with pytest.raises(InvalidInput, match=message):
        Synthetic(**{"name": "s", "n": 10, "n_features": 4, "n_classes": 2, **options})


def test_bad_places():
    source = cifar10_like(n=5000, n_features=4)
    with pytest.raises(InvalidInput, match="`number` must be a whole number of 0 to 1; got 2"):
        source.chunk(2)
    with pytest.raises(InvalidInput, match="`stop`"):
        source.rows(0, 5001)
    with pytest.raises(InvalidInput, match="`start`"):
        source.rows(5, 5)
