from dataclasses import replace
from pathlib import Path

import pytest

import mihash
from mihash.errors import InvalidInput, StoreError, UnknownName
from mihash.online import LEARNERS
from mihash.paper.definition import definition_names, load_definition
from mihash.paper.jobs import Job
from mihash.paper.parameters import load_parameters, tuned_arguments

GOOD = 'title = "T"\nkind = "online"\ndraws = "curves"\nmethods = ["lsh"]\n'
OTHER = 'title = "T"\nkind = "{}"\ndraws = "{}"\n'


def written(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", definition_names())
def test_every_definition_is_read_and_its_jobs_have_paths_of_their_own(name):
    definition = load_definition(name)
    for scale in ("smoke", "full"):
        jobs = list(definition.jobs(scale))
        assert {job.kind for job in jobs} == {definition.kind}
        assert len({job.path for job in jobs}) == len(set(jobs)) == len(jobs)


def test_every_table_and_figure_is_there():
    expected = {
        "figure3",
        "figure4",
        "figure5",
        "figure6",
        "figure7",
        "figure8",
        "reservoir",
        "table3-wide",
        "learners",
        "missing-labels",
    }
    expected |= {"table1-setting2", "everything"}
    assert set(definition_names()) == expected | {f"table{number}" for number in range(1, 10)}


def test_a_method_that_needs_labels_is_left_out_where_there_are_none():
    runs = list(load_definition("figure4").jobs())
    assert {run.method for run in runs if run.dataset == "labelme"} == {"okh", "adapthash", "sketchhash", "mihash"}
    assert {run.method for run in runs if run.dataset == "cifar10"} == {*load_definition("figure4").methods}


def test_parameters_are_those_of_the_methods():
    for method, datasets in load_parameters().items():
        for dataset in datasets:
            for n_bits in (32, 64):
                chosen = tuned_arguments(method, dataset, n_bits)
                assert chosen
                assert chosen.items() <= LEARNERS[method](8, **chosen).parameters().items()


def test_a_code_length_may_have_parameters_of_its_own():
    short, long = (tuned_arguments("adapthash", "labelme", bits) for bits in (32, 64))
    assert (short["alpha"], long["alpha"]) == (0.7, 0.9)
    runs = list(load_definition("figure7").jobs())
    of_labelme = [run for run in runs if (run.dataset, run.method) == ("labelme", "adapthash")]
    assert {dict(run.parameters)["alpha"] for run in of_labelme if run.n_bits == 64} == {0.9}


def test_runs():
    run = Job("online", "cifar10", "mihash", (), 32, 1, 1.0, 0.01, 10.0)
    assert run.trigger(100) == mihash.TriggerUpdate(0.01, 1000)
    assert Job("online", "cifar10", "mihash", (), 32, 1, 1.0, None, 0.5).trigger(100) == mihash.FixedRate(50)
    assert str(run.path) == "cifar10/32-bits/mihash/trial-1/theta-0.01-every-10.json"
    assert run.shared == Job("online", "cifar10", "mihash", (), 32, 1, 1.0, 0.3, 1.0).shared


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD + "speed = 3\n", "unknown keys speed; known: title, kind"),
        ('title = "T"\n', "must have kind, draws"),
        (GOOD + "thetas = 0.1\n", "`thetas` in mine.toml must be a list"),
        (GOOD + 'thetas = ["high"]\n', "`thetas` must be a number"),
        (GOOD + "thetas = [nan]\n", "`thetas` must be a number"),
        (GOOD + "bits = [0]\n", "`bits`"),
        (GOOD + "trials = 0\n", "`trials`"),
        (GOOD + 'datasets = ["mnist"]\n', "`datasets` must be one of 'cifar10'"),
        (GOOD.replace("online", "offline"), "`kind` must be one of"),
        ("title = [", "is not TOML"),
        (GOOD.replace('"T"', "3"), "mine.toml: `title` must be a text; got 3"),
        (GOOD.replace('"online"', "3"), "`kind` must be one of .*; got 3"),
        (GOOD.replace('"curves"', "[3]"), "`draws` of the kind `online` must be one of"),
        (GOOD + 'fixed = "no"\n', "`fixed` must be true or false; got 'no'"),
        (GOOD + "ends = 1\n", "`ends` must be true or false; got 1"),
        (GOOD + "trials = 1.5\n", "`trials` must be a whole number"),
        (GOOD + "datasets = 3\n", "`datasets` in mine.toml must be a list"),
        (GOOD + "datasets = []\n", "`datasets` must not be empty"),
        (GOOD + "datasets = [3]\n", "`datasets` must be one of"),
        (GOOD + 'bits = ["8"]\n', "`bits` must be a whole number"),
        (GOOD + "bits = [8, 8]\n", "`bits` must not name a value twice"),
        (GOOD + 'intervals = ["1"]\n', "`intervals and reservoirs` must be"),
        (GOOD + "reservoirs = [0]\n", "`intervals and reservoirs` must be"),
        (GOOD + "missing = [-0.1]\n", "`missing` must be a finite number of at least 0"),
        (GOOD + "missing = [1]\n", "`missing` must leave some labels"),
        (GOOD.replace('["lsh"]', "[[3]]"), "`methods` must be names of learners"),
        (GOOD.replace('["lsh"]', "[]"), "`methods` must not be empty for the kind 'online'"),
        (GOOD.replace('methods = ["lsh"]', ""), "`methods` must not be empty for the kind 'online'"),
        (GOOD + "parameters = 3\n", "`parameters` must be a table for each method; got 3"),
        (GOOD + "parameters.lsh = 3\n", "`parameters` of lsh must be a table of its arguments; got 3"),
        (GOOD + "[parameters.okhh]\nC = 1\n", "`parameters` must be of the methods lsh; got some of 'okhh'"),
        (GOOD + "[parameters.okh]\nC = 1\n", "`parameters` must be of the methods lsh; got some of 'okh'"),
        (GOOD + "[parameters.lsh]\nnosuch = 1\n", "`parameters` of lsh must be .*; got nosuch"),
        (GOOD + "[parameters.lsh]\nseed = 1\n", "`parameters` of lsh must be .*; got seed"),
        (GOOD.replace("lsh", "okh") + "[parameters.okh]\nC = -1\n", "`C` must be"),
        (GOOD.replace("lsh", "okh") + "[parameters.okh]\nC = [1]\n", "`C` must be"),
        (GOOD.replace("curves", "correlation"), "`draws` of the kind `online` must be one of 'curves', "),
        (OTHER.format("correlation", "distributions"), "`draws` of the kind `correlation` must be one of"),
        (OTHER.format("distributions", "curves"), "`draws` of the kind `distributions` must be one of"),
        (OTHER.format("distributions", "distributions"), "`methods` must not be empty for the kind 'distr"),
        (OTHER.format("correlation", "correlation") + 'methods = ["lsh"]\n', "has no key `methods`"),
    ],
)
def test_bad_definitions(text, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        load_definition(written(tmp_path, text))


@pytest.mark.parametrize("kind", ["correlation", "distributions"])
@pytest.mark.parametrize(
    "text",
    [
        "bits = [32]",
        "thetas = [0.0]",
        "trials = 3",
        "intervals = [1.0]",
        "reservoirs = [1.0]",
        "fixed = true",
    ],
)
def test_keys_that_a_kind_does_not_obey_are_refused(kind, text, tmp_path):
    methods = 'methods = ["lsh"]\n' if kind == "distributions" else ""
    base = OTHER.format(kind, kind) + methods
    assert load_definition(written(tmp_path, base)).kind == kind
    key = text.split(" ")[0].split(".")[0]
    with pytest.raises(InvalidInput, match=rf"mine.toml: The kind '{kind}' has no key `{key}`\."):
        load_definition(written(tmp_path, base + text + "\n"))


def test_numbers_that_differ_have_files_of_their_own():
    def path(theta, every=1.0, share=1.0):
        return Job("online", "cifar10", "lsh", (), 32, 0, share, theta, every).path.name

    assert path(0.1234567) == "theta-0.1234567.json"
    assert path(0.1234568) == "theta-0.1234568.json"
    assert path(-1e-6) == "theta--1e-06.json"
    assert path(float("inf"), 10.0, 0.2) == "theta-inf-every-10-reservoir-0.2.json"
    assert path(1234567.0, 1.0000001, 0.1234567) == "theta-1234567.0-every-1.0000001-reservoir-0.1234567.json"


def test_the_command_is_whole(tmp_path, monkeypatch):
    monkeypatch.delenv("MIHASH_DATA", raising=False)
    plan = written(tmp_path, GOOD)
    mine = replace(load_definition(plan), data=Path("my features"))
    assert mine.command(Path("out/seed-7"), "full") == (
        f"mihash reproduce {plan} --scale full --data 'my features' --results out --seed 7"
    )
    assert mine.on(["labelme"]).command(Path("results"), "small") == (
        f"mihash reproduce {plan} --dataset labelme --scale small"
    )
    assert mine.on(["a.npz"]).command(Path("results/seed-1"), "own") == (
        f"mihash reproduce {plan} --dataset a.npz --seed 1"
    )


def test_unknown_names(tmp_path):
    with pytest.raises(UnknownName, match="no experiment 'table99'; known: everything"):
        load_definition("table99")
    with pytest.raises(UnknownName, match="no learner 'magic'"):
        load_definition(written(tmp_path, GOOD.replace("lsh", "magic")))
    with pytest.raises(StoreError, match="Cannot read"):
        load_definition(tmp_path / "none.toml")
