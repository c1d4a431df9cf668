"""Every notebook runs, as it would in Jupyter from its first cell to its last."""

import runpy
from importlib.util import find_spec
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.py"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path, capsys):
    if "import faiss" in path.read_text() and find_spec("faiss") is None:
        pytest.skip("needs faiss: pip install 'mihash[faiss]'")
    runpy.run_path(str(path))
    assert capsys.readouterr().out.count("\n") >= 2


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_a_list_of_cells(path):
    text = path.read_text()
    assert text.startswith("# %% [markdown]\n# # ")
    assert text.count("\n# %%\n") >= 3
    assert len(text.splitlines()) < 110
