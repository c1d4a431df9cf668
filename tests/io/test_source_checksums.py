"""What is remembered of a source: checksums that do not depend on chunks, and the numbers of rows without keys."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mihash.io.readers import Rows
from mihash.io.source_checksums import Contents, Numbers, Remembered

X = np.random.default_rng(0).standard_normal((12, 3)).astype(np.float32)


def rows(first, last, **others):
    some = {name: values[first:last] for name, values in others.items()}
    return Rows(first, X[first:last], **some)


@given(st.sets(st.integers(1, 11)))
def test_chunks_do_not_matter(edges):
    others = {
        "y": np.arange(12) % 3,
        "keys": [i if i % 2 else f"é\n{i}" for i in range(12)],
        "metadata": [{"b": [1, {"c": i}], "a": None} if i % 3 else {} for i in range(12)],
    }
    found = Contents()
    for first, last in zip([0, *sorted(edges)], [*sorted(edges), 12], strict=True):
        found = found.after(rows(first, last, **others))
    assert found == Contents().after(rows(0, 12, **others))
    assert Contents.at(found.position)[:2] == found[:2] == (12, found.vectors)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"y": np.zeros(12, dtype=int)}, ["labels"]),
        ({"y": np.eye(12, dtype=int)}, ["labels"]),
        ({"keys": [str(i) for i in range(12)]}, ["keys"]),
        ({"keys": None}, ["keys"]),
        ({"metadata": [{"n": i} for i in range(11)] + [{"n": 11.5}]}, ["metadata"]),
        ({"X": X[::-1].copy()}, ["vectors"]),
        ({"metadata": [{"n": b"not json", "m": {1, 2}}] * 12}, ["metadata"]),
    ],
)
def test_each_part_has_a_checksum_of_its_own(change, what):
    others = {"y": np.arange(12), "keys": list(range(12)), "metadata": [{"n": i} for i in range(12)]}
    one = Rows(0, X, **others)
    assert Contents().after(one).differences(Contents().after(one._replace(**change))) == what


def test_no_metadata_is_the_same_as_empty_metadata():
    assert Contents().after(rows(0, 4, metadata=[{}] * 4)) == Contents().after(rows(0, 4))


@given(st.lists(st.tuples(st.integers(0, 30), st.lists(st.integers(0, 9), min_size=1, max_size=8)), max_size=8))
def test_numbers_are_those_of_a_plain_list(changes):
    numbers, plain = Numbers(), [-1] * 40
    for first, new in changes:
        numbers = numbers.replaced(first, new)
        plain[first : first + len(new)] = new
    assert numbers.of(0, 40).tolist() == plain
    assert numbers.of(13, 9).tolist() == plain[13:22]
    assert Numbers(numbers.runs).runs == numbers.runs == sorted(numbers.runs)


def test_consecutive_numbers_are_one_run():
    numbers = Numbers()
    for first in range(0, 5000, 1000):
        numbers = numbers.replaced(first, range(100 + first, 1100 + first))
    assert numbers.runs == [(0, 5000, 100)]


def test_what_is_remembered_survives_as_text():
    known = Remembered(Contents().after(rows(0, 5, keys=list("abcde"))), Numbers([(0, 2, 7)]), 3)
    again = Remembered.of(known.contents.position, known.details)
    assert (again.contents, again.numbers.runs, again.deletions, again.whole) == (
        known.contents,
        [(0, 2, 7)],
        3,
        True,
    )
    assert not Remembered.of(known.contents.position, None).whole
    assert Remembered.of(None, None).contents == Contents()
