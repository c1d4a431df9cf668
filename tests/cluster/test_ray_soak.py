"""The soak of a cluster in small, as the command that runs it."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_index_survives_3_kills_of_its_shards(nodes, tmp_path):
    words = ["--kills", "3", "--items", "1000", "--folder", str(tmp_path), "--address", nodes.address]
    command = [sys.executable, "-m", "soak", "cluster", *words, "--nodes", "store-a", "store-b"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Answers that mix versions or lack rows: 0" in done.stdout
    assert "all there" in " ".join(done.stdout.split())
    assert not list(tmp_path.iterdir())
