"""The program in docs/scale.md runs as it stands there, on two nodes of the tests' cluster."""

import re
from pathlib import Path

import numpy as np

PAGE = Path(__file__).parents[3] / "docs" / "scale.md"


def test_the_program_of_the_page(places, tmp_path, monkeypatch, capsys):
    (program,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    for address, (name, folder) in zip(("10.0.0.11", "10.0.0.12"), places.items(), strict=True):
        assert f'"{address}": "/data/mihash"' in program
        program = program.replace(f'"{address}": "/data/mihash"', f"{name!r}: {folder!r}")
    monkeypatch.chdir(tmp_path)
    X = np.random.default_rng(0).standard_normal((300, 8))
    exec(program, {"X": X, "keys": [f"item {i}" for i in range(300)]})
    *shards, items = capsys.readouterr().out.splitlines()
    assert items == "300"
    assert [line.split()[:2] for line in shards] == [["store-a", "up"], ["store-b", "up"]]
    assert sum(int(line.split()[2]) for line in shards) == 300
