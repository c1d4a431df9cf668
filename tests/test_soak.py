"""The soaks in small, as the commands that run them: `python -m soak` finds no fault."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def soak(*arguments):
    """Run a soak, and return what it printed."""
    command = [sys.executable, "-m", "soak", *map(str, arguments)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.identity
def test_an_index_survives_20_kills(tmp_path):
    printed = soak("crash", "--kills", 20, "--each", 4, "--seed", 11, "--folder", tmp_path)
    assert "20/20" in printed
    assert not list(tmp_path.iterdir())


def test_a_flipped_bit_is_noticed_or_no_matter(tmp_path):
    printed = soak("flips", "--flips", 60, "--seed", 5, "--folder", tmp_path)
    assert "Silent wrong answers: 0 in 60 flips" in printed
    assert not list(tmp_path.iterdir())


def test_no_answer_mixes_versions():
    size = ("--queries", 2000, "--items", 5000, "--rehashes", 5)
    printed = soak("concurrency", *size, "--modes", "steady", "busy")
    assert "Answers that mix versions or states: 0" in printed


def test_a_service_under_load():
    printed = soak("service", "--items", 2000, "--seconds", 9, "--every", 2, "--clients", 5, "--pause", 0.1)
    assert "Errors: 0" in printed
    rehashes = re.search(r"(\d+) rehashes", printed)
    assert rehashes is not None
    assert int(rehashes[1]) >= 3


def test_a_service_under_attack():
    printed = soak("hostile", "--items", 3000, "--seconds", 8, "--timeout", 2, "--longest", 20)
    assert "Faults: 0" in printed
    assert "504" in printed  # filters were stopped, not only refused


def test_latency_is_measured_and_not_judged():
    printed = soak("latency", "--items", 2000, "--samples", 30)
    assert "during a rehash" in printed
