"""Runbooks as files: what is read, what is refused, and what is stored at each search."""

import json

import numpy as np
import pytest

from mihash.errors import InvalidInput
from mihash.runbooks.runbook import Runbook, Step, live_rows, parse_mappings

TEXT = """\
# a stream
random-xs:
  max_pts: 60
  1:
    operation: "insert"
    start: 0
    end: 50
  2:
    operation: 'search'
  3:
    operation: delete   # the oldest
    start: 0
    end: 20
  4:
    operation: "replace"
    tags_start: 20
    tags_end: 25
    ids_start: 60
    ids_end: 65

  5:
    operation: "search"
  gt_url: "https://example.org/truth: here"
"""


def test_the_format_of_big_ann_benchmarks_is_read():
    runbook = Runbook.from_text(TEXT)
    assert (runbook.name, runbook.max_points, runbook.n_rows, runbook.n_searches) == ("random-xs", 60, 65, 2)
    assert runbook.steps[3] == Step("replace", range(20, 25), range(60, 65))
    assert runbook.shown() == "random-xs: 50 inserts, 20 deletes, 5 replaces, 2 searches, at most 60 items"
    assert Runbook.from_text(runbook.to_text()) == runbook


def test_json_is_the_same(tmp_path):
    (tmp_path / "r.json").write_text(json.dumps(parse_mappings(TEXT)))
    assert Runbook.read(tmp_path / "r.json") == Runbook.from_text(TEXT)


def test_what_is_stored_at_each_search():
    first, second = live_rows(Runbook.from_text(TEXT))
    assert first.tolist() == [list(range(50))] * 2
    assert second.tolist() == [list(range(20, 50)), [*range(60, 65), *range(25, 50)]]


def test_a_runbook_for_several_data_sets():
    text = TEXT + TEXT.replace("random-xs", "other").replace("50", "40")
    assert Runbook.from_text(text, "other").n_searches == 2
    with pytest.raises(InvalidInput, match="for random-xs, other: name one"):
        Runbook.from_text(text)
    with pytest.raises(InvalidInput, match="not for 'third'"):
        Runbook.from_text(text, "third")


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("operation: delete", "operation: remove", "operation 'remove'; known: insert, delete, replace, search"),
        ("    start: 0\n    end: 50", "    start: 0", "Step 1, insert, needs `end`"),
        ("end: 50", "end: 5.5", "Step 1, insert, needs `end`"),
        ("end: 50", "end: 0", "empty or unequal ranges"),
        ("ids_end: 65", "ids_end: 66", "empty or unequal ranges"),
        ("  5:", "  7:", "numbered 1, 2, 3"),
        ("end: 20", "end: 51", "needs tag 50: not stored"),
        ("operation: delete ", "operation: insert ", "inserts tag 0, which is stored already"),
        ("max_pts: 60", "max_pts: 49", "`max_pts` is 49"),
        ("max_pts: 60", "- max_pts", "line 3"),
        ("max_pts: 60", "1: search", "second time"),
        ("max_pts: 60", "max_pts", "is not `name: value`"),
    ],
)
def test_refused(old, new, told):
    assert old in TEXT
    with pytest.raises(InvalidInput, match=told):
        Runbook.from_text(TEXT.replace(old, new, 1))


@pytest.mark.parametrize("text", ["", "{", "a: 1", "[1]", '{"a": 3}', '{"a": {"1": 2}}', "a:\n  max_pts: 3\n"])
def test_no_runbook(text):
    with pytest.raises(InvalidInput):
        Runbook.from_text(text)


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(InvalidInput, match=r"There is no file .*none"):
        Runbook.read(tmp_path / "none.yaml")
    with pytest.raises(InvalidInput, match="cannot be read"):
        Runbook.read(tmp_path)
    assert np.array(live_rows(Runbook("x", 1, (Step("search"),)))).shape == (1, 2, 0)
