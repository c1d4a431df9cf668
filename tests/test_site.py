"""The documentation site: every public name has a place, the build is strict and loads nothing from elsewhere."""

import importlib
import inspect
import os
import re
import runpy
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import mihash

ROOT = Path(__file__).parents[1]
HOOKS = runpy.run_path(str(ROOT / "docs" / "site" / "hooks.py"))


def modules():
    found = {"mihash": "mihash"} | HOOKS["public_modules"]()
    needed = {"mihash.deep": "torch", "mihash.sklearn": "sklearn"}
    return sorted(name for name in found.values() if find_spec(needed.get(name, "numpy")))


def test_every_public_name_has_an_entry():
    entries = {name: set(re.findall(r"^::: .*\.(\w+)$", HOOKS["api_page"](name), re.M)) for name in modules()}
    public = {name for name in mihash.__all__ if not name.startswith("__")}
    assert public == entries["mihash"] | {name for name in HOOKS["public_modules"]() if name in public}
    for name in modules():
        found = importlib.import_module(name)
        listed = {each for each in getattr(found, "__all__", ()) if not inspect.ismodule(getattr(found, each))}
        assert listed - entries[name] <= {"__version__"}


@pytest.mark.parametrize("module", modules())
def test_every_public_name_is_documented(module):
    found = importlib.import_module(module)
    for name in HOOKS["public_names"](module):
        value = getattr(found, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        assert inspect.getdoc(value), f"{module}.{name} has no docstring"
        for each, member in vars(value).items() if inspect.isclass(value) else ():
            if not each.startswith("_") and (inspect.isfunction(member) or isinstance(member, property)):
                assert inspect.getdoc(getattr(value, each)), f"{module}.{name}.{each} has no docstring"


def test_routes_are_in_the_http_reference():
    pytest.importorskip("fastapi")
    page = HOOKS["http_page"]()
    for route in ("POST /v1/items", "POST /v1/search", "GET /v1/stats", "GET /metrics"):
        assert f"\n## {route}\n" in page


def test_pages_of_the_navigation_exist():
    text = (ROOT / "mkdocs.yml").read_text()
    pages = re.findall(r"[\w-]+\.md$", text, re.M)
    assert len(pages) > 15
    assert [page for page in pages if not (ROOT / "docs" / page).is_file()] == []
    assert yaml.safe_load(text)["strict"] is True


@pytest.mark.skipif(
    find_spec("mkdocs") is None or find_spec("mkdocstrings") is None,
    reason="needs mkdocs: pip install 'mihash[docs]', or run make docs",
)
def test_the_site_builds(tmp_path):
    command = [sys.executable, "-m", "mkdocs", "build", "--site-dir", str(tmp_path)]
    quiet = os.environ | {"NO_MKDOCS_2_WARNING": "1"}  # a notice of the theme about its future, as in `make docs`
    done = subprocess.run(command, cwd=ROOT, env=quiet, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*src=\"(?:https?:)?//[^>]*>", text)
        loaded += re.findall(r"<link[^>]*rel=\"stylesheet\"[^>]*href=\"(?:https?:)?//[^>]*>", text)
        assert loaded == [], page.name
    assert "OnlineIndex" in (tmp_path / "reference" / "mihash.html").read_text()
    assert "five minutes" in (tmp_path / "index.html").read_text()
