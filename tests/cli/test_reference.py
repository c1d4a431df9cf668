"""Every command has help, an example and its place in docs/cli.md, which is made from the help."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from mihash import cli
from mihash.cli.reference import reference

PAGE = Path(__file__).parents[2] / "docs" / "cli.md"
COMMANDS = typer.main.get_command(cli.app).commands


def test_the_page_is_made_from_the_help():
    assert PAGE.read_text() == reference(), "run: python -m mihash.cli.reference > docs/cli.md"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented(name, mihash, monkeypatch):
    command = COMMANDS[name]
    assert f"\n## {name}\n" in PAGE.read_text()
    assert command.epilog.startswith(f"Example: mihash {name}")
    assert all(parameter.help for parameter in command.params if parameter.name != "help")
    monkeypatch.setenv("COLUMNS", "80")
    run = mihash(name, "--help")
    assert run.code == 0
    assert f"Example: mihash {name}" in run.out
    assert max(map(len, run.out.splitlines())) <= 80
    assert not re.search(r"<(bool|str|int|float|path|list)", run.out)


def test_the_commands_of_the_design():
    wanted = (
        "demo create add upsert search update delete get serve encode stats history verify compact backup export"
    )
    assert set(COMMANDS) == {*wanted.split(), "reproduce", "tune", "bench", "plan", "migrate", "features"}


def test_without_a_command_there_is_help(mihash):
    run = mihash()
    assert (run.code, run.err) == (0, "")
    assert "create" in run.out
    assert "<bool>" not in run.out


def test_help_is_light():
    heavy = ("numpy", "numba", "pyarrow", "sqlite3", "matplotlib", "rich.progress")
    code = f"import sys, mihash.cli; print([name for name in {heavy} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"
