import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mihash import mutual_information, pack
from mihash.errors import InvalidInput
from mihash.paper import correlation
from mihash.paper.correlation import pearson, query_information, random_mapping
from mihash.paper.definition import load_definition
from mihash.paper.runner import pending, run_tasks


@settings(max_examples=60)
@given(st.integers(1, 12), st.integers(1, 40), st.integers(0, 2**32 - 1))
def test_information_of_queries_is_that_of_their_distances(n_bits, n, seed):
    rng = np.random.default_rng(seed)
    queries, base = (rng.integers(0, 2, (rows, n_bits)) for rows in (3, n))
    near = rng.random((3, n)) < rng.random()
    distances = (queries[:, None, :] != base[None, :, :]).sum(axis=2)
    expected = [mutual_information(row, mask, n_bits) for row, mask in zip(distances, near, strict=True)]
    assert query_information(pack(queries), pack(base), near, n_bits) == pytest.approx(expected, abs=1e-12)


def test_information_by_labels_is_that_by_their_matrix():
    rng = np.random.default_rng(0)
    codes, labels = pack(rng.integers(0, 2, (60, 10))), rng.integers(0, 3, 60)
    near = labels[:5, None] == labels[None, :]
    by_labels = query_information(codes[:5], codes, (labels[:5], labels), 10)
    assert np.array_equal(by_labels, query_information(codes[:5], codes, near, 10))
    assert (by_labels > 0).all()
    assert query_information(codes[:5], codes, np.zeros((5, 60), dtype=bool), 10).tolist() == [0.0] * 5


def test_pearson():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 30))
    assert pearson(a, a + b) == pytest.approx(np.corrcoef(a, a + b)[0, 1], abs=1e-12)
    assert pearson(a, -3 * a + 1) == pytest.approx(-1)
    assert np.isnan(pearson(a, np.ones(30)))


def test_mappings_are_gaussian_and_their_own():
    weights = np.stack([random_mapping(400, 32, index).weights for index in range(3)])
    assert abs(weights.mean()) < 0.02
    assert weights.std() == pytest.approx(1, abs=0.02)
    assert abs(pearson(weights[0].ravel(), weights[1].ravel())) < 0.03
    assert random_mapping(4, 8, 1, seed=5) == random_mapping(4, 8, 1, seed=5) != random_mapping(4, 8, 1, seed=6)


def measured(name, folder, seed=0):
    """Return what `mihash reproduce figure3` writes for a data set."""
    figure = load_definition("figure3").on([name])
    run_tasks(pending([figure], folder, "smoke", seed=seed))
    assert pending([figure], folder, "smoke", seed=seed) == []
    return folder / "smoke" / "correlation" / f"{name}.json"


@pytest.mark.parametrize("name", ["cifar10", "labelme"])
def test_the_papers_setup(name, tmp_path):
    result = json.loads(measured(name, tmp_path).read_text())
    assert (result["n_queries"], result["n_mappings"], result["n_bits"]) == (100, 50, 32)
    assert (result["n_items"], result["n_items_left_out"]) == (1697, 0)
    assert {len(result[key]) for key in ("mi", "ap", "dcg", "ndcg")} == {50}
    for key in ("ap", "dcg", "ndcg"):
        assert result["pearson"][key] == pytest.approx(np.corrcoef(result["mi"], result[key])[0, 1])
        assert result["pearson"][key] > 0.85
    assert max(result["ndcg"]) <= 1
    assert f"{name} (digits)" == result["data"]


def test_a_table_is_cut_and_the_bytes_are_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(correlation, "MOST_ITEMS", 500)
    monkeypatch.setattr(correlation, "N_MAPPINGS", 3)
    paths = [measured("labelme", tmp_path / part, seed=4) for part in "ab"]
    assert paths[0].read_bytes() == paths[1].read_bytes()
    result = json.loads(paths[0].read_text())
    assert (result["n_items"], result["n_items_left_out"], result["seed"]) == (500, 1197, 4)


def test_bad_calls():
    with pytest.raises(InvalidInput, match="must be of one length; got 2 and 3"):
        pearson([1, 2], [1, 2, 3])
    with pytest.raises(InvalidInput, match="must not be empty"):
        query_information(pack([[0, 1]]), np.empty((0, 1), dtype=np.uint8), np.empty((1, 0), dtype=bool), 2)
    with pytest.raises(InvalidInput, match="`seed`"):
        random_mapping(3, 2, seed=-1)
