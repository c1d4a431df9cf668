import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mihash.errors import InvalidInput
from mihash.neighbors import nearest_fraction
from mihash.paper.datasets import Dataset, checkpoints, draw_split, normalize

N = 600


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    return Dataset("d", rng.normal(1, 1, size=(N, 8)), np.sort(rng.integers(7, size=N)), np.arange(N) % 6 == 0)


def test_per_class(data):
    split = draw_split(data, n_test_per_class=9, n_stream=100)
    assert np.bincount(split.y_query).tolist() == [9] * 7
    assert len(split.X_base) == len(split.y_base) == N - 63


@pytest.mark.parametrize("way", [{"n_test_per_class": 9}, {"n_test": 63}, {"official": True}])
def test_queries_and_base_divide_the_data(data, way):
    split = draw_split(data, **way)
    assert sorted([*split.query_rows, *split.base_rows]) == list(range(N))
    np.testing.assert_array_equal(split.y_query, data.y[split.query_rows])
    np.testing.assert_array_equal(split.y_base, data.y[split.base_rows])
    X = normalize(data.X)
    np.testing.assert_array_equal(split.X_query, X[split.query_rows])
    np.testing.assert_array_equal(split.X_base, X[split.base_rows])


def test_official_test_set(data):
    assert sorted(draw_split(data, official=True).query_rows) == np.flatnonzero(data.is_test).tolist()


def test_raw_features_on_request(data):
    split = draw_split(data, n_test=10, normalized=False)
    np.testing.assert_array_equal(split.X_base, data.X[split.base_rows])


def test_base_is_in_random_order(data):
    y = draw_split(data, n_test=50).y_base
    assert np.mean(y[1:] != y[:-1]) > 0.7


def test_stream(data):
    split = draw_split(data, n_test=50, n_stream=200)
    assert split.stream.shape == (200,)
    assert len(set(split.stream)) == 200
    assert split.stream.min() >= 0
    assert split.stream.max() < len(split.X_base)
    assert (np.diff(split.stream) < 0).any()
    np.testing.assert_array_equal(split.X_stream, split.X_base[split.stream])
    np.testing.assert_array_equal(split.y_stream, split.y_base[split.stream])


def test_stream_is_clipped_to_what_is_there(data):
    for n_stream in (None, 20_000):
        split = draw_split(data, n_test=50, n_stream=n_stream)
        assert sorted(split.stream) == list(range(N - 50))


def parts(split):
    return split.query_rows.tolist(), split.base_rows.tolist(), split.stream.tolist()


def test_a_trial_is_reproducible_and_trials_differ(data):
    first = parts(draw_split(data, n_test=50, n_stream=100, seed=3, trial=1))
    assert parts(draw_split(data, n_test=50, n_stream=100, seed=3, trial=1)) == first
    for other in ({"seed": 3, "trial": 2}, {"seed": 4, "trial": 1}, {"seed": 1, "trial": 3}):
        drawn = parts(draw_split(data, n_test=50, n_stream=100, **other))
        assert all(a != b for a, b in zip(drawn, first, strict=True))


def test_stream_order_has_its_own_seed(data):
    uniform = draw_split(data, n_test=63, n_stream=100)
    stratified = draw_split(data, n_test_per_class=9, n_stream=40)
    np.testing.assert_array_equal(uniform.stream[:40], stratified.stream)


def test_global_randomness_is_left_alone(data):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    draw_split(data, n_test=50)
    checkpoints(1000)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002


def test_relevant_with_labels(data):
    split = draw_split(data, n_test=50)
    y_query, y_base = split.relevant
    assert y_query is split.y_query
    assert y_base is split.y_base


def test_relevant_without_labels_is_the_nearest_five_percent(data):
    split = draw_split(Dataset("d", data.X), n_test=50, n_stream=100)
    np.testing.assert_array_equal(split.relevant, nearest_fraction(split.X_query, split.X_base, 0.05))
    assert split.relevant is split.relevant
    assert split.relevant.sum(axis=1).tolist() == [28] * 50  # round(0.05 * 550), to even
    assert split.y_stream is None
    assert split.validation(20).relevant.shape == (20, 80)


def test_validation_stays_inside_the_stream(data):
    split = draw_split(data, n_test=50, n_stream=200)
    inner = split.validation(30)
    assert (len(inner.X_query), len(inner.X_base), len(inner.stream)) == (30, 170, 170)
    assert set(inner.query_rows) | set(inner.base_rows) == set(split.base_rows[split.stream])
    np.testing.assert_array_equal(inner.X_stream, split.X_stream[:170])
    np.testing.assert_array_equal(inner.y_query, split.y_stream[170:])
    for n in (0, 200):
        with pytest.raises(InvalidInput, match="`n` must be a whole number of 1 to 199"):
            split.validation(n)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "exactly one of"),
        ({"n_test": 5, "official": True}, "exactly one of"),
        ({"n_test": N}, "`n_test` must be a whole number of 1 to 599"),
        ({"n_test": 5, "n_stream": 0}, "`n_stream` must be a whole number of at least 1"),
        ({"n_test_per_class": 0}, "`n_test_per_class` must be a whole number of at least 1"),
        ({"n_test_per_class": 500}, "class 0 of 'd' has .* examples, and 500 were asked for"),
        ({"n_test": 5, "seed": -1}, "`seed`"),
        ({"n_test": 5, "trial": 1.5}, "`trial`"),
    ],
)
def test_bad_options(data, options, message):
    with pytest.raises(InvalidInput, match=message):
        draw_split(data, **options)


def test_options_that_the_data_cannot_serve(data):
    several = Dataset("several", data.X, np.eye(7, dtype=np.uint8)[data.y])
    with pytest.raises(InvalidInput, match=r"'several' has several labels for each example\. Use `n_test`"):
        draw_split(several, n_test_per_class=5)
    assert draw_split(several, n_test=5).y_query.shape == (5, 7)
    bare = Dataset("bare", data.X)
    with pytest.raises(InvalidInput, match=r"'bare' has no labels\. Use `n_test`"):
        draw_split(bare, n_test_per_class=5)
    with pytest.raises(InvalidInput, match="no official test set"):
        draw_split(bare, official=True)
    with pytest.raises(InvalidInput, match="empty or everything"):
        draw_split(Dataset("all", data.X, is_test=np.ones(N, dtype=bool)), official=True)


@given(st.data(), st.integers(1, 5000), st.integers(0, 5), st.integers(0, 3))
def test_checkpoints_properties(draw, n_examples, seed, trial):
    n = draw.draw(st.integers(1, min(n_examples, 60)))
    places = checkpoints(n_examples, n, seed=seed, trial=trial)
    assert places.dtype == np.int64
    assert places.shape == (n,)
    assert places[-1] == n_examples
    assert n == 1 or places[0] == 1
    assert (np.diff(places) > 0).all()
    if n > 1:
        interval = (n_examples - 1) / (n - 1)
        moved = np.abs(places - np.linspace(1, n_examples, n))
        assert (moved <= interval / 6 + (0.5 if interval >= 1.5 else 1.5) + 1e-9).all()


def test_fifty_checkpoints_of_the_paper():
    places = checkpoints(20_000)
    assert len(places) == 50
    assert (places[0], places[-1]) == (1, 20_000)
    np.testing.assert_array_equal(places, checkpoints(20_000))
    assert (places != checkpoints(20_000, trial=1)).sum() > 40
    assert np.abs(places - np.linspace(1, 20_000, 50)).max() > 30  # they do move


def test_more_checkpoints_than_examples():
    with pytest.raises(InvalidInput, match="`n` must be a whole number of 1 to 10; got 50"):
        checkpoints(10)
