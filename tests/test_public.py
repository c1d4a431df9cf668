"""Rules about the package as a whole."""

import importlib
import inspect
import pkgutil
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import mihash
from extras import skipped_without_extras

ROOT = Path(__file__).parents[1]
MODULES = sorted(module.name for module in pkgutil.walk_packages(mihash.__path__, "mihash."))


@pytest.mark.needs("torch")
def test_every_public_name_is_there():
    for name in mihash.__all__:
        assert getattr(mihash, name) is not None
    assert dir(mihash) == mihash.__all__
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mihash.nothing


@pytest.mark.parametrize("name", MODULES)
def test_a_module_says_what_it_is(name):
    with skipped_without_extras():
        module = importlib.import_module(name)
        assert module.__doc__, f"{name} has no docstring"
        for key in getattr(module, "__all__", ()):
            assert hasattr(module, key)


def _callables():
    for module in (mihash, mihash.online, mihash.batch, mihash.mapping):
        for name in module.__all__:
            found = getattr(module, name)
            if callable(found):
                yield name, found
                methods = (key for key in dir(found) if inspect.isclass(found) and not key.startswith("_"))
                yield from (
                    (f"{name}.{key}", getattr(found, key)) for key in methods if callable(getattr(found, key))
                )


@pytest.mark.needs("torch")
def test_signatures_can_be_read_in_help():
    for name, found in _callables():
        try:
            signature = str(inspect.signature(found))
        except ValueError:  # of a type of the standard library
            continue
        assert "_typing" not in signature, name
        assert "<class" not in signature, name


def test_each_module_name_occurs_once():
    leaves = Counter(name.rpartition(".")[2] for name in MODULES if not name.endswith("__main__"))
    assert [name for name, n in leaves.items() if n > 1] == []


def test_import_is_light():
    heavy = ("numba", "scipy", "sklearn", "matplotlib", "torch")
    code = f"import sys, mihash; print([name for name in {heavy} if name in sys.modules])"
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert output.strip() == "[]"


def test_version_is_that_of_the_project():
    assert f'version = "{mihash.__version__}"' in (ROOT / "pyproject.toml").read_text()


@pytest.mark.needs("grimp")
def test_layers():
    result = subprocess.run(
        [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout


def test_nothing_is_pickled():
    for path in (ROOT / "src").rglob("*.py"):
        assert not re.search(r"\b(import pickle|allow_pickle=True|(?<!\.)eval\(|joblib)", path.read_text()), path
