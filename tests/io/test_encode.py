"""Codes for Parquet files: what counts as done."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet

import mihash
from mihash.io.encode import encode_file
from mihash.io.readers import Columns


def test_other_columns_are_encoded_again(tmp_path):
    X = np.random.default_rng(0).standard_normal((20, 4))
    table = pa.table({"a": list(X), "b": list(-X), "id": np.arange(20), "name": [f"n{i}" for i in range(20)]})
    pa.parquet.write_table(table, tmp_path / "in.parquet")
    mapping = mihash.mapping.LinearMapping(np.eye(4))

    def encode(**columns):
        n = encode_file(tmp_path / "in.parquet", tmp_path / "out.parquet", mapping, Columns(**columns))
        codes = mihash.export.read_parquet(tmp_path / "out.parquet")
        return n, codes.keys[0], mihash.unpack(codes.codes, 4)[0].tolist()

    bits = (X[0] > 0).tolist()
    others = [not bit for bit in bits]
    assert encode(vector="a") == (20, 0, bits)
    assert encode(vector="a") == (None, 0, bits)
    assert encode(vector="b") == (20, 0, others)
    assert encode(vector="b", key="name") == (20, "n0", others)
    assert encode(vector="b", key="name") == (None, "n0", others)
