"""The command line as its user meets it: words in; exit status, output and errors out."""

import csv
import io
import shutil
import sys
from typing import NamedTuple

import numpy as np
import pytest
from typer.testing import CliRunner

from mihash import cli

N_ROWS, N_FEATURES = 1500, 6


class Run(NamedTuple):
    code: int
    out: str
    err: str


@pytest.fixture
def mihash(monkeypatch, capsys):
    """Run `mihash` with some words in this process."""

    def run(*words, sent=None):
        monkeypatch.setattr(sys, "argv", ["mihash", *map(str, words)])
        if sent is not None:
            monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(sent)))
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            cli.main()
        return Run(caught.value.code, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def data():
    """Vectors of three clouds, with the cloud of each."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, N_ROWS)
    X = 3 * rng.standard_normal((3, N_FEATURES))[y] + rng.standard_normal((N_ROWS, N_FEATURES))
    return X.astype(np.float32), y


@pytest.fixture(scope="session")
def write_csv(data):
    """Write rows of the data to a CSV file: id, f0 to f5, colour, year, label."""

    def write(path, first=0, last=N_ROWS, change=None, mode="w"):
        X, y = data
        with path.open(mode, newline="") as file:
            writer = csv.writer(file)
            if mode == "w":
                writer.writerow(["id", *(f"f{i}" for i in range(N_FEATURES)), "colour", "year", "label"])
            for i in range(first, last):
                row = [i, *X[i].tolist(), ("red", "green", "blue")[y[i]], 1990 + i % 30, y[i]]
                writer.writerow(row if change is None else change(i, row))
        return path

    return write


@pytest.fixture(scope="session")
def made(write_csv, tmp_path_factory):
    """Make an index with `create` and `add`, once."""
    folder = tmp_path_factory.mktemp("made")
    file = str(write_csv(folder / "first.csv"))
    index = str(folder / "index")
    for words in (
        ["create", index, "--bits", "16", "--learner", "lsh"],
        ["add", index, file, "--metadata", "colour", "--metadata", "year"],
    ):
        result = CliRunner().invoke(cli.app, words)
        assert result.exit_code == 0, result.output
    return folder / "index"


@pytest.fixture
def index(made, tmp_path):
    """The folder of an index with 1,500 items, keys 0 to 1,499, with colour and year."""
    return shutil.copytree(made, tmp_path / "index")
