"""docs/tutorial.md is run as it stands: its script, then each command, whose output must have the form shown."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="the tutorial reads a Parquet file, which the arrow extra does")

TEXT = (Path(__file__).parents[1] / "docs" / "tutorial.md").read_text(encoding="utf-8")


def steps():
    """Return each command with the output that the page shows."""
    for block in re.findall(r"```console\n(.*?)```", TEXT, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            yield command, output


def form(text):
    """Return an output without what differs from run to run: numbers and the widths of columns."""
    lines = [re.sub(r"[━─┏┓┡┩└┘╇┳┴]+", "", line) for line in text.splitlines()]
    words = [re.sub(r"\s+", " ", re.sub(r"[-+]?\d[\d,.]*", "#", line)).strip() for line in lines]
    return [line for line in words if line]


def test_the_page_does_what_it_shows(tmp_path):
    (script,) = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    bin_ = tmp_path / "bin"
    bin_.mkdir()
    (bin_ / "mihash").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m mihash "$@"\n')
    (bin_ / "mihash").chmod(0o755)
    environment = {**os.environ, "COLUMNS": "80", "PATH": f"{bin_}{os.pathsep}{os.environ['PATH']}"}
    subprocess.run([sys.executable, "-c", script], cwd=tmp_path, check=True)
    for command, expected in steps():
        run = subprocess.run(
            command,
            shell=True,
            check=False,
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        assert form(run.stdout) == form(expected), f"{command}\n{run.stdout}"
