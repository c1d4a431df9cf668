"""The soaks in small, as the commands that run them: `python -m soak` finds no fault."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent

needs_shim = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="the shim needs Linux and a C compiler",
)


def soak(*arguments):
    """Run a soak, and return what it printed."""
    command = [sys.executable, "-m", "soak", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def search_path():
    """Return where Python finds the soaks, and whatever it finds now."""
    return os.pathsep.join([str(ROOT), *filter(None, sys.path)])


@pytest.mark.identity
def test_an_index_survives_12_kills(tmp_path):
    printed = soak("crash", "--kills", 12, "--each", 3, "--seed", 11, "--folder", tmp_path)
    assert "12/12" in printed
    assert not list(tmp_path.iterdir())


@needs_shim
def test_an_index_survives_power_losses(tmp_path):
    printed = soak("power", "--states", 12, "--operations", 10, "--seed", 3, "--folder", tmp_path)
    assert "12 states" in printed
    assert " 0 failures" in printed
    assert not list(tmp_path.iterdir())


@needs_shim
def test_an_index_survives_faults_of_its_disk(tmp_path):
    printed = soak("faults", "--faults", 6, "--seed", 22, "--lap", 5, "--folder", tmp_path)
    assert "6 faults, 0 failures" in printed
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="to mount a tmpfs takes root")
def test_an_index_survives_full_disks(tmp_path):
    printed = soak("disk", "--times", 6, "--seed", 3, "--folder", tmp_path)
    assert "6 full disks, 0 failures" in printed or "a tmpfs cannot be mounted" in printed
    assert not list(tmp_path.iterdir())


UNSYNCED = r"""
import os
from pathlib import Path
import numpy as np
from soak.power_states import Disk
from soak.shim import Record

def state(n, style, seed=0):
    disk = Disk(Path("/base"))
    for record in RECORDS[:n]:
        disk.do(record)
    target = Path(f"{style}-{n}-{seed}")
    disk.write(target, np.random.default_rng(seed), style)
    return {each.name: each.read_bytes() for each in target.rglob("*") if each.is_file()}

NEW = os.O_CREAT | os.O_RDWR
RECORDS = [
    Record("o", 1, NEW, b"/base/a"),
    Record("o", 2, os.O_RDONLY | os.O_DIRECTORY, b"/base"),
    Record("s", 2, 0, b""),           # 3: the name is there
    Record("w", 1, 0, b"1" * 2048),
    Record("s", 1, 0, b""),           # 5: the bytes, too
    Record("w", 1, 0, b"2" * 2048),
    Record("t", 1, 100, b""),
    Record("n", 0, 0, b"/base/a\0/base/b"),
]
assert state(2, "dropped") == {}, "a name whose folder was not synced"
assert state(4, "dropped") == {"a": b""}, "bytes that were not synced"
assert state(5, "dropped") == {"a": b"1" * 2048}
assert state(8, "dropped") == {"a": b"1" * 2048}
assert state(8, "kept") == {"b": b"2" * 100}
torn = {state(6, "torn", seed)["a"] for seed in range(60)}
assert len(torn) > 2
assert {len(each) for each in torn} == {2048}
assert all(len(set(each[at : at + 512])) == 1 for each in torn for at in range(0, 2048, 512))
assert {len(state(7, "torn", seed)["a"]) for seed in range(60)} == {100, 2048}
assert {name for seed in range(20) for name in state(8, "reordered", seed)} == {"a", "b"}
"""


def test_a_power_loss_drops_tears_and_reorders_what_was_not_synced(tmp_path):
    command = [sys.executable, "-c", UNSYNCED]
    subprocess.run(command, cwd=tmp_path, env=os.environ | {"PYTHONPATH": search_path()}, check=True)


FAILED_BACKUP = """
import sys
import numpy as np
import mihash
from soak.shim import Fault

fault = Fault("ftruncate", 0, "EIO", lasting=True)  # so that SQLite cannot undo what it has written, either
with mihash.OnlineIndex.create(sys.argv[1] + "/index", n_bits=16) as index:
    index.add(np.random.default_rng(0).standard_normal((500, 8)))
    index.wait()
    fault.begin()
    try:
        index.backup(sys.argv[1] + "/copy")
    except mihash.errors.StoreError:
        print("failed")
    fault.end()
    index.backup(sys.argv[1] + "/copy")
with mihash.OnlineIndex.open(sys.argv[1] + "/copy") as copy:
    print(len(copy), copy.verify()["items"])
"""


@needs_shim
def test_a_backup_that_failed_leaves_nothing_in_the_way(tmp_path):
    shim = tmp_path / "shim.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", shim, ROOT / "soak" / "shim.c", "-lpthread"], check=True)
    caught = {"LD_PRELOAD": str(shim), "SOAK_FOLDER": str(tmp_path), "PYTHONPATH": search_path()}
    command = [sys.executable, "-c", FAILED_BACKUP, str(tmp_path)]
    done = subprocess.run(command, env=os.environ | caught, capture_output=True, text=True, check=False)
    assert done.stdout.split() == ["failed", "500", "500"], done.stdout + done.stderr


def test_a_flipped_bit_is_noticed_or_no_matter(tmp_path):
    printed = soak("flips", "--flips", 40, "--seed", 5, "--folder", tmp_path)
    assert "Silent wrong answers: 0 in 40 flips" in printed
    assert not list(tmp_path.iterdir())


def test_no_answer_mixes_versions():
    size = ("--queries", 1200, "--items", 3000, "--rehashes", 4)
    printed = soak("concurrency", *size, "--modes", "steady", "busy")
    assert "Answers that mix versions or states: 0" in printed


def test_a_window_holds_the_newest_rows_after_a_kill():
    printed = soak("window", "--rows", 1500, "--keep", 600, "--kills", 1)
    assert "1 kills" in printed
    assert "0 expired rows in any answer" in " ".join(printed.split())


def test_a_service_under_load():
    printed = soak("service", "--items", 2000, "--seconds", 9, "--every", 2, "--clients", 5, "--pause", 0.1)
    assert "Errors: 0" in printed
    rehashes = re.search(r"(\d+) rehashes", printed)
    assert rehashes is not None
    assert int(rehashes[1]) >= 3


def test_a_service_under_attack():
    printed = soak("hostile", "--items", 3000, "--seconds", 6, "--timeout", 2, "--longest", 20)
    assert "Faults: 0" in printed
    assert "504" in printed  # filters were stopped, not only refused


def test_latency_is_measured_and_not_judged():
    printed = soak("latency", "--items", 2000, "--samples", 30)
    assert "during a rehash" in printed


def test_readers_survive_kills_of_workers_and_of_the_writer():
    printed = soak("readers", "--kills", 3, "--workers", 2, "--askers", 2, "--longest", 0.5)
    assert "2 kills of workers and 1 of the writer" in printed
    assert " 0 failures" in printed
    assert " 0 lost" in printed
