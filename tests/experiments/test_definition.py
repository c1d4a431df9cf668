import pytest

import mihash
from mihash.errors import InvalidInput, StoreError, UnknownName
from mihash.experiments.definition import Run, definition_names, load_definition, load_parameters, tuned_arguments
from mihash.online import LEARNERS

GOOD = 'title = "T"\nkind = "online"\ndraws = "curves"\nmethods = ["lsh"]\n'


def written(folder, text):
    path = folder / "mine.toml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", definition_names())
def test_every_definition_is_read_and_its_runs_have_paths_of_their_own(name):
    definition = load_definition(name)
    runs = list(definition.runs(load_parameters()))
    assert (len(runs) > 0) == (definition.kind == "online")
    assert len({run.path for run in runs}) == len(set(runs)) == len(runs)


def test_every_table_and_figure_of_the_online_experiments_is_there():
    expected = {"figure3", "figure4", "figure5", "figure6", "figure7", "figure8", "reservoir"}
    assert set(definition_names()) == expected | {f"table{number}" for number in (2, 4, 5, 6, 7, 8, 9)}


def test_a_method_that_needs_labels_is_left_out_where_there_are_none():
    runs = list(load_definition("figure4").runs({}))
    assert {run.method for run in runs if run.dataset == "labelme"} == {"okh", "adapthash", "sketchhash", "mihash"}
    assert {run.method for run in runs if run.dataset == "cifar10"} == {*load_definition("figure4").methods}


def test_parameters_are_those_of_the_methods():
    for method, datasets in load_parameters().items():
        for dataset in datasets:
            for n_bits in (32, 64):
                chosen = tuned_arguments(load_parameters(), method, dataset, n_bits)
                assert chosen
                assert chosen.items() <= LEARNERS[method](8, **chosen).parameters().items()


def test_a_code_length_may_have_parameters_of_its_own():
    short, long = (tuned_arguments(load_parameters(), "adapthash", "labelme", bits) for bits in (32, 64))
    assert (short["alpha"], long["alpha"]) == (0.7, 0.9)
    runs = list(load_definition("figure7").runs(load_parameters()))
    of_labelme = [run for run in runs if (run.dataset, run.method) == ("labelme", "adapthash")]
    assert {dict(run.parameters)["alpha"] for run in of_labelme if run.n_bits == 64} == {0.9}


def test_runs():
    run = Run("cifar10", "mihash", (), 32, 1, 1.0, 0.01, 10.0)
    assert run.trigger(100) == mihash.TriggerUpdate(0.01, 1000)
    assert Run("cifar10", "mihash", (), 32, 1, 1.0, None, 0.5).trigger(100) == mihash.FixedRate(50)
    assert str(run.path) == "cifar10/32-bits/mihash/trial-1/theta-0.01-every-10.json"
    assert run.learning == Run("cifar10", "mihash", (), 32, 1, 1.0, 0.3, 1.0).learning


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
    ],
)
def test_bad_definitions(text, message, tmp_path):
    with pytest.raises(InvalidInput, match=message):
        load_definition(written(tmp_path, text))


def test_unknown_names(tmp_path):
    with pytest.raises(UnknownName, match="no experiment 'table99'; known: figure3"):
        load_definition("table99")
    with pytest.raises(UnknownName, match="no learner 'magic'"):
        load_definition(written(tmp_path, GOOD.replace("lsh", "magic")))
    with pytest.raises(StoreError, match="Cannot read"):
        load_definition(tmp_path / "none.toml")
