from pathlib import Path

import pytest
from made_up import define, write

from mihash.errors import CorruptStore, InvalidInput, NotReady, StoreError
from mihash.paper.definition import load_definition
from mihash.paper.outcomes import Study, outcomes
from mihash.paper.results import write_result
from mihash.paper.runner import pending


def test_missing_results_name_the_command(tmp_path, monkeypatch):
    definition = define("curves")
    write(tmp_path, definition, {})
    next((tmp_path / "smoke").rglob("theta-0.json")).unlink()
    message = "1 of the 4 results of tiny are not in .*smoke. Run `mihash reproduce tiny --scale smoke --results "
    with pytest.raises(NotReady, match=message):
        outcomes(definition, tmp_path, "smoke")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MIHASH_DATA", "features")
    with pytest.raises(NotReady, match="`mihash reproduce tiny --scale full`"):
        outcomes(definition, Path("results"), "full")
    monkeypatch.delenv("MIHASH_DATA")
    with pytest.raises(NotReady, match="`mihash reproduce tiny --scale full --data FOLDER --results a --seed 3`"):
        outcomes(definition, Path("a/seed-3"), "full")


def test_a_result_without_its_numbers_is_corrupt(tmp_path):
    definition = define("curves")
    write(tmp_path, definition, {})
    path = next((tmp_path / "smoke").rglob("theta-0.json"))
    path.write_text('{"updates": 3}')
    with pytest.raises(CorruptStore, match=r"theta-0.json has no 'area'. Remove it"):
        outcomes(definition, tmp_path, "smoke")


@pytest.mark.parametrize(
    "values",
    [
        {"updates": "many"},
        {"area": None},
        {"final": True},
        {"precisions": 0.5},
        {"precisions": [0.5, "high"]},
        {"times": [1, 2]},
        {"times": {"learning_s": "long", "deciding_s": 1}},
        {"protocol": {"rows": 1.5, "interval": 1, "reservoir_size": 1, "top": None}},
    ],
)
def test_a_result_of_other_types_is_corrupt(values, tmp_path):
    definition = define("curves")
    write(tmp_path, definition, values)
    with pytest.raises(CorruptStore, match=r"\.json has the '.*' .*, which no run writes. Remove it"):
        outcomes(definition, tmp_path, "smoke")


@pytest.mark.parametrize("values", [{"examples": [1, 2, 3]}, {"examples": [], "precisions": []}])
def test_a_curve_of_two_lengths_or_none_is_corrupt(values, tmp_path):
    definition = define("curves")
    write(tmp_path, definition, values)
    with pytest.raises(CorruptStore, match=r"has \d precisions at \d examples. Remove it"):
        pending([definition], tmp_path, "smoke")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"seed": 1}, "has the seed 1, and 0 is expected. Remove it, or use another folder"),
        ({"scale": "small"}, "has the scale 'small', and 'smoke' is expected"),
        ({"data": "cifar10_vgg16"}, r"has the data 'cifar10_vgg16', and 'cifar10 \(digits\)' is expected"),
    ],
)
def test_a_result_of_another_origin_is_refused(values, message, tmp_path):
    definition = define("curves")
    write(tmp_path, definition, values)
    with pytest.raises(StoreError, match=message):
        outcomes(definition, tmp_path, "smoke")
    with pytest.raises(StoreError, match=message):
        pending([definition], tmp_path, "smoke")


def test_the_folder_says_the_seed(tmp_path):
    definition = define("curves")
    write(tmp_path / "seed-2", definition, {"seed": 2})
    assert len(outcomes(definition, tmp_path / "seed-2", "smoke")) == 2
    write(tmp_path / "seed-2", definition, {})
    with pytest.raises(StoreError, match="has the seed 0, and 2 is expected"):
        outcomes(definition, tmp_path / "seed-2", "smoke")


def test_measures_of_an_outcome(tmp_path):
    definition = define("curves", trials=3)
    write(tmp_path, definition, lambda run: {"area": [0.1, 0.2, 0.6][run.trial], "precisions": [0.1, run.trial]})
    outcome = next(iter(outcomes(definition, tmp_path, "smoke").values()))
    assert outcome.mean("area") == pytest.approx(0.3)
    assert outcome.spread("area") == pytest.approx(0.07**0.5)
    assert outcome.curves.tolist() == [[0.1, 0], [0.1, 1], [0.1, 2]]
    with pytest.raises(InvalidInput, match="`measure` must be one of"):
        outcome.mean("speed")


def test_a_result_that_is_no_run_and_is_not_there(tmp_path):
    with pytest.raises(NotReady, match=f"Run `mihash reproduce --all --scale smoke --results {tmp_path}`"):
        Study(tmp_path, "smoke").file("correlation", "cifar10.json")
    with pytest.raises(NotReady, match=f"--results {tmp_path} --seed 4`"):
        Study(tmp_path / "seed-4", "smoke").file("correlation", "cifar10.json")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "has no 'mi'. Remove it"),
        ({"mi": 3}, "has the 'mi' 3, which no run writes"),
        ({"pearson": 3}, "has the 'pearson' 3, which no run writes"),
        ({"seed": 1}, "has the seed 1, and 0 is expected"),
        ({"data": "mine.npz"}, "has the data 'mine.npz'"),
    ],
)
def test_files_of_correlations_are_checked_too(values, message, tmp_path):
    definition = load_definition("figure3").on(["cifar10"])
    path = tmp_path / "smoke" / "correlation" / "cifar10.json"
    assert [task.source.name for task in pending([definition], tmp_path, "smoke")] == ["cifar10"]
    good = {key: [0.1] for key in ("mi", "ap", "dcg", "ndcg")} | {"seed": 0, "scale": "smoke"}
    good |= {"pearson": dict.fromkeys(("ap", "dcg", "ndcg"), 0.9), "data": "cifar10 (digits)"}
    write_result(path, good)
    assert pending([definition], tmp_path, "smoke") == []
    write_result(path, good | values if values else {})
    with pytest.raises(StoreError, match=message):
        pending([definition], tmp_path, "smoke")
