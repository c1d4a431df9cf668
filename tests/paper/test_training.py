import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from mihash.cli import app
from mihash.errors import InvalidInput, NotReady, StoreError, UnknownName
from mihash.paper.claims import judge, load_claims
from mihash.paper.datasets import Images
from mihash.paper.definition import load_definition
from mihash.paper.jobs import Job
from mihash.paper.outcomes import Study, outcomes
from mihash.paper.paper_numbers import PAPER
from mihash.paper.recipes import RECIPES
from mihash.paper.runner import pending, run_task, run_tasks
from mihash.paper.tables import make_table
from mihash.paper.training import device_of, train_jobs


@pytest.fixture(scope="module")
def images():
    rng = np.random.default_rng(0)
    y = np.arange(140) % 4
    X = rng.integers(0, 180, (4, 3, 4, 4)).repeat(8, axis=2).repeat(8, axis=3)[y]
    X = (X + rng.integers(0, 76, (140, 3, 32, 32))).astype(np.uint8)
    return Images("squares", X, y, np.arange(140) >= 100)


def small(method, **options):
    warm_up = (("warm_up_epochs", 1),) if RECIPES[method].warm_up_epochs else ()
    settings = (("batch_size", 40), ("epochs", 2), *warm_up, ("width", 2))
    return Job("images", "cifar10", method, settings, 12, **options)


def test_every_method_is_trained_and_measured(images):
    results = list(train_jobs([small(method) for method in RECIPES], images, "cpu"))
    for result, recipe in zip(results, RECIPES.values(), strict=True):
        assert result["sizes"] == {"learn": 100, "query": 40, "base": 100}
        assert 0.25 < result["final"] <= 1
        assert len(result["losses"]) == (1 if recipe.warm_up_epochs else 2)
        assert result["machine"]["device"] == "cpu"
    warm_up = {result["times"]["warm_up"] for result in results}
    assert len(warm_up - {0.0}) == 1  # one network was warmed up for all that start so


def test_a_joint_training_ends_elsewhere_than_one_without_the_term(images):
    joint = small("mihash-joint")
    without = replace(joint, parameters=(*joint.parameters, ("classification", 0.0)))
    (first,), (second,) = (list(train_jobs([job], images, "cpu")) for job in (joint, without))
    assert first["losses"] != second["losses"]
    assert second["losses"][0] < 0 < first["losses"][0]  # minus an information; a cross-entropy is more than that


def test_choosing_parameters_leaves_the_test_images_alone(images):
    job = small("mihash", validate=True)
    (result,) = train_jobs([job], images, "cpu")
    assert result["sizes"] == {"learn": 90, "query": 10, "base": 90}
    assert job.path.name == "setting2-mihash-12-0-validation.json"
    blind = Images("squares", np.where(images.is_test[:, None, None, None], 0, images.X), images.y, images.is_test)
    (again,) = train_jobs([job], blind, "cpu")
    assert again["final"] == result["final"]


def test_recipes_differ_in_the_loss_alone():
    own = {"learning_rate", "warm_up_epochs", "scale", "n_bins", "classification", "quantization", "margin"}
    shared = [{k: v for k, v in vars(recipe).items() if k not in own} for recipe in RECIPES.values()]
    assert all(settings == shared[0] for settings in shared)


TABLE = load_definition("table1-setting2")
SMOKE = TABLE.scales["smoke"] | {
    "parameters": {
        method: {"width": 2, "epochs": 3} | ({"warm_up_epochs": 1} if RECIPES[method].warm_up_epochs else {})
        for method in TABLE.methods
    }
}
TINY = replace(TABLE, scales={"smoke": SMOKE})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_tasks(pending([TINY], folder, "smoke", device="cpu"))
    return folder


def test_reproducing_trains_once_and_goes_on_where_it_was(finished, tmp_path):
    assert pending([TINY], finished, "smoke", device="cpu") == []
    (task,) = pending([TINY], tmp_path, "smoke", device="cpu")
    assert str(task) == "cifar10 networks 16 bits, trial 0"
    run_task(replace(task, jobs=task.jobs[:1]))
    (left,) = pending([TINY], tmp_path, "smoke", device="cpu")
    assert left.jobs == task.jobs[1:]
    with pytest.raises(
        NotReady, match=r"4 of the 5 results of table1-setting2 are not in .* Run `mihash reproduce"
    ):
        outcomes(TINY, tmp_path, "smoke")
    one = next(tmp_path.rglob("*.json"))
    again, first = (
        json.loads((folder / one.relative_to(tmp_path)).read_text()) for folder in (tmp_path, finished)
    )
    assert (again["final"], again["losses"]) == (first["final"], first["losses"])


def test_what_is_trained_to_choose_parameters_has_files_of_its_own(finished, tmp_path):
    chosen = TINY.for_validation()
    assert chosen.command(tmp_path, "smoke").startswith(
        "mihash reproduce table1-setting2 --validate --scale smoke"
    )
    (task,) = pending([chosen], finished, "smoke", device="cpu")
    assert [job.path.name for job in task.jobs] == [f"setting2-{name}-16-0-validation.json" for name in RECIPES]
    run_task(replace(task, jobs=task.jobs[:1], results=tmp_path))
    (left,) = pending([chosen], tmp_path, "smoke", device="cpu")
    assert left.jobs == task.jobs[1:]


def test_results_of_another_recipe_or_scale_are_refused(finished):
    other = replace(TINY, scales={"smoke": SMOKE | {"parameters": {"mihash": {"width": 3}}}})
    with pytest.raises(StoreError, match="has the run"):
        pending([other], finished, "smoke", device="cpu")


def test_a_table_has_the_papers_numbers_beside_ours(finished):
    table = make_table(TINY, finished, "smoke")
    assert table.columns == (
        *("method", "as a classifier", "settings tried", "in all rounds", "16 bits", "a training, s"),
        "paper: 16 bits",
    )
    assert [row[:4] for row in table.rows] == [
        ("MIHash", "1 of 3 epochs", "8", "42"),
        ("MIHash + classifier", "jointly, weight 0.5", "8", "10 or more"),
        ("classifier alone", "3 of 3 epochs", "8", "9 or more"),
        ("DPSH", "1 of 3 epochs", "8", "19"),
        ("DTSH", "1 of 3 epochs", "8", "21"),
    ]
    assert (
        table.rows[0][-1]
        == f"{json.loads(PAPER.read_text())['tables']['table1-setting2']['methods']['mihash'][0]['map']['16']:.3f}"
    )
    assert "Trained on cpu" in table.notes[-1]


def test_without_a_gpu_full_scale_shows_what_was_measured(tmp_path):
    if device_of("auto") == "cpu":
        assert pending([TABLE], tmp_path, "full") == []
    assert sum(len(task.jobs) for task in pending([TABLE], tmp_path, "full", device="cpu")) == 60
    found = outcomes(TABLE, tmp_path, "full")
    assert {job.n_bits for job in found} == {16, 24, 32, 48}
    assert all(each.shipped and len(each.trials) == 3 for each in found.values())
    for job, each in found.items():
        for trial in each.trials:
            assert trial["sizes"] == {"learn": 50_000, "query": 10_000, "base": 50_000}
            assert trial["run"]["recipe"]["epochs"] == RECIPES[job.method].epochs
    assert "come with mihash" in make_table(TABLE, tmp_path, "full").notes[-1]


def test_claims_are_judged_on_what_was_measured(tmp_path):
    claims = [claim for claim in load_claims() if claim.id.startswith("end-to-end")]
    verdicts = {claim.id: judge(claim, Study(tmp_path, "full")) for claim in claims}
    found = {(job.method, job.n_bits): each for job, each in outcomes(TABLE, tmp_path, "full").items()}
    for rival in ("dpsh", "dtsh"):
        leads = []
        for n_bits in TABLE.bits:
            own, other = found["mihash", n_bits], found[rival, n_bits]
            noise = max(own.spread("final"), other.spread("final"))
            leads.append((own.mean("final") - other.mean("final")) / noise)
        expected = False if min(leads) < -2 else True if min(leads) > 2 else None
        verdict = verdicts[f"end-to-end-{rival}"]
        assert (verdict.held, verdict.tested) == (expected, True)
        assert f"{found['mihash', 32].mean('final'):.4f} against" in verdict.figures


def test_settings_that_a_recipe_does_not_have_are_refused(tmp_path):
    path = tmp_path / "mine.toml"
    text = 'title = "T"\nkind = "images"\ndraws = "end-to-end"\ndatasets = ["cifar10"]\n'
    path.write_text(text + 'methods = ["mihash"]\nparameters.mihash = { depth = 3 }\n')
    with pytest.raises(UnknownName, match="no setting 'depth'"):
        load_definition(path)
    path.write_text(text + 'methods = ["mihash"]\nparameters.mihash = [{ width = 3 }]\n')
    with pytest.raises(InvalidInput, match="must be a table of its arguments"):
        load_definition(path)
    path.write_text(text + 'methods = ["okh"]\n')
    with pytest.raises(InvalidInput, match="methods"):
        load_definition(path)


def test_devices_that_are_not_there_are_told_before_anything_is_run(tmp_path):
    with pytest.raises(InvalidInput, match="no device 'gpu'"):
        pending([TINY], tmp_path, "smoke", device="gpu")
    if device_of("auto") == "cpu":
        with pytest.raises(NotReady, match="no CUDA device"):
            pending([TINY], tmp_path, "smoke", device="cuda")


def test_missing_images_are_told_before_anything_is_run(tmp_path):
    options = ["--scale", "full", "--device", "cpu", "--data", str(tmp_path), "--results", str(tmp_path / "r")]
    told = CliRunner().invoke(app, ["reproduce", "table1-setting2", *options])
    assert isinstance(told.exception, StoreError)
    assert "holds no CIFAR-10 images" in str(told.exception)
    assert not (tmp_path / "r" / "full").exists()
