"""Files that cannot be used: one line that says where and what to do, exit 2, and the index as before."""

import json
import sqlite3
from contextlib import closing

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

HEADER = "id,f0,f1,f2,f3,f4,f5"


def csv(folder, *changes, header=HEADER, n=1600):
    """Write a CSV file with some of its rows replaced."""
    lines = [header, *(f"{5000 + i},1,2,3,4,5,{i}" for i in range(n))]
    for row, line in changes:
        lines[row + 1] = line
    file = folder / "bad.csv"
    file.write_text("\n".join(lines) + "\n")
    return file


def parquet(folder, table, **options):
    pa.parquet.write_table(pa.table(table), folder / "bad.parquet", **options)
    return folder / "bad.parquet"


def vectors(n=1600, d=6):
    return np.random.default_rng(1).standard_normal((n, d)).astype(np.float32)


def with_nan(row=777, n=1600):
    X = vectors(n)
    X[row, 3] = np.nan
    return X


def cut(file, n_bytes):
    file.write_bytes(file.read_bytes()[:-n_bytes])
    return file


def npy(folder, X):
    np.save(folder / "bad.npy", X)
    return folder / "bad.npy"


def npz(folder, **arrays):
    np.savez_compressed(folder / "bad.npz", **arrays)
    return folder / "bad.npz"


def jsonl(folder, *changes, n=1600):
    lines = [json.dumps({"id": f"a{i}", "vector": [1, 2, 3, 4, 5, i]}) for i in range(n)]
    for row, line in changes:
        lines[row] = line
    (folder / "bad.jsonl").write_text("\n".join(lines))
    return folder / "bad.jsonl"


def raw(folder, name, content):
    (folder / name).write_bytes(content)
    return folder / name


def damaged_page(folder):
    file = parquet(folder, {"emb": list(vectors())}, write_page_checksum=True, compression="none")
    content = bytearray(file.read_bytes())
    content[20_000:20_010] = bytes(10)
    file.write_bytes(content)
    return file


BAD = {
    "truncated parquet": (lambda f: cut(parquet(f, {"emb": list(vectors())}), 1000), [], "not a Parquet file"),
    "damaged parquet": (damaged_page, [], "is damaged"),
    "nan in parquet": (lambda f: parquet(f, {"emb": list(with_nan())}), [], "row 777 has a NaN or an infinity"),
    "large number in parquet": (
        lambda f: parquet(f, {"emb": [[1.0] * 6] * 1200 + [[1e39] + [1.0] * 5]}),
        [],
        "row 1200 has a number that is too large for it (above 3.4e38)",
    ),
    "large number in csv": (
        lambda f: csv(f, (777, "1,1,2,1e39,4,5,6")),
        [],
        "vectors must fit into float32; row 777 (line 779) has a number that is too large for it (above 3.4e38)",
    ),
    "null in parquet": (
        lambda f: parquet(f, {"emb": [[1.0] * 6] * 1200 + [None]}),
        [],
        "row 1200 has nothing in the column 'emb'",
    ),
    "null within parquet": (
        lambda f: parquet(f, {"emb": [[1.0] * 6] * 1200 + [[1.0, None, 1.0, 1.0, 1.0, 1.0]]}),
        [],
        "row 1200 lacks a number in 'emb'",
    ),
    "ragged parquet": (
        lambda f: parquet(f, {"emb": [[1.0] * 6] * 1200 + [[1.0] * 5]}),
        [],
        "row 1200 has a vector of 5 numbers in 'emb', and row 0 one of 6",
    ),
    "empty parquet": (lambda f: parquet(f, {"emb": pa.array([], pa.list_(pa.float32()))}), [], "has no rows"),
    "column of parquet": (
        lambda f: parquet(f, {"emb": list(vectors())}),
        ["--vector", "features"],
        "has no column 'features' (--vector); its columns: emb",
    ),
    "two columns of lists": (
        lambda f: parquet(f, {"a": list(vectors()), "b": list(vectors())}),
        [],
        "several columns of lists (a, b); name the vector column with --vector",
    ),
    "ragged csv": (
        lambda f: csv(f, (1300, "9,1,2,3")),
        [],
        "row 1300 (line 1302) has 4 fields, and the first line has 7",
    ),
    "nan in csv": (lambda f: csv(f, (777, "1,1,2,nan,4,5,6")), [], "row 777 (line 779) has a NaN or an infinity"),
    "text in csv": (
        lambda f: csv(f, (1300, "9,1,2,abc,4,5,6")),
        [],
        "row 1300 (line 1302) has 'abc' in the column f2, where a number should be",
    ),
    "nothing in csv": (lambda f: csv(f, (1300, "9,1,2,,4,5,6")), [], "has nothing in the column f2, where"),
    "nothing in the first row": (
        lambda f: csv(f, (0, "9,1,2,,4,5,6")),
        [],
        "row 0 (line 2) has nothing in the column f2",
    ),
    "nothing in a column": (
        lambda f: csv(f, *((i, f"{5000 + i},1,2,,4,5,6") for i in range(1600))),
        [],
        "has nothing in the column f2, which looks like one of f0 to f5",
    ),
    "text in the first row": (
        lambda f: csv(f, (0, "9,1,2,abc,4,5,6")),
        [],
        "has no number in the column f2, which looks like one of f0 to f5",
    ),
    "two numbers in csv": (lambda f: csv(f, (1300, "9,1,2,3 4,4,5,6")), [], "has '3 4' in the column f2"),
    "no header": (
        lambda f: csv(f, header="cat,1,2,3,4,5,6"),
        [],
        "the first line has both names ('cat') and numbers ('1'). If it is a row, use --no-header",
    ),
    "no key in csv": (lambda f: csv(f, (1300, ",1,2,3,4,5,6")), [], "has nothing in the column id"),
    "quotes in csv": (lambda f: csv(f, (1300, '"9"9,1,2,3,4,5,6')), [], "row 1300 (line 1302) is not CSV"),
    "two columns of one name": (lambda f: csv(f, header="id,f0,f0,f2,f3,f4,f5"), [], "two columns 'f0'"),
    "header only": (lambda f: csv(f, n=0), [], "has no rows"),
    "no such column": (
        csv,
        ["--label", "class"],
        "has no column 'class' (--label); its columns: id, f0",
    ),
    "no such metadata": (csv, ["--metadata", "a"], "has no column 'a' (--metadata)"),
    "empty": (lambda f: raw(f, "bad.csv", b""), [], "is empty"),
    "empty lines": (lambda f: raw(f, "bad.jsonl", b"\n\n"), [], "is empty"),
    "not utf-8": (
        lambda f: raw(f, "bad.csv", csv(f, (1300, "@,1,2,3,4,5,6")).read_bytes().replace(b"@", b"\xff")),
        [],
        "line 1302 is not UTF-8 text (byte 0xff at column 1)",
    ),
    "binary as csv": (lambda f: raw(f, "bad.csv", bytes(range(256)) * 10), [], "is not UTF-8 text"),
    "not json": (lambda f: jsonl(f, (1300, "{oops}")), [], "row 1300 (line 1301) is not JSON"),
    "no object": (
        lambda f: jsonl(f, (1300, "17")),
        [],
        "is neither an object nor a list: '17'",
    ),
    "a list among objects": (
        lambda f: raw(f, "bad.jsonl", b'{"id": 1, "emb": [1, 2, 3, 4, 5, 6]}\n[1, 2, 3, 4, 5, 6]\n'),
        [],
        "row 1 (line 2) is not an object, as the lines before it are: '[1, 2, 3, 4, 5, 6]'. Repair it.",
    ),
    "text as json": (
        lambda f: raw(f, "bad.jsonl", b'"a"\n'),
        [],
        "row 0 (line 1) is neither an object nor a list",
    ),
    "no vector": (lambda f: jsonl(f, (1300, '{"id": 1}')), [], "row 1300 (line 1301) has no 'vector'"),
    "text as vector": (
        lambda f: jsonl(f, (1300, '{"id": 1, "vector": [1, "2"]}')),
        [],
        "row 1300 (line 1301) has no vector: 'vector' is [1, '2']",
    ),
    "ragged jsonl": (
        lambda f: jsonl(f, (1300, '{"id": 1, "vector": [1, 2]}')),
        [],
        "row 1300 (line 1301) has a vector of 2 numbers, and row 0 one of 6",
    ),
    "huge number": (
        lambda f: jsonl(f, (1300, '{"id": 1, "vector": [1, 2, 3, 4, 5, 1%s]}' % ("0" * 400))),
        [],
        "or in one of the rows after it, is too large.",
    ),
    "key of jsonl": (
        lambda f: jsonl(f, (1300, '{"id": 1.5, "vector": [1, 2, 3, 4, 5, 6]}')),
        [],
        "row 1300: A key must be a string or a whole number",
    ),
    "metadata of jsonl": (
        lambda f: jsonl(
            f,
            (1300, '{"id": "b", "vector": [1, 2, 3, 4, 5, 6], "a": [NaN]}'),
            (0, '{"id": "c", "vector": [1, 2, 3, 4, 5, 6], "a": 1}'),
        ),
        ["--metadata", "a"],
        "row 1300: `metadata['a'][0]` must be finite",
    ),
    "nan in npy": (lambda f: npy(f, with_nan(1400)), [], "row 1400 has a NaN or an infinity"),
    "fortran order": (lambda f: npy(f, np.asfortranarray(with_nan(1400))), [], "row 1400 has a NaN"),
    "too long": (
        lambda f: npy(f, 1e30 * vectors()),
        [],
        "must have rows of a length below 1e+15; row 0 is longer",
    ),
    "wrong width": (
        lambda f: npy(f, vectors(d=5)),
        [],
        "has a vector of 5 numbers, and the index has vectors of 6",
    ),
    "truncated npy": (lambda f: cut(npy(f, vectors()), 100), [], "is cut short: it ends in row 1595 of 1600"),
    "not npy": (lambda f: raw(f, "bad.npy", b"hello"), [], "is not a NumPy file"),
    "empty npy": (lambda f: npy(f, vectors(0)), [], "is empty: its vectors have the shape (0, 6)"),
    "pickle": (lambda f: npy(f, np.array([{}], dtype=object)), [], "holds pickled Python objects"),
    "one dimension": (lambda f: npy(f, np.arange(7.0)), [], "has the shape (7,); vectors are the rows of"),
    "three dimensions": (lambda f: npy(f, np.zeros((2, 2, 2))), [], "has the shape (2, 2, 2); vectors"),
    "complex": (lambda f: npy(f, np.zeros((2, 6), dtype=complex)), [], "holds complex128, where real numbers"),
    "metadata twice": (
        lambda f: jsonl(f, (1300, '{"id": "b", "vector": [1, 2, 3, 4, 5, 6], "a": 1, "metadata": {"a": 2}}')),
        ["--metadata", "all"],
        "row 1300 (line 1301) has 'a' twice in its metadata",
    ),
    "no such field": (jsonl, ["--metadata", "year"], "has no column 'year' (--metadata); its columns: id, vector"),
    "duration": (
        lambda f: parquet(f, {"emb": list(vectors(2)), "took": pa.array([1, 2], pa.duration("ns"))}),
        ["--metadata", "took"],
        "the column 'took' is duration[ns], which cannot be stored",
    ),
    "truncated npz": (lambda f: cut(npz(f, X=vectors()), 300), [], "is not a .npz archive, or is cut short"),
    "lengths in npz": (
        lambda f: npz(f, X=vectors(), id=np.arange(3)),
        [],
        "the array 'X' has 1600 rows and 'id' has 3",
    ),
    "labels missing": (
        lambda f: npz(f, X=vectors(), y=np.full(1600, np.nan)),
        ["--label", "y"],
        "began without labels",
    ),
    "a folder": (lambda f: f, [], "is a folder; give the path of a file"),
    "no file": (lambda f: f / "none.csv", [], "does not exist"),
    "unknown suffix": (lambda f: raw(f, "bad.xlsx", b"x"), [], "must end in .npy, .npz"),
    "unknown format": (lambda f: raw(f, "bad.txt", b"x"), ["--format", "xml"], "must be one of 'npy', 'npz'"),
}


def dump(folder):
    with closing(sqlite3.connect(f"file:{folder / 'index.db'}?mode=ro", uri=True)) as connection:
        return list(connection.iterdump())


@pytest.mark.parametrize("case", BAD)
def test_bad_files(mihash, index, tmp_path, case):
    make, options, message = BAD[case]
    file = make(tmp_path)
    before = dump(index)
    run = mihash("add", index, file, *options)
    (*notes, error) = run.err.splitlines()
    assert (run.code, run.out) == (2, ""), error
    assert error.startswith("mihash: ")
    assert message in error
    assert file.name in error or case in ("labels missing", "unknown format")
    assert not any("Traceback" in line for line in notes)
    assert dump(index) == before
