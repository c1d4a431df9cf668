import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.paper.drift_streams import KINDS, make_stream

DIGITS = mihash.datasets.digits()
PLAIN = mihash.datasets.Dataset("plain", DIGITS.X)


@pytest.mark.parametrize("kind", KINDS)
def test_a_stream_is_a_function_of_its_seed(kind):
    first, again, other = (make_stream(DIGITS, kind, 1200, seed) for seed in (0, 0, 1))
    assert first.X.shape == (1200, 64)
    assert first.X.dtype == np.float32
    assert np.isfinite(first.X).all()
    assert np.array_equal(first.X, again.X)
    assert np.array_equal(first.y, again.y)
    assert not np.array_equal(first.X, other.X)
    assert all(0 < change < 1200 for change in first.changes)
    assert set(first.returns) <= set(first.changes)
    assert np.abs(first.X[:256].mean(axis=0)).max() < 0.2


def test_classes_come_in_five_phases():
    stream = make_stream(DIGITS, "classes", 1000, seed=0)
    assert stream.changes == (200, 400, 600, 800)
    seen = set(stream.y[:200].tolist())
    assert len(seen) == 2
    for begin in stream.changes:
        phase = stream.y[begin : begin + 200]
        new = set(phase.tolist()) - seen
        assert len(new) == 2
        assert 0.1 < np.isin(phase, list(seen)).mean() < 0.35
        seen |= new


def test_rows_of_all_classes_are_held_out():
    generator = np.random.default_rng(0)
    labels = generator.integers(0, 10, 4000)
    many = mihash.datasets.Dataset("many", generator.standard_normal((4000, 8)), labels)
    stream = make_stream(many, "classes", 1000, seed=0)
    X, labels = stream.held_out
    assert (np.bincount(labels) == 100).all()
    assert not {row.tobytes() for row in stream.X} & {row.tobytes() for row in X}
    assert make_stream(DIGITS, "classes", 4000, seed=0).held_out is None  # the stream takes all rows
    assert make_stream(DIGITS, "none", 500, seed=0).held_out is None


def test_priors_are_swapped():
    stream = make_stream(DIGITS, "prior", 1200, seed=0)
    common = {label for label in range(10) if (stream.y[:600] == label).mean() > 0.06}
    assert len(common) == 5
    assert np.isin(stream.y[:600], list(common)).mean() > 0.85
    assert np.isin(stream.y[600:], list(common)).mean() < 0.15


@pytest.mark.parametrize(("kind", "angles"), [("rotate", True), ("partial", True), ("gradual", False)])
def test_a_rotation_keeps_distances(kind, angles):
    still, moved = make_stream(DIGITS, "none", 1000, seed=0), make_stream(DIGITS, kind, 1000, seed=0)
    assert np.array_equal(still.X[:250], moved.X[:250])
    last = slice(900, 1000) if angles else slice(800, 900)
    before, after = (np.linalg.norm(each.X[last][:, None] - each.X[last], axis=2) for each in (still, moved))
    assert before == pytest.approx(after, abs=1e-3)
    assert np.abs(still.X[last] - moved.X[last]).mean() > 0.02


def test_returns_are_known():
    stream = make_stream(DIGITS, "recur", 1200, seed=0)
    assert (stream.changes, stream.returns) == ((300, 600, 900), (600, 900))
    assert np.array_equal(stream.X[600:900], make_stream(DIGITS, "none", 1200, seed=0).X[600:900])


def test_what_cannot_be_made_is_refused():
    with pytest.raises(InvalidInput, match="needs labels"):
        make_stream(PLAIN, "classes", 500, seed=0)
    with pytest.raises(InvalidInput, match="`kind` must be one of none"):
        make_stream(DIGITS, "sideways", 500, seed=0)
    with pytest.raises(InvalidInput, match="square images"):
        make_stream(mihash.datasets.Dataset("wide", np.eye(6)), "turn", 500, seed=0)
    assert make_stream(PLAIN, "rotate", 500, seed=0).y is None
