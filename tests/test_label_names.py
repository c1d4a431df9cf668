import numpy as np
import pytest

import mihash
from checks import clusters
from mihash.errors import InvalidInput, MIHashError, Renamed
from mihash.label_names import LabelNames

X, y = clusters(n=600)
NAMES = np.array(["fern", "cat", "dog", "bird", "ant"])[y]
CODES = np.array([list(dict.fromkeys(NAMES.tolist())).index(name) for name in NAMES.tolist()])


def loop():
    return mihash.OnlineHashing(mihash.online.MIHash(16), reservoir_size=100)


@pytest.mark.parametrize(
    "given", [NAMES, NAMES.astype(object), NAMES.tolist(), tuple(NAMES.tolist()), NAMES[:, None]]
)
def test_names_are_numbered_in_the_order_of_first_appearance(given):
    names = LabelNames()
    assert names.codes(given).tolist() == CODES.tolist()


def test_the_numbers_do_not_depend_on_the_chunks():
    names, codes = LabelNames(), []
    for start in range(0, 600, 70):
        codes += names.codes(NAMES[start : start + 70]).tolist()
        names.keep()
    assert codes == CODES.tolist()
    assert np.array_equal(np.array(names.names)[CODES], NAMES)
    again = LabelNames()
    again.restore(names.state())
    assert again.names == names.names
    assert again.codes(["new", "cat"]).tolist() == [5, names.names.index("cat")]


@pytest.mark.parametrize("given", [y, y.tolist(), np.eye(5)[y], None, []])
def test_numbers_pass_through(given):
    names = LabelNames()
    assert names.codes(given) is given
    names.keep()
    assert names.names == []


@pytest.mark.parametrize("given", [["cat", 1], [1, "cat"]])
def test_a_mixture_is_refused(given):
    with pytest.raises(InvalidInput, match="all strings or all integers"):
        LabelNames().codes(given)


@pytest.mark.parametrize("given", [np.array(["cat", None], dtype=object), ["cat", None]])
def test_a_missing_label_is_named(given):
    with pytest.raises(InvalidInput, match="`y` lacks a label in row 1"):
        LabelNames().codes(given)


@pytest.mark.parametrize(("first", "second"), [(["a"], [1]), ([1], ["a"])])
def test_a_stream_has_labels_of_one_kind(first, second):
    names = LabelNames()
    names.codes(first)
    names.codes(second)  # the first labels were not kept
    names.codes(first)
    names.keep()
    with pytest.raises(InvalidInput, match="like all earlier labels"):
        names.codes(second)


def test_the_loop_learns_from_names_as_from_numbers(tmp_path):
    named, numbered = loop(), loop()
    numbered.feed(X, CODES)
    named.feed(X[:333], NAMES[:333])
    named.save(tmp_path / "loop")
    again = mihash.OnlineHashing.load(tmp_path / "loop")
    again.feed(X[333:], NAMES[333:])
    assert again.current == numbered.current
    assert again.updates == numbered.updates


def test_refused_examples_leave_no_name():
    system = loop()
    system.feed(X[:10], NAMES[:10])
    before = system._names.state()
    with pytest.raises(InvalidInput):
        system.feed(X[:2] * np.nan, ["zebra", "yak"])
    assert system._names.state() == before


def test_one_vector_and_one_query():
    one, many = loop(), loop()
    many.feed(X[:120], NAMES[:120])
    for row, name in zip(X[:120], NAMES[:120], strict=True):
        one.feed(row, name)
    assert one.current == many.current
    several = loop()
    several.feed(X[0], [0, 1, 1])  # several classes of one vector
    several.feed(X[1:3], [[1, 0, 0], [0, 1, 0]])
    assert many.search(X[0])[0].shape == (0,)
    many.table.add(X[:50])
    keys, distances = many.search(X[7], k=3)[:2]
    both = many.search(X[7:8], k=3)
    assert keys.shape == distances.shape == (3,)
    assert keys.tolist() == both[0][0].tolist()
    assert distances.tolist() == both[1][0].tolist()


def test_renamed_is_an_attribute_error_that_names_the_new_name():
    assert issubclass(Renamed, MIHashError)
    assert issubclass(Renamed, AttributeError)
    assert "system.rehash()" in str(Renamed("system.update()", "system.rehash()"))
