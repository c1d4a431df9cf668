import numpy as np
import pytest
from typer.testing import CliRunner

from mihash import cli
from mihash.errors import UnknownName
from mihash.paper.demo import draw, run_demo


@pytest.fixture(scope="module")
def demo():
    return run_demo(n_bits=24, seed=1)


def test_the_demo_shows_what_the_paper_claims(demo, tmp_path):
    fixed, triggered = demo.fixed, demo.triggered
    assert triggered.updates < 0.75 * fixed.updates
    assert 70 <= fixed.updates <= 1 + 1597 // 20  # a check before the first block has nothing to update to
    assert triggered.precisions[-1] > triggered.precisions[0] + 0.2
    assert abs(triggered.area - fixed.area) < 0.03
    for branch in (fixed, triggered):
        assert len(demo.result.examples) == len(branch.precisions) == 51
        assert demo.rate(branch) > 100
    overlaps = [np.minimum(p_pos, p_neg).sum() for p_pos, p_neg in (demo.before, demo.after)]
    assert overlaps[1] < 0.6 * overlaps[0]
    draw(demo, tmp_path / "new" / "demo.png")
    assert (tmp_path / "new" / "demo.png").read_bytes().startswith(b"\x89PNG")


def test_progress_goes_from_nothing_to_all():
    calls = []
    run_demo(n_bits=8, progress=lambda *call: calls.append(call))
    assert [name for name, *_ in calls[:2]] == ["compiling (once)", "streaming"]
    assert calls[-1] == ("streaming", 1597, 1597)


def test_a_file_of_one_s_own(tmp_path):
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 900)
    np.savez(
        tmp_path / "mine.npz", features=rng.standard_normal((4, 12))[y] + rng.standard_normal((900, 12)), labels=y
    )
    demo = run_demo(str(tmp_path / "mine.npz"), n_bits=12)
    assert (demo.dataset, demo.n_stream, demo.n_items) == ("mine", 810, 810)
    assert demo.triggered.updates < demo.fixed.updates
    assert 170 <= demo.fixed.updates <= 203  # of 203 checks; one that finds nothing moved makes none
    assert demo.triggered.precisions[-1] > demo.triggered.precisions[0]


def test_unknown_data():
    with pytest.raises(UnknownName, match="no data set"):
        run_demo("nothing")


def test_command(tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--bits", "8", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0, result.output
    assert "│ trigger" in result.output
    assert (tmp_path / "out" / "mihash-demo.png").exists()


def test_version_and_help():
    assert "mihash 0" in CliRunner().invoke(cli.app, ["--version"]).output
    assert "demo" in CliRunner().invoke(cli.app, ["--help"]).output


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["demo", "--bits", "0"], 2, "mihash: --bits must be a whole number"),
        (["demo", "--dataset", "nothing"], 2, "mihash: "),
        (["demo", "--dataset", "cifar10"], 1, "MIHASH_DATA"),
    ],
)
def test_errors_are_one_line(arguments, code, message, monkeypatch, capsys):
    monkeypatch.delenv("MIHASH_DATA", raising=False)
    monkeypatch.setattr("sys.argv", ["mihash", *arguments])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    assert caught.value.code == code
    error = capsys.readouterr().err
    assert message in error
    assert len(error.strip().splitlines()) == 1
    monkeypatch.setattr("sys.argv", ["mihash", "--debug", *arguments])
    with pytest.raises(SystemExit):
        cli.main()
    assert "Traceback" in capsys.readouterr().err
