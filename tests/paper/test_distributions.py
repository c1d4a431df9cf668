import numpy as np
import pytest

from mihash.paper.definition import Definition, load_definition
from mihash.paper.results import read_result
from mihash.paper.runner import pending, run_tasks
from mihash.paper.scales import stage


@pytest.fixture(scope="module", params=["cifar10", "labelme", "places205"])
def made(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    return request.param, folder, measured(request.param, folder)


def measured(name, folder):
    """Return what `mihash reproduce figure6` writes for a data set."""
    figure = load_definition("figure6").on([name])
    run_tasks(pending([figure], folder, "smoke"))
    assert pending([figure], folder, "smoke") == []
    return read_result(folder / "smoke" / next(figure.jobs()).path)


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
    settings = load_definition("figure6").parameters
    assert settings == {"mihash": {"whiten": None, "warm_up": 0}}
    options = {"datasets": (name,), "methods": ("mihash",), "fixed": False, "trials": 1, "parameters": settings}
    one = Definition("one", "T", "online", "curves", **options)
    run_tasks(pending([one], folder, "smoke"), 1)
    run = read_result(folder / "smoke" / next(one.jobs()).path)
    assert result["after"]["map"] == run["final"]
    assert result["updates"] == run["updates"]
    assert (result["data"], result["n_stream"], result["top"]) == (run["data"], 1597, run["protocol"]["top"])


def test_the_one_query_is_one_of_the_queries(made):
    name, _, result = made
    assert result["one_query"]["row"] in stage(name, "smoke").split(0).query_rows


def test_the_values_are_the_same_again(made, tmp_path):
    name, _, result = made
    assert measured(name, tmp_path) == result
