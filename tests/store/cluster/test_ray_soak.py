"""The soak of a cluster in small, as the command that runs it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]


def test_an_index_survives_2_kills_of_its_shards_and_two_coordinators(nodes, tmp_path):
    words = ["--kills", "2", "--items", "600", "--rivals", "1", "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "soak", "cluster", *words, "--address", nodes.address]
    command += ["--nodes", "store-a", "store-b"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Answers that mix versions or lack rows: 0" in done.stdout
    assert "all there" in " ".join(done.stdout.split())
    assert "Acknowledged changes that are lost: 0" in done.stdout
    assert not list(tmp_path.iterdir())
