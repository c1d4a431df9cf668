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
    for misspelt in ("year>>2000", "year<>2000", "year><2000"):
        run = mihash("delete", index, "--where", misspelt)
        assert (run.code, "--where must be a JSON object" in run.err) == (2, True)
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


def test_items_of_a_filter_are_shown(mihash, index, monkeypatch):
    monkeypatch.setattr("mihash.cli.query._PAGE", 4)
    filters = ("--where", "year<2000", "--where", "colour=red")
    found = [json.loads(line) for line in mihash("get", index, *filters, "--json").out.splitlines()]
    stored = rows_of(index)
    fields = [(key, item.metadata) for key, item in stored.items()]
    wanted = [key for key, each in fields if each["year"] < 2000 and each["colour"] == "red"]
    assert [each["key"] for each in found] == wanted
    assert found[0]["vector"] == stored[wanted[0]].vector.tolist()
    run = mihash("get", index, *filters, "--after", wanted[1], "--limit", 7, "--keys")
    assert run.out.split() == [str(key) for key in wanted[2:9]]
    assert mihash("get", index, *filters, "--limit", 1, "--keys", "--json").out == f'{{"key": {wanted[0]}}}\n'
    assert mihash("get", index, "--where", "year=1990", "--limit", 2).out.count("vector") == 2
    for more in ((), ("--keys",), ("--json",)):
        run = mihash("get", index, "--where", "year=1800", *more)
        assert (run.code, run.out, run.err) == (0, "", "Nothing was found.\n")


def test_printed_keys_are_read_again(mihash, index):
    with library.OnlineIndex.open(index) as opened:
        opened.add(np.eye(6)[:4], keys=["17", '"b"', "a b", -3], metadata=[{"new": True}] * 4)
    printed = mihash("get", index, "--where", "new=true", "--keys").out
    assert printed.splitlines() == ['"17"', '""b""', "a b", "-3"]
    assert mihash("delete", index, "--keys-from", "-", sent=printed.encode()).out.startswith("Deleted 4 items;")
    assert 17 in rows_of(index)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("3", "--where", "year=1990"), "Choose items by key or with --where, not both."),
        (("3", "--limit", 5), "--limit, --after and --keys need a filter with --where."),
        (("--where", "year=1990", "--after", "no"), "The key 'no' is not stored."),
    ],
)
def test_what_get_refuses(mihash, index, words, message):
    run = mihash("get", index, *words)
    assert (run.code, run.err) == (2, f"mihash: {message}\n")


def test_update_replaces_metadata(mihash, index, tmp_path):
    before = rows_of(index)
    run = mihash("update", index, 3, 4, 3, "--metadata", '{"category": "sport", "tags": [1]}')
    assert (run.code, run.out) == (0, "Replaced the metadata of 2 items.\n"), run.err
    (tmp_path / "keys.txt").write_text("5\n")
    run = mihash("update", index, "--keys-from", tmp_path / "keys.txt", "--metadata", "null")
    assert run.out == "Replaced the metadata of 1 item.\n"
    after = rows_of(index)
    assert [after[key].metadata for key in (3, 4, 5)] == [{"category": "sport", "tags": [1]}] * 2 + [None]
    assert np.array_equal(after[3].vector, before[3].vector)
    assert after[6].metadata == before[6].metadata
    run = mihash("update", index, "--where", "category=sport", "--metadata", '{"category": "art"}')
    assert run.out == "Replaced the metadata of 2 items.\n"
    assert rows_of(index)[4].metadata == {"category": "art"}
    assert mihash("update", index, "--where", "category=no", "--metadata", "{}").out.startswith("Replaced the met")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("3", "no", "--metadata", "{}"), "The key 'no' is not stored."),
        (
            ("3", "--metadata", "red"),
            """--metadata must be a JSON object, such as '{"colour": "red"}'; got 'red'.""",
        ),
        (
            ("3", "--metadata", "[1]"),
            """--metadata must be a JSON object, such as '{"colour": "red"}'; got '[1]'.""",
        ),
        (("3", "--metadata", '{"a": NaN}'), "`metadata['a']` must be finite; got nan."),
        (("3", "--where", "a=1", "--metadata", "{}"), "Choose items by key or with --where, not both."),
    ],
)
def test_what_update_refuses(mihash, index, words, message):
    before = [item.metadata for item in rows_of(index).values()]
    run = mihash("update", index, *words)
    assert (run.code, run.err) == (2, f"mihash: {message}\n")
    assert [item.metadata for item in rows_of(index).values()] == before


def test_keys_from_a_file(mihash, index, tmp_path):
    (tmp_path / "keys.txt").write_text("3\n\n17\n")
    found = mihash("get", index, "5", "--keys-from", tmp_path / "keys.txt", "--json").out
    assert [json.loads(line)["key"] for line in found.splitlines()] == [5, 3, 17]
    assert "Deleted 2 items; 1,498 are left." in mihash("delete", index, "--keys-from", tmp_path / "keys.txt").out
    assert "Deleted 1 item; " in mihash("delete", index, "--keys-from", "-", sent=b"4\n").out
    wanted = "mihash: Give keys, or a file of keys with --keys-from; or a filter with --where.\n"
    for words in (("delete", index), ("get", index), ("update", index, "--metadata", "{}")):
        assert mihash(*words).err == wanted
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    for name, why in (("nofile", "No such file or directory"), ("bytes", "it is not UTF-8 text")):
        run = mihash("get", index, "--keys-from", tmp_path / name)
        assert (run.code, run.err) == (2, f"mihash: --keys-from: {tmp_path / name} cannot be read: {why}.\n")


def test_a_vector_that_is_not_finite_is_named_by_its_option(mihash, index):
    run = mihash("search", index, "--vector", "1,2,3,4,5,nan")
    assert (run.code, run.err) == (2, "mihash: --vector must be finite numbers; got 1,2,3,4,5,nan.\n")
    run = mihash("search", index, "--vector", "1,2,3,4,5,1e39")
    wanted = "--vector must fit into float32, which holds at most 3.4e38; got 1,2,3,4,5,1e39."
    assert (run.code, run.err) == (2, f"mihash: {wanted}\n")


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
