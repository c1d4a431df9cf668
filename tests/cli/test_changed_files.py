"""`mihash add` of a file that was added before: changed, with rows deleted since, or by an older version."""

import sqlite3

import numpy as np
import pytest

import mihash as library

WORDS = ["--vector", "f*", "--label", "label", "--metadata", "colour"]


@pytest.fixture
def empty(mihash, tmp_path):
    """A folder with an empty index."""
    mihash("create", tmp_path / "index", "--bits", 8, "--learner", "lsh")
    return tmp_path / "index"


@pytest.fixture
def added(mihash, empty, tmp_path, write_csv):
    """An index, the file that is in, and the words that added it."""
    file = write_csv(tmp_path / "x.csv", last=1100)
    words = ["add", empty, file, *WORDS]
    assert mihash(*words).code == 0
    return empty, file, words


def stored(folder):
    with library.OnlineIndex.open(folder, read_only=True) as index:
        return len(index)


def forget(folder, statement):
    """Change what an index remembers, as an older version would have left it."""
    connection = sqlite3.connect(folder / "index.db", isolation_level=None)
    connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(
    ("column", "what"), [(0, "keys"), (7, "metadata"), (9, "labels")], ids=["keys", "metadata", "labels"]
)
def test_a_file_with_other_values_is_refused(mihash, added, write_csv, column, what):
    folder, file, words = added
    write_csv(file, last=1100, change=lambda i, row: [*row[:column], 7000 + i, *row[column + 1 :]])
    run = mihash(*words)
    assert (run.code, stored(folder)) == (2, 1100)
    assert f"x.csv: the 1,100 rows already added had other {what}. Name the same columns" in run.err
    write_csv(file, last=1100)
    assert "all 1,100 rows are in already" in mihash(*words).out


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (["--vector", "f*", "--metadata", "colour"], "labels"),
        (["--vector", "f*", "--label", "label"], "metadata"),
        (["--vector", "f*", "--label", "label", "--metadata", "colour", "--metadata", "year"], "metadata"),
        ([*WORDS, "--key", "year"], "keys"),
        ([*WORDS, "--key", "none"], "keys"),
        (["--vector", "f*", "--label", "year", "--key", "none"], "keys and labels and metadata"),
    ],
)
def test_other_columns_are_refused(mihash, added, words, what):
    folder, file, _ = added
    run = mihash("add", folder, file, *words, "--no-check")
    assert (run.code, stored(folder)) == (2, 1100)
    assert f"rows already added had other {what}. Name the same columns" in run.err


def test_the_order_of_metadata_does_not_matter(mihash, empty, tmp_path, write_csv):
    words = ["add", empty, write_csv(tmp_path / "x.csv", last=20), "--vector", "f*"]
    assert mihash(*words, "--metadata", "colour", "--metadata", "year").code == 0
    assert "in already" in mihash(*words, "--metadata", "year", "--metadata", "colour").out


@pytest.mark.parametrize("key", [[], ["--key", "none"]], ids=["keys", "numbers"])
def test_rows_that_were_deleted(mihash, empty, tmp_path, write_csv, key):
    file = write_csv(tmp_path / "x.csv", last=1100)
    words = ["add", empty, file, "--vector", "f*", "--metadata", "colour", *key]
    mihash(*words)
    mihash("delete", empty, 3, 4, 1050)
    write_csv(file, 1100, 1200, mode="a")
    run = mihash(*words)
    assert (run.code, stored(empty)) == (2, 1097)
    assert "x.csv: 3 of the 1,100 rows that were added were deleted since, first row 3, key 3." in run.err
    assert "Pass --deleted add to add them again, or --deleted skip to leave them out." in run.err
    run = mihash(*words, "--deleted", "skip")
    assert (run.code, stored(empty)) == (0, 1197)
    assert "added 100 rows, after 1,097 that were in already. 3 rows deleted since, skipped." in run.out
    assert mihash(*words).code == 2
    run = mihash(*words, "--deleted", "add")
    assert (run.code, stored(empty)) == (0, 1200)
    assert "added 3 rows, 3 of which had been deleted, after 1,197 that were in already." in run.out
    assert "all 1,200 rows are in already" in mihash(*words).out
    with library.OnlineIndex.open(empty, read_only=True) as index:
        found = index.get(1050 if not key else 1202)  # without keys they get new numbers
        assert found.metadata["colour"] in ("red", "green", "blue")
    mihash("delete", empty, *([4] if not key else [1201]))
    assert "1 of the 1,200 rows that were added were deleted since, first row 4" in mihash(*words).err


def test_a_file_of_which_all_rows_were_deleted(mihash, empty, tmp_path, data):
    np.save(tmp_path / "x.npy", data[0][:30])
    words = ["add", empty, tmp_path / "x.npy"]
    mihash(*words)
    mihash("delete", empty, *range(30))
    mihash("compact", empty)
    assert "30 of the 30 rows that were added were deleted since" in mihash(*words).err
    assert mihash(*words, "--deleted", "add").code == 0
    assert stored(empty) == 30
    assert mihash(*words, "--deleted", "perhaps").code == 2


def test_a_deleted_key_that_comes_again_in_new_rows(mihash, empty, tmp_path, write_csv):
    file = write_csv(tmp_path / "x.csv", last=20)
    words = ["add", empty, file, "--vector", "f*"]
    mihash(*words)
    mihash("delete", empty, 5)
    write_csv(file, 20, 21, change=lambda _, row: [5, *row[1:]], mode="a")
    run = mihash(*words, "--deleted", "add")
    assert (run.code, stored(empty)) == (2, 19)
    assert f"{file}: row 20 has the same key as {file}: row 5." in run.err
    assert mihash(*words, "--deleted", "skip").code == 0
    assert "all 21 rows are in already" in mihash(*words).out


def test_rows_with_new_vectors_are_in(mihash, added):
    folder, _, words = added
    with library.OnlineIndex.open(folder) as index:
        index.update([7, 8], np.ones((2, 6)), [0, 1])
    assert "all 1,100 rows are in already" in mihash(*words).out


def test_other_rows_between_those_of_a_file(mihash, empty, tmp_path, data):
    rows = data[0]
    words = ["add", empty, tmp_path / "x.npy"]
    for last in (100, 250):
        np.save(tmp_path / "x.npy", rows[:last])
        np.save(tmp_path / f"{last}.npy", rows[:50])
        mihash(*words)
        mihash("add", empty, tmp_path / f"{last}.npy")
    assert "in already" in mihash(*words).out
    mihash("delete", empty, 120, 320)  # rows of the other files
    assert "all 250 rows are in already" in mihash(*words).out
    mihash("delete", empty, 160)
    assert "1 of the 250 rows that were added were deleted since, first row 110, key 160." in mihash(*words).err


def test_a_stream_with_deleted_or_changed_rows(mihash, empty):
    sent = b"".join(b'{"id": %d, "vector": [%d, 1], "n": %d}\n' % (i, i, i) for i in range(30))
    words = ["add", empty, "-", "--format", "jsonl", "--source", "mine", "--metadata", "n"]
    mihash(*words, sent=sent[: sent.index(b'{"id": 20')])
    assert "other metadata" in mihash(*words, sent=sent.replace(b'"n": 3', b'"n": 4')).err
    mihash("delete", empty, 2)
    for option in ([], ["--deleted", "add"]):
        run = mihash(*words, *option, sent=sent)
        assert (run.code, stored(empty)) == (2, 19)
        assert "first row 2, key 2. Pass --deleted skip to leave them out." in run.err
    assert mihash(*words, "--deleted", "skip", sent=sent).code == 0
    assert stored(empty) == 29


def test_what_an_older_version_remembered(mihash, added, write_csv):
    folder, file, words = added
    forget(folder, "DROP TABLE reading")
    run = mihash(*words)
    assert (run.code, stored(folder)) == (0, 1100)
    assert "all 1,100 rows are in already" in run.out
    assert "x.csv was added by an earlier mihash, which stored checksums of its vectors only" in run.err
    assert "earlier" not in mihash(*words).err  # from now on all of it is remembered
    assert "other labels" in mihash("add", folder, file, "--vector", "f*", "--metadata", "colour").err
    write_csv(file, 1100, 1200, mode="a")
    forget(folder, "UPDATE reading SET position = 0, seal = 0")
    assert mihash(*words).code == 1  # a wrong byte is noticed
    forget(folder, "DELETE FROM reading")
    mihash("delete", folder, 17)
    run = mihash(*words)
    assert (run.code, stored(folder)) == (2, 1099)
    assert "deleted since (or had other keys when an earlier mihash added them), first row 17, key 17." in run.err
    assert "added 101 rows, 1 of which had been deleted" in mihash(*words, "--deleted", "add").out


def test_rows_without_keys_of_an_older_version(mihash, empty, tmp_path, data):
    np.save(tmp_path / "x.npy", data[0][:100])
    words = ["add", empty, tmp_path / "x.npy"]
    mihash(*words)
    forget(empty, "DROP TABLE reading")
    np.save(tmp_path / "x.npy", data[0][:150])
    assert "added 50 rows, after 100 that were in already" in mihash(*words).out
    mihash("delete", empty, 120)
    assert "1 of the 150 rows that were added were deleted since, first row 120" in mihash(*words).err
