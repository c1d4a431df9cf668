"""The paper's experiments on a file of the user's, through the command line."""

import json
import re

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from mihash import cli
from mihash.errors import NotReady, StoreError
from mihash.paper.claims import judge_all
from mihash.paper.datasets import protocol_for
from mihash.paper.definition import Definition, definition_names, load_definition
from mihash.paper.figures import draw_figure
from mihash.paper.outcomes import outcomes
from mihash.paper.runner import pending, run_task
from mihash.paper.scales import stage
from mihash.paper.sources import find_source
from mihash.paper.tables import make_table

N_ROWS = 120


def clusters(n=N_ROWS, seed=0):
    """Return four classes, each about a centre of its own."""
    rng = np.random.default_rng(seed)
    y = rng.integers(4, size=n)
    return (rng.normal(size=(4, 12))[y] + 0.4 * rng.normal(size=(n, 12))).astype(np.float32), y


X, Y = clusters()


def as_npz(folder):
    np.savez(folder / "mine.npz", features=X, labels=Y)
    return folder / "mine.npz"


def as_parquet(folder):
    table = pa.table({"embedding": list(X), "label": np.array(list("abcd"))[Y]})
    parquet.write_table(table, folder / "mine.parquet")
    return folder / "mine.parquet"


def without_labels(folder):
    np.save(folder / "bare.npy", X)
    return folder / "bare.npy"


def run(*arguments):
    return CliRunner().invoke(cli.app, [str(argument) for argument in arguments])


def definition(folder, draws="curves", **keys):
    keys = {"title": "Mine", "kind": "online", "draws": draws, "methods": ["okh", "osh"], "trials": 1} | keys
    path = folder / "mine.toml"
    path.write_text("\n".join(f"{key} = {json.dumps(value)}" for key, value in keys.items()))
    return path


def test_tables_and_figures_of_the_paper_on_a_file(tmp_path):
    path = as_npz(tmp_path)
    options = ("--dataset", path, "--results", tmp_path / "out", "--processes", 1)
    first = run("reproduce", "table4", "figure4", *options)
    assert first.exit_code == 0, first.output
    assert "156 results from 18 tasks" in first.output  # table 4's four methods are among figure 4's six
    name = find_source(str(path)).name
    folder = tmp_path / "out" / "own"
    assert sorted(each.name for each in folder.iterdir()) == sorted([name, "figures", "report.html", "report.md"])
    result = json.loads((folder / name / "32-bits" / "mihash" / "trial-0" / "theta-0.json").read_text())
    assert (result["data"], result["scale"], result["run"]["dataset"]) == (path.name, "own", name)
    assert (result["protocol"]["rows"], result["protocol"]["n_test"], result["examples"][-1]) == (120, 12, 108)
    assert result["final"] > result["precisions"][0]
    markdown, html = (folder / "report.md").read_text(), (folder / "report.html").read_text()
    for text in (markdown, html):
        assert f"Table 4: theta on CIFAR-10, 32 bits; here on {path.name}" in text
        assert f"{name} is the file {path.name}, 120 rows; the paper has no numbers for it." in text
        assert "none is evaluated on these" in text
        assert "paper: " not in text
        assert "In the paper" not in text
        assert "results of" not in text, "something is said to be missing"
    assert html.count("data:image/png;base64,") == 2
    assert "nan" not in re.sub("base64,[^']*", "", html)
    again = run("reproduce", "table4", "figure4", *options)
    assert "0 results from 0 tasks" in again.output


def test_classes_of_a_parquet_file_have_names(tmp_path):
    path = as_parquet(tmp_path)
    plan = definition(tmp_path, methods=["mihash", "osh"], bits=[32])
    made = run("reproduce", plan, "--dataset", path, "--results", tmp_path / "out", "--processes", 1)
    assert made.exit_code == 0, made.output
    name = find_source(str(path)).name
    result = json.loads((tmp_path / f"out/own/{name}/32-bits/mihash/trial-0/theta-0.json").read_text())
    assert (result["data"], result["scale"], result["run"]["dataset"]) == (path.name, "own", name)
    assert (result["protocol"]["rows"], result["protocol"]["n_test"], result["examples"][-1]) == (120, 12, 108)
    assert result["final"] > result["precisions"][0]
    html = (tmp_path / "out/own/report.html").read_text()
    assert f"{name} is the file {path.name}, 120 rows; the paper has no numbers for it." in html
    assert html.count("data:image/png;base64,") == 1


def test_every_experiment_runs_on_a_small_file_without_labels(tmp_path):
    """20 rows are the fewest that can be divided: whatever a definition asks for is still made."""
    np.save(tmp_path / "bare.npy", X[:20])
    made = run("reproduce", "--all", "--dataset", tmp_path / "bare.npy", "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    html = (tmp_path / "own/report.html").read_text()
    tables = ("times", "methods", "intervals", "missing", "lengths", "training", "end-to-end")
    figures = [name for name in definition_names() if load_definition(name).draws not in tables]
    assert html.count("data:image/png;base64,") == len(figures)
    assert (
        html.count("<table>") == len(definition_names()) - 3
    )  # figures 3 and 6 have no table, nor is there an image
    assert "table1-setting2 has nothing to run: it trains on images" in html
    assert "results of" not in html
    assert "<td>OKH</td>" in html
    assert "<td>OSH</td>" not in html
    assert "<td>SDH</td>" not in html
    assert "ITQ: ITQ makes as many bits as there are principal components at most" in html
    assert (tmp_path / f"own/correlation/{find_source(str(tmp_path / 'bare.npy')).name}.json").exists()


def test_two_files_and_one_of_the_papers_side_by_side(tmp_path):
    paths = [as_npz(tmp_path), without_labels(tmp_path)]
    plan = definition(tmp_path)
    chosen = [word for path in (*paths, paths[0], "cifar10") for word in ("--dataset", path)]
    made = run("reproduce", plan, *chosen, "--results", tmp_path / "out", "--processes", 1)
    assert made.exit_code == 0, made.output
    assert "10 results from 5 tasks" in made.output  # OSH is left out where there are no labels
    table = make_table(load_definition(plan).on([*map(str, paths), "cifar10"]), tmp_path / "out", "smoke")
    names = [find_source(str(path)).name for path in paths]
    assert [row[:2] for row in table.rows] == [
        (names[0], "OKH"),
        (names[0], "OSH"),
        (names[1], "OKH"),
        ("CIFAR-10", "OKH"),
        ("CIFAR-10", "OSH"),
    ]
    assert [bool(row[table.columns.index("paper: AUC")]) for row in table.rows] == [False] * 3 + [True] * 2
    assert any("CIFAR-10 is 'cifar10 (digits)'" in note and names[0] not in note for note in table.notes)
    svg = (tmp_path / "out/smoke/figures/mine.svg").read_text()
    assert "needs labels" in svg
    assert all(name in svg for name in names)


def test_a_definition_names_a_file_from_its_own_folder(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    as_npz(tmp_path)
    plan = definition(tmp_path, datasets=["mine.npz"], methods=["lsh"])
    made = run("reproduce", plan, "--processes", 1)
    assert made.exit_code == 0, made.output
    assert len(list((tmp_path / "elsewhere/results/own").rglob("theta-0.json"))) == 1


def test_a_run_is_the_loop_on_that_file(tmp_path):
    """The numbers are those of the methods on the file's rows: a permutation of the classes changes nothing."""
    path, other = as_npz(tmp_path), tmp_path / "other.npz"
    np.savez(other, features=X, labels=(Y * 7 + 3).astype(np.uint8))
    assert stage(str(path), "own").protocol == protocol_for(stage(str(path), "own").dataset)
    tiny = Definition("tiny", "T", "online", "curves", methods=("mihash",), bits=(16,), trials=1)
    found = []
    for each in (path, other):
        for task in pending([tiny.on([str(each)])], tmp_path, "own"):
            run_task(task)
        found += outcomes(tiny.on([str(each)]), tmp_path, "own").values()
    areas = [outcome.mean("area") for outcome in found]
    assert areas[:2] == areas[2:]
    assert 0.25 < areas[0] < 1


def test_a_file_that_changes_meanwhile_is_not_taken_for_the_old_one(tmp_path):
    path = as_npz(tmp_path)
    tiny = Definition("tiny", "T", "online", "curves", (str(path),), ("lsh",), trials=1)
    (task,) = pending([tiny], tmp_path, "own")
    run_task(task)
    assert pending([tiny], tmp_path, "own") == []
    np.savez(path, features=X + 1, labels=Y)
    with pytest.raises(StoreError, match=r"mine\.npz' was changed since it was first read. Start again"):
        run_task(task)
    (new,) = pending([tiny], tmp_path, "own")
    assert new.jobs[0].dataset != task.jobs[0].dataset


def test_correlations_and_distributions_of_a_file(tmp_path):
    path = as_parquet(tmp_path)
    made = run("reproduce", "figure3", "figure6", "--dataset", path, "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    name = find_source(str(path)).name
    correlation = json.loads((tmp_path / f"own/correlation/{name}.json").read_text())
    assert (correlation["n_queries"], correlation["n_items"]) == (12, 108)
    assert correlation["pearson"]["ap"] > 0.8
    learned = json.loads(next((tmp_path / "own/distributions").glob(f"{name}-mihash-*.json")).read_text())
    assert learned["after"]["map"] > learned["before"]["map"]
    assert (tmp_path / "own/report.html").read_text().count("data:image/png;base64,") == 2


def test_distributions_of_methods_that_need_labels(tmp_path):
    plan = definition(tmp_path, "distributions", kind="distributions", methods=["mihash", "osh"])
    path = without_labels(tmp_path)
    made = run("reproduce", plan, "--dataset", path, "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    assert [each.name for each in (tmp_path / "own/distributions").iterdir()] == [
        f"{find_source(str(path)).name}-mihash.json"
    ]


def test_nothing_but_methods_that_need_labels(tmp_path):
    plan = definition(tmp_path, methods=["osh", "hcoh"])
    made = run("reproduce", plan, "--dataset", without_labels(tmp_path), "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    assert "all of its methods need labels" in (tmp_path / "own/report.md").read_text()
    with pytest.raises(NotReady, match="nothing to run"):
        draw_figure(load_definition(plan).on([str(tmp_path / "bare.npy")]), tmp_path, "own")


def test_labels_may_be_several_for_each_row(tmp_path):
    several = np.eye(4, dtype=np.uint8)[Y] | np.eye(4, dtype=np.uint8)[(Y + 1) % 4]
    np.savez(tmp_path / "tags.npz", features=X, labels=several)
    plan = definition(tmp_path, methods=["okh", "osh", "adapthash", "sketchhash", "mihash", "hcoh", "hmoh"])
    made = run("reproduce", plan, "--dataset", tmp_path / "tags.npz", "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    assert "14 results from 7 tasks" in made.output


def test_parameters_found_on_a_file_are_run_on_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    as_npz(tmp_path)
    arguments = ("--dataset", "mine.npz", "--bits", 16, "--try", "learning_rate=0.000001,1", "--results", "out")
    tuned = run("tune", "mihash", *arguments)
    assert tuned.exit_code == 0, tuned.output
    name = find_source("mine.npz").name
    plan = tmp_path / f"out/own/tuning/{name}-mihash-16.toml"
    assert f"mihash reproduce out/own/tuning/{plan.name}" in tuned.output.replace("\n", "")
    assert "--scale" not in tuned.output
    found = load_definition(plan)
    assert found.datasets == (str(tmp_path / "mine.npz"),)
    assert found.parameters == {"mihash": {"learning_rate": 1}}
    made = run("reproduce", plan, "--results", "out", "--processes", 1)
    assert made.exit_code == 0, made.output
    assert {run.dataset for run in found.jobs()} == {name}
    assert len(list((tmp_path / "out/own" / name / "16-bits").rglob("theta-0.json"))) == 3


def test_claims_of_the_paper_are_not_evaluated_on_other_data(tmp_path):
    verdicts = judge_all(tmp_path, "own")
    assert {verdict.held for verdict in verdicts} == {None}
    assert {verdict.figures for verdict in verdicts} == {
        "It is about the paper's data sets, and these results are of other data."
    }


def test_a_name_with_odd_characters(tmp_path):
    path = tmp_path / "a$b$ [c] & <d>|_é.npz"
    np.savez(path, features=X, labels=Y)
    plan = definition(tmp_path, methods=["lsh"])
    made = run("reproduce", plan, "--dataset", path, "--results", tmp_path, "--processes", 1)
    assert made.exit_code == 0, made.output
    html, markdown = ((tmp_path / f"own/report.{kind}").read_text() for kind in ("html", "md"))
    assert "a$b$ [c] &amp; &lt;d&gt;|_é.npz" in html
    assert "<d>|_é.npz" not in html
    assert "a$b$ [c] & <d>|_é.npz" in markdown


def too_few(folder):
    np.save(folder / "few.npy", X[:12])
    return folder / "few.npy"


def not_a_number(folder):
    bad = X.copy()
    bad[7, 3] = np.nan
    parquet.write_table(pa.table({"emb": list(bad)}), folder / "nan.parquet")
    return folder / "nan.parquet"


@pytest.mark.parametrize(
    ("make", "code", "message"),
    [
        (lambda folder: folder / "none.npz", 1, r"The data file '.*none\.npz' does not exist; give the path"),
        (not_a_number, 2, r"nan\.parquet: row 7 has a NaN or an infinity"),
        (too_few, 2, r"at least 20 rows to be divided; 'few\.npy' has 12"),
        (lambda folder: folder / "mine.txt", 2, r"or the path of a file \(\.npy, .*; got '.*mine\.txt'"),
    ],
)
@pytest.mark.parametrize("command", ["reproduce", "tune"])
def test_files_that_cannot_be_used(command, make, code, message, tmp_path, monkeypatch, capsys):
    what = {"reproduce": "figure4", "tune": "okh"}[command]
    monkeypatch.setattr("sys.argv", ["mihash", command, what, "--dataset", str(make(tmp_path))])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as caught:
        cli.main()
    error = capsys.readouterr().err
    assert caught.value.code == code
    assert re.search(message, error)
    assert error.startswith("mihash: ")
    assert error.count("\n") == 1
    assert not (tmp_path / "results").exists()


def test_methods_that_need_labels_are_not_tuned_without(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["mihash", "tune", "osh", "--dataset", str(without_labels(tmp_path))])
    with pytest.raises(SystemExit):
        cli.main()
    assert "OSH learns from class labels, and bare.npy has none" in capsys.readouterr().err
