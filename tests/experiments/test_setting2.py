import json

import numpy as np
import pytest

from mihash.experiments.setting2 import RECIPES, Run, score
from mihash.experiments.setting2.__main__ import main

pytest.importorskip("torch", reason="Setting 2 trains networks: pip install 'mihash[deep]'")

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
    own = {"learning_rate", "scale", "n_bins", "gain", "quantization", "margin"}
    shared = [{k: v for k, v in vars(recipe).items() if k not in own} for recipe in RECIPES.values()]
    assert all(settings == shared[0] for settings in shared)
    assert Run("dpsh", 16, 2, RECIPES["dpsh"], tag="a").name == "setting2-dpsh-16-2-a"
