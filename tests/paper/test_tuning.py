import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from mihash.errors import InvalidInput, UnknownName
from mihash.online import LEARNERS
from mihash.paper.definition import load_definition
from mihash.paper.tuning import BUDGET, GRIDS, parse_grid, tune, write_common


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
    assert tuned.n_equal == 1
    assert replace(tuned, scores=(({"C": 1}, 0.5), ({"C": 2}, 0.5), ({"C": 3}, 0.4))).n_equal == 2
    assert calls[-1] == (4, 4, "done")
    definition = load_definition(tmp_path / "smoke/tuning/cifar10-mihash-8.toml")
    assert definition.parameters == {"mihash": {"learning_rate": 1.0}}
    assert next(definition.jobs()).parameters == (("learning_rate", 1.0),)
    result = json.loads((tmp_path / "smoke/tuning/cifar10-mihash-8.json").read_text())
    expected = {"seed": 0, "trials": 2, "n_bits": 8, "scale": "smoke", "grid": {"learning_rate": [1.0, 1e-6]}}
    assert {key: result[key] for key in expected} == expected
    assert [each["parameters"] for each in result["scores"]] == [{"learning_rate": 1.0}, {"learning_rate": 1e-6}]


def test_another_seed_is_another_search_in_a_folder_of_its_own(tmp_path):
    grid = {"eta": [0.1]}
    first, other = (tune("cifar10", "hcoh", n_bits=8, grid=grid, results=tmp_path, seed=seed) for seed in (0, 1))
    assert first.path == tmp_path / "smoke/tuning/cifar10-hcoh-8.toml"
    assert other.path == tmp_path / "seed-1/smoke/tuning/cifar10-hcoh-8.toml"
    assert json.loads(other.path.with_suffix(".json").read_text())["seed"] == 1
    assert first.scores != other.scores


def test_grids_have_one_budget():
    sizes = {np.prod([len(values) for values in grid.values()]) for grid in GRIDS.values()}
    assert sizes == {BUDGET}


def test_one_definition_of_several_methods(tmp_path):
    grids = {"hcoh": {"eta": [0.1]}, "osh": {"eta": [0.3], "loss": ["hinge"]}}
    found = [tune("cifar10", name, n_bits=8, grid=grid, results=tmp_path) for name, grid in grids.items()]
    path = write_common(found)
    assert path == tmp_path / "smoke/tuning/cifar10-8.toml"
    definition = load_definition(path)
    assert (definition.draws, definition.methods, definition.thetas) == ("learners", ("hcoh", "osh"), ())
    assert definition.parameters == {"hcoh": {"eta": 0.1}, "osh": {"eta": 0.3, "loss": "hinge"}}
    for others in ([replace(found[0], path=None)], [found[0], replace(found[1], n_bits=16)]):
        with pytest.raises(InvalidInput, match="one data set, at one code length"):
            write_common(others)


def test_grids_are_those_of_the_methods():
    for method, grid in GRIDS.items():
        setting = {name: values[0] for name, values in grid.items()}
        assert setting.items() <= LEARNERS[method](8, **setting).parameters().items()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "osh", "dataset": "labelme"}, "learns from class labels"),
        ({"method": "okh", "grid": {"speed": [1]}}, "of okh must be among C, alpha, .*; got speed"),
        ({"method": "okh", "grid": {"seed": [1]}}, "of okh must be among C, alpha, .*; got seed"),
        ({"method": "okh", "grid": {"n_bits": [8]}}, "of okh must be among C, alpha, .*; got n_bits"),
        ({"method": "lsh", "grid": {"C": [8]}}, "of lsh must be .*; got C"),
        ({"method": "okh", "grid": {"C": []}}, "`grid` must have values"),
        ({"method": "okh", "n_bits": 0}, "`n_bits`"),
        ({"method": "okh", "seed": -1}, "`seed`"),
        ({"method": "okh", "scale": "huge"}, "`scale` must be one of 'smoke', 'small', 'full'; got"),
        ({"method": "okh", "scale": "full", "data": Path("nowhere")}, "`data` must be the folder that holds"),
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
    with pytest.raises(InvalidInput, match="name eta once"):
        parse_grid(["eta=1", "eta=2"])
    for text in ("eta", "=1", "eta="):
        with pytest.raises(InvalidInput, match="NAME=VALUE"):
            parse_grid([text])
