"""The picture of the house in docs/architecture.md is the import graph as it is."""

import runpy
from pathlib import Path

import pytest

IMAGES = Path(__file__).parents[1] / "docs" / "images"


def test_the_picture_is_drawn_from_the_import_graph_as_it_is():
    pytest.importorskip("grimp")
    made = runpy.run_path(str(IMAGES / "house.py"))["draw"]()
    assert (IMAGES / "house.svg").read_text() == made, "run: python docs/images/house.py"
