"""Small archives that expand: read in bounded pieces, or refused before anything is unpacked."""

import tracemalloc
import zipfile

import numpy as np
import pytest

from mihash.errors import InvalidInput
from mihash.io.readers import Columns, open_source

MB = 1_000_000


def peak_of(source):
    """Read a source through; return its rows and how many bytes that took at most."""
    tracemalloc.start()
    try:
        n = sum(len(rows.X) for rows in source.rows())
        return n, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("role", ["key", "metadata"])
def test_long_texts_are_read_in_pieces(tmp_path, role, monkeypatch):
    monkeypatch.setattr("mihash.io.readers.numpy_files._CHUNK_BYTES", 4 * MB)
    texts = np.array([f"{i}" for i in range(999)] + ["x" * 10_000])  # each takes 40 kB
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((1000, 4), np.float32), text=texts)
    columns = Columns(key="text") if role == "key" else Columns(metadata=("text",))
    n, peak = peak_of(open_source(tmp_path / "x.npz", columns))
    assert n == 1000
    assert peak < 16 * MB < texts.nbytes
    (first, *_) = open_source(tmp_path / "x.npz", columns).rows(990)
    assert (first.keys or [row["text"] for row in first.metadata])[8:] == ["998", "x" * 10_000]


def test_fortran_order_is_limited(tmp_path):
    X = np.asfortranarray(np.arange(5 * MB, dtype=np.float32).reshape(-1, 10))
    np.savez_compressed(tmp_path / "x.npz", X=X)
    n, peak = peak_of(open_source(tmp_path / "x.npz", held_bytes=20 * MB))
    assert n == len(X)
    assert peak < 1.5 * X.nbytes  # it is held once, not twice
    source = open_source(tmp_path / "x.npz", held_bytes=20 * MB - 1)
    told = r"x\.npz: .* in Fortran order, the array 'X' takes 20 MB at once, and the limit .*\. Save it in C order"
    with pytest.raises(InvalidInput, match=told):
        next(source.rows())
    np.save(tmp_path / "x.npy", X)
    assert sum(len(rows.X) for rows in open_source(tmp_path / "x.npy", held_bytes=MB).rows()) == len(X)


def test_a_fortran_array_that_is_cut_short(tmp_path):
    np.save(tmp_path / "x.npy", np.asfortranarray(np.ones((3000, 4))))
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("X.npy", (tmp_path / "x.npy").read_bytes()[:-8])
    with pytest.raises(InvalidInput, match="cut short"):
        next(open_source(tmp_path / "x.npz").rows())


def test_rows_are_limited(tmp_path):
    np.savez_compressed(tmp_path / "x.npz", X=np.zeros((2, 3 * MB), np.float64))
    assert (tmp_path / "x.npz").stat().st_size < MB / 10
    source = open_source(tmp_path / "x.npz", held_bytes=20 * MB)
    told = r"x\.npz: one row of the array 'X' takes 24 MB at once, and the limit is 20 MB\. .* \(`held_bytes`\)"
    with pytest.raises(InvalidInput, match=told):
        peak_of(source)
    with pytest.raises(InvalidInput, match="`held_bytes` must be a whole number of at least 1; got 0"):
        open_source(tmp_path / "x.npz", held_bytes=0)
