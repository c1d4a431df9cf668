import json
import os
import signal
from dataclasses import replace

import pytest

from mihash.errors import CorruptStore, InvalidInput, StoreError
from mihash.paper import runner, scales
from mihash.paper.definition import Definition
from mihash.paper.learning_pass import learn_once
from mihash.paper.results import check_results_folder, read_result, write_result
from mihash.paper.runner import pending, run_task, run_tasks
from mihash.paper.scales import stage
from mihash.paper.sources import DATASETS, data_name, find_source

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
    assert [len(task.jobs) for task in tasks] == [1]
    run_tasks(tasks, 1)
    assert contents(tmp_path) == contents(finished)


def test_scales():
    assert stage("labelme", "smoke").dataset.y is None
    small = stage("places205", "small")
    assert small.dataset.X.shape == (20_000, 128)
    assert small.protocol.top == 1000
    with pytest.raises(InvalidInput, match="`scale` must be one of 'smoke', 'small', 'full'"):
        stage("cifar10", "huge")


def test_the_seed_reaches_learner_and_reservoir(tmp_path, monkeypatch):
    seeds = []
    one = replace(TINY, datasets=("cifar10",), methods=("mihash",), trials=1, fixed=False)

    def spy(split, learner, *rest, seed, **options):
        seeds.append((learner.parameters()["seed"], seed))
        return learn_once(split, learner, *rest, seed=seed, **options)

    monkeypatch.setattr(scales, "learn_once", spy)
    for seed in (0, 3):
        run_tasks(pending([replace(one, trials=2)], tmp_path / str(seed), "smoke", seed=seed), 1)
    assert sorted(seeds) == [(0, 0), (1, 1), (3000, 3000), (3001, 3001)]
    with pytest.raises(StoreError, match="has the seed 3, and 0 is expected"):
        pending([one], tmp_path / "3", "smoke")


def test_names_of_data_are_those_of_results():
    for name in DATASETS:
        for scale in ("smoke", "small"):
            assert data_name(find_source(name), scale) == stage(name, scale).dataset.name


def test_a_killed_process_is_one_message(tmp_path, monkeypatch):
    monkeypatch.setattr(runner, "run_task", _die)
    with pytest.raises(StoreError, match=r"A worker process was killed.*Start again: finished results are kept"):
        run_tasks(pending([TINY], tmp_path, "smoke"), 2)


def _die(_):
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("content", [b"{", b"[]", b"3", b"null", b"\xff\xfe{}", b""])
def test_files_that_are_no_results(content, tmp_path):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(CorruptStore, match=r"a\.json is not a result.*Remove it, and it is made again\."):
        read_result(tmp_path / "a.json")


def test_folders_of_results(tmp_path):
    check_results_folder(tmp_path / "a" / "b")
    assert not (tmp_path / "a").exists()
    (tmp_path / "file").write_text("")
    for bad in (tmp_path / "file", tmp_path / "file" / "b", tmp_path / ("long" * 100)):
        with pytest.raises(InvalidInput, match="`results` must be a folder that can be written"):
            check_results_folder(bad)
    with pytest.raises(InvalidInput, match=f"give `results` {tmp_path} and `seed` 5"):
        check_results_folder(tmp_path / "seed-5")


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
