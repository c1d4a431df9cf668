import numpy as np
import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.paper.datasets import (
    PROTOCOLS,
    Protocol,
    cifar10_like,
    dataset_names,
    digits,
    find_protocol,
    labelme_like,
    places205_like,
)


@pytest.mark.parametrize(
    "protocol",
    [
        Protocol("cifar10", 20_000, 1000, 100, 2000, n_test_per_class=100, n_test=None, top=None),
        Protocol("places205", 100_000, 5000, 500, 10_000, n_test_per_class=20, n_test=None, top=1000),
        Protocol("labelme", 20_000, 1000, 100, 2000, n_test_per_class=None, n_test=2000, top=None),
    ],
    ids=lambda protocol: protocol.name,
)
def test_settings_of_the_paper(protocol):
    assert PROTOCOLS[protocol.name] == protocol
    assert protocol.n_stream / protocol.interval == 200  # 201 updates, the initial table counted
    assert protocol.reservoir_size / protocol.n_stream == 0.05


def test_every_named_data_set_has_a_protocol():
    assert all(find_protocol(name) in PROTOCOLS.values() for name in dataset_names())


def test_unknown_name():
    with pytest.raises(UnknownName, match=r"No protocol is known for the data set 'mnist'; known: cifar10, "):
        find_protocol("mnist")


@pytest.mark.parametrize("sizes", [{}, {"n_test": 5, "n_test_per_class": 1}])
def test_one_test_set(sizes):
    with pytest.raises(InvalidInput, match="exactly one"):
        Protocol("mine", 100, 10, 5, 10, **sizes)


def test_digits_split():
    split = find_protocol("digits").split(digits(), seed=1)
    assert np.bincount(split.y_query).tolist() == [20] * 10
    assert (len(split.X_base), len(split.stream)) == (1597, 1597)
    np.testing.assert_allclose(np.linalg.norm(split.X_base, axis=1), 1, rtol=1e-5)


@pytest.mark.parametrize(
    ("source", "n_query"),
    [
        (cifar10_like(n=3000, n_features=8), 1000),
        (places205_like(n=10_000, n_features=8), 4100),
        (labelme_like(n=3000, n_features=8), 2000),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_generated_data_is_split_as_in_the_paper(source, n_query):
    split = find_protocol(source.name).split(source.dataset())
    assert len(split.X_query) == n_query
    assert len(split.stream) == len(source) - n_query  # clipped to what is there
