"""Every format from any row to any row, and what files of the wild look like."""

import datetime
import decimal
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

from mihash import OnlineIndex
from mihash.errors import InvalidInput
from mihash.io.readers import Columns, open_source, open_stream

N_ROWS = 2600
X = np.random.default_rng(0).standard_normal((N_ROWS, 4)).astype(np.float32)
Y = np.arange(N_ROWS) % 7


def npy(folder, **options):
    np.save(folder / "x.npy", options.get("X", X))
    np.save(folder / "y.npy", Y)
    return folder / "x.npy", Columns(label=str(folder / "y.npy"))


def fortran_npy(folder):
    return npy(folder, X=np.asfortranarray(X.astype(np.float64)))


def npz(folder, save=np.savez, order="C"):
    save(folder / "x.npz", features=X.copy(order), label=Y)
    return folder / "x.npz", Columns(label="label")


def compressed_npz(folder):
    return npz(folder, np.savez_compressed)


def fortran_npz(folder):
    return npz(folder, order="F")


def parquet(folder, kind=None, size=1000):
    column = pa.array(list(X), kind or pa.list_(pa.float32()))
    pa.parquet.write_table(pa.table({"emb": column, "label": Y}), folder / "x.parquet", row_group_size=size)
    return folder / "x.parquet", Columns(label="label")


def large_list(folder):
    return parquet(folder, pa.large_list(pa.float64()))


def fixed_list(folder):
    return parquet(folder, pa.list_(pa.float32(), 4), size=N_ROWS)


def wide_parquet(folder):
    columns = {f"x{i}": X[:, i] for i in range(4)}
    pa.parquet.write_table(pa.table(columns | {"label": Y}), folder / "x.parquet", row_group_size=100)
    return folder / "x.parquet", Columns(label="label")


def csv(folder):
    rows = [",".join(map(repr, [*row.tolist(), int(y)])) for row, y in zip(X, Y, strict=True)]
    (folder / "x.csv").write_text("a,b,c,d,label\n" + "\n".join(rows))
    return folder / "x.csv", Columns(label="label")


def jsonl(folder):
    rows = [json.dumps({"vector": row.tolist(), "label": int(y)}) for row, y in zip(X, Y, strict=True)]
    (folder / "x.ndjson").write_text("\n".join(rows))
    return folder / "x.ndjson", Columns(label="label")


FORMATS = [
    npy,
    fortran_npy,
    npz,
    compressed_npz,
    fortran_npz,
    parquet,
    large_list,
    fixed_list,
    wide_parquet,
    csv,
    jsonl,
]


@pytest.mark.parametrize("write", FORMATS)
def test_from_any_row_to_any_row(tmp_path, write):
    source = open_source(*write(tmp_path))
    assert source.n_rows in (N_ROWS, None)
    assert source.has_labels
    for start, stop in ((0, None), (1, 5), (999, 1001), (1023, 2200), (2599, None), (2600, None), (7, 7)):
        chunks = list(source.rows(start, stop))
        firsts = [chunk.first for chunk in chunks]
        ends = [chunk.first + len(chunk.X) for chunk in chunks]
        assert firsts == ([start, *ends[:-1]] if chunks else [])
        wanted = slice(start, stop)
        assert sum(len(chunk.X) for chunk in chunks) == len(X[wanted])
        if chunks:
            assert np.concatenate([chunk.X for chunk in chunks]).tobytes() == X[wanted].tobytes()
            assert np.concatenate([chunk.y for chunk in chunks]).tolist() == Y[wanted].tolist()
            assert all(0 < chunk.share <= 1 for chunk in chunks)
    assert list(source.rows())[-1].share == 1


def rows_of(text, **wanted):
    (rows,) = open_stream(io.BytesIO(text.encode()), Columns(**wanted), "csv").rows()
    return rows


@pytest.mark.parametrize(
    "text",
    [
        "1,2\n3,4\n",
        "1;2\n3;4\n",
        "1\t2\n3\t4\n",
        "a,b\r\n1,2\r\n\r\n3,4",
        "\ufeffa,b\n1,2\n3,4\n",
        ",0,1\n0,1,2\n1,3,4\n",
        "id,,0,1\na,,1,2\nb,,3,4\n",
        'vector\n"[1, 2]"\n"[3, 4]"\n',
        '"[1 2]"\n"[3 4]"\n',
        'id,emb\na,"1,2"\nb,"3,4"\n',
        '"a\nb",c\n1,2\n3,4\n',
        " a , b \n1, 2\n3, 4\n",
    ],
)
def test_csv_of_the_wild(text):
    assert rows_of(text).X.tolist() == [[1, 2], [3, 4]]


def test_a_header_that_counts():
    assert rows_of("0,1,2\n3,4,5\n").X.tolist() == [[3, 4, 5]]
    assert rows_of("0,1,2,name\n3,4,5,a\n").X.tolist() == [[3, 4, 5]]
    with pytest.raises(InvalidInput, match="both names \\('name'\\) and numbers \\('0'\\)"):
        rows_of("0,1,name\n3,4,a\n")


def test_the_line_of_a_row_in_a_stream():
    text = "a,b\n\n1,2\n" + 150 * "3,4\n"
    for row, line in ((5, 8), (130, 133)):
        lines = text.splitlines()
        lines[line - 1] = "x,4"
        with pytest.raises(InvalidInput, match=rf"row {row} \(line {line}\) has 'x'"):
            rows_of("\n".join(lines))


def test_columns_without_a_header_are_numbered():
    rows = rows_of("7,0.5,2\n8,1.5,3\n", key="1", metadata=("3",))
    assert (rows.X.tolist(), rows.keys, rows.metadata) == ([[0.5], [1.5]], [7, 8], [{"3": 2}, {"3": 3}])


def test_keys_of_csv_are_numbers_only_where_they_are_written_as_such():
    rows = rows_of("id,x\n7,1\n007,1\n1e5,1\n7.0,1\n-3,1\n+3,1\n99999999999999999999,1\n", vector="x")
    assert rows.keys == [7, "007", "1e5", "7.0", -3, "+3", "99999999999999999999"]


def test_metadata_of_csv():
    rows = rows_of("x,a\n1,2005\n1,2.5\n1,\n1,red\n1,01\n1,1e999\n", vector="x", metadata=("a",))
    assert [each["a"] for each in rows.metadata] == [2005, 2.5, None, "red", "01", "1e999"]


def test_booleans_of_csv():
    rows = rows_of("x,a\n1,true\n1,False\n1,FALSE\n1,truth\n", vector="x", metadata=("a",))
    assert [each["a"] for each in rows.metadata] == [True, False, False, "truth"]


def test_metadata_of_parquet(tmp_path):
    table = {
        "emb": [[1.0, 2.0]] * 2,
        "day": [datetime.date(2020, 1, 2), None],
        "price": [decimal.Decimal("1.5"), None],
        "ratio": [float("nan"), 2.0],
        "kind": pa.array(["a", "b"]).dictionary_encode(),
        "more": [{"year": 1999, "tags": ["x"]}, None],
    }
    pa.parquet.write_table(pa.table(table), tmp_path / "x.parquet")
    (rows,) = open_source(tmp_path / "x.parquet", Columns(vector="emb", metadata=("all",))).rows()
    assert rows.metadata[0] == {
        "day": "2020-01-02",
        "price": 1.5,
        "ratio": None,
        "kind": "a",
        "more": {"year": 1999, "tags": ["x"]},
    }
    assert (rows.metadata[1]["kind"], rows.metadata[1]["more"]) == ("b", None)


def test_objects_stay_under_their_names(tmp_path):
    row = {
        "id": 1,
        "vector": [1, 2],
        "camera": {"lens": 3, "at": None},
        "phone": {"lens": 4},
        "metadata": {"a": 5},
    }
    file = tmp_path / "x.jsonl"
    file.write_text(json.dumps(row))
    (rows,) = open_source(file, Columns(metadata=("all",))).rows()
    assert rows.metadata == [{"camera": {"lens": 3, "at": None}, "phone": {"lens": 4}, "a": 5}]
    with OnlineIndex.create(tmp_path / "index") as index:
        index.add(rows.X, keys=rows.keys, metadata=rows.metadata)
        assert index.keys(where={"camera.lens": 3}) == [1] == index.keys(where={"phone.lens": 4})


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_times_of_parquet_are_those_of_python(tmp_path, unit):
    moment, berlin = datetime.datetime(2024, 1, 4, 5, 6, 7), datetime.timezone(datetime.timedelta(hours=1))
    at = pa.array([moment], pa.timestamp(unit))
    zoned = pa.array([moment.replace(tzinfo=datetime.UTC)], pa.timestamp(unit, "Europe/Berlin"))
    inside = pa.StructArray.from_arrays([zoned], ["zoned"])
    pa.parquet.write_table(
        pa.table({"emb": [[1.0, 2.0]], "at": at, "zoned": zoned, "inside": inside}), tmp_path / "x.parquet"
    )
    (rows,) = open_source(tmp_path / "x.parquet", Columns(vector="emb", metadata=("all",))).rows()
    text = "2024-01-04T05:06:07"
    assert rows.metadata == [{"at": text, "zoned": f"{text}+00:00", "inside": {"zoned": f"{text}+00:00"}}]
    with OnlineIndex.create(tmp_path / "index") as index:
        index.add(rows.X, metadata=rows.metadata)
        local = moment.replace(hour=6, tzinfo=berlin)
        for where in ({"at": moment}, {"zoned": local}, {"inside.zoned": local}, {"zoned": {"$lte": local}}):
            assert index.keys(where=where) == [0]


def test_times_to_the_nanosecond(tmp_path):
    instant = 1_577_934_245_000_000_006
    table = {
        "emb": [[1.0, 2.0]] * 2,
        "at": pa.array([instant, None], pa.timestamp("ns")),
        "time": pa.array([6, None], pa.time64("ns")),
        "coarse": pa.array([instant // 1000, None], pa.timestamp("us")),
    }
    pa.parquet.write_table(pa.table(table), tmp_path / "x.parquet")
    (rows,) = open_source(tmp_path / "x.parquet", Columns(vector="emb", metadata=("all",))).rows()
    assert rows.metadata[0] == {
        "at": "2020-01-02T03:04:05.000000006",
        "time": "00:00:00.000000006",
        "coarse": "2020-01-02T03:04:05",
    }
    assert set(rows.metadata[1].values()) == {None}


def test_values_of_npz(tmp_path):
    days = np.array(["2020-01-02", "2021-01-01"], dtype="datetime64[D]")
    np.savez(tmp_path / "x.npz", X=np.eye(2, dtype=np.float16), key=np.array([b"a", b"b"]), day=days, alone=3)
    (rows,) = open_source(tmp_path / "x.npz", Columns(metadata=("day",))).rows()
    assert (rows.keys, rows.metadata) == (["a", "b"], [{"day": "2020-01-02"}, {"day": "2021-01-01"}])
    with pytest.raises(InvalidInput, match="'alone' is a single value"):
        open_source(tmp_path / "x.npz", Columns(metadata=("alone",)))


def test_labels(tmp_path):
    np.savez(tmp_path / "x.npz", X=np.eye(3), many=np.eye(3, dtype=int), half=[0.5, 1, 2], none=[np.nan, 1, 2])
    (rows,) = open_source(tmp_path / "x.npz", Columns(label="many")).rows()
    assert rows.y.tolist() == np.eye(3).tolist()
    for name, message in (("half", "row 0 has the label 0.5"),):
        with pytest.raises(InvalidInput, match=message):
            list(open_source(tmp_path / "x.npz", Columns(label=name, vector="X")).rows())
    (rows,) = open_source(tmp_path / "x.npz", Columns(label="none", vector="X")).rows()
    assert rows.y.tolist() == [None, 1, 2]


def test_labels_that_are_names():
    names = b'{"vector": [1, 2], "y": %b}\n'
    text = b"".join(names % label for label in (b'"cat"', b"3", b"4.0", b"true", b"null", b'"007"'))
    (rows,) = open_stream(io.BytesIO(text), Columns(label="y"), file_format="jsonl").rows()
    assert rows.y.tolist() == ["cat", "3", "4", "1", None, "007"]
    (rows,) = open_stream(io.BytesIO(names % b'"3"' + names % b"4"), Columns(label="y"), "jsonl").rows()
    assert rows.y.tolist() == [3, 4]
    with pytest.raises(InvalidInput, match=r"row 1 has the label \[0, 1\], but other labels are names"):
        list(open_stream(io.BytesIO(names % b'"cat"' + names % b"[0, 1]"), Columns(label="y"), "jsonl").rows())


def test_bare_lists_and_objects_with_other_fields():
    text = b'[1, 2]\n\n{"vector": [3, 4], "extra": 1}\n'
    (rows,) = open_stream(io.BytesIO(text), file_format="jsonl").rows()
    assert rows.X.tolist() == [[1, 2], [3, 4]]


def test_a_npy_file_has_no_columns(tmp_path):
    path, _ = npy(tmp_path)
    with pytest.raises(InvalidInput, match="leave `vector` out"):
        open_source(path, Columns(vector="a"))
    with pytest.raises(KeyError, match="got 'id'"):
        open_source(path, Columns(key="id"))
