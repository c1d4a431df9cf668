import numpy as np
import pytest

from mihash import validation
from mihash.errors import DuplicateKey, InvalidInput
from mihash.store.change import Change, NumberedRows
from mihash.store.metadata import EncodedMetadata
from mihash.store.sqlite.segments import Segment
from stored import X


def test_a_change_holds_what_was_given_checked():
    change = Change.add(X[:2].tolist(), np.array([3, 1]), [0, 1], [{"a": 1}, EncodedMetadata('{"b":2}')], ("f", 7))
    assert (change.kind, change.keys, change.texts, change.source) == (
        "add",
        [3, 1],
        ['{"a":1}', '{"b":2}'],
        ("f", 7),
    )
    assert change.vectors.dtype == np.float32
    assert change.labels.dtype == np.int64
    assert Change.add(X[:2]).keys is Change.add(X[:2]).texts is None
    assert Change.update("a", X[:1]).keys == ["a"]
    assert Change.delete(["a", 1, "a"]).keys == ["a", 1]


@pytest.mark.parametrize(
    ("make", "error", "named"),
    [
        (lambda: Change.add(X[0]), InvalidInput, "two dimensions"),
        (lambda: Change.add(np.ma.masked_less(X[:2], 0)), InvalidInput, "`X` has masked values"),
        (lambda: Change.add(X[:2], {"a", "b"}), InvalidInput, "in place of a set"),
        (lambda: Change.update({"a", "b"}, metadata=[{}, {}]), InvalidInput, "in place of a set"),
        (lambda: Change.add(X[:2] * np.inf), InvalidInput, "finite"),
        (lambda: Change.add(X[:2], ["a"]), InvalidInput, "2 keys"),
        (lambda: Change.add(X[:3], ["x", "y", "x"]), DuplicateKey, "The key 'x' is given twice"),
        (lambda: Change.add(X[:3], [7, "7", 7]), DuplicateKey, "The key 7 is given twice"),
        (lambda: Change.add(X[:2], labels=[1]), InvalidInput, "`y`"),
        (lambda: Change.add(X[:2], metadata=[{}]), InvalidInput, "`metadata`"),
        (lambda: Change.add(X[:2], source="file"), InvalidInput, "`source`"),
        (lambda: Change.update(["a", "a"], X[:2]), InvalidInput, "is given twice"),
        (lambda: Change.delete(1.5), InvalidInput, "A key must be"),
    ],
)
def test_what_is_no_change(make, error, named):
    with pytest.raises(error, match=named):
        make()


def test_keys_in_any_order_can_be_deleted_and_those_of_a_dictionary_are_in_order(table):
    table.write(Change.add(X[:3], dict.fromkeys("abc").keys()))
    table.write(Change.delete({"a", "c"}))
    assert np.array_equal(table.get("b").vector, X[1])
    assert len(table) == 1


def test_a_change_is_not_checked_again(table, monkeypatch):
    change = Change.add(X[:5], list("abcde"), metadata=[{}] * 5)
    monkeypatch.delattr(validation, "features")
    keys, vectors = table.write(change)
    assert keys == list("abcde")
    assert np.array_equal(vectors, X[:5])


def test_a_change_of_another_width_is_refused(table):
    table.write(Change.add(X[:5]))
    with pytest.raises(InvalidInput, match="must have 6 features"):
        table.write(Change.add(X[:5, :4]))
    assert len(table) == 5


def test_labels_of_another_kind_than_those_stored_are_refused(table):
    table.write(Change.add(X[:5], labels=[1, 2, 3, 1, 2]))
    with pytest.raises(InvalidInput, match="labels of the kind that is stored"):
        table.write(Change.add(X[:2], labels=[[0, 1], [1, 0]]))
    table.write(Change.add(X[5:8]))
    table.write(Change.add(X[8:9], labels=[7]))
    assert [table.get(key).label for key in (0, 6, 8)] == [1, None, 7]


def test_the_items_of_a_numbered_change_can_be_parted():
    new = NumberedRows(
        Segment(np.arange(4, 7), X[:3], np.array([5, 6, 7])), list("abc"), [None, "{}", None], [0, 1, 2]
    )
    part = new.part([0, 2])
    assert (part.names, part.texts, part.gone, len(part)) == (["a", "c"], None, [0, 2], 2)
    assert part.segment.ids.tolist() == [4, 6]
    assert part.segment.labels.tolist() == [5, 7]
    deleted = NumberedRows(Segment(np.arange(0), X[:0], None), list("abc"), None, [0, 1, 2]).part([1])
    assert (deleted.names, deleted.gone, len(deleted), len(deleted.segment)) == (["b"], [1], 1, 0)
