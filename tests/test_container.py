"""The files of the container fit each other and the service; .ci/container builds and runs it."""

import json
import re
import stat
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
COMPOSE = yaml.safe_load((ROOT / "compose.yaml").read_text())


def test_the_compose_file_fits_its_schema():
    if find_spec("check_jsonschema") is None:
        pytest.skip("needs check-jsonschema: pip install 'mihash[test-light]'")
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", "compose.yaml"]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def test_the_service_may_do_nothing_that_it_need_not():
    service = COMPOSE["services"]["mihash"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert dockerfile.index("\nUSER mihash") < dockerfile.index("\nENTRYPOINT")
    assert "\nHEALTHCHECK" in dockerfile
    assert "\nVOLUME /data" in dockerfile
    for each in COMPOSE["services"].values():
        assert all(port.startswith("127.0.0.1:") for port in each["ports"])


def test_files_that_are_named_exist():
    for service in COMPOSE["services"].values():
        for volume in service["volumes"]:
            source = volume.partition(":")[0]
            assert source in COMPOSE["volumes"] or (ROOT / source).is_file(), volume
    for name in (ROOT / "deploy" / "entrypoint", ROOT / ".ci" / "container"):
        assert name.stat().st_mode & stat.S_IXUSR
        subprocess.run(["bash", "-n", str(name)], check=True)


def test_the_dashboard_asks_for_metrics_that_there_are():
    source = (ROOT / "src" / "mihash" / "service" / "metrics.py").read_text()
    known = set(re.findall(r"\bmihash_[a-z_]+", source))
    board = json.loads((ROOT / "deploy" / "grafana" / "mihash.json").read_text())
    asked = {
        name.removesuffix("_bucket")
        for panel in board["panels"]
        for target in panel["targets"]
        for name in re.findall(r"mihash_[a-z_]+", target["expr"])
    }
    assert len(asked) > 10
    assert asked <= known
