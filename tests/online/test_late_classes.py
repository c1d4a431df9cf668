"""Classes that come after the first ones: their hyperplanes keep their share while their columns grow and fade."""

import numpy as np
import pytest

import mihash
from mihash.online.planes import Planes


def clusters(seed, y, n_features=64, spread=2.0):
    rng = np.random.default_rng(seed)
    centres = rng.standard_normal((10, n_features))
    return (centres[y] + spread * rng.standard_normal((len(y), n_features))).astype(np.float32)


def retrieval(learner, X, y, labels, Q, asked):
    system = mihash.OnlineHashing(learner, mihash.FixedRate(1000))
    system.feed(X, labels)
    codes = system.current.encode(X), system.current.encode(Q)
    return mihash.mean_average_precision(codes[1], codes[0], (asked, y), learner.n_bits)


def test_rows_of_later_classes_are_divided_by_the_growth_of_their_columns():
    rng = np.random.default_rng(0)
    M, more = rng.standard_normal((3, 5)).astype("f4"), rng.standard_normal((2, 5)).astype("f4")
    planes = Planes.at(M, np.zeros(5, dtype="f4"), 6)
    planes = planes.with_classes(4, np.array([1, 3]), more, np.array([0.5, 2.0]))
    assert (planes.m == np.stack([M[0], more[0], M[2], more[1]])).all()
    planes = planes._replace(momentum_m=2 * planes.m, mean_m=3 * planes.m)
    for old, new in (([1, 0.5, 1, 2], [9, 3.0, 9, 1e-9]), ([9, 3.0, 9, 1e-9], [1, 0.1, 1, 8, 7])):
        found = planes.with_columns(np.array(old), np.array(new))
        for row in range(4):
            top = float(planes.tops[row])
            growth = max(new[row], max(top, new[row]) / 1000) / max(old[row], top / 1000) if top else 1.0
            assert found.tops[row] == pytest.approx(max(top, new[row]) if top else 0)
            for part, times in (("m", 1), ("momentum_m", 2), ("mean_m", 3)):
                expected = getattr(planes, part)[row] / growth
                assert np.allclose(getattr(found, part)[row], expected, rtol=1e-5), (row, part, times)
        planes = found


def test_a_state_of_an_earlier_version_has_only_first_classes():
    planes = Planes.at(np.ones((3, 4), dtype="f4"), np.zeros(4, dtype="f4"), 6)
    state = planes._asdict()
    del state["tops"]
    assert Planes.restored(state).tops.tolist() == [0, 0, 0]


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("as_matrix", [False, True])
def test_classes_that_come_one_after_the_other_are_not_forgotten(seed, as_matrix):
    """Before, the newest classes decided all bits: the mAP of these streams was .51 to .62, and is .73 to .78."""
    y, asked = np.repeat(np.arange(10), 400), np.tile(np.arange(10), 20)
    both = clusters(seed, np.concatenate([y, asked]))
    X, Q = both[: len(y)], both[len(y) :]
    labels = np.eye(10, dtype=np.int64)[y] if as_matrix else y
    assert retrieval(mihash.online.MomentHash(32, seed=seed), X, y, labels, Q, asked) > 0.67


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_later_class_may_stay_away_for_long_and_come_back(seed):
    """Its column fades to nothing, and its hyperplanes must not grow without end meanwhile."""
    rng = np.random.default_rng(seed)
    y = np.concatenate([rng.integers(0, 3, 2000), rng.integers(0, 4, 2000), rng.integers(0, 3, 12_000)])
    y = np.concatenate([y, rng.integers(0, 4, 1000)])
    asked = np.tile(np.arange(4), 50)
    both = clusters(seed, np.concatenate([y, asked]), 16, 0.5)
    X, Q = both[: len(y)], both[len(y) :]
    learner = mihash.online.MomentHash(32, seed=seed, memory=500)
    assert retrieval(learner, X[:-1000], y[:-1000], y[:-1000], Q[asked < 3], asked[asked < 3]) > 0.9
    learner = mihash.online.MomentHash(32, seed=seed, memory=500)
    assert retrieval(learner, X, y, y, Q, asked) > 0.85
