"""`mihash add`: every format gives the same index; again, grown, replaced, streamed."""

import json
import os
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from scipy.io import savemat

import mihash as library
from mihash.cli.output import rows_progress
from mihash.io.ingest import name_of
from mihash.io.readers import Columns, open_source
from mihash.io.readers.values import class_number
from mihash.io.source_checksums import Contents, Remembered
from mihash.store.sqlite.positions import Reading


def items(folder):
    with library.OnlineIndex.open(folder, read_only=True) as index:
        return len(index)


@pytest.fixture
def empty(mihash, tmp_path):
    """A folder with an empty index."""
    mihash("create", tmp_path / "index", "--bits", 16, "--learner", "lsh")
    return tmp_path / "index"


def as_npy(folder, X, y):
    for name, values in (("X", X), ("y", y), ("ids", np.arange(len(X))), ("colour", y % 2)):
        np.save(folder / f"{name}.npy", values)
    return [folder / "X.npy", "--key", folder / "ids.npy", "--metadata", folder / "colour.npy"], folder / "y.npy"


def as_npz(folder, X, y):
    np.savez_compressed(folder / "x.npz", emb=X, id=np.arange(len(X)), colour=y % 2, y=y)
    return [folder / "x.npz", "--metadata", "colour"], "y"


def as_parquet(folder, X, y):
    table = pa.table({"id": np.arange(len(X)), "emb": list(X), "colour": y % 2, "y": y})
    pa.parquet.write_table(table, folder / "x.parquet", row_group_size=700)
    return [folder / "x.parquet", "--metadata", "colour"], "y"


def as_csv(folder, X, y):
    lines = ["id,a0,a1,a2,a3,a4,a5,colour,y"]
    lines += [",".join(map(str, [i, *X[i].tolist(), y[i] % 2, y[i]])) for i in range(len(X))]
    (folder / "x.csv").write_text("\n".join(lines))
    return [folder / "x.csv", "--metadata", "colour"], "y"


def as_tsv_of_lists(folder, X, y):
    lines = ["id\temb\tcolour\ty"]
    lines += ["\t".join([str(i), str(X[i].tolist()), str(y[i] % 2), str(y[i])]) for i in range(len(X))]
    (folder / "x.tsv").write_text("\n".join(lines) + "\n\n")
    return [folder / "x.tsv", "--metadata", "colour"], "y"


def as_jsonl(folder, X, y):
    rows = [{"id": i, "emb": X[i].tolist(), "colour": int(y[i] % 2), "y": int(y[i])} for i in range(len(X))]
    (folder / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    return [folder / "x.jsonl", "--metadata", "colour"], "y"


def as_mat(folder, X, y):
    savemat(folder / "x.mat", {"emb": X, "id": np.arange(len(X)), "colour": y % 2, "y": y})
    return [folder / "x.mat", "--metadata", "colour"], "y"


@pytest.mark.parametrize("write", [as_npy, as_npz, as_parquet, as_csv, as_tsv_of_lists, as_jsonl, as_mat])
def test_every_format(mihash, empty, tmp_path, data, write):
    X, y = data
    words, label = write(tmp_path, X, y)
    run = mihash("add", empty, *words, "--label", label)
    assert run.code == 0, run.err
    assert "added 1,500 rows" in run.out
    with library.OnlineIndex.open(empty, read_only=True) as index:
        assert index.stats()["labels"]
        for i in (0, 1023, 1024, 1499):
            item = index.get(i)
            assert item.vector.tolist() == X[i].tolist()
            assert item.label == y[i]
            assert list(item.metadata.values()) == [y[i] % 2]


def test_what_was_guessed_is_told(mihash, empty, tmp_path, write_csv):
    run = mihash("add", empty, write_csv(tmp_path / "x.csv"))
    told = "vector from the 6 columns f0 to f5 (guessed), key from id (guessed), not used: colour, year, label"
    assert run.err == f"{tmp_path / 'x.csv'}: {told}\n"


def test_again(mihash, empty, tmp_path, write_csv):
    file = write_csv(tmp_path / "x.csv")
    words = ["add", empty, file, "--key", "none"]
    mihash(*words)
    run = mihash(*words)
    assert run.code == 0
    assert "all 1,500 rows are in already; nothing was added" in run.out
    assert items(empty) == 1500
    assert "added 1,500 rows" in mihash(*words, "--again").out
    assert items(empty) == 3000


def test_a_file_that_has_grown(mihash, empty, tmp_path, write_csv):
    file = write_csv(tmp_path / "x.csv", last=1100)
    mihash("add", empty, file)
    write_csv(file, 1100, 1500, mode="a")
    assert "added 400 rows, after 1,100 that were in already" in mihash("add", empty, file).out
    assert items(empty) == 1500


def test_a_file_that_was_replaced(mihash, empty, tmp_path, write_csv):
    file = write_csv(tmp_path / "x.csv", last=1200)
    mihash("add", empty, file)
    write_csv(file, 1, 1400)
    run = mihash("add", empty, file)
    assert (run.code, items(empty)) == (2, 1200)
    assert "x.csv has changed: its first 1,200 rows are not the 1,200 rows that were added." in run.err
    write_csv(file, last=900)
    run = mihash("add", empty, file)
    assert (run.code, items(empty)) == (2, 1200)
    assert "x.csv has changed: it has 900 rows, and 1,200 rows of it were added." in run.err


def test_a_file_under_another_path_is_another_source(mihash, empty, tmp_path, write_csv, monkeypatch):
    file = write_csv(tmp_path / "x.csv", last=50)
    mihash("add", empty, file, "--key", "none")
    monkeypatch.chdir(tmp_path)
    assert "nothing was added" in mihash("add", empty, "./x.csv", "--key", "none").out
    assert "added 50 rows" in mihash("add", empty, file.rename("y.csv"), "--key", "none").out


def test_a_stream(mihash, empty):
    sent = b"".join(b'{"vector": [%d, 1, 2]}\n' % i for i in range(300))
    words = ["add", empty, "-", "--format", "jsonl"]
    assert "standard input: added 300 rows" in mihash(*words, sent=sent).out
    assert mihash(*words, "--source", "mine", sent=sent[: sent.index(b"[150,")].rpartition(b"\n")[0]).code == 0
    half = items(empty)
    assert mihash(*words, "--source", "mine", sent=sent).code == 0
    assert half == 450
    assert items(empty) == 600
    assert "has changed" in mihash(*words, "--source", "mine", sent=sent.partition(b"\n")[2]).err
    assert "must be csv or jsonl" in mihash("add", empty, "-", sent=sent).err
    assert items(empty) == 600


@pytest.mark.parametrize("verb", ["add", "upsert"])
def test_a_stream_of_another_width(mihash, index, verb):
    wanted = (
        "row 0 has a vector of 2 numbers, and the index has vectors of 6. Name the vector columns with --vector,"
    )
    run = mihash(verb, index, "-", "--format", "jsonl", sent=b'{"id": 7000, "vector": [1, 2]}\n')
    assert run.code == 2
    assert run.err.endswith(f"mihash: standard input: {wanted} or use a file of that width.\n")
    assert items(index) == 1500


def test_a_stream_keeps_the_rows_before_a_bad_one(mihash, empty):
    sent = b"[1, 2, 3]\n" * 1500 + b"[1, 2]\n"
    run = mihash("add", empty, "-", "--format", "jsonl", sent=sent)
    assert run.code == 2
    assert "row 1500 (line 1501) has a vector of 2 numbers, and row 0 one of 3" in run.err
    assert items(empty) == 1024


def test_without_a_check(mihash, empty, tmp_path, data):
    X = data[0].copy()
    X[1200] = np.nan
    np.save(tmp_path / "x.npy", X)
    run = mihash("add", empty, tmp_path / "x.npy", "--no-check")
    assert (run.code, items(empty)) == (2, 1024)
    X[1200] = 0
    np.save(tmp_path / "x.npy", X)
    assert "added 476 rows, after 1,024" in mihash("add", empty, tmp_path / "x.npy").out
    assert items(empty) == 1500


def test_several_files_are_checked_before_the_first_is_added(mihash, empty, tmp_path, data):
    good, bad = data[0], data[0].copy()
    bad[1300, 2] = np.inf
    np.save(tmp_path / "good.npy", good)
    np.save(tmp_path / "bad.npy", bad)
    run = mihash("add", empty, tmp_path / "good.npy", tmp_path / "bad.npy")
    assert (run.code, items(empty)) == (2, 0)
    assert "bad.npy: row 1300 has a NaN or an infinity" in run.err
    assert mihash("add", empty, tmp_path / "good.npy", tmp_path / "bad.npy", "--source", "x").code == 2


def test_labels_that_are_names(mihash, tmp_path):
    mihash("create", tmp_path / "index", "--bits", 8, "--learner", "osh")
    rows = "\n".join(f"{i % 7},{i % 5},{('cat', 'dog')[i % 2]}" for i in range(400))
    (tmp_path / "x.csv").write_text(f"a,b,animal\n{rows}\n")
    run = mihash("add", tmp_path / "index", tmp_path / "x.csv", "--vector", "a:b")
    assert (run.code, run.err.count("\n")) == (2, 2)
    assert "The learner osh needs labels, and" in run.err
    assert mihash("add", tmp_path / "index", tmp_path / "x.csv", "--label", "animal").code == 0
    labels = [json.loads(mihash("get", tmp_path / "index", i, "--json").out)["label"] for i in (0, 1, 2)]
    assert labels == ["cat", "dog", "cat"]
    (tmp_path / "more.csv").write_text("a,b,animal\n1,2,dog\n3,4,7\n")
    assert mihash("add", tmp_path / "index", tmp_path / "more.csv", "--label", "animal").code == 0
    with library.open(tmp_path / "index") as index:
        index.add([[1.0, 2.0]], ["cat"])
        assert [item.label for item in index.get([400, 401, 402])] == ["dog", "7", "cat"]
    (tmp_path / "y.csv").write_text("a,b\n1,2\n")
    assert "not learned from" in mihash("add", tmp_path / "index", tmp_path / "y.csv").err


def test_an_index_that_has_numbers_for_names_goes_on_with_them(mihash, tmp_path):
    """As earlier versions stored the names of a file, and so that the file can be read on."""
    rows = [f"{i % 7},{i % 5},{('cat', 'dog', '')[i % 3]}\n" for i in range(1300)]
    path, file = tmp_path / "index", tmp_path / "x.csv"
    numbers = np.ma.masked_equal([(class_number("cat"), class_number("dog"), -1)[i % 3] for i in range(1200)], -1)
    file.write_text("a,b,animal\n" + "".join(rows[:1200]))
    columns = Columns("a:b", label="animal")
    with library.open(path, n_bits=8) as index:
        read = Contents()
        for part in open_source(file, columns).rows():
            where = slice(part.first, part.first + len(part.X))
            read = read.after(part._replace(y=numbers[where]))
            text = Remembered(read, deletions=0).details
            source = Reading(name_of(file), read.position, lambda keys, text=text: text)  # noqa: ARG005 -- whatever the keys are
            index.add(part.X, numbers[where], source=source)
    file.write_text("a,b,animal\n" + "".join(rows))
    run = mihash("add", path, file, "--label", "animal")
    assert (run.code, "added 100 rows, after 1,200" in run.out) == (0, True), run.err
    with library.open(path, read_only=True) as index:
        assert [item.label for item in index.get([0, 1200, 1201, 1202])] == [
            class_number(name) for name in ("cat", "cat", "dog")
        ] + [None]


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_labels_that_are_missing(mihash, tmp_path, ending):
    """An empty field or a null is a missing label; other columns, chunks and a second run do not mind."""
    labels, file = ["cat", None, "dog", None] + [None] * 1100 + ["dog"], tmp_path / f"x.{ending}"
    if ending == "csv":
        file.write_text("a,b,animal\n" + "".join(f"{i % 7},1,{label or ''}\n" for i, label in enumerate(labels)))
    elif ending == "jsonl":
        file.write_text(
            "".join(json.dumps({"vector": [i % 7, 1], "animal": each}) + "\n" for i, each in enumerate(labels))
        )
    else:
        vectors = [[float(i % 7), 1.0] for i in range(len(labels))]
        pa.parquet.write_table(pa.table({"vector": vectors, "animal": labels}), file)
    mihash("create", tmp_path / "index", "--bits", 8)
    for _ in range(2):
        run = mihash("add", tmp_path / "index", file, "--label", "animal")
        assert (run.code, items(tmp_path / "index")) == (0, 1105), run.err
    with library.open(tmp_path / "index") as index:
        found = [item.label for item in index.get(list(range(1105)))]
        assert [label is None for label in found] == [label is None for label in labels]
        assert found[2] == found[-1] != found[0]
        assert index.seen is None
        assert index.catch_up() == 0
        assert index.seen == 3


def test_an_index_without_labels_takes_none(mihash, index, tmp_path, write_csv):
    run = mihash("add", index, write_csv(tmp_path / "x.csv"), "--label", "label", "--key", "none")
    assert run.code == 2
    assert "began without labels" in run.err


def test_metadata_of_all_columns(mihash, empty, tmp_path, write_csv):
    mihash("add", empty, write_csv(tmp_path / "x.csv", last=3), "--metadata", "all")
    found = json.loads(mihash("get", empty, 2, "--json").out)["metadata"]
    assert list(found) == ["colour", "year", "label"]
    assert found["year"] == 1992


def test_keys_that_are_taken(mihash, index, tmp_path, write_csv):
    run = mihash("add", index, write_csv(tmp_path / "x.csv", 1400, 1500))
    assert run.code == 2
    assert "x.csv: row 0 has the key 1400, which is stored already. Name another column with --key" in run.err
    assert run.err.endswith(" To replace what is stored, use mihash upsert.\n")
    twice = write_csv(tmp_path / "y.csv", change=lambda i, row: [5000 + i % 1490, *row[1:]])
    run = mihash("add", index, twice)
    assert run.code == 2
    assert f"{twice}: row 1490 has the same key as {twice}: row 0." in run.err
    assert items(index) == 1500


def test_vectors_that_do_not_fit_into_float16(mihash, tmp_path):
    mihash("create", tmp_path / "index", "--dtype", "float16")
    X = np.ones((1100, 3), dtype=np.float32)
    X[1050] = 1e6
    np.save(tmp_path / "x.npy", X)
    run = mihash("add", tmp_path / "index", tmp_path / "x.npy")
    assert run.code == 2
    assert "row 1050 does not fit into float16" in run.err


def test_without_pyarrow(mihash, empty, tmp_path, monkeypatch):
    (tmp_path / "x.parquet").write_bytes(b"PAR1")
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    run = mihash("add", empty, tmp_path / "x.parquet")
    assert run.code == 1
    assert run.err.endswith("reading it needs pyarrow: pip install 'mihash[arrow]'.\n")


def test_progress_on_a_terminal(empty, tmp_path, data, monkeypatch, mihash):
    np.save(tmp_path / "x.npy", data[0])
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    told = mihash("add", empty, tmp_path / "x.npy").err
    assert "adding x.npy" in told
    assert "1,500/1,500" in told


def test_progress_takes_one_line(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "80")
    with rows_progress() as tell:
        for done in range(0, 12_000_000, 1_000_000):
            tell("checking", "a-name-that-is-rather-long.parquet", done, 11_000_000)
            time.sleep(0.001)
    (line,) = [line for line in capsys.readouterr().err.split("\r")[-1].splitlines() if "\x1b[?25h" not in line]
    assert "rows/s" in line


def test_a_source_that_comes_twice(mihash, empty, tmp_path, data, monkeypatch):
    np.save(tmp_path / "x.npy", data[0])
    monkeypatch.chdir(tmp_path)
    run = mihash("add", empty, tmp_path / "x.npy", "./x.npy")
    assert (run.code, run.err) == (2, "mihash: ./x.npy is given twice; name each file once.\n")
    run = mihash("add", empty, "-", "-", "--format", "jsonl", sent=b"[1, 2]\n")
    assert (run.code, run.err) == (2, "mihash: The standard input is given twice; name each file once.\n")
    assert items(empty) == 0


def test_a_replaced_file_is_refused_without_a_check_too(mihash, empty, tmp_path, data):
    np.save(tmp_path / "x.npy", data[0][:1200])
    mihash("add", empty, tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", data[0][::-1])
    run = mihash("add", empty, tmp_path / "x.npy", "--no-check")
    assert (run.code, items(empty)) == (2, 1200)
    assert "has changed: its first" in run.err


def test_without_a_header(mihash, empty, tmp_path):
    (tmp_path / "x.csv").write_text("cat,0.5,2\ndog,1.5,3\n")
    assert "--no-header" in mihash("add", empty, tmp_path / "x.csv").err
    run = mihash("add", empty, tmp_path / "x.csv", "--no-header", "--key", "1")
    assert run.code == 0, run.err
    assert json.loads(mihash("get", empty, "cat", "--json").out)["vector"] == [0.5, 2]
    options = ["--no-header", "--column", "2:3", "-k", 1, "--json"]
    assert '"keys": ["cat"]' in mihash("search", empty, tmp_path / "x.csv", *options).out


def test_fields_that_the_first_rows_lack(mihash, empty, tmp_path):
    rows = [
        {"id": i, "vector": [i, 1, 2]} | ({"year": 1990, "colour": "red"} if i == 400 else {}) for i in range(500)
    ]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)))
    for wanted, found in (("year", {"year": 1990}), ("all", {"year": 1990, "colour": "red"})):
        run = mihash("add", empty, tmp_path / "x.jsonl", "--metadata", wanted, "--again")
        assert run.code == 0, run.err
        assert json.loads(mihash("get", empty, 400, "--json").out)["metadata"] == found
        mihash("delete", empty, *range(500))


@pytest.mark.skipif(os.name != "posix", reason="named pipes")
def test_a_named_pipe(mihash, empty, tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    run = mihash("add", empty, tmp_path / "x.csv")
    assert (run.code, run.err.count("\n")) == (2, 1)
    assert "x.csv is a pipe or a device, not a file; send it to the standard input" in run.err
