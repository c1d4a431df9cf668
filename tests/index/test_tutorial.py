"""docs/tutorial.md is run as it stands: its script, then each command, whose output must have the form shown."""

import io
import os
import re
import shlex
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from mihash import cli

pytest.importorskip("pyarrow", reason="the tutorial reads a Parquet file, which the arrow extra does")

TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def steps():
    """Return each command with the output that the page shows."""
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


NUMBER = r"[-+]?\d[\d,.]*"
DIFFERS = {  # from one machine to another: times, rates, sizes, versions and decisions
    rf"{NUMBER} (ms|s|min)\b": "# s",
    rf"{NUMBER} rows/s": "# rows/s",
    rf"{NUMBER} [kM]?B\b": "# B",
    rf"version {NUMBER}": "version #",
    rf"{NUMBER} versions": "# versions",
    rf"^{NUMBER} of {NUMBER}$": "# of #",
}


def form(text):
    """Return an output without what differs from run to run, and without the widths of columns."""
    lines = []
    for line in text.splitlines():
        plain = re.sub(r"\s+", " ", re.sub(r"[━─┏┓┡┩└┘╇┳┴]+", "", line)).strip()
        for differs, shown in DIFFERS.items():
            plain = re.sub(differs, shown, plain)
        if plain.startswith(("│", "{")):  # decisions and answers; that these are sevens is tested by itself
            plain = re.sub(NUMBER, "#", plain)
            plain = plain.replace("superseded │ │ │", "published │ # │ # s │")  # not built in time
        lines.append(plain)
    return [line for line in lines if line]


def test_what_is_compared():
    assert form("digits has 1,797 items, version 17; that took 1.7 s, 1,029 rows/s.") == [
        "digits has 1,797 items, version #; that took # s, # rows/s."
    ]
    assert form("3 of 12\n│ 11 │ +0.01 │ 3.4 ms │") == ["# of #", "│ # │ # │ # s │"]


def run(command, monkeypatch):
    """Run a command in this process, one of a pipe in a shell; return its status, and all that it printed."""
    if "|" in command:
        done = subprocess.run(command, shell=True, check=False, capture_output=True, text=True)
        return done.returncode, done.stderr + done.stdout
    monkeypatch.setattr(sys, "argv", shlex.split(command))
    with io.StringIO() as printed:
        with redirect_stdout(printed), redirect_stderr(printed), pytest.raises(SystemExit) as caught:
            cli.main()
        return caught.value.code, printed.getvalue()


def test_the_page_does_what_it_shows(tmp_path, monkeypatch):
    (script,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "mihash").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mihash "$@"\n')
    (bin_ / "mihash").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PATH", f"{bin_}{os.pathsep}{os.environ['PATH']}")
    exec(script, {})
    (*_, last) = commands = list(steps())
    n_sevens = 0
    for command, expected in commands:
        code, printed = run(command, monkeypatch)
        assert form(printed) == form(expected), f"{command}\n{printed}"
        assert code == (2 if (command, expected) == last else 0), f"{command}\n{printed}"
        if "--key scan-0007" in command:
            digits = re.findall(r'"digit": (\d)', printed)
            assert set(digits) <= {"7"}, printed
            n_sevens += len(digits)
    assert n_sevens == 7
