"""Upsert, filters as NAME=VALUE, keys from a file, columns left out, and progress without a terminal."""

import json
import re
import warnings

import numpy as np
import pytest

import mihash as library
from mihash.cli import output


def rows_of(index):
    with library.OnlineIndex.open(index, read_only=True) as opened:
        return {item.key: item for item in opened.get(opened.keys())}


def test_upsert_replaces_and_adds(mihash, index, tmp_path, write_csv, data):
    file = write_csv(tmp_path / "more.csv", 1400, 1500, lambda i, row: [i + 50, *row[1:7], "grey", 1, 0])
    run = mihash("upsert", index, file, "--metadata", "all", "--except", "label", "--except", "year")
    assert run.code == 0, run.err
    assert "more.csv: replaced 50 items, added 50 items." in run.out
    assert "has 1,550 items" in run.out
    found = rows_of(index)
    assert found[1500].metadata == {"colour": "grey"}
    assert np.allclose(found[1499].vector, data[0][1449])
    assert found[1449].metadata["colour"] != "grey"
    again = mihash("upsert", index, file)
    assert "replaced 100 items, added 0 items." in again.out
    assert rows_of(index)[1500].metadata == {"colour": "grey"}


@pytest.mark.parametrize(
    ("lines", "words", "message"),
    [
        ("id,f0,f1\n1,2,3\n", (), "has a vector of 2 numbers, and the index has vectors of 6"),
        ("f0,f1,f2,f3,f4,f5\n1,2,3,4,5,6\n", (), "has no keys: name the key column with --key"),
        ("id,f0,f1,f2,f3,f4,f5\n1,2,3,4,5,6,7\n1,2,3,4,5,6,8\n", (), "row 1 has the same key as"),
        ("id,f0,f1,f2,f3,f4,f5\n1,2,3,4,5,6,7\n", ("--metadata", "all", "--except", "no"), "has no column 'no'"),
        (
            "id,f0,f1,f2,f3,f4,f5\n1,2,3,4,5,6,7\n",
            ("--except", "id"),
            "--except can only be used with --metadata all.",
        ),
    ],
)
def test_what_upsert_refuses(mihash, index, tmp_path, lines, words, message):
    (tmp_path / "x.csv").write_text(lines)
    before = rows_of(index)
    run = mihash("upsert", index, tmp_path / "x.csv", *words)
    assert run.code == 2
    assert message in run.err
    assert rows_of(index).keys() == before.keys()


def test_filters_as_name_and_value(mihash, index):
    def found(*words):
        run = mihash("search", index, "--key", 7, "-k", 2000, "--json", "--metadata", *words)
        return json.loads(run.out)["metadata"]

    assert {each["colour"] for each in found("--where", "colour=red")} == {"red"}
    years = {each["year"] for each in found("--where", "year >= 1995", "--where", "year<2000")}
    assert years == set(range(1995, 2000))
    assert {each["year"] for each in found("--where", "year=[1991,1992]")} == {1991, 1992}
    assert {each["colour"] for each in found("--where", 'colour!="red"')} == {"green", "blue"}
    both = found("--where", '{"colour": "red"}', "--where", "year=1991")
    assert both == [{"colour": "red", "year": 1991}] * len(both)


def test_delete_by_filter(mihash, index):
    run = mihash("delete", index, "--where", "year<2000", "--where", "colour=red")
    assert run.code == 0, run.err
    left = [each.metadata for each in rows_of(index).values()]
    assert len(left) < 1500
    assert not [each for each in left if each["year"] < 2000 and each["colour"] == "red"]
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        run = mihash("delete", index, "--where", "yeer<2000")
    assert run.err == "mihash: warning: No item has the field 'yeer', which --where asks for.\n"
    assert run.out.startswith("Deleted 0 items;")
    for words in ((), ("--where", "a=1", "3")):
        assert mihash("delete", index, *words).code == 2


def test_keys_from_a_file(mihash, index, tmp_path):
    (tmp_path / "keys.txt").write_text("3\n\n17\n")
    found = mihash("get", index, "5", "--keys-from", tmp_path / "keys.txt", "--json").out
    assert [json.loads(line)["key"] for line in found.splitlines()] == [5, 3, 17]
    assert "Deleted 2 items; 1,498 are left." in mihash("delete", index, "--keys-from", tmp_path / "keys.txt").out
    assert "Deleted 1 item; " in mihash("delete", index, "--keys-from", "-", sent=b"4\n").out
    assert mihash("get", index).err == "mihash: Give keys, or a file of keys with --keys-from.\n"
    wanted = "mihash: Give keys, or a file of keys with --keys-from; or a filter with --where.\n"
    assert mihash("delete", index).err == wanted
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, why in (("nofile", "No such file or directory"), ("bytes", "it is not UTF-8 text")):
        run = mihash("get", index, "--keys-from", tmp_path / name)
        assert (run.code, run.err) == (2, f"mihash: --keys-from: {tmp_path / name} cannot be read: {why}.\n")


def test_a_vector_that_is_not_finite_is_named_by_its_option(mihash, index):
    run = mihash("search", index, "--vector", "1,2,3,4,5,nan")
    assert (run.code, run.err) == (2, "mihash: --vector must be finite numbers; got 1,2,3,4,5,nan.\n")


def test_counts_of_one_are_singular(mihash, tmp_path):
    mihash("create", tmp_path / "one", "--bits", 16)
    mihash("add", tmp_path / "one", "-", "--format", "csv", sent=b"a,b,c\n1,2,3\n")
    assert "1 item," in mihash("verify", tmp_path / "one").out


def test_a_line_of_progress(capsys):
    lines = output._Lines(every_s=0.0)
    for done in (1000, 2000, 3000):
        lines.tell("adding", "folder/x.csv", done, None if done == 2000 else 3000)
    told = capsys.readouterr().err.splitlines()
    assert [line.partition(" rows, ")[0] for line in told] == [
        "adding x.csv: 2,000",
        "adding x.csv: 3,000 of 3,000",
    ]


def test_a_line_of_long_work(capsys):
    lines = output._WorkLines(every_s=0.0)
    for done, what in ((0, "first"), (1, "second"), (4, "done")):
        lines.tell(done, 4, what)
    first, second, last = capsys.readouterr().err.splitlines()
    assert first == "0% done: first"
    assert re.fullmatch(r"25% done, about .+ left: second", second)
    assert last.startswith("100% done")
