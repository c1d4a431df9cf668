"""A table on three Ray nodes gives the answers of one SQLite table, whatever is stored, changed and removed."""

import numpy as np
import pytest

import mihash
from mihash.errors import DuplicateKey, InvalidInput, UnknownName
from mihash.store.change import Change
from mihash.store.filters import compile_filter
from mihash.store.ray import RayTable
from mihash.store.sqlite.sqlite_table import SQLiteTable
from stored import FIRST, SECOND, D, everything, metadata_of

rng = np.random.default_rng(7)
Q = rng.standard_normal((4, D)).astype(np.float32)


def vectors(n):
    return rng.integers(-2, 3, size=(n, D)).astype(np.float32)  # with many ties


@pytest.fixture
def pair(tmp_path, places):
    ray, one = RayTable.create(tmp_path / "index", 3, nodes=places), SQLiteTable.create(tmp_path / "one")
    yield ray, one
    ray.close()
    one.close()


def same(pair, **options):
    found, wanted = (table.search(Q, **options) for table in pair)
    assert found.version == wanted.version
    assert found.missing == ()
    for mine, theirs in ((found.keys, wanted.keys), (found.distances, wanted.distances)):
        assert [each.tolist() for each in mine] == [each.tolist() for each in theirs]
        assert [each.dtype for each in mine] == [each.dtype for each in theirs]
    return found


def all_same(pair):
    for k in (1, 7, 1000):
        same(pair, k=k)
        same(pair, k=k, rescore=0)
        same(pair, k=k, rescore=0, margins=False)
        same(pair, k=k, where={"a": 1})
        same(pair, k=k, rescore=20)
        same(pair, k=k, rescore=20, where={"a": {"$ne": 2}})
    for radius in (0, 3, 12):
        same(pair, radius=radius)
        same(pair, radius=radius, where={"b": "x"})
    assert len(pair[0]) == len(pair[1])
    assert pair[0].edition.n_dead == pair[1].edition.n_dead


def check_refusals(pair):
    """Have both refuse the same in the same words, and change nothing."""
    X = vectors(4)
    for table in pair:
        table.add(X, keys=["a", "b", "c", -7])
    for kind, attempt in (
        (DuplicateKey, lambda table: table.add(X[:2], keys=["new", -7])),
        (DuplicateKey, lambda table: table.add(X[:2], keys=["new", "new"])),
        (UnknownName, lambda table: table.delete(["a", "nobody"])),
        (UnknownName, lambda table: table.write(Change.update(["a", "nobody"], X[:2]))),
        (UnknownName, lambda table: table.get("nobody")),
        (InvalidInput, lambda table: table.add(np.ones((1, D + 1)))),
        (InvalidInput, lambda table: table.write(Change.update(["a", "a"], X[:2]))),
    ):
        told = []
        for table in pair:
            with pytest.raises(kind) as caught:
                attempt(table)
            told.append(str(caught.value))
        assert told[0] == told[1]
    all_same(pair)


def test_every_answer_is_that_of_one_table(pair):
    both = list(pair)
    same(pair)  # nothing is there
    X, y = vectors(300), np.arange(300) % 3
    systems = [
        mihash.OnlineHashing(mihash.online.MIHash(n_bits=12), mihash.FixedRate(100), table=table) for table in both
    ]
    for system in systems:
        system.feed(X, y)
        system.table.add(X[:200], metadata=metadata_of(200))
        system.feed(X, y)
    assert systems[0].updates == systems[1].updates > 2
    all_same(pair)
    for table in both:
        table.rebuild(FIRST)
    all_same(pair)
    for table in both:
        table.add(X[200:], keys=[f"k{i}" for i in range(50)] + list(range(1000, 1050)))
    all_same(pair)
    gone = [3, "k7", 1001, 77, 3]
    assert [table.delete(gone) for table in both] == [4, 4]
    all_same(pair)
    renewed = [5, "k8", 1002]
    fresh = vectors(3)
    for table in both:
        table.write(Change.update(renewed, fresh))
        table.rebuild(SECOND)
        table.add(vectors(0))
    all_same(pair)
    assert [table.add(fresh)[0] for table in both] == [[1050, 1051, 1052]] * 2  # above the keys that are taken
    all_same(pair)
    known = [5, "k8", 1050, 0]
    assert everything(pair[0], known) == everything(pair[1], known)
    asked = [3, "k7", "k9", 8, 10**6]
    assert pair[0].contains(asked).tolist() == pair[1].contains(asked).tolist()
    assert pair[0].metadata(asked) == pair[1].metadata(asked)
    newer = vectors(6)
    for table in both:
        table.write(Change.upsert(newer, ["k9", "new", 5, 10**7, "k1", 6], metadata=[{"a": 1}] * 6))
        table.write(Change.upsert(newer[:3], ["new", "newest", 7]))
    all_same(pair)
    for table in both:
        table.write(Change.update(["k9", 8, "newest"], metadata=[{"a": 2}, {"a": 1, "b": "x"}, None]))
    all_same(pair)
    everywhere = pair[1].listed()[1]
    assert pair[0].listed()[1] == everywhere
    where = compile_filter({"a": 1})
    assert pair[0].listed(where, 8, 5)[1] == pair[1].listed(where, 8, 5)[1] != []
    for mine, theirs in zip(*(table.get(everywhere[::3]) for table in pair), strict=True):
        assert (mine.key, mine.vector.tolist(), mine.metadata) == (
            theirs.key,
            theirs.vector.tolist(),
            theirs.metadata,
        )
    assert pair[0].delete(where={"b": "x"}) == pair[1].delete(where={"b": "x"}) > 0
    all_same(pair)
    check_refusals(pair)
