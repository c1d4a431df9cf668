import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from mihash.cli import app
from mihash.errors import InvalidInput, NotReady, StoreError, UnknownName
from mihash.paper.claims import judge, load_claims
from mihash.paper.definition import load_definition
from mihash.paper.outcomes import Study
from mihash.paper.published import PAPER
from mihash.paper.setting2 import RECIPES, Training, reproduction, score
from mihash.paper.setting2.__main__ import main
from mihash.paper.setting2.reproduction import images_of, pending_trainings, run_trainings, trained
from mihash.paper.tables import make_table

SMALL = ["--set", "width=2", "batch_size=40", "warm_up_epochs=1", "--bits", "12", "--epochs", "2"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("images")
    rng = np.random.default_rng(0)
    y = np.arange(140) % 4
    X = rng.integers(0, 180, (4, 3, 4, 4)).repeat(8, axis=2).repeat(8, axis=3)[y]
    X = (X + rng.integers(0, 76, (140, 3, 32, 32))).astype(np.uint8)
    np.savez(folder / "cifar10.npz", images=X, labels=y, is_test=np.arange(140) >= 100)
    return folder


def test_every_method_is_trained_measured_and_not_made_again(data, tmp_path, capsys):
    arguments = ["--data", str(data), "--out", str(tmp_path), "--seeds", "0", *SMALL]
    assert main(arguments) == 0
    files = sorted(tmp_path.glob("*.json"))
    assert [file.stem for file in files] == [f"setting2-{name}-12-0" for name in ("dpsh", "dtsh", "mihash")]
    for file in files:
        result = json.loads(file.read_text())
        assert result["sizes"] == {"learn": 100, "query": 40, "base": 100}
        assert result["metrics"]["mAP"] is None
        assert score(file) == pytest.approx(result["metrics"]["mAP_device"], abs=1e-12)
    before = [file.stat().st_mtime_ns for file in files]
    capsys.readouterr()
    assert main(arguments) == 0
    assert capsys.readouterr().out == ""
    assert [file.stat().st_mtime_ns for file in files] == before
    assert main([*arguments, "--epochs", "3"]) == 2
    assert "another recipe" in capsys.readouterr().err
    assert main(["--out", str(tmp_path), "--score"]) == 0
    assert capsys.readouterr().out.count("setting2-") == 3


def test_choosing_parameters_leaves_the_test_images_alone(data, tmp_path):
    options = ["--methods", "mihash", "--seeds", "1", "--validate", "--tag", "try"]
    assert main(["--data", str(data), "--out", str(tmp_path), *SMALL, *options]) == 0
    result = json.loads((tmp_path / "setting2-mihash-12-1-validation-try.json").read_text())
    assert result["sizes"] == {"learn": 90, "query": 10, "base": 90}


def test_bad_arguments(data, tmp_path, capsys):
    common = ["--data", str(data), "--out", str(tmp_path)]
    assert main([*common, "--methods", "magic"]) == 2
    assert main([*common, "--set", "magic=1"]) == 2
    assert main([*common, "--set", "width=wide"]) == 2
    assert main(["--data", "/nowhere", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.count("setting2:") == 4


def test_recipes_differ_in_the_loss_alone():
    own = {"learning_rate", "warm_up_epochs", "scale", "n_bins", "gain", "quantization", "margin"}
    shared = [{k: v for k, v in vars(recipe).items() if k not in own} for recipe in RECIPES.values()]
    assert all(settings == shared[0] for settings in shared)
    assert Training("dpsh", 16, 2, RECIPES["dpsh"], tag="a").name == "setting2-dpsh-16-2-a"


TABLE = load_definition("table1-setting2")
SMOKE = TABLE.scales["smoke"] | {
    "parameters": {method: {"width": 2, "epochs": 3, "warm_up_epochs": 1} for method in TABLE.methods}
}
TINY = replace(TABLE, scales={"smoke": SMOKE})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_trainings(
        pending_trainings([TINY], folder, "smoke", device="cpu"), images_of("smoke"), folder, "smoke", device="cpu"
    )
    return folder


def test_reproducing_trains_once_and_goes_on_where_it_was(finished, tmp_path):
    assert pending_trainings([TINY], finished, "smoke", device="cpu") == []
    wanted = pending_trainings([TINY], tmp_path, "smoke", device="cpu")
    run_trainings(wanted[:1], images_of("smoke"), tmp_path, "smoke", device="cpu")
    assert pending_trainings([TINY], tmp_path, "smoke", device="cpu") == wanted[1:]
    with pytest.raises(
        NotReady, match=r"2 of the 3 results of table1-setting2 are not in .* Run `mihash reproduce"
    ):
        trained(TINY, tmp_path, "smoke")
    one = next(tmp_path.rglob("*.json"))
    again, first = (
        json.loads((folder / one.relative_to(tmp_path)).read_text()) for folder in (tmp_path, finished)
    )
    assert (again["final"], again["losses"]) == (first["final"], first["losses"])


def test_results_of_another_recipe_or_scale_are_refused(finished):
    other = replace(TINY, scales={"smoke": SMOKE | {"parameters": {"mihash": {"width": 3}}}})
    with pytest.raises(StoreError, match="has the run"):
        pending_trainings([other], finished, "smoke", device="cpu")


def test_a_table_has_the_papers_numbers_beside_ours(finished):
    table = make_table(TINY, finished, "smoke")
    assert table.columns == ("method", "16 bits", "a training, s", "paper: 16 bits")
    assert [row[0] for row in table.rows] == ["MIHash", "DPSH", "DTSH"]
    assert (
        table.rows[0][-1]
        == f"{json.loads(PAPER.read_text())['tables']['table1-setting2']['methods']['mihash'][0]['map']['16']:.3f}"
    )
    assert "Trained on cpu" in table.notes[-1]


def test_without_a_gpu_full_scale_shows_what_was_measured(tmp_path):
    if reproduction.device_of("auto") == "cpu":
        assert pending_trainings([TABLE], tmp_path, "full") == []
    assert len(pending_trainings([TABLE], tmp_path, "full", device="cpu")) == 24
    found = trained(TABLE, tmp_path, "full")
    assert {each.n_bits for each in found} == {16, 24, 32, 48}
    assert all(each.shipped and len(each.trials) == 2 for each in found)
    for each in found:
        for trial in each.trials:
            assert trial["sizes"] == {"learn": 50_000, "query": 10_000, "base": 50_000}
            assert trial["run"]["recipe"]["epochs"] == RECIPES[each.method].epochs
    assert "come with mihash" in make_table(TABLE, tmp_path, "full").notes[-1]


def test_claims_are_judged_on_what_was_measured(tmp_path):
    claims = [claim for claim in load_claims() if claim.id.startswith("end-to-end")]
    verdicts = {claim.id: judge(claim, Study(tmp_path, "full")) for claim in claims}
    best = {each.method: each.mean for each in trained(TABLE, tmp_path, "full") if each.n_bits == 32}
    assert f"{best['mihash']:.4f}" in verdicts["end-to-end-state-of-the-art"].figures
    assert verdicts["end-to-end-state-of-the-art"].held == (best["mihash"] >= 0.938)
    for rival in ("dpsh", "dtsh"):
        means = {(each.method, each.n_bits): each.mean for each in trained(TABLE, tmp_path, "full")}
        above = all(means["mihash", b] > means[rival, b] for b in TABLE.bits)
        assert verdicts[f"end-to-end-{rival}"].held == above


def test_settings_that_a_recipe_does_not_have_are_refused(tmp_path):
    path = tmp_path / "mine.toml"
    text = 'title = "T"\nkind = "images"\ndraws = "end-to-end"\ndatasets = ["cifar10"]\n'
    path.write_text(text + 'methods = ["mihash"]\nparameters.mihash = { depth = 3 }\n')
    with pytest.raises(UnknownName, match="no setting 'depth'"):
        load_definition(path)
    path.write_text(text + 'methods = ["okh"]\n')
    with pytest.raises(InvalidInput, match="methods"):
        load_definition(path)


def test_devices_that_are_not_there_are_told_before_anything_is_run(tmp_path, data, capsys):
    with pytest.raises(InvalidInput, match="no device 'gpu'"):
        pending_trainings([TINY], tmp_path, "smoke", device="gpu")
    if reproduction.device_of("auto") == "cpu":
        with pytest.raises(NotReady, match="no CUDA device"):
            pending_trainings([TINY], tmp_path, "smoke", device="cuda")
    assert main(["--data", str(data), "--out", str(tmp_path), *SMALL, "--device", "gpu"]) == 2
    assert "no device 'gpu'" in capsys.readouterr().err


def test_missing_images_are_told_before_anything_is_run(tmp_path):
    options = ["--scale", "full", "--device", "cpu", "--data", str(tmp_path), "--results", str(tmp_path / "r")]
    told = CliRunner().invoke(app, ["reproduce", "table1-setting2", *options])
    assert isinstance(told.exception, StoreError)
    assert "holds no CIFAR-10 images" in str(told.exception)
    assert not (tmp_path / "r" / "full").exists()
