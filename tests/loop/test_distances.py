"""p(D|+) and p(D|-) on the reservoir, against plain loops; and what an index tells of its versions."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.loop.distances import reservoir_distances


def stream(n=1500, d=8, seed=0, classes=4):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, size=n)
    centres = 3 * np.random.default_rng(99).standard_normal((classes, d))
    return (centres[y] + rng.standard_normal((n, d)) + 5).astype(np.float32), y


def looped(codes, is_neighbor, n_bits):
    """Return p+ and p-, from plain loops: the mean over items of their own shares."""
    distances = mihash.hamming(codes, codes)
    sides = {True: [], False: []}
    for i in range(len(codes)):
        counts = {True: np.zeros(n_bits + 1), False: np.zeros(n_bits + 1)}
        for j in range(len(codes)):
            if i != j:
                counts[bool(is_neighbor[i, j])][distances[i, j]] += 1
        for side, each in counts.items():
            if each.sum():
                sides[side].append(each / each.sum())
    return [np.mean(sides[side], axis=0) if sides[side] else np.zeros(n_bits + 1) for side in (True, False)]


@pytest.mark.parametrize("kind", ["classes", "matrix", "near"])
def test_shares_are_those_of_plain_loops(kind):
    X, classes = stream(60)
    y = {"classes": classes, "matrix": np.eye(4, dtype=np.int64)[classes], "near": None}[kind]
    reservoir = mihash.Reservoir(50)
    reservoir.add(X, y)
    mapping = mihash.mapping.LinearMapping(np.random.default_rng(1).standard_normal((8, 12)))
    found = reservoir_distances(reservoir, mapping)
    near = reservoir.neighborhood.between(reservoir.X, reservoir.y, reservoir.X, reservoir.y)
    codes = mapping.encode(reservoir.X)
    neighbors, others = looped(codes, near, 12)
    np.testing.assert_allclose(found.neighbors, neighbors, atol=1e-12)
    np.testing.assert_allclose(found.others, others, atol=1e-12)
    assert found.information == mihash.quality(codes, near, 12)
    assert (found.n_bits, found.sample) == (12, 50)


def test_without_neighbours_there_are_none():
    reservoir = mihash.Reservoir(10)
    mapping = mihash.mapping.LinearMapping(np.eye(2))
    assert reservoir_distances(reservoir, mapping).sample == 0
    reservoir.add([[1.0, 1.0], [-1.0, 1.0]], [0, 1])
    found = reservoir_distances(reservoir, mapping)
    assert found.neighbors.tolist() == [0, 0, 0]
    assert found.others.tolist() == [0, 1, 0]
    assert found.information == 0


@pytest.mark.parametrize("options", [{}, {"metric": "cosine"}, {"normalize": False}, {"learner": "hcoh"}])
def test_of_an_index(tmp_path, options):
    X, y = stream()
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=24, reservoir_size=1500, **options) as index:
        index.add(X, y)
        index.wait()
        decisions = index.history()
        measured = [each for each in decisions if each["kind"] == "trigger" and each["accepted"]]
        for each in [index.distances(row["number"]) for row in decisions if row["accepted"]]:
            block = index._durable.loop.learner.block_size
            assert each.sample == len(X) // block * block
            assert each.neighbors.sum() == pytest.approx(1)
            assert each.others.sum() == pytest.approx(1)
        first, last = index.distances(0), index.distances(measured[-1]["number"])
        assert last.information > first.information  # it has learned something
        assert last.version == measured[-1]["number"]
        # The whole stream is in the reservoir, so codes from the vectors themselves give the same.
        for version in (0, measured[-1]["number"]):
            found = index.distances(version)
            codes = index._table.mapping_of(version).encode(X[: found.sample])
            assert found.information == pytest.approx(mihash.quality(codes, y[: found.sample], 24), abs=2e-3)
        now = index.distances()
        assert now.version is None
        codes = index.current.encode(X[: now.sample])
        assert now.information == pytest.approx(mihash.quality(codes, y[: now.sample], 24), abs=2e-3)


def test_refusals(tmp_path):
    X, y = stream(300)
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=16) as index:
        with pytest.raises(NotReady):
            index.distances()
        index.add(X[:100], y[:100])
        assert index.distances().sample == 0  # they wait for the features' centre
        index.add(X[100:], y[100:])
        with pytest.raises(UnknownName, match="no version 99"):
            index.distances(99)
        with pytest.raises(InvalidInput):
            index.distances(-1)
    with mihash.OnlineIndex.open(tmp_path / "index", read_only=True) as reader, pytest.raises(NotReady):
        reader.distances()


def test_history_in_parts_and_versions(tmp_path):
    X, y = stream()
    with mihash.OnlineIndex.create(
        tmp_path / "index", n_bits=16, trigger=mihash.TriggerUpdate(0.02, 50, relative=True)
    ) as index:
        assert index.versions() == []
        assert index.seen in (None, 0)
        metadata = [{"row": i} if i % 2 else None for i in range(len(X))]
        index.add(X, y, keys=[f"item {i}" for i in range(len(X))], metadata=metadata)
        index.wait()
        whole = index.history()
        assert [each["number"] for each in whole] == list(range(len(whole)))
        assert index.history(after=3, limit=4) == whole[4:8]
        assert index.history(limit=5) == whole[-5:]
        assert index.history(after=len(whole)) == []
        assert index.history(limit=0) == []
        published = [each for each in whole if each["items"] is not None]
        names = ("number", "kind", "seen", "items", "seconds")
        versions = index.versions()
        assert [[row[name] for name in names] for row in versions] == [
            [row[name] for name in names] for row in published
        ]
        assert versions[-1]["number"] == index.version
        assert len(versions) == index.stats()["updates"]
        assert index.seen == len(X)
        assert index.options.interval == 50
        assert index.metadata(["item 1", "item 2", "nobody", "item 3"]) == [{"row": 1}, None, None, {"row": 3}]
        assert index.metadata([]) == []
        for wrong in ({"after": -2}, {"limit": -1}, {"after": "x"}):
            with pytest.raises(InvalidInput):
                index.history(**wrong)
