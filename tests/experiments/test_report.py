import re

import pytest
from typer.testing import CliRunner

from mihash import cli
from mihash.experiments.definition import Definition, load_definition
from mihash.experiments.report import make_report
from mihash.experiments.runner import pending, run_tasks

TINY = Definition(
    "tiny",
    "A tiny figure & <table>",
    "online",
    "curves",
    datasets=("cifar10",),
    methods=("lsh", "mihash"),
    bits=(32,),
    trials=2,
)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results")
    run_tasks(pending([TINY], folder, "smoke"), 1)
    return folder


def test_the_page_needs_nothing_else(results):
    page, text = make_report([TINY, load_definition("table6")], results, "smoke")
    html = page.read_text()
    assert html.startswith("<!doctype html>")
    assert "data:image/png;base64," in html
    assert not re.search(r"(src|href)='(?!#|data:)", html), "it points outside itself"
    assert "A tiny figure &amp; &lt;table&gt;" in html
    assert "mihash reproduce table6 --scale smoke" in html  # what is missing is said
    markdown = text.read_text()
    assert "figures/tiny.png" in markdown
    assert (results / "smoke/figures/tiny.png").exists()
    assert markdown.count("# A tiny figure") == 1
    assert "claims held" in markdown


def test_making_it_again_changes_nothing(results):
    first = [path.read_bytes() for path in make_report([TINY], results, "smoke")]
    assert [path.read_bytes() for path in make_report([TINY], results, "smoke")] == first


def test_command(tmp_path):
    lines = ('title = "Mine"', 'kind = "online"', 'draws = "curves"', 'datasets = ["cifar10"]')
    (tmp_path / "mine.toml").write_text("\n".join([*lines, 'methods = ["osh"]', "trials = 1"]))
    arguments = ["reproduce", str(tmp_path / "mine.toml"), "--results", str(tmp_path / "out"), "--processes", "1"]
    first = CliRunner().invoke(cli.app, arguments)
    assert first.exit_code == 0, first.output
    assert "2 runs in 1 learning passes" in first.output
    assert (tmp_path / "out/smoke/report.html").exists()
    again = CliRunner().invoke(cli.app, arguments)
    assert "0 runs in 0 learning passes" in again.output


def test_commands_that_cannot_run(monkeypatch, capsys):
    for arguments, message in (
        (["reproduce"], "Name an experiment"),
        (["reproduce", "table99"], "no experiment 'table99'"),
        (["reproduce", "table4", "--scale", "huge"], "`scale` must be one of"),
        (["tune", "magic"], "no learner 'magic'"),
        (["tune", "okh", "--try", "C"], "NAME=VALUE"),
    ):
        monkeypatch.setattr("sys.argv", ["mihash", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 2
        assert message in capsys.readouterr().err


def test_every_command_has_help_with_an_example():
    for command in ("demo", "reproduce", "tune"):
        output = CliRunner().invoke(cli.app, [command, "--help"]).output
        assert f"Example: mihash {command}" in output
