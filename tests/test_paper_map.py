"""Every row of docs/paper-map.md points to something in the package and to a test of it."""

import ast
import importlib
import re
from pathlib import Path

import pytest

from extras import skipped_without_extras

ROOT = Path(__file__).parents[1]
ROW = re.compile(r"^\|([^|]+)\|([^|]+)\| `([\w.]+)` \| `(tests/[\w/.]+)::(\w+)` \|$")
LINES = [line for line in (ROOT / "docs/paper-map.md").read_text().splitlines() if line.startswith("| ")][1:]


def resolve(path):
    parts = path.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for name in parts[n:]:
            found = getattr(found, name)
        return found
    raise LookupError(path)


def test_there_are_rows():
    assert len(LINES) > 20


@pytest.mark.parametrize("line", LINES, ids=[line.split("|")[1].strip() for line in LINES])
def test_row(line):
    match = ROW.match(line)
    assert match, f"not a row of the map: {line}"
    with skipped_without_extras():
        assert resolve(match[3]) is not None
    tree = ast.parse((ROOT / match[4]).read_text())
    tests = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    assert match[5] in tests, f"{match[4]} has no test {match[5]}"
