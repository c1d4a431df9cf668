"""Which columns are taken: as the user says, or as anyone would guess."""

import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.io.readers.layout import Columns, lay_out

NUMBERS = dict.fromkeys(("f0", "f1", "f2"), "number")


def chosen(kinds, **wanted):
    layout = lay_out("x", kinds, Columns(**wanted))
    return layout.vector, layout.key, layout.label, layout.metadata


@pytest.mark.parametrize(
    ("kinds", "vector"),
    [
        (NUMBERS, ("f0", "f1", "f2")),
        (NUMBERS | {"year": "number"}, ("f0", "f1", "f2")),
        ({"height": "number", "weight": "number"}, ("height", "weight")),
        ({"a": "number", "b": "number", "c1": "number"}, ("a", "b", "c1")),
        ({"": "number", "0": "number", "1": "number"}, ("0", "1")),
        ({"__index_level_0__": "number", "a": "number"}, ("a",)),
        ({"id": "number", "label": "number", "a": "number"}, ("a",)),
        ({"a": "list", "b": "number"}, ("a",)),
        ({"a": "list", "X": "list", "embedding": "list"}, ("embedding",)),
    ],
)
def test_the_vector_is_guessed(kinds, vector):
    assert chosen(kinds)[0] == vector


@pytest.mark.parametrize(
    ("wanted", "vector"),
    [("f*", ("f0", "f1", "f2")), ("f1:f2", ("f1", "f2")), ("f1", ("f1",)), ("*", ("f0", "f1", "f2"))],
)
def test_the_vector_is_named(wanted, vector):
    assert chosen(NUMBERS, vector=wanted)[0] == vector


def test_what_is_used_otherwise_is_not_part_of_the_vector():
    kinds = {"f0": "number", "f1": "number", "flag": "number", "id": "number"}
    assert chosen(kinds, vector="f*", label="flag") == (("f0", "f1"), "id", "flag", ())
    assert chosen(kinds, vector="f0:id", metadata=("flag",)) == (("f0", "f1"), "id", None, ("flag",))


def test_keys():
    kinds = NUMBERS | {"id": "other", "key": "other"}
    assert chosen(kinds)[1] == "key"
    assert chosen(kinds, key="id")[1] == "id"
    assert chosen(kinds, key="none")[1] is None
    assert chosen(kinds | {"none": "other"}, key="none")[1] == "none"
    assert chosen(NUMBERS | {"id": "list"}, vector="f*")[1] is None


def test_all_metadata():
    kinds = NUMBERS | {"id": "other", "colour": "other", "": "number", "label": "number"}
    assert chosen(kinds, label="label", metadata=("all",))[3] == ("colour",)
    assert chosen(kinds | {"all": "other"}, metadata=("all",))[3] == ("all",)


@pytest.mark.parametrize(
    ("kinds", "wanted", "error", "message"),
    [
        ({}, {}, InvalidInput, "has no columns"),
        ({"a": "other"}, {}, InvalidInput, "neither a column of lists nor columns of numbers"),
        ({"a": "list", "b": "list"}, {}, InvalidInput, "several columns of lists"),
        ({"v0": "list", "v1": "number"}, {}, InvalidInput, "a list in the column v0, and v1 looks like a part"),
        ({"a": "other"}, {"vector": "a"}, InvalidInput, "must hold numbers, or lists"),
        ({"f0": "number", "f1": "other"}, {"vector": "f*"}, InvalidInput, "must hold one number in each row"),
        (NUMBERS, {"vector": "g*"}, UnknownName, "no column 'g\\*'"),
        (NUMBERS, {"vector": "f0:g"}, UnknownName, "no column 'f0:g'"),
        (NUMBERS, {"key": "g"}, UnknownName, "its columns: f0, f1, f2"),
        (dict.fromkeys(map(str, range(99)), "number"), {"label": "g"}, UnknownName, "11, ... \\(99 in all\\)"),
    ],
)
def test_what_is_refused(kinds, wanted, error, message):
    with pytest.raises(error, match=message):
        chosen(kinds, **wanted)


def test_the_note_tells_only_what_is_not_obvious():
    assert lay_out("x", {"a": "list"}, Columns()).note == ""
    assert lay_out("x", {"a": "list", "b": "other"}, Columns(vector="a")).note == "not used: b"
