"""What must be true of every batch method: a new one in ``mihash.batch.__all__`` cannot escape."""

import inspect
import subprocess
import sys

import numpy as np
import pytest
import threadpoolctl

import mihash
from checks import clusters
from mihash import batch, state
from mihash.batch import BatchMethod, lacking, method_class, method_names
from mihash.errors import InvalidInput, UnknownName
from mihash.mapping import LinearMapping, mapping_from_state
from mihash.online.online_learner import hyperplanes

QUICK = {
    "MIHash": {"epochs": 20},
    "SHK": {"n_anchors": 100},
    "SDH": {"n_anchors": 100},
    "FastHash": {"iterations": 5, "n_starts": 2},
    "DPSH": {"epochs": 4},
    "DTSH": {"epochs": 4},
    "VDSH": {"n_layers": 2, "n_nodes": 32, "epochs": 4},
}
DEEP = ("DPSH", "DTSH", "VDSH")


def is_method(value):
    return inspect.isclass(value) and issubclass(value, BatchMethod) and value is not BatchMethod


def of(name, *values):
    """Return parameters of a test that skips the method where torch is not installed."""
    return pytest.param(name, *values, marks=[pytest.mark.needs("torch")] if name in DEEP else [])


NAMES = [name for name in batch.__all__ if name in DEEP or is_method(getattr(batch, name))]
VARIANTS = {
    **{name: (name, {}) for name in NAMES},
    "MIHash, kernel map": ("MIHash", {"kernel": "rbf", "n_anchors": 100}),
    "MIHash, the paper's": ("MIHash", {"unit_length": False, "whiten": None, "n_bins": None, "scale": 20.0}),
    "SHK, linear": ("SHK", {"kernel": "linear"}),
    "SDH, linear": ("SDH", {"kernel": "linear"}),
}
X, Y = clusters(n=300)


@pytest.fixture(params=[of(name) for name in VARIANTS], name="make")
def make_of(request):
    name, options = VARIANTS[request.param]
    method = getattr(batch, name)

    def make(n_bits=8, **more):
        return method(n_bits, **{**QUICK.get(name, {}), **options, **more})

    make.name, make.options, make.needs_labels = name, options, method.needs_labels
    return make


def precision(mapping, X, y, n_base):
    codes = mapping.encode(X)
    return mihash.mean_average_precision(codes[n_base:], codes[:n_base], (y[n_base:], y[:n_base]), mapping.n_bits)


def test_the_methods_are_there():
    assert set(NAMES) == {"MIHash", "SHK", "SDH", "ITQ", "FastHash", *DEEP}
    assert {name.lower() for name in NAMES} == set(method_names())
    with pytest.raises(UnknownName, match="'best'; known: dpsh"):
        method_class("best")
    with pytest.raises(AttributeError, match=r"'mihash\.batch' has no attribute 'Best'"):
        _ = batch.Best


@pytest.mark.parametrize("name", [of(name) for name in NAMES])
def test_a_method_has_its_name_and_the_one_signature_of_fit(name):
    method = getattr(batch, name)
    assert is_method(method)
    assert method_class(method.name) is method_class(name.lower()) is method
    assert inspect.signature(method.fit) == inspect.signature(BatchMethod.fit)


@pytest.mark.needs("torch")
def test_torch_is_imported_when_it_is_asked_for():
    code = "import sys, mihash.batch as b; print('torch' in sys.modules, b.VDSH.__name__, 'torch' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found.split() == ["False", "VDSH", "True"]


def test_without_torch_it_is_said_what_to_install(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: "found")
    assert {name for name in method_names() if lacking(name)} == set()
    monkeypatch.setattr("importlib.util.find_spec", lambda *_: None)
    assert {name for name in method_names() if lacking(name)} == {"vdsh", "dpsh", "dtsh"}
    assert lacking("vdsh") == "PyTorch (pip install 'mihash[deep]')"


def test_input_is_untouched(make):
    vectors, labels = X.copy(), Y.copy()
    vectors.setflags(write=False)
    labels.setflags(write=False)
    make().fit(vectors, labels)
    assert np.array_equal(vectors, X)
    assert np.array_equal(labels, Y)


def test_same_seed_same_mapping(make):
    method = make()
    first = method.fit(X, Y)
    assert first.fingerprint == method.fit(X, Y).fingerprint == make().fit(X, Y).fingerprint
    if make.options.get("kernel") != "linear":  # where nothing is drawn
        assert make(seed=1).fit(X, Y) != first


def test_the_number_of_threads_does_not_matter(make):
    if make.name in DEEP:
        pytest.skip("torch has threads of its own")
    wide, labels = clusters(n=200, d=130)
    found = []
    for n_threads in (1, 2):
        with threadpoolctl.threadpool_limits(n_threads, user_api="blas"):
            found.append(make(4).fit(wide, labels))
    assert found[0] == found[1]


def test_the_mapping_can_be_saved(make):
    mapping = make().fit(X, Y)
    again = mapping_from_state(state.load(state.dump(mapping.state())))
    assert again == mapping
    assert np.array_equal(again.encode(X), mapping.encode(X))


def test_it_beats_random_hyperplanes(make):
    features, labels = clusters(n=1500, d=32, n_classes=6, spread=1.5)
    features = features - features.mean(axis=0)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    learned = precision(make(16).fit(features[:1200], labels[:1200]), features, labels, 1200)
    margin = 0.1 if make.needs_labels or make.name == "MIHash" else 0.0
    assert learned > precision(LinearMapping(hyperplanes(32, 16, seed=0)), features, labels, 1200) + margin


def test_codes_of_any_length(make):
    for n_bits in (1, 2, 12) if make.name in ("ITQ", "FastHash") else (1, 2, 40):
        mapping = make(n_bits).fit(X, Y)
        assert (mapping.n_bits, mapping.n_features) == (n_bits, 12)
        assert mapping.encode(X).shape == (300, -(-n_bits // 8))


def test_a_label_is_a_name(make):
    assert make().fit(X, Y * 1000 - 3) == make().fit(X, Y)


def test_several_labels(make):
    several = np.eye(5, dtype=int)[Y]
    several[::3, 0] = 1
    several[7] = 0
    mapping = make().fit(X, several)
    assert mapping == make().fit(X, several)
    assert (mapping != make().fit(X, np.roll(several, 1, axis=0))) == (make.name != "ITQ")


def test_odd_features_are_no_error(make):
    same = np.ones((300, 8), dtype=np.float32)
    for features in (X + 100, X * 1000, X * 1e-6, same, np.repeat(X[:30], 10, axis=0), np.c_[X, same]):
        mapping = make().fit(features, Y)
        assert np.isfinite(mapping.project(features.astype(np.float32))).all()


def test_scale_and_origin_hardly_matter(make):
    if make.name == "FastHash":
        pytest.skip("trees look at one feature at a time")
    steps = {"epochs": 2} if make.name == "MIHash" else {}  # more of them carry the rounding on
    codes = [mihash.unpack(make(**steps).fit(features, Y).encode(features), 8) for features in (X, X * 32, X + 2)]
    for others in codes[1:]:
        same = (codes[0] == others).mean(axis=0)
        assert np.maximum(same, 1 - same).mean() > 0.97  # an eigenvector has either sign: a bit or its complement


def test_progress_is_told(make):
    calls = []
    make().fit(X, Y, progress=lambda *call: calls.append(call))
    assert [done for done, _ in calls] == list(range(1, len(calls) + 1))
    assert len({total for _, total in calls}) == 1
    assert calls[-1][0] <= calls[-1][1]


def test_parameters_make_the_method_again(make):
    method = make()
    again = type(method)(**method.parameters())
    assert repr(again) == repr(method)
    assert "n_bits=8" in repr(method)
    assert again.fit(X, Y) == method.fit(X, Y)
    assert len(method.history) > 0
    assert again.history == method.history


def test_bad_features(make):
    hole = X.copy()
    hole[3, 4] = np.nan
    for features, message in (
        (hole, "row 3 has a NaN"),
        (X[0], "two dimensions"),
        (X[:0], "must not be empty"),
        ([["a"]], "matrix of numbers"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make().fit(features, Y)


def test_too_few_examples(make):
    with pytest.raises(InvalidInput, match="at least 2"):
        make().fit(X[:1], Y[:1])


def test_bad_labels(make):
    bad = [
        (Y[:-1], "one label for each of the 300 rows"),
        (np.zeros((300, 2, 2)), "got shape"),
        (Y + 0.5, "must be integers"),
        (np.full((300, 2), 3), "0 or 1"),
        (np.full(300, 7), "at least 2 classes"),
    ]
    for labels, message in bad:
        if make.name == "ITQ":  # it does not look at them
            assert make().fit(X, labels) == make().fit(X)
        else:
            with pytest.raises(InvalidInput, match=message):
                make().fit(X, labels)


def test_labels_without_neighbors(make):
    if make.name == "ITQ":
        pytest.skip("it does not look at them")
    everything = np.zeros((300, 2), dtype=int)
    everything[:, 0] = 1
    everything[5, 1] = 1
    for labels, message in (
        (np.arange(300), "at least 2 examples of some class"),
        (np.zeros((300, 3)), "at least 2 examples of some class"),
        (everything, "at least 2 classes"),
    ):
        with pytest.raises(InvalidInput, match=message):
            make().fit(X, labels)


def test_no_labels(make):
    if make.needs_labels:
        with pytest.raises(InvalidInput, match="give `y`"):
            make().fit(X)
    else:
        assert make().fit(X).encode(X).shape == (300, 1)


def test_the_trigger_takes_the_mapping(make):
    learned, start = make(16 if make.name != "ITQ" else 8).fit(X, Y), LinearMapping(hyperplanes(12, 16, seed=0))
    if make.name == "ITQ":
        start = LinearMapping(hyperplanes(12, 8, seed=0))
    assert mihash.TriggerUpdate(theta=0.0).decide(learned, start, X, Y).update


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        *(of(name, {"n_bits": 0}, "`n_bits`") for name in NAMES),
        *(of(name, {"seed": -1}, "`seed`") for name in NAMES),
        *((name, {"kernel": "cubic"}, "`kernel`") for name in ("MIHash", "SHK", "SDH")),
        *((name, {"n_anchors": 0}, "`n_anchors`") for name in ("MIHash", "SHK", "SDH")),
        *((name, {"width": 0.0}, "`width`") for name in ("MIHash", "SHK", "SDH")),
    ],
)
def test_bad_parameters(name, change, message):
    with pytest.raises(InvalidInput, match=message):
        getattr(batch, name)(**change)
