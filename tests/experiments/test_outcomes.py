from pathlib import Path

import pytest

from experiments.made_up import define, write
from mihash.errors import CorruptStore, InvalidInput, NotReady
from mihash.experiments.outcomes import Study, outcomes


def test_missing_results_name_the_command(tmp_path, monkeypatch):
    definition = define("curves")
    write(tmp_path, definition, {})
    next((tmp_path / "smoke").rglob("theta-0.json")).unlink()
    message = "1 of the 4 results of tiny are not in .*smoke. Run `mihash reproduce tiny --scale smoke --results "
    with pytest.raises(NotReady, match=message):
        outcomes(definition, tmp_path, "smoke")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(NotReady, match="`mihash reproduce tiny --scale full`"):
        outcomes(definition, Path("results"), "full")


def test_a_result_without_its_numbers_is_corrupt(tmp_path):
    definition = define("curves")
    write(tmp_path, definition, {})
    path = next((tmp_path / "smoke").rglob("theta-0.json"))
    path.write_text('{"updates": 3}')
    with pytest.raises(CorruptStore, match=r"theta-0.json has no 'area'. Remove it"):
        outcomes(definition, tmp_path, "smoke")


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
    with pytest.raises(NotReady, match="Run `mihash reproduce --all --scale smoke`"):
        Study(tmp_path, "smoke").file("correlation", "cifar10.json")
