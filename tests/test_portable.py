"""The same bits on other machines: codes, and indexes that are moved. ``make portable`` runs all of it."""

import json
import shutil
from pathlib import Path

import pytest

from machines import MACHINES, Machine

KINDS = ["labels", "no labels", "defaults", "replay"]  # of indexes that are moved (portable_work.py)
HERE = Path(__file__).parent
WORK = HERE / "portable_work.py"
FEW = ("as it is", "OpenBLAS Nehalem", "OpenBLAS Haswell", "an old processor")  # those that `make test` plays too


def played(names):
    """Return machines as parameters of a test, those that this processor cannot play as skipped."""
    chosen = [machine for machine in MACHINES if machine.name in names]
    return [pytest.param(machine, marks=skipped(machine), id=machine.name) for machine in chosen]


def skipped(machine):
    missing = " ".join(machine.lacks())
    return [pytest.mark.skip(reason=f"this processor has no {missing}")] if missing else []


MANY = [machine.name for machine in MACHINES if machine.name not in FEW]
ALL = [machine.name for machine in MACHINES]


@pytest.fixture(scope="module")
def codes_here():
    return json.loads(Machine("here").run(WORK, "codes", 200))


@pytest.fixture(scope="module", params=KINDS)
def made_here(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("moved") / "index"
    return folder, request.param, json.loads(Machine("here").run(WORK, "make", folder, request.param))


def check_codes(machine, expected):
    assert json.loads(machine.run(WORK, "codes", 200)) == expected


def check_moved(machine, made, folder):
    origin, kind, said = made
    shutil.copytree(origin, folder)
    assert json.loads(machine.run(WORK, "open", folder, kind)) == said
    if kind == "defaults":
        assert (said["factors"], "randomrotation" in said["options"]) == (True, True)


@pytest.mark.parametrize("machine", played(FEW))
def test_codes_are_the_same(machine, codes_here):
    check_codes(machine, codes_here)


@pytest.mark.parametrize("machine", played(("an old processor",)))
def test_an_index_moves(machine, made_here, tmp_path):
    check_moved(machine, made_here, tmp_path / "index")


@pytest.mark.portable
@pytest.mark.parametrize("machine", played(MANY))
def test_codes_are_the_same_on_every_machine(machine, codes_here):
    check_codes(machine, codes_here)


@pytest.mark.portable
@pytest.mark.parametrize("machine", played(ALL))
def test_an_index_moves_to_every_machine(machine, made_here, tmp_path):
    check_moved(machine, made_here, tmp_path / "index")


@pytest.mark.portable
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("machine", played(ALL))
def test_an_index_comes_from_every_machine(machine, kind, tmp_path):
    made = tmp_path / "made"
    said = json.loads(machine.run(WORK, "make", made, kind))
    check_moved(Machine("here"), (made, kind, said), tmp_path / "index")


@pytest.mark.portable
@pytest.mark.parametrize("machine", played(ALL))
def test_what_is_learned_is_the_same_in_any_pieces(machine):
    machine.run("-m", "pytest", "-q", "-m", "identity", "-p", "no:cacheprovider", HERE, timeout=1200)
