import re
import shlex

import pytest
from made_up import write
from typer.testing import CliRunner

from mihash import cli
from mihash.errors import InvalidInput
from mihash.paper.claims import Claim, Verdict, load_claims
from mihash.paper.definition import Definition, load_definition
from mihash.paper.report import BEGIN, END, _body, check_page, make_report, to_html, to_markdown
from mihash.paper.runner import pending, run_tasks
from mihash.paper.tables import Table

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


def test_the_digits_are_not_compared_with_the_paper(results):
    page, text = (path.read_text() for path in make_report([TINY], results, "smoke"))
    assert (
        "on digits in place of the paper&#x27;s data" in page or "on digits in place of the paper's data" in page
    )
    assert "on digits in place of the paper's data" in text
    assert not re.search(r"(<th[^>]*>|\| )paper: ", page + text)
    assert "one piece of evidence" in page
    assert page.count("<article class='claim") > 30
    assert "id='show-not'" in page


def test_making_it_again_changes_nothing(results):
    first = [path.read_bytes() for path in make_report([TINY], results, "smoke")]
    assert [path.read_bytes() for path in make_report([TINY], results, "smoke")] == first


def test_command(tmp_path):
    lines = ('title = "Mine"', 'kind = "online"', 'draws = "curves"', 'datasets = ["cifar10"]')
    (tmp_path / "mine.toml").write_text("\n".join([*lines, 'methods = ["osh"]', "trials = 1"]))
    arguments = ["reproduce", str(tmp_path / "mine.toml"), "--results", str(tmp_path / "out"), "--processes", "1"]
    first = CliRunner().invoke(cli.app, arguments)
    assert first.exit_code == 0, first.output
    assert "2 results from 1 tasks" in first.output
    assert (tmp_path / "out/smoke/report.html").exists()
    again = CliRunner().invoke(cli.app, arguments)
    assert "0 results from 0 tasks" in again.output


def test_commands_that_cannot_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MIHASH_DATA", raising=False)
    (tmp_path / "file").write_text("")
    for arguments, message in (
        (["reproduce"], "Name an experiment"),
        (["reproduce", "table99"], "no experiment 'table99'"),
        (["reproduce", "table4", "--scale", "huge"], "must be one of 'smoke', 'small', 'full'; got 'huge'"),
        (["tune", "magic"], "no learner 'magic'"),
        (["reproduce", "table4", "--scale", "own"], "must be one of 'smoke', 'small', 'full'; got 'own'"),
        (
            ["reproduce", "table4", "--scale", "full"],
            "The scale full needs the folder that holds cifar10_vgg16.npz",
        ),
        (["reproduce", "figure3", "--scale", "full"], "The scale full needs the folder that holds"),
        (["reproduce", "table4", "--scale", "full", "--data", "no"], "--data must be the folder that holds"),
        (["reproduce", "table4", "--processes", "0"], "Invalid value for '--processes'"),
        (["reproduce", "table4", "--seed", "-1"], "Invalid value for '--seed'"),
        (["reproduce", "table4", "--results", "file"], "--results must be a folder that can be written"),
        (["reproduce", "table4", "--results", "r/seed-1"], "give --results r and --seed 1"),
        (["tune", "okh", "--try", "C"], "NAME=VALUE"),
        (["tune", "okh", "--try", "seed=1"], "`parameters` of okh must be among"),
        (["tune", "okh", "--try", "n_bits=8"], "`parameters` of okh must be among"),
        (["tune", "okh", "--scale", "full"], "The scale full needs the folder that holds cifar10_vgg16.npz"),
        (["tune", "okh", "--scale", "huge"], "--scale must be one of"),
        (["tune", "okh", "--results", "file"], "--results must be a folder that can be written"),
    ):
        monkeypatch.setattr("sys.argv", ["mihash", *arguments])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        told = capsys.readouterr()
        assert caught.value.code == 2, arguments
        assert message in told.err
        assert (told.err.count("\n"), told.out) == (1, ""), "no traceback, no progress bar"
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_command_that_tune_prints_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    arguments = ["tune", "hcoh", "--bits", "8", "--try", "eta=0.1", "--results", "my out", "--seed", "2"]
    tuned = CliRunner().invoke(cli.app, arguments)
    assert tuned.exit_code == 0, tuned.output
    command = tuned.output.split("run it with: mihash ")[1]
    words = shlex.split(command)
    plan = "my out/seed-2/smoke/tuning/cifar10-hcoh-8.toml"
    assert words == ["reproduce", plan, "--scale", "smoke", "--results", "my out", "--seed", "2"]
    made = CliRunner().invoke(cli.app, [*words, "--processes", "1"])
    assert made.exit_code == 0, made.output
    assert (tmp_path / "my out/seed-2/smoke/report.md").exists()


def test_results_that_are_there_need_no_features(tmp_path, monkeypatch):
    monkeypatch.delenv("MIHASH_DATA", raising=False)
    lines = (
        'title = "Mine"',
        'kind = "online"',
        'draws = "curves"',
        'datasets = ["cifar10"]',
        'methods = ["osh"]',
    )
    (tmp_path / "mine.toml").write_text("\n".join(lines))
    write(tmp_path, load_definition(tmp_path / "mine.toml"), {"precisions": [0.4, 0.5]}, "full")
    arguments = ["reproduce", str(tmp_path / "mine.toml"), "--scale", "full", "--results", str(tmp_path)]
    made = CliRunner().invoke(cli.app, arguments)
    assert made.exit_code == 0, made.output
    assert "mihash reproduce --all --scale full --data FOLDER --results" in (
        (tmp_path / "full/report.md").read_text()
    )


def test_every_command_has_help_with_an_example():
    for command in ("demo", "reproduce", "tune"):
        output = CliRunner().invoke(cli.app, [command, "--help"]).output
        assert f"Example: mihash {command}" in output


def test_rendering():
    table = Table("a < b", ("method", "AUC"), (("A|B", "0.1"), ("<i>", "")), ("1 & 2",))
    assert to_markdown(table).splitlines() == [
        "### a < b",
        "",
        "| method | AUC |",
        "|---|---:|",
        "| A\\|B | 0.1 |",
        "| <i> |  |",
        "",
        "- 1 & 2",
    ]
    html = to_html(table)
    assert "<td>&lt;i&gt;</td>" in html
    assert html.endswith('<ul class="notes">\n<li>1 &amp; 2</li>\n</ul>')


def test_a_page_is_filled_between_its_marks(results, tmp_path):
    page = tmp_path / "docs" / "results.md"
    page.parent.mkdir()
    page.write_text(f"# Mine\n\nBy hand.\n\n{BEGIN}\nold\n{END}\n\nAlso by hand.\n")
    make_report([TINY], results, "smoke", page)
    text = page.read_text()
    assert text.startswith(f"# Mine\n\nBy hand.\n\n{BEGIN}\n## Claims\n")
    assert text.endswith(f"\n\n{END}\n\nAlso by hand.\n")
    assert "old" not in text.split(END)[0].split()
    assert "![A tiny figure & <table>](images/results/tiny.png)" in text
    assert (page.parent / "images/results/tiny.png").read_bytes()[:4] == b"\x89PNG"
    make_report([TINY], results, "smoke", page)
    assert page.read_text() == text


@pytest.mark.parametrize("text", [None, "no marks", f"{END}\n{BEGIN}\n"])
def test_a_page_without_marks_is_refused(text, tmp_path):
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)
    with pytest.raises(InvalidInput, match="`page` must "):
        check_page(page)


def test_claims_that_were_changed_say_so(tmp_path):
    claims = [Claim("a", "A|B", "Sec. 1", "reduction", {}, changed=("2026-01-01: a bar",)), *load_claims()[:1]]
    verdicts = [Verdict(claim, held, "1 > 0") for claim, held in zip(claims, (None, True), strict=True)]
    lines = _body([], verdicts, "full", tmp_path)
    assert "| A\\|B | not settled | 1 > 0 | Sec. 1 | 2026-01-01: a bar |" in lines
    assert "| about | as first committed | changed since |" in lines
    assert "| online hashing | 1 of 1 | 0 of 1 |" in lines
