import dataclasses

import numpy as np
import pytest

from mihash.errors import InvalidInput
from mihash.paper.datasets import Dataset, digits, normalize
from mihash.paper.datasets import dataset as dataset_file


def test_arrays_take_their_one_type():
    data = Dataset("d", np.ones((3, 2), dtype=np.float16), np.array([1, 0, 1], dtype=np.uint8), [0, 1, 0])
    assert data.X.dtype == np.float32
    assert data.y.dtype == np.int64
    assert data.is_test.dtype == np.bool_
    assert (len(data), data.n_features, data.n_classes) == (3, 2, 2)


def test_multi_label():
    data = Dataset("d", np.ones((3, 2)), [[1, 0, 1], [0, 1, 1], [0, 0, 0]])
    assert data.y.dtype == np.uint8
    assert data.n_classes == 3


def test_no_labels():
    data = Dataset("d", np.ones((3, 2)))
    assert data.n_classes is None
    assert repr(data) == "Dataset('d', 3 x 2, no labels)"


def test_is_frozen():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Dataset("d", np.ones((3, 2))).name = "other"


@pytest.mark.parametrize(
    ("y", "is_test", "message"),
    [
        ([1, 2], None, "one label for each of the 3 rows; got 2"),
        (None, [True, False], r"`is_test` must have shape \(1, 3\)"),
        (None, [0, 1, 2], "`is_test` must hold True or False"),
    ],
)
def test_arrays_that_do_not_fit(y, is_test, message):
    with pytest.raises(InvalidInput, match=message):
        Dataset("d", np.ones((3, 2)), y, is_test)


def test_digits():
    data = digits()
    assert (len(data), data.n_features, data.n_classes) == (1797, 64, 10)
    assert data.X.max() == 16


def test_normalize_centres_then_scales():
    X = np.random.default_rng(0).normal(5, 2, size=(500, 7))
    expected = X - X.mean(axis=0)
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    result = normalize(X)
    assert result.dtype == np.float32
    np.testing.assert_allclose(result, expected, atol=1e-6)


def test_normalize_does_not_depend_on_the_block(monkeypatch):
    X = np.random.default_rng(0).normal(size=(100, 7)).astype(np.float32)
    whole = normalize(X)
    monkeypatch.setattr(dataset_file, "_BLOCK_ROWS", 13)
    np.testing.assert_array_equal(normalize(X), whole)


def test_normalize_leaves_its_input_alone():
    X = np.random.default_rng(0).normal(size=(10, 3)).astype(np.float32)
    before = X.copy()
    normalize(X)
    np.testing.assert_array_equal(X, before)


def test_normalize_takes_a_given_mean_and_keeps_zero_rows():
    np.testing.assert_allclose(normalize([[0, 0], [3, 4]], mean=[0, 0]), [[0, 0], [0.6, 0.8]], atol=1e-7)


def test_normalize_of_equal_rows_is_zero_not_noise():
    assert not normalize(np.full((1000, 3), 0.1, dtype=np.float32)).any()


def test_normalize_float16_whose_sum_overflows():
    X = np.full((4000, 2), 100, dtype=np.float16)
    X[::2] = 50
    result = normalize(X)
    np.testing.assert_allclose(np.abs(result), np.sqrt(0.5), rtol=1e-6)


@pytest.mark.parametrize("mean", [[0.0], [np.nan, 0.0], [[0.0, 0.0]]])
def test_normalize_refuses_a_bad_mean(mean):
    with pytest.raises(InvalidInput, match="`mean` must be 2 finite numbers"):
        normalize([[1.0, 2.0]], mean=mean)
