import copy
from contextlib import closing

import numpy as np
import pytest

import mihash
from mihash import state as saved
from mihash.errors import InvalidInput
from mihash.mapping import ForestMapping, LinearMapping, NormalizedMapping, mapping_from_state

rng = np.random.default_rng(0)
STUMP = {
    "feature": [0, 0, 0],
    "threshold": [0.5, 0, 0],
    "left": [1, 1, 2],
    "value": [0, -1, 1],
    "roots": [0],
    "n_trees": [1],
    "n_features": 1,
}


def grow(n_features, n_leaves):
    """Return a random tree: leaves are split one after the other."""
    feature, threshold, left, leaves = [0], [0.0], [0], [0]
    for _ in range(n_leaves - 1):
        node = leaves.pop(rng.integers(len(leaves)))
        child = len(left)
        feature[node], threshold[node], left[node] = rng.integers(n_features), rng.standard_normal(), child
        feature, threshold, left = [*feature, 0, 0], [*threshold, 0.0, 0.0], [*left, child, child + 1]
        leaves += [child, child + 1]
    return feature, threshold, left, rng.standard_normal(len(left))


def grow_forest(n_features, n_trees):
    """Return a random forest, as the arguments of the mapping and as a list of trees."""
    trees = [grow(n_features, rng.integers(1, 12)) for _ in range(sum(n_trees))]
    starts = np.cumsum([0] + [len(tree[2]) for tree in trees[:-1]])
    arguments = {
        "feature": np.concatenate([tree[0] for tree in trees]),
        "threshold": np.concatenate([tree[1] for tree in trees]),
        "left": np.concatenate([np.add(tree[2], start) for tree, start in zip(trees, starts, strict=True)]),
        "value": np.concatenate([tree[3] for tree in trees]),
        "roots": starts,
        "n_trees": n_trees,
        "offset": rng.standard_normal(len(n_trees)),
        "n_features": n_features,
    }
    return arguments, trees


def walk(tree, x):
    """Go down one tree as it is drawn."""
    feature, threshold, left, value = tree
    node = 0
    while left[node] != node:
        node = left[node] + (0 if float(x[feature[node]]) <= threshold[node] else 1)
    return value[node]


@pytest.fixture(scope="module")
def forest():
    arguments, _ = grow_forest(7, [3, 0, 5, 1, 4, 2, 2, 6, 1])
    return ForestMapping(**arguments)


def test_bits_are_signs_of_sums_of_trees():
    n_trees = [3, 0, 5, 1, 4, 2, 2, 6, 1]
    arguments, trees = grow_forest(7, n_trees)
    mapping = ForestMapping(**arguments)
    X = rng.standard_normal((300, 7)).astype(np.float32)
    bits = np.zeros((300, 9), dtype=bool)
    for i, x in enumerate(X):
        first = 0
        for b, n in enumerate(n_trees):
            bits[i, b] = arguments["offset"][b] + sum(walk(tree, x) for tree in trees[first : first + n]) > 0
            first += n
    assert np.array_equal(mihash.unpack(mapping.encode(X), 9), bits)
    assert (mapping.n_bits, mapping.n_features) == (9, 7)
    assert mapping.encode(np.zeros((0, 7))).shape == (0, 2)


@pytest.mark.identity
def test_a_code_depends_on_its_vector_alone(forest):
    X = rng.standard_normal((700, 7)).astype(np.float32)
    whole = forest.project(X)
    for size in (1, 63, 64, 65, 300):
        rows = rng.permutation(700)[:size]
        assert np.array_equal(forest.project(X[rows]), whole[rows])
        assert np.array_equal(forest.project(np.asfortranarray(X[rows])), whole[rows])


@pytest.mark.parametrize("threshold", [0.1, 1 / 3, -1 / 3, 1e-40, -1e-40, 1e300, -1e300, 16777217.0])
def test_thresholds_between_float32_numbers(threshold):
    mapping = ForestMapping(**{**STUMP, "threshold": [threshold, 0, 0]})
    near = np.float32(np.clip(threshold, -1e14, 1e14))
    X = np.array([near, np.nextafter(near, np.float32(np.inf)), np.nextafter(near, np.float32(-np.inf))])[:, None]
    expected = (X.astype(np.float64) > threshold).ravel()
    assert np.array_equal(mihash.unpack(mapping.encode(X), 1).ravel(), expected)


def test_zero_maps_to_bit_0():
    assert ForestMapping(**{**STUMP, "value": [0, 0, 1]}).encode([[0.0], [1.0]]).ravel().tolist() == [0, 1]


def test_sums_are_made_in_float64():
    one = {"feature": [0], "threshold": [0], "left": [0], "value": [-1.0], "roots": [0], "n_trees": [1]}
    above = ForestMapping(**one, offset=[1.0 + 1e-12], n_features=1)
    assert above.encode([[0.0]]).item() == 1


def test_round_trip_and_identity(forest):
    again = mapping_from_state(saved.load(saved.dump(forest.state())))
    assert isinstance(again, ForestMapping)
    assert again == forest
    assert hash(again) == hash(forest)
    assert len(forest.fingerprint) == 32
    X = rng.standard_normal((50, 7))
    assert np.array_equal(again.encode(X), forest.encode(X))
    assert copy.deepcopy(forest) is copy.copy(forest) is forest


def test_what_no_vector_can_see_is_no_difference():
    one = ForestMapping(**STUMP)
    other = ForestMapping(
        **{**STUMP, "threshold": [0.5, 7, 7], "value": [3, -1, 1], "feature": [0, 1, 1], "n_features": 2}
    )
    assert one != other
    assert ForestMapping(**{**STUMP, "threshold": [0.5, 7, 7], "value": [3, -1, 1]}) == one


def test_a_mapping_is_frozen():
    value = np.array([0.0, -1.0, 1.0])
    mapping = ForestMapping(**{**STUMP, "value": value})
    before = mapping.encode([[1.0]])
    value[:] = -7
    assert np.array_equal(mapping.encode([[1.0]]), before)
    with pytest.raises(ValueError, match="read-only"):
        mapping.arrays()["value"][0] = 1


def test_distance(forest):
    assert forest.distance(mapping_from_state(forest.state())) == 0
    assert forest.distance(ForestMapping(**STUMP)) == np.inf
    assert forest.distance(LinearMapping(np.eye(7))) == np.inf
    assert LinearMapping(np.eye(7)).distance(forest) == np.inf


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"left": [1, 1]}, "`left` must have a number for each of the 3 nodes; got 2"),
        ({"left": [0.5, 1, 2]}, "whole numbers"),
        ({"left": [2, 1, 2]}, "tree 0 does not"),
        ({"left": [-1, 1, 2]}, "tree 0 does not"),
        ({"left": [1, 0, 2]}, "tree 0 does not"),
        ({"left": [0, 1, 2]}, "tree 0 does not"),
        ({"feature": [1, 0, 0]}, "`feature` must be from 0 to 0"),
        ({"feature": [1e12, 0, 0]}, "whole numbers"),
        ({"threshold": [np.nan, 0, 0]}, "finite"),
        ({"value": [0, 0, np.inf]}, "finite"),
        ({"roots": [1]}, "`roots` must increase from 0"),
        ({"roots": [0, 0], "n_trees": [2]}, "`roots` must increase from 0"),
        ({"n_trees": [2]}, "divide the 1 trees"),
        ({"n_trees": [2, -1]}, "divide the 1 trees"),
        ({"offset": [0.0, 0.0]}, "each of the 1 bits"),
        ({"n_features": 0}, "`n_features`"),
    ],
)
def test_bad_forests(change, message):
    with pytest.raises(InvalidInput, match=message):
        ForestMapping(**{**STUMP, **change})


def test_encode_refuses_other_widths_and_nan(forest):
    with pytest.raises(InvalidInput, match="7 features"):
        forest.encode(np.zeros((1, 6)))
    with pytest.raises(InvalidInput, match="NaN"):
        forest.encode([[0.0] * 6 + [np.nan]])


def test_under_a_normalization(forest):
    mapping = NormalizedMapping(forest, mean=np.full(7, 0.1), gain=2.0, unit=True)
    X = rng.standard_normal((40, 7)).astype(np.float32)
    assert np.array_equal(mapping.encode(X), forest.encode(mapping.normalize(X)))
    assert mapping_from_state(saved.load(saved.dump(mapping.state()))) == mapping


def test_in_a_hash_table(forest, tmp_path):
    from mihash.store.sqlite.sqlite_table import SQLiteTable

    X = rng.standard_normal((200, 7)).astype(np.float32)
    query = forest.encode(X[:5])
    expected = np.argsort(mihash.hamming(query, forest.encode(X)), axis=1, kind="stable")[:, :10]
    with closing(SQLiteTable.create(tmp_path / "table")) as stored:
        for table, options in ((mihash.MemoryTable(), {}), (stored, {"rescore": 0})):
            table.add(X)
            table.rebuild(forest)
            keys, distances = table.search(X[:5], 10, margins=False, **options)[:2]
            assert np.array_equal(keys, expected)
            assert np.array_equal(distances[:, 0], np.zeros(5))


def test_under_the_trigger(forest):
    X, y = rng.standard_normal((60, 7)), rng.integers(0, 2, 60)
    assert mihash.TriggerUpdate().decide(forest, forest, X, y).reason.startswith("the mapping has not moved")
    other = LinearMapping(rng.standard_normal((7, 9)))
    assert mihash.TriggerUpdate(theta=-np.inf).decide(forest, other, X, y).update
