"""Every check on every registered learner: a new one cannot escape them."""

import inspect

import pytest

import checks
from mihash.errors import InvalidInput, NotReady, UnknownName
from mihash.online import LEARNERS, learner_class

EXEMPT = {
    ("lsh", "learning_changes_the_state"): "it never learns",
    ("lsh", "beats_random_hyperplanes"): "it is random hyperplanes",
    ("lsh", "no_labels"): "it never learns",
    ("randomrotation", "learning_changes_the_state"): "it never learns",
    ("randomrotation", "beats_random_hyperplanes"): "it never learns",
    ("randomrotation", "no_labels"): "it never learns",
    ("momenthash, replay", "memory_is_bounded"): "outside of an index it keeps all examples",
    ("momenthash, rank", "memory_is_bounded"): "up to 500 rows wait; tests of the moments check that",
}
CHECKS = {
    name: check
    for name, check in inspect.getmembers(checks, inspect.isfunction)
    if next(iter(inspect.signature(check).parameters), "") == "make" and name not in ("system", "fed")
}


VARIANTS = {
    **{name: (name, {}) for name in LEARNERS},
    "mihash, the paper's": ("mihash", {"whiten": None}),
    "momenthash, rbf": ("momenthash", {"features": "rbf", "n_anchors": 130}),
    "momenthash, replay": ("momenthash", {"replay": 2}),
    "momenthash, rank": ("momenthash", {"rank": 6}),
    "osh, hinge": ("osh", {"loss": "hinge"}),
    "okh, an odd warm-up": ("okh", {"n_anchors": 20, "warm_up": 130}),
    "hmoh, kernel": ("hmoh", {"kernel": True, "n_anchors": 50, "warm_up": 120}),
    "hcoh, more classes": ("hcoh", {"n_classes": 100}),
    "refit, sdh": ("refit", {"method": "sdh", "every": 100, "options": {"n_anchors": 30}}),
    "refit, an odd interval": ("refit", {"every": 170, "options": {"epochs": 5}}),
    "sketchhash, small batches": ("sketchhash", {"sketch_size": 100, "batch_size": 30}),
}


IDENTITY = (
    "same_seed_and_stream_same_bits",
    "chunking_does_not_matter",
    "learning_does_not_depend_on_the_trigger",
    "resumes_in_mid_stream",
    "threads_do_not_matter",
)


@pytest.mark.parametrize(
    "check", [pytest.param(name, marks=pytest.mark.identity if name in IDENTITY else ()) for name in CHECKS]
)
@pytest.mark.parametrize("variant", VARIANTS)
def test_learner(variant, check, tmp_path):
    name, options = VARIANTS[variant]
    for exempt in {(name, check), (variant, check)} & set(EXEMPT):
        pytest.skip(EXEMPT[exempt])
    arguments = [lambda: LEARNERS[name](n_bits=16, seed=1, **options)]
    if "folder" in inspect.signature(CHECKS[check]).parameters:
        arguments.append(tmp_path)
    CHECKS[check](*arguments)


def test_the_checks_are_found():
    assert len(CHECKS) >= 13
    assert set(IDENTITY) <= set(CHECKS)


@pytest.mark.parametrize("name", LEARNERS)
def test_code_lengths(name):
    checks.longer_codes_work(LEARNERS[name])


@pytest.mark.parametrize("name", LEARNERS)
def test_parameters_rebuild_the_learner(name):
    learner = LEARNERS[name](n_bits=24, seed=5)
    again = LEARNERS[name](**learner.parameters())
    assert again.parameters() == learner.parameters()
    assert repr(learner) == repr(again)
    assert set(learner.parameters()) == set(inspect.signature(LEARNERS[name]).parameters)


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("n_bits", [0, -1, 2.5, "32", 100_000])
def test_bad_code_lengths(name, n_bits):
    with pytest.raises(InvalidInput, match="`n_bits` must be a whole number"):
        LEARNERS[name](n_bits)


@pytest.mark.parametrize("name", LEARNERS)
def test_dimension(name):
    learner = LEARNERS[name](8)
    with pytest.raises(NotReady):
        _ = learner.mapping
    learner.start(4)
    learner.start(4)
    assert learner.mapping.n_features == 4
    with pytest.raises(InvalidInput, match="4 features; got 5"):
        learner.start(5)


def test_a_state_of_another_learner_is_refused():
    with pytest.raises(InvalidInput, match="belongs to"):
        LEARNERS["lsh"](8).restore(LEARNERS["lsh"](9).state())


def test_names():
    assert all(cls.name == name for name, cls in LEARNERS.items())
    with pytest.raises(UnknownName, match=r"no learner 'magic'; known: .*lsh, mihash"):
        learner_class("magic")
