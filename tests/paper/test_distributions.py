import json

import numpy as np
import pytest

from mihash.errors import UnknownName
from mihash.paper.definition import Definition
from mihash.paper.distributions import run_distributions
from mihash.paper.results import read_result
from mihash.paper.runner import pending, run_tasks
from mihash.paper.scales import stage


@pytest.fixture(scope="module", params=["cifar10", "labelme", "places205"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    path = run_distributions(request.param, "mihash", folder, "smoke")
    assert path == folder / "smoke" / "distributions" / f"{request.param}-mihash.json"
    return request.param, folder, json.loads(path.read_text())


def test_learning_pulls_the_distributions_apart(made):
    _, _, result = made
    before, after = result["before"], result["after"]
    assert after["map"] > before["map"] + 0.1
    assert after["mi"] > before["mi"]
    assert after["overlap"] < 0.7 * before["overlap"]
    one = result["one_query"]
    assert one["good"]["mi"] > one["bad"]["mi"]
    for part in (before, after, one["bad"], one["good"]):
        assert len(part["p_pos"]) == len(part["p_neg"]) == 33
        assert sum(part["p_pos"]) == pytest.approx(1)
        assert sum(part["p_neg"]) == pytest.approx(1)
        assert part["overlap"] == pytest.approx(np.minimum(part["p_pos"], part["p_neg"]).sum())


def test_the_pass_is_the_first_trial_of_the_online_experiments(made):
    name, folder, result = made
    one = Definition("one", "T", "online", "curves", datasets=(name,), methods=("mihash",), fixed=False, trials=1)
    run_tasks(pending([one], folder, "smoke"), 1)
    run = read_result(folder / "smoke" / name / "32-bits" / "mihash" / "trial-0" / "theta-0.json")
    assert result["after"]["map"] == run["final"]
    assert result["updates"] == run["updates"]
    assert (result["data"], result["n_stream"], result["top"]) == (run["data"], 1597, run["protocol"]["top"])


def test_the_one_query_is_one_of_the_queries(made):
    name, _, result = made
    assert result["one_query"]["row"] in stage(name, "smoke").split(0).query_rows


def test_the_bytes_are_the_same_and_a_result_stays(made, tmp_path):
    name, _, result = made
    path = run_distributions(name, "mihash", tmp_path, "smoke")
    assert json.loads(path.read_text()) == result
    path.write_text("{}")
    assert run_distributions(name, "mihash", tmp_path, "smoke").read_text() == "{}"


def test_unknown_methods(tmp_path):
    with pytest.raises(UnknownName, match="no learner 'magic'"):
        run_distributions("cifar10", "magic", tmp_path, "smoke")
