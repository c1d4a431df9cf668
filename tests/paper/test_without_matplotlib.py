"""Without the extra `figures`, errors name it, and what needs no picture works."""

import sys

import pytest
from typer.testing import CliRunner

from mihash import cli
from mihash.errors import NotReady
from mihash.paper.drawing import new_figure


@pytest.fixture(autouse=True)
def no_matplotlib(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)


def test_the_error_names_the_extra():
    with pytest.raises(NotReady, match=r"pip install 'mihash\[figures\]'"):
        new_figure()


def test_the_demo_shows_its_table_and_says_how_to_get_the_picture(tmp_path):
    result = CliRunner().invoke(cli.app, ["demo", "--bits", "8", "--output", str(tmp_path / "out")])
    assert result.exit_code == 0
    assert "fixed rate" in result.output
    assert "no picture: A picture needs matplotlib: pip install 'mihash[figures]'." in result.stderr
    assert not (tmp_path / "out").exists()


def test_experiments_are_refused_before_they_run(tmp_path):
    result = CliRunner().invoke(cli.app, ["reproduce", "table4", "--results", str(tmp_path / "results")])
    assert isinstance(result.exception, NotReady)
    assert not (tmp_path / "results").exists()
