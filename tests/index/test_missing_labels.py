"""Labels of which some are missing: the rows are stored and found, and nothing is learned from them."""

import itertools

import numpy as np
import pytest

import mihash
from mihash import validation
from mihash.errors import InvalidInput
from mihash.online import MIHash, MomentHash
from mihash.trigger import TriggerUpdate

RNG = np.random.default_rng(0)
Y = RNG.integers(0, 3, size=700)
X = (RNG.standard_normal((3, 8))[Y] + 0.5 * RNG.standard_normal((700, 8))).astype(np.float32)
GONE = RNG.random(700) < 0.4
GONE[0] = False
NAMES = np.array(["cat", "dog", "eel"])[Y]
FLAGS = np.eye(3, dtype=int)[Y]


def options():
    return {"n_bits": 16, "learner": MIHash(16), "trigger": TriggerUpdate(0.0, 100), "reservoir_size": 100}


KINDS = {
    "None among numbers": [None if gone else int(label) for label, gone in zip(Y, GONE, strict=True)],
    "None among names": [None if gone else str(name) for name, gone in zip(NAMES, GONE, strict=True)],
    "NaN": np.where(GONE, np.nan, Y),
    "NaN among names": [np.nan if gone else str(name) for name, gone in zip(NAMES, GONE, strict=True)],
    "objects": np.array([None if gone else int(label) for label, gone in zip(Y, GONE, strict=True)], dtype=object),
    "masked": np.ma.array(Y, mask=GONE),
    "masked column": np.ma.array(Y[:, None], mask=GONE[:, None]),
    "None among rows": [None if gone else row.tolist() for row, gone in zip(FLAGS, GONE, strict=True)],
    "rows of NaN": np.where(GONE[:, None], np.nan, FLAGS),
    "lists of NaN": np.where(GONE[:, None], np.nan, FLAGS).tolist(),
    "masked rows": np.ma.array(FLAGS, mask=np.repeat(GONE[:, None], 3, axis=1)),
}


def part(y, rows):
    return y[rows] if isinstance(y, np.ndarray) else list(y[rows])


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_missing_label_may_be(tmp_path, kind):
    """Whatever stands for it: it comes back as None, and the mapping is that of the rows with a label."""
    y = KINDS[kind]
    with mihash.open(tmp_path / "a", **options()) as index, mihash.open(tmp_path / "b", **options()) as other:
        index.add(X, y)
        known = NAMES if "names" in kind else FLAGS if "row" in kind or "lists" in kind else Y
        other.add(X[~GONE], known[~GONE])
        assert index.current.fingerprint == other.current.fingerprint
        assert (index.seen, len(index)) == (np.count_nonzero(~GONE), 700)
        found = index.get(list(range(700)))
        assert [item.label is None for item in found] == GONE.tolist()
        assert all(np.array_equal(item.label, known[item.key]) for item in found if item.label is not None)
        assert (
            index.search(X[GONE][:20], k=1, rescore=50).keys.ravel().tolist() == np.flatnonzero(GONE)[:20].tolist()
        )
        index.verify()


@pytest.mark.parametrize("replay", [0, 5])
@pytest.mark.parametrize("kind", ["None among names", "rows of NaN"])
def test_chunks_and_reopening_do_not_matter(tmp_path, kind, replay):
    y, cuts = KINDS[kind], [0, 3, 150, 151, 420, 700]
    given = options() | ({"learner": MomentHash(16, replay=replay)} if replay else {})
    with mihash.open(tmp_path / "a", **given) as index:
        index.add(X, y)
        index.wait()
        expected = index.current.fingerprint, index.snapshot.fingerprint
    with mihash.open(tmp_path / "c", **given) as index:
        index.add(X[~GONE], (FLAGS if "rows" in kind else NAMES)[~GONE])
        assert index.current.fingerprint == expected[0]
    for start, stop in itertools.pairwise(cuts):
        with mihash.open(tmp_path / "b", **given) as index:
            index.add(X[start:stop], part(y, slice(start, stop)), at_once=50)
    with mihash.open(tmp_path / "b") as index:
        index.catch_up()
        index.wait()
        assert (index.current.fingerprint, index.snapshot.fingerprint) == expected
        assert [index.get(i).label is None for i in range(700)] == GONE.tolist()


def test_all_labels_of_a_call_may_be_missing_but_of_the_first(tmp_path):
    with mihash.open(tmp_path / "a", **options()) as index:
        with pytest.raises(InvalidInput, match="at least one of the first rows"):
            index.add(X[:2], [None, None])
        assert len(index) == 0
        index.add(X[:2], [[0, 1], None])
        index.add(X[2:4], [None, None])
        index.add(X[4:6])
        index.upsert(X[6], 6, None)
        index.update(0, X[7], [None])
        assert [item.label is None for item in index.get(list(range(7)))] == [True] * 7
        assert index.seen == 1
    with mihash.open(tmp_path / "b", **options()) as index:
        index.add(X[:2])
        index.add(X[2:4], [None, np.nan])  # nothing that an index without labels could not store
        with pytest.raises(InvalidInput, match="began without labels"):
            index.add(X[4:6], [None, 1])


@pytest.mark.parametrize(
    ("y", "message"),
    [
        ([1, None, 3], "one label for each of the 2 rows; got 3"),
        (np.array([[0, np.nan], [1, 0]]), "row 0 is partly missing"),
        ([validation.MISSING, 1], "is reserved for missing labels"),
        (["cat", 3], "all strings or all integers"),
        ([None, 0.5], "must be integers"),
    ],
)
def test_what_it_may_not_be(tmp_path, y, message):
    with mihash.open(tmp_path / "a", **options()) as index:
        with pytest.raises(InvalidInput, match=message):
            index.add(X[:2], y)
        assert len(index) == 0


def test_a_migration_keeps_them(tmp_path):
    with mihash.open(tmp_path / "a", **options()) as index:
        index.add(X[:20], KINDS["None among names"][:20])
        migration = index.migrate()
        migration.add(X[:20, :5], list(range(20)))
        migration.cut_over()
        assert [item.label is None for item in index.get(list(range(20)))] == GONE[:20].tolist()


def test_a_loop_in_memory(tmp_path):
    def fed(y, rows=slice(None)):
        system = mihash.OnlineHashing(MIHash(16), TriggerUpdate(0.0, 100), reservoir_size=100)
        for cut in np.array_split(np.arange(700)[rows], 7):
            system.feed(X[cut], part(np.asarray(y, dtype=object), cut))
        return system

    system = fed(KINDS["None among names"])
    assert system.current == fed(NAMES, ~GONE).current
    assert system.seen == np.count_nonzero(~GONE)
    system.save(tmp_path / "saved")
    again = mihash.OnlineHashing.load(tmp_path / "saved")
    for each in (system, again):
        each.feed(X[:9], [None] * 9)
        each.feed(X[:9], ["cat"] * 9)
    assert system.current == again.current
