import json

import pytest

from mihash.errors import CorruptStore, InvalidInput, StoreError
from mihash.experiments.definition import Definition
from mihash.experiments.results import read_result, write_result
from mihash.experiments.runner import pending, run_task, run_tasks
from mihash.experiments.scales import stage

TINY = Definition(
    "tiny",
    "T",
    "online",
    "thetas",
    datasets=("cifar10", "labelme"),
    methods=("lsh", "mihash"),
    bits=(8,),
    trials=2,
)


def contents(folder):
    found = {}
    for path in sorted(folder.rglob("*.json")):
        result = json.loads(path.read_text())
        del result["times"], result["machine"]
        found[str(path.relative_to(folder))] = json.dumps(result, sort_keys=True)
    return found


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    calls = []
    run_tasks(pending([TINY], folder, "smoke"), 1, lambda *call: calls.append(call))
    assert calls[-1][0] == calls[-1][1]
    return folder


def test_results_say_what_was_run(finished):
    result = read_result(finished / "smoke/cifar10/8-bits/mihash/trial-1/theta-0.json")
    assert result["run"]["method"] == "mihash"
    assert result["updates"] == len(result["updated_at"]) > 1
    assert result["final"] == result["precisions"][-1] > result["precisions"][0]
    assert result["area"] == pytest.approx(sum(result["precisions"]) / 50)
    assert result["bits_recomputed"] == result["updates"] * 1597 * 8
    assert set(result["versions"]) == {"mihash", "numpy", "numba", "scikit-learn"}
    assert result["times"]["learning_s"] > 0


def test_a_fixed_rate_and_the_trigger_see_the_same_stream(finished):
    folder = finished / "smoke/cifar10/8-bits/lsh/trial-0"
    results = [read_result(folder / f"{name}.json") for name in ("fixed-rate", "theta-0")]
    assert results[0]["examples"] == results[1]["examples"]
    assert results[0]["precisions"] == results[1]["precisions"]  # hyperplanes never move


def test_what_is_there_is_not_run_again(finished):
    assert pending([TINY], finished, "smoke") == []


def test_an_interrupted_run_goes_on_to_the_same_files(finished, tmp_path):
    tasks = pending([TINY], tmp_path, "smoke")
    run_task(tasks[0])
    left = pending([TINY], tmp_path, "smoke")
    assert len(left) == len(tasks) - 1
    run_tasks(left, processes=2)
    assert contents(tmp_path) == contents(finished)


def test_a_missing_result_alone_is_made_again(finished, tmp_path):
    run_tasks(pending([TINY], tmp_path, "smoke"), 1)
    path = tmp_path / "smoke/cifar10/8-bits/mihash/trial-0/theta-0.json"
    path.unlink()
    tasks = pending([TINY], tmp_path, "smoke")
    assert [len(task.runs) for task in tasks] == [1]
    run_tasks(tasks, 1)
    assert contents(tmp_path) == contents(finished)


def test_scales():
    assert stage("labelme", "smoke").dataset.y is None
    small = stage("places205", "small")
    assert small.dataset.X.shape == (20_000, 128)
    assert small.protocol.top == 1000
    with pytest.raises(InvalidInput, match="`scale` must be one of 'smoke', 'small', 'full'"):
        stage("cifar10", "huge")


def test_bad_calls(tmp_path):
    with pytest.raises(InvalidInput, match="`processes`"):
        run_tasks([], 0)
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(CorruptStore, match="made again"):
        read_result(tmp_path / "a.json")
    assert read_result(tmp_path / "b.json") is None
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match="Cannot write"):
        write_result(tmp_path / "file" / "x.json", {})
