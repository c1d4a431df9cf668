import numpy as np
import pytest

from mihash import validation
from mihash.errors import InvalidInput


@pytest.mark.parametrize("value", [0, -3, 1.5, "many", True, None])
def test_integer_refuses(value):
    with pytest.raises(InvalidInput, match="`n_bits` must be a whole number of at least 1; got"):
        validation.integer("n_bits", value, minimum=1)


def test_integer_takes_numpy_and_bounds():
    assert validation.integer("k", np.int32(7), minimum=1, maximum=7) == 7
    with pytest.raises(InvalidInput, match="1 to 6"):
        validation.integer("k", 7, minimum=1, maximum=6)


@pytest.mark.parametrize("value", ["high", float("nan"), None, 1j, True])
def test_number_refuses(value):
    with pytest.raises(InvalidInput, match="`theta` must be a number; got"):
        validation.number("theta", value, finite=False)


def test_number_bounds():
    assert validation.number("theta", float("-inf"), finite=False) == float("-inf")
    with pytest.raises(InvalidInput, match="finite"):
        validation.number("scale", float("inf"))
    with pytest.raises(InvalidInput, match="above 0"):
        validation.number("scale", 0, above=0)
    assert validation.number("share", 1, minimum=0, maximum=1) == 1.0
    with pytest.raises(InvalidInput, match=r"`share` must be a finite number above 0 and at most 1; got 1\.5\."):
        validation.number("share", 1.5, above=0, maximum=1)


def test_boolean():
    assert validation.boolean("rotate", True) is True
    with pytest.raises(InvalidInput, match="`rotate` must be True or False; got 1"):
        validation.boolean("rotate", 1)


@pytest.mark.parametrize(
    ("X", "message"),
    [
        ([[1.0, np.nan]], "row 0 has a NaN or an infinity"),
        (np.array([[1.0], [np.inf]]), "row 1 has a NaN or an infinity"),
        ([[1.0, 1.0], [1e39, 1.0]], r"must fit into float32; row 1 has a number .* \(above 3\.4e38\)\. Scale"),
        ([[np.inf], [1e300]], "must fit into float32; row 1 has"),
        ([[1.0], [1e16]], "row 1 is longer"),
        ([1.0, 2.0], r"reshape\(1, -1\)"),
        ([[1.0], [1.0, 2.0]], r"rows of one length\.$"),
        (np.zeros((0, 3)), "must not be empty"),
        (np.zeros((3, 0)), "must not be empty"),
        ([["a"]], "matrix of numbers"),
        ([[1j]], "matrix of numbers"),
        (np.zeros((2, 5)), "must have 3 features"),
    ],
)
def test_features_refuse(X, message):
    with pytest.raises(InvalidInput, match=message):
        validation.features("X", X, None if "3 features" not in message else 3)


def test_features_convert():
    X = validation.features("X", np.arange(6, dtype=np.float16).reshape(3, 2)[:, ::-1])
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert validation.features("X", np.zeros((0, 3)), allow_empty=True).shape == (0, 3)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([0, 1], "one label for each of the 3 rows; got 2"),
        (["a", "b", "c"], "return_inverse"),
        ([1e300, 0, 0], "integers"),
        (np.full(3, 2**63, dtype=np.uint64), r"below 2\*\*63; got 9223372036854775808"),
        ([0.5, 1, 2], "integers"),
        ([0, None, 2], "lacks a label in row 1: leave out"),
        ([0, 1, np.nan], "lacks a label in row 2: leave out"),
        ([[0, 2]] * 3, "0 or 1"),
        (np.zeros((3, 1, 1)), "shape"),
    ],
)
def test_labels_refuse(y, message):
    with pytest.raises(InvalidInput, match=message):
        validation.labels("y", y, 3)


def test_labels_convert():
    assert validation.labels("y", np.array([1.0, 2.0]), 2).dtype == np.int64
    assert validation.labels("y", [[3], [4]], 2).tolist() == [3, 4]
    assert validation.labels("y", np.array([[True, False]]), 1).tolist() == [[1, 0]]


def test_packed_checks_width_and_spare_bits():
    with pytest.raises(InvalidInput, match="2 bytes for 9 bits; got 1"):
        validation.packed("codes", np.zeros((1, 1), dtype=np.uint8), 9)
    with pytest.raises(InvalidInput, match="ones beyond its 3 bits"):
        validation.packed("codes", np.array([[8]], dtype=np.uint8), 3)
    with pytest.raises(InvalidInput, match="shape"):
        validation.packed("codes", np.zeros(3, dtype=np.uint8))


def test_boolean_matrix():
    assert validation.boolean_matrix("m", [[0, 1]], (1, 2)).tolist() == [[False, True]]
    with pytest.raises(InvalidInput, match="shape"):
        validation.boolean_matrix("m", [[0, 1]], (2, 2))
    with pytest.raises(InvalidInput, match="True or False"):
        validation.boolean_matrix("m", [[0, 2]], (1, 2))


def test_a_column_of_vectors_is_a_matrix():
    column = np.empty(3, dtype=object)
    column[:] = [np.arange(2, dtype=np.float32) + i for i in range(3)]
    assert validation.features("X", column).tolist() == [[0, 1], [1, 2], [2, 3]]
    column[2] = np.zeros(3)
    with pytest.raises(InvalidInput, match=r"^`X` must be an array with rows of one length\.$"):
        validation.features("X", column)
    with pytest.raises(InvalidInput, match="got an array of object"):
        validation.features("X", np.array([None, {}], dtype=object))


def test_an_array_that_refuses_says_why():
    class Refuses:
        def __array__(self, *_, **__):
            raise RuntimeError("Use tensor.detach().numpy() instead.")

    with pytest.raises(InvalidInput, match=r"^`X` cannot be read as an array; Use tensor\.detach"):
        validation.features("X", Refuses())


def test_an_empty_path_is_refused():
    with pytest.raises(InvalidInput, match="`path` must not be empty"):
        validation.path("path", "")
