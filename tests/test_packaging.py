"""The wheel and the sdist are built and installed, and what surrounds the code fits it."""

import os
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_string
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import mihash

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def run(*command, **options):
    return subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=True, **options
    ).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the wheel, the sdist and a folder into which the wheel was installed without its dependencies."""
    if find_spec("hatchling") is None:
        pytest.skip("needs hatchling: pip install 'mihash[test-light]'")
    folder = tmp_path_factory.mktemp("dist")
    code = f"import hatchling.build as b; print(b.build_wheel({str(folder)!r}), b.build_sdist({str(folder)!r}))"
    wheel, sdist = run(sys.executable, "-c", code, cwd=ROOT).split()[-2:]
    options = ["--no-deps", "--no-index", "--no-compile", "--disable-pip-version-check", "--quiet"]
    run(sys.executable, "-m", "pip", "install", *options, "--target", folder / "installed", folder / wheel)
    return folder / wheel, folder / sdist, folder / "installed"


def test_the_wheel_works_where_it_is_installed(built, tmp_path):
    wheel, _, installed = built
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    code = (
        "import mihash, mihash.paper.definition as d; print(mihash.__file__, mihash.__version__);"
        "print(mihash.hamming(mihash.pack([[1, 0, 1]]), mihash.pack([[0, 0, 1]])), len(d.definition_names()) > 5)"
    )
    where, answer = run(sys.executable, "-c", code, cwd=tmp_path, env=environment).splitlines()
    assert where.startswith(str(installed))
    assert where.endswith(mihash.__version__)
    assert answer == "[[1]] True"
    assert run(sys.executable, "-m", "mihash", "--version", cwd=tmp_path, env=environment) == (
        f"mihash {mihash.__version__}\n"
    )
    files = {path.relative_to(ROOT / "src").as_posix() for path in (ROOT / "src" / "mihash").rglob("*")}
    expected = {name for name in files if (ROOT / "src" / name).is_file() and "__pycache__" not in name}
    with zipfile.ZipFile(wheel) as archive:
        assert {name for name in archive.namelist() if name.startswith("mihash/")} == expected


def test_the_sdist_has_what_its_tests_need(built):
    with tarfile.open(built[1]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    wanted = ("pyproject.toml", "LICENSE", "conftest.py", "tests/checks.py", "docs/cli.md", "soak/crash.py")
    assert [name for name in wanted if name not in names] == []


def test_the_default_install_is_light(built):
    with zipfile.ZipFile(built[0]) as archive:
        name = next(name for name in archive.namelist() if name.endswith("METADATA"))
        metadata = message_from_string(archive.read(name).decode())
    needed = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    names = sorted(line.partition(">")[0] for line in needed)
    assert names == ["numba", "numpy", "rich", "scikit-learn", "scipy", "threadpoolctl", "typer"]
    assert {line.partition(",")[0] for line in metadata.get_all("Project-URL")} >= {"Homepage", "Documentation"}


def test_the_citation_names_this_version():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert str(citation["version"]) == mihash.__version__
    assert citation["preferred-citation"]["title"] == "MIHash: Online Hashing with Mutual Information"


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        ("github-workflows", WORKFLOWS),
        ("dependabot", [ROOT / ".github" / "dependabot.yml"]),
        ("citation-file-format", [ROOT / "CITATION.cff"]),
    ],
)
def test_files_for_other_programs_fit_their_schemas(schema, files):
    if find_spec("check_jsonschema") is None:
        pytest.skip("needs check-jsonschema: pip install 'mihash[test-light]'")
    assert files
    run(sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}", *files)


@pytest.mark.skipif(shutil.which("actionlint") is None, reason="needs actionlint on the PATH")
def test_actionlint_finds_nothing():
    run("actionlint", *WORKFLOWS)


def test_workflows_run_every_python_and_may_write_nothing():
    tests = yaml.safe_load((ROOT / ".github" / "workflows" / "tests.yml").read_text())
    versions = [name.split()[-1] for name in PROJECT["classifiers"] if "Python :: 3." in name]
    assert tests["jobs"]["test"]["strategy"]["matrix"]["python"] == versions
    for path in WORKFLOWS:
        assert yaml.safe_load(path.read_text())["permissions"] == {}, path


def test_make_and_workflows_name_targets_that_exist():
    makefile = (ROOT / "Makefile").read_text()
    for path in WORKFLOWS:
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                command = step.get("run", "").split()
                if command[:1] == ["make"]:
                    assert f"\n{command[1]}:" in makefile, f"{path.name}: make {command[1]}"


def test_repo_review_is_green_but_for_what_pyproject_gives_a_reason_for():
    processor = pytest.importorskip("repo_review.processor")
    pytest.importorskip("sp_repo_review")
    failed = {each.name: each.description for each in processor.process(ROOT).results if each.result is False}
    assert failed == {}
