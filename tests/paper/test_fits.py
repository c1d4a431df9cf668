"""Batch methods as experiments: fitted, measured, written, resumed, put into tables, judged."""

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
from made_up import Tree
from typer.testing import CliRunner

import mihash
from mihash.cli import app
from mihash.errors import CorruptStore, InvalidInput, NotReady, StoreError, UnknownName
from mihash.paper import jobs
from mihash.paper.definition import Definition, load_definition
from mihash.paper.fits import fit_once, training_set, widened
from mihash.paper.jobs import Job
from mihash.paper.outcomes import Study, outcomes
from mihash.paper.results import read_result
from mihash.paper.runner import pending, run_task, run_tasks
from mihash.paper.scales import stage
from mihash.paper.tables import make_table

TINY = Definition(
    "tiny",
    "T",
    "batch",
    "lengths",
    ("cifar10",),
    ("mihash", "fasthash", "itq", "dpsh"),
    bits=(8, 16),
    trials=2,
    once=("dpsh",),
    parameters={
        "mihash": [{"epochs": 5}, {"epochs": 1}],
        "fasthash": {"iterations": 3, "n_starts": 1},
        "dpsh": {"epochs": 2},
    },
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_tasks(pending([TINY], folder, "smoke"), 1)
    return folder


def contents(folder):
    found = {}
    for path in sorted(folder.rglob("*.json")):
        result = json.loads(path.read_text())
        del result["times"], result["machine"]
        found[path.relative_to(folder).as_posix()] = json.dumps(result, sort_keys=True)
    return found


def test_what_is_fitted_is_each_method_setting_length_and_trial():
    fits = list(TINY.jobs())
    assert len(fits) == 2 * 2 * 2 + 2 * 2 + 2 * 2 + 2
    assert {fit.trial for fit in fits if fit.method == "dpsh"} == {0}
    assert sorted({dict(fit.parameters)["epochs"] for fit in fits if fit.method == "mihash"}) == [1, 5]


def test_training_is_on_as_many_of_each_class_and_on_no_query():
    split = stage("cifar10", "smoke").split(1)
    rows = training_set(split)
    assert set(np.bincount(split.y_base[rows])) == {39}
    assert set(rows) <= set(split.stream)
    assert len(set(rows)) == len(rows)
    assert not set(split.base_rows[rows]) & set(split.query_rows)
    other = stage("cifar10", "smoke").split(0)
    assert set(other.base_rows[training_set(other)]) != set(split.base_rows[rows])


def test_training_without_classes_is_the_beginning_of_the_stream():
    split = stage("labelme", "smoke").split(0)
    assert np.array_equal(training_set(split), split.stream[: len(split.stream) // 4])


def test_of_very_many_classes_there_are_pairs_to_learn_from():
    y = np.repeat(np.arange(100), 4)
    split = mihash.datasets.Protocol("many", 300, 10, 10, 100, n_test=50).split(
        mihash.datasets.Dataset("m", np.arange(400, dtype=np.float32)[:, None], y)
    )
    counts = np.bincount(split.y_base[training_set(split)])
    assert counts.max() == 2


def test_at_the_papers_sizes_there_are_500_of_each_class():
    y = np.repeat(np.arange(10), 6000)
    split = mihash.datasets.Protocol("cifar10", 20_000, 1000, 100, 2000, n_test_per_class=100).split(
        mihash.datasets.Dataset("c", np.arange(60_000, dtype=np.float32)[:, None], y)
    )
    assert len(split.X_query) == 1000
    assert len(split.X_base) == 59_000
    assert np.bincount(split.y_base[training_set(split)]).tolist() == [500] * 10


def test_a_result_is_what_the_method_gives(finished):
    result = read_result(finished / "smoke" / Job("batch", "cifar10", "itq", (), 16, 1).path)
    split = stage("cifar10", "smoke").split(1)
    rows = training_set(split)
    method = mihash.batch.ITQ(16, seed=1)
    mapping = method.fit(split.X_base[rows], split.y_base[rows])
    codes = mapping.encode(split.X_query), mapping.encode(split.X_base)
    assert result["final"] == mihash.mean_average_precision(*codes, (split.y_query, split.y_base), 16)
    assert result["history"] == method.history
    assert (result["mapping"], result["n_train"], result["seed"]) == ("linear", 390, 0)
    assert result["times"]["learning_s"] >= result["times"]["step_s"] > 0
    assert set(result["versions"]) == {"mihash", "numpy", "numba", "scikit-learn"}


def test_one_fit_serves_the_lengths_that_begin_it(finished, tmp_path):
    tasks = pending([TINY], tmp_path, "smoke")
    shared = [task for task in tasks if task.jobs[0].method == "fasthash"]
    assert [[fit.n_bits for fit in task.jobs] for task in shared] == [[8, 16], [8, 16]]
    assert str(shared[0]) == "cifar10 fasthash all bits, trial 0"
    alone = fit_once(stage("cifar10", "smoke").split(0), shared[0].jobs[:1])[0]
    together = read_result(finished / "smoke" / shared[0].jobs[0].path)
    assert alone["final"] == together["final"]
    assert alone["history"] == together["history"]
    assert len(together["history"]) == 8
    longer = read_result(finished / "smoke" / shared[0].jobs[1].path)
    assert together["times"]["learning_s"] < longer["times"]["learning_s"]


def test_what_is_there_is_not_made_again_and_an_interrupted_run_goes_on(finished, tmp_path):
    assert pending([TINY], finished, "smoke") == []
    tasks = pending([TINY], tmp_path, "smoke")
    for task in tasks[:2]:
        run_task(task)
    left = pending([TINY], tmp_path, "smoke")
    assert len(left) == len(tasks) - 2
    with pytest.raises(NotReady, match=r"of the 18 results of tiny are not in .* Run `mihash reproduce tiny"):
        outcomes(TINY, tmp_path, "smoke")
    run_tasks(left)
    assert contents(tmp_path) == contents(finished)


def test_a_result_that_is_not_whole_or_of_others_is_refused(finished, tmp_path):
    fit = Job("batch", "cifar10", "itq", (), 8, 0)
    good = read_result(finished / "smoke" / fit.path)
    path = tmp_path / "smoke" / fit.path
    path.parent.mkdir(parents=True)
    only = replace(TINY, methods=("itq",), parameters={}, once=(), bits=(8,), trials=1)
    for change, error in (
        ({"final": "much"}, CorruptStore),
        ({"seed": 7}, StoreError),
        ({"data": "x"}, StoreError),
    ):
        path.write_text(json.dumps(good | change))
        for read in (lambda: pending([only], tmp_path, "smoke"), lambda: outcomes(only, tmp_path, "smoke")):
            with pytest.raises(error):
                read()


def test_a_method_that_refuses_the_data_says_why(tmp_path):
    only = replace(TINY, methods=("itq",), parameters={}, once=(), bits=(8, 99), trials=1)
    run_tasks(pending([only], tmp_path, "smoke"))
    assert pending([only], tmp_path, "smoke") == []
    table = make_table(only, tmp_path, "smoke")
    assert table.columns[-2:] == ("8 bits", "99 bits")
    assert table.rows[0][-1] == "none"
    assert any(note.startswith("ITQ: ITQ makes as many bits as there are principal") for note in table.notes)


def test_without_torch_the_table_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setattr(jobs, "lacking", lambda name: "PyTorch" if name == "dpsh" else None)
    only = replace(TINY, methods=("itq", "dpsh"), parameters={}, trials=1)
    tasks = pending([only], tmp_path, "smoke")
    assert {task.jobs[0].method for task in tasks} == {"itq"}
    run_tasks(tasks)
    table = make_table(only, tmp_path, "smoke")
    assert table.rows[1][-2:] == ("none", "none")
    assert "DPSH has no numbers: it needs PyTorch" in table.notes


@pytest.mark.needs("torch")
def test_the_table_has_the_papers_numbers_beside(finished):
    papers = replace(
        TINY,
        bits=(12, 24),
        methods=("mihash",),
        parameters={"mihash": [{"unit_length": False, "n_bins": None}]},
        once=(),
    )
    run_tasks(pending([papers], finished, "smoke"))
    table = make_table(papers, finished, "smoke")
    assert table.columns == ("method", "map", "12 bits", "24 bits", "paper: 12 bits", "paper: 24 bits")
    assert table.rows[0][:2] + table.rows[0][-2:] == ("MIHash, the paper's settings", "linear", "0.683", "0.720")
    table = make_table(TINY, finished, "smoke")
    assert [row[:2] for row in table.rows][:3] == [
        ("MIHash, our variant, epochs = 5", "linear"),
        ("MIHash, our variant, 1 epoch", "linear"),
        ("FastHash, iterations = 3, n_starts = 1", "trees"),
    ]
    assert table.notes[0].startswith("Means over 2 draws of training and test set, one for DPSH; the largest")
    assert table.notes[2].startswith(
        "Across maps, 16 bits, the best of each: linear: MIHash, our variant, epochs = 5 0."
    )
    assert "; trees: FastHash" in table.notes[2]


@pytest.mark.needs("torch")
def test_times_stand_beside_the_papers(finished):
    times = replace(TINY, draws="training", bits=(16,))
    table = make_table(times, finished, "smoke")
    assert table.columns == ("method", "map", "mAP", "CPU s", "steps", "a step, CPU s")
    assert [row[4] for row in table.rows] == ["5", "1", "16", table.rows[3][4], "2"]
    assert table.notes[-2].startswith("A step is an epoch")


def test_notes_name_the_data_set_where_there_are_several(tmp_path):
    data = mihash.datasets.digits()
    for name, labels in (("few", {"y": data.y[:60]}), ("none", {})):
        np.savez(tmp_path / f"{name}.npz", X=data.X[:60], **labels)
    files = tuple(str(tmp_path / f"{name}.npz") for name in ("few", "none"))
    several = replace(TINY, datasets=files, methods=("itq", "sdh"), parameters={}, once=(), bits=(8, 40))
    run_tasks(pending([several], tmp_path, "own"))
    notes = make_table(several, tmp_path, "own").notes
    assert "examples, as many of each class, where each has one." in notes[1]
    assert [note.split("-")[0] for note in notes if "components" in note] == ["ITQ on few", "ITQ on none"]
    across = [note for note in notes if note.startswith("Across maps on ")]
    assert len(across) == 1
    assert "40 bits, the best of each: RBF: SDH" in across[0]
    refused = replace(several, methods=("itq",), bits=(40,))
    assert make_table(refused, tmp_path, "own").notes[0].endswith("mAP over them is 0.000.")


def test_wider_features_are_as_far_apart(tmp_path):
    X = np.random.default_rng(0).standard_normal((30, 7)).astype(np.float32)
    assert np.allclose(widened(X, 20) @ widened(X, 20).T, X @ X.T, atol=1e-4)
    assert widened(X, 7) is X
    wide = replace(TINY, methods=("itq",), parameters={}, once=(), bits=(8,), trials=1, n_features=100)
    run_tasks(pending([wide], tmp_path, "smoke"))
    assert (tmp_path / "smoke/batch/cifar10/8-bits/itq/trial-0-100-features.json").exists()
    narrow = fit_once(stage("cifar10", "smoke").split(0), list(replace(wide, n_features=0).jobs()))[0]
    found = next(iter(outcomes(wide, tmp_path, "smoke").values()))
    assert found.mean("final") == pytest.approx(narrow["final"], abs=0.05)


@pytest.mark.needs("torch")
@pytest.mark.parametrize("name", ["table1", "table3", "table3-wide"])
def test_scales_change_what_costs(name):
    definition = load_definition(name)
    smoke = definition.at("smoke")
    assert smoke.trials == 1 < definition.trials
    assert max(smoke.bits) < max(definition.bits)
    assert definition.at("full") is definition
    if "vdsh" in definition.methods:
        full = next(fit for fit in definition.jobs() if fit.method == "vdsh")
        assert mihash.batch.VDSH(8, **dict(full.parameters)).n_layers == 16
        assert (
            dict(next(fit for fit in definition.jobs("smoke") if fit.method == "vdsh").parameters)["n_layers"] == 3
        )


@pytest.mark.needs("torch")
def test_the_tables_are_made_at_smoke_scale_and_not_made_again(tmp_path):
    """All methods of Setting 1 as `mihash reproduce` has them, and what is made of them."""
    command = ["reproduce", "table1", "table3", "table3-wide", "--scale", "smoke", "--results", str(tmp_path)]
    first, again = (CliRunner().invoke(app, [*command, "--processes", "1"]) for _ in range(2))
    assert (first.exit_code, again.exit_code) == (0, 0), first.output
    assert "49 results from 47 tasks" in first.output
    assert "0 results from 0 tasks" in again.output
    report = (tmp_path / "smoke" / "report.md").read_text()
    assert "| FastHash, iterations = 10, n_starts = 2 | trees | 0." in report
    assert "| VDSH-like, epochs = 5, n_layers = 3, n_nodes = 64 | network | 0." in report
    assert "| VDSH-like, alternating, epochs = 5, n_layers = 3, n_nodes = 64 | network | 0." in report
    assert "- At this scale codes have 24 bits." in report
    assert "Features were brought to 256 dimensions" in report


@pytest.mark.needs("torch")
def test_vdsh_has_results_that_come_with_the_package(tmp_path):
    """At full scale they are shown and not made again, unless a device is asked for."""
    definition = replace(load_definition("table1"), methods=("vdsh",), parameters={"vdsh": VDSH_ROWS}, scales={})
    assert pending([definition], tmp_path, "full") == []
    assert len(pending([definition], tmp_path, "full", device="cpu")) == 24
    assert len(pending([definition], tmp_path, "full", seed=1)) == 24
    table = make_table(definition, tmp_path, "full")
    assert [row[0] for row in table.rows] == ["VDSH-like", "VDSH-like, alternating, epochs = 600"]
    assert table.rows[0][4:6] == ("0.614", "0.602")
    assert table.rows[0][-1] == "0.554"
    assert table.rows[1][-1] == ""
    notes = " ".join(table.notes)
    assert "come with mihash: NVIDIA H200" in notes
    assert "largest standard deviation" in notes
    times = make_table(replace(definition, draws="training", bits=(48,)), tmp_path, "full")
    assert "on NVIDIA H200" in times.rows[0][3]


def test_table_3_is_made_of_the_fits_of_table_1():
    first, third = (set(load_definition(name).jobs("smoke")) for name in ("table1", "table3"))
    assert third <= first
    first, third = (set(load_definition(name).jobs()) for name in ("table1", "table3"))
    assert third <= first


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ('methods = ["okh"]', UnknownName, "no batch method 'okh'"),
        ('methods = ["sdh"]\nthetas = [0.0]', InvalidInput, "has no key `thetas`"),
        (
            'methods = ["sdh"]\nonce = ["shk"]',
            InvalidInput,
            "`once` must be of the methods sdh; got some of 'shk'",
        ),
        ('methods = ["sdh"]\n[parameters]\nsdh = [{rank = 3}]', InvalidInput, "`parameters` of sdh must be among"),
        ('methods = ["sdh"]\n[scales.smoke]\nthetas = [0]', InvalidInput, "`scales.smoke` must be of bits"),
        ('methods = ["sdh"]\n[scales.smoke]\nbits = [0]', InvalidInput, "`bits` must be"),
        ('methods = ["sdh"]\nscales = 3', InvalidInput, "`scales` must be a table"),
        ('methods = ["sdh"]\nn_features = -1', InvalidInput, "`n_features`"),
    ],
)
def test_bad_definitions(tmp_path, text, error, message):
    path = tmp_path / "mine.toml"
    path.write_text(f'title = "T"\nkind = "batch"\ndraws = "lengths"\n{text}\n')
    with pytest.raises(error, match=message):
        load_definition(path)


def test_a_stream_knows_nothing_of_fits(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('title = "T"\nkind = "online"\ndraws = "curves"\nmethods = ["lsh"]\nn_features = 9\n')
    with pytest.raises(InvalidInput, match="has no key `n_features`"):
        load_definition(path)


KINDS = {"dpsh": "linear", "vdsh": "network", "fasthash": "forest"}


class Judged(Tree):
    """Fits that were never made, with a verdict on them."""

    def fits(self, score, seconds=lambda _: 1.0, scale="smoke", **keys):
        keys = {"bits": [12, 24], "trials": 1, "datasets": ["cifar10"]} | keys
        text = "\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items() if key != "parameters")
        path = self.folder / "fits.toml"
        path.write_text(f'title = "T"\nkind = "batch"\ndraws = "lengths"\n{text}\n{keys.get("parameters", "")}')
        self.study = Study(self.folder, scale)
        names = {"smoke": "cifar10 (digits)", "full": "cifar10_vgg16"}
        for fit in load_definition(path).jobs():
            kernel = dict(fit.parameters).get("kernel", "rbf" if fit.method in ("sdh", "shk") else "linear")
            result = {
                "final": score(fit),
                "mapping": KINDS.get(fit.method, "kernel" if kernel == "rbf" else "linear"),
                "history": [1.0],
                "n_train": 5000,
                "data": names[scale],
                "protocol": {"rows": 9},
                "times": {"learning_s": seconds(fit), "step_s": seconds(fit) / 10},
                "seed": 0,
                "scale": scale,
            }
            place = self.folder / scale / fit.path
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(result))
        return str(path)


VDSH_ROWS = load_definition("table1").parameters["vdsh"]
PAPER = 'unit_length = false, n_bins = "none"'
BOTH = f"{{{PAPER}}}, {{{PAPER}, epochs = 1}}"
ONE_EPOCH = f"[parameters]\nmihash = [{BOTH}]\n"
SETTINGS = f"[parameters]\nmihash = [{BOTH}, {{}}, {{kernel = 'rbf'}}]\nsdh = [{{}}, {{kernel = 'linear'}}]\n"


def test_first_is_judged_map_by_map(tmp_path):
    tree = Judged(tmp_path)

    def score(fit):
        chosen = dict(fit.parameters)
        if fit.method == "sdh":
            return 0.6 if chosen.get("kernel") == "linear" else 0.9
        if not chosen.get("unit_length", True):
            return 0.7 + 0.02 * fit.trial - 0.5 * (chosen.get("epochs") == 1)  # deviation 0.0141
        return 0.8  # our variant, which is not judged

    name = tree.fits(score, methods=["mihash", "sdh"], parameters=SETTINGS, trials=2)
    common = {"definition": name, "method": "mihash"}
    linear = tree.judge("first-on-map", **common, mapping="linear", deviations=2)
    assert linear.held
    each = "bits 0.7100, then SDH 0.6000 (deviation 0.0141)"
    assert linear.figures == f"linear: 12 {each}; 24 {each} (of SDH)"
    assert tree.judge("first-on-map", **common, mapping="linear", deviations=9).word == "not settled"
    assert tree.judge("first-on-map", **common, mapping="kernel", deviations=2).word == "not tested"
    behind = tree.fits(
        lambda fit: 0.5 + 0.1 * (fit.method == "sdh"), methods=["mihash", "sdh"], parameters=SETTINGS
    )
    assert tree.held("first-on-map", **common | {"definition": behind}, mapping="linear", deviations=2) is False


@pytest.mark.parametrize(("after_one", "expected"), [(0.6, True), (0.4, False)])
def test_one_epoch_is_judged_at_each_length(tmp_path, after_one, expected):
    tree = Judged(tmp_path)
    scores = {"mihash": 0.7, "vdsh": 0.5, "dpsh": 0.45}
    name = tree.fits(
        lambda fit: after_one if dict(fit.parameters).get("epochs") == 1 else scores[fit.method],
        methods=["mihash", "vdsh", "dpsh"],
        parameters=ONE_EPOCH,
    )
    options = {"definition": name, "method": "mihash", "mapping": "linear", "among": ["vdsh", "dpsh"]}
    verdict = tree.judge("one-epoch-above", **options, deviations=2)
    assert verdict.held is expected
    assert f"12 bits {after_one:.3f} against VDSH-like 0.500, DPSH 0.450" in verdict.figures


def test_of_methods_that_cannot_be_had_those_compared_are_named(tmp_path, monkeypatch):
    tree = Judged(tmp_path)
    name = tree.fits(lambda _: 0.5, methods=["mihash", "vdsh", "dtsh"], parameters=ONE_EPOCH)
    for method in ("vdsh", "dtsh"):
        shutil.rmtree(tmp_path / "smoke/batch/cifar10/12-bits" / method)
        shutil.rmtree(tmp_path / "smoke/batch/cifar10/24-bits" / method)
    monkeypatch.setattr(jobs, "lacking", lambda method: "PyTorch" if method in ("vdsh", "dtsh") else None)
    options = {"definition": name, "method": "mihash", "mapping": "linear", "among": ["vdsh"]}
    verdict = tree.judge("one-epoch-above", **options, deviations=2)
    assert (verdict.word, verdict.figures) == ("not tested", "VDSH-like needs PyTorch")
