import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import mihash
from mihash.errors import InvalidInput
from mihash.sklearn import HashEncoder

X, y = load_digits(return_X_y=True)


@parametrize_with_checks(
    [HashEncoder(), HashEncoder(8, learner="lsh", packed=False), HashEncoder(12, metric="cosine")]
)
def test_scikit_learn_finds_nothing_to_object_to(estimator, check):
    check(estimator)


def neighbours_of_one_class(codes, n_bits):
    relevant = y[:200, None] == y[None, 200:]
    return mihash.mean_average_precision(codes[:200], codes[200:], relevant, n_bits)


def test_codes_put_neighbours_together_better_than_random_ones():
    learned = HashEncoder(32).fit(X[200:], y[200:]).transform(X)
    random = HashEncoder(32, learner="lsh").fit(X[200:]).transform(X)
    assert learned.dtype == np.uint8
    assert learned.shape == (len(X), 4)
    assert neighbours_of_one_class(learned, 32) > neighbours_of_one_class(random, 32) + 0.2


def test_partial_fit_goes_on_where_it_was_and_does_not_mind_the_cuts():
    whole = HashEncoder(16).partial_fit(X, y)
    parts = HashEncoder(16)
    for start in range(0, len(X), 123):
        parts.partial_fit(X[start : start + 123], y[start : start + 123])
    assert parts.mapping_.fingerprint == whole.mapping_.fingerprint
    assert parts.partial_fit(X, y).mapping_.fingerprint != whole.mapping_.fingerprint


def test_fit_forgets_and_repeats():
    encoder = HashEncoder(16).fit(X, y)
    first = encoder.mapping_.fingerprint
    assert encoder.fit(X, y).mapping_.fingerprint == first
    assert clone(encoder).fit(X, y).mapping_.fingerprint == first
    assert HashEncoder(16, random_state=1).fit(X, y).mapping_.fingerprint != first
    assert HashEncoder(16, n_passes=2).fit(X, y).mapping_.fingerprint != first


def test_a_handful_is_learned_from_too():
    few = HashEncoder(16).fit(X[:100], y[:100])
    assert few.mapping_.fingerprint != HashEncoder(16, learner="lsh").fit(X[:100]).mapping_.fingerprint
    assert few._loop.seen >= 1000


def test_in_a_pipeline_under_a_search():
    model = make_pipeline(HashEncoder(packed=False), KNeighborsClassifier(3, metric="hamming"))
    search = GridSearchCV(model, {"hashencoder__n_bits": [4, 32]}, cv=3).fit(X[:900], y[:900])
    assert search.best_params_ == {"hashencoder__n_bits": 32}
    assert search.score(X[900:], y[900:]) > 0.8
    assert model.set_params(hashencoder__n_bits=4).fit(X, y)[0].get_feature_names_out().tolist() == [
        "hashencoder0",
        "hashencoder1",
        "hashencoder2",
        "hashencoder3",
    ]


def test_labels_may_be_names_and_several_at_once():
    names = np.array(["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"])[y]
    assert HashEncoder(16).partial_fit(X, names).transform(X).shape == (len(X), 2)
    assert HashEncoder(16).fit(X, np.eye(10, dtype=int)[y]).transform(X).shape == (len(X), 2)


def test_the_mapping_searches_elsewhere():
    encoder = HashEncoder(32).fit(X, y)
    table = mihash.MemoryTable.from_codes(encoder.transform(X), 32)
    keys, distances = table.search_codes(encoder.mapping_.encode(X[:3]), k=1)
    assert distances.max() == 0
    assert keys.shape == (3, 1)


@pytest.mark.parametrize(
    "wrong", [{"learner": "tree"}, {"n_bits": 0}, {"metric": "l1"}, {"n_passes": 0}, {"n_passes": "a"}]
)
def test_a_wrong_parameter_is_said_at_fit(wrong):
    with pytest.raises((InvalidInput, KeyError)):
        HashEncoder(**wrong).fit(X, y)


@pytest.mark.parametrize("fit", ["fit", "partial_fit"])
@pytest.mark.parametrize("n", [10, len(X) + 10])
def test_a_label_for_each_row_and_no_more(fit, n):
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        getattr(HashEncoder(16), fit)(X, np.resize(y, n))


class NotAvailable:
    """Like the NA of pandas, which has no truth."""

    def __ne__(self, other):
        return self

    def __bool__(self):
        raise TypeError

    __hash__ = object.__hash__


@pytest.mark.parametrize("missing", [np.nan, None, np.datetime64("NaT", "ns"), NotAvailable()])
def test_a_label_that_is_missing_is_refused(missing):
    labels = y.astype(object)
    labels[7] = missing
    with pytest.raises(InvalidInput, match="row 7"):
        HashEncoder(16).partial_fit(X, labels)


def test_nan_is_refused_among_numbers_too():
    with pytest.raises(InvalidInput, match="a label for each row"):
        HashEncoder(16).fit(X, np.where(y == 3, np.nan, y))


def test_names_and_integers_are_not_mixed():
    names = np.array(list("abcdefghij"))[y]
    for first, then, said in ((names, y, "integers after names"), (y, names, "names after integers")):
        encoder = HashEncoder(16).partial_fit(X, first)
        before = encoder.mapping_.fingerprint
        with pytest.raises(InvalidInput, match=said):
            encoder.partial_fit(X, then)
        assert encoder.mapping_.fingerprint == before
        encoder.partial_fit(X, first)
        assert encoder.fit(X, then)._named is (then is names)


def test_fit_forgets_the_names():
    encoder = HashEncoder(16).fit(X, np.array(list("abcdefghij"))[y])
    encoder.fit(X, np.array(list("klmnopqrst"))[y])
    assert sorted(encoder._numbers) == list("klmnopqrst")
