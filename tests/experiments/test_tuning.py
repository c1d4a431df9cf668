import json

import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.experiments.definition import load_definition
from mihash.experiments.tuning import GRIDS, parse_grid, tune
from mihash.online import LEARNERS


def test_the_best_setting_is_kept_as_a_definition(tmp_path):
    calls = []
    tuned = tune(
        "cifar10",
        "mihash",
        n_bits=8,
        grid={"learning_rate": [1.0, 1e-6]},
        results=tmp_path,
        trials=2,
        progress=lambda *call: calls.append(call),
    )
    assert tuned.best == {"learning_rate": 1.0}
    assert tuned.scores[0][1] > tuned.scores[1][1]
    assert calls[-1] == (4, 4, "done")
    definition = load_definition(tmp_path / "smoke/tuning/cifar10-mihash-8.toml")
    assert definition.parameters == {"mihash": {"learning_rate": 1.0}}
    assert next(definition.runs({})).parameters == (("learning_rate", 1.0),)
    scores = json.loads((tmp_path / "smoke/tuning/cifar10-mihash-8.json").read_text())["scores"]
    assert [each["parameters"] for each in scores] == [{"learning_rate": 1.0}, {"learning_rate": 1e-6}]


def test_grids_are_those_of_the_methods():
    for method, grid in GRIDS.items():
        setting = {name: values[0] for name, values in grid.items()}
        assert setting.items() <= LEARNERS[method](8, **setting).parameters().items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "osh", "dataset": "labelme"}, "learns from class labels"),
        ({"method": "okh", "grid": {"speed": [1]}}, "has no parameters speed"),
        ({"method": "okh", "grid": {"C": [-1.0]}}, "`C` must be"),
        ({"method": "lsh", "trials": 0}, "`trials`"),
    ],
)
def test_bad_searches(options, message):
    with pytest.raises(InvalidInput, match=message):
        tune(options.pop("dataset", "cifar10"), options.pop("method"), **options)


def test_unknown_method():
    with pytest.raises(UnknownName, match="no learner 'magic'"):
        tune("cifar10", "magic")


def test_grids_as_text():
    assert parse_grid(["eta=0.1,2"]) == {"eta": [0.1, 2]}
    for text in ("eta", "=1", "eta="):
        with pytest.raises(InvalidInput, match="NAME=VALUE"):
            parse_grid([text])
