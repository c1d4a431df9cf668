import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.io.adapters.frames import add_frame, frame_rows

LIBRARIES = ("pandas", "polars")


@pytest.fixture(params=LIBRARIES)
def library(request):
    return pytest.importorskip(request.param, reason="needs data frames: pip install 'mihash[frames]'")


def columns(n=40):
    X = np.random.default_rng(0).standard_normal((n, 4))
    return X, {
        "name": [f"row {i}" for i in range(n)],
        "embedding": [row.tolist() for row in X],
        "kind": ["even" if i % 2 == 0 else "odd" for i in range(n)],
        "year": [None if i == 3 else 2000 + i for i in range(n)],
    }


def test_a_frame_goes_in_and_hits_come_out_as_a_frame(library, tmp_path):
    X, given = columns()
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        keys = add_frame(index, library.DataFrame(given), "embedding", "name", "kind", ["kind", "year"])
        assert keys == given["name"]
        assert index.get("row 5")[1:] == (pytest.approx(X[5].astype("f4")), "odd", {"kind": "odd", "year": 2005})
        assert index.get("row 3").metadata == {"kind": "odd"}
        hits = index.search(X[:2], k=3, rescore=40)
        frame = getattr(hits, f"to_{library.__name__}")()
        assert isinstance(frame, library.DataFrame)
        assert list(frame.columns) == ["query", "rank", "key", "distance"]
        assert list(frame["query"]) == [0, 0, 0, 1, 1, 1]
        assert list(frame["rank"]) == [0, 1, 2, 0, 1, 2]
        assert list(frame["key"])[::3] == ["row 0", "row 1"]
        one = getattr(index.search(X[0], k=2), f"to_{library.__name__}")()
        assert list(one["query"]) == [0, 0]
        near = getattr(index.search(X[:2], radius=0), f"to_{library.__name__}")()
        assert len(near) == sum(len(each) for each in index.search(X[:2], radius=0).keys)


def test_columns_of_numbers_are_a_vector_and_a_frame_of_numbers_is_a_matrix(library, tmp_path):
    X, _ = columns()
    frame = library.DataFrame({f"x{j}": X[:, j] for j in range(4)})
    assert np.array_equal(frame_rows(frame, ["x0", "x1", "x2", "x3"]).X, X)
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        assert len(index.add(frame)) == 40


def test_bad_columns_are_named(library):
    _, given = columns(2)
    frame = library.DataFrame(given)
    with pytest.raises(InvalidInput, match=r"no column 'vector'; it has: name, embedding, kind, year"):
        frame_rows(frame, "vector")
    with pytest.raises(InvalidInput, match="must hold vectors of one length"):
        frame_rows(library.DataFrame({"v": [[1.0], [1.0, 2.0]]}), "v")


def test_no_hits_are_an_empty_frame(library, tmp_path):
    with mihash.open(tmp_path / "index", n_bits=16) as index:
        hits = index.search(np.zeros((2, 4)), k=3)
        assert len(getattr(hits, f"to_{library.__name__}")()) == 0
