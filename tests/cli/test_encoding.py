"""`mihash encode` on one machine: codes of files under the mapping of an index."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from mihash import OnlineIndex
from mihash.io.export import read_parquet


def test_a_folder_is_encoded_with_the_mapping_of_an_index(mihash, index, data, tmp_path):
    X, _ = data
    (tmp_path / "in").mkdir()
    for name, part in (("one.parquet", X[:20]), ("two.parquet", X[20:50])):
        keys = [f"{name} {i}" for i in range(len(part))]
        pa.parquet.write_table(pa.table({"id": keys, "v": part.tolist()}), tmp_path / "in" / name)
    run = mihash("encode", index, tmp_path / "in", tmp_path / "out")
    assert (run.code, run.out) == (0, "Encoded 50 rows of 2 files.\n")
    assert run.err.splitlines() == ["Encoded one.parquet", "Encoded two.parquet"]
    with OnlineIndex.open(index, read_only=True) as opened:
        mapping = opened.snapshot
    found = read_parquet(tmp_path / "out" / "two.parquet")
    assert np.array_equal(found.codes, mapping.encode(X[20:50]))
    assert found.keys[0] == "two.parquet 0"
    run = mihash("encode", index, tmp_path / "in", tmp_path / "out")
    assert run.out == "Encoded 0 rows of 0 files; 2 files were there already.\n"
    (tmp_path / "in" / "one.parquet").unlink()
    run = mihash("encode", index, tmp_path / "in", tmp_path / "out")
    assert (run.out, run.err) == ("Encoded 0 rows of 0 files; 1 file was there already.\n", "")


def test_what_cannot_be_encoded_is_named(mihash, index, tmp_path):
    run = mihash("encode", index, tmp_path / "nothing", tmp_path / "out")
    assert run.code == 2
    assert run.err == f"mihash: {tmp_path / 'nothing'} does not exist.\n"
    (tmp_path / "in").mkdir()
    assert "no Parquet files" in mihash("encode", index, tmp_path / "in", tmp_path / "out").err
    pa.parquet.write_table(pa.table({"v": [[1.0, 2.0]]}), tmp_path / "in" / "a.parquet")
    run = mihash("encode", index, tmp_path / "in", tmp_path / "out")
    assert run.code == 1
    assert "Encoded" not in run.err
    assert "1 of 1 files could not be encoded" in run.err
    assert "vectors of 2 numbers; the mapping takes 6" in run.err
    run = mihash("encode", index, tmp_path / "in" / "a.parquet", tmp_path / "out")
    assert (run.code, run.err) == (2, f"mihash: {tmp_path / 'in' / 'a.parquet'} is not a folder.\n")
    assert mihash("encode", index, tmp_path, tmp_path, "--node", "a").code == 2
    assert mihash("encode", tmp_path, tmp_path, tmp_path).code == 2
