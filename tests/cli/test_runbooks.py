"""`mihash bench --runbook`."""

import json

import numpy as np
import pytest

X = np.random.default_rng(0).standard_normal((400, 6)).astype(np.float32)


@pytest.fixture
def data(tmp_path):
    np.save(tmp_path / "data.npy", X)
    steps = "  1:\n    operation: insert\n    start: 0\n    end: 390\n  2:\n    operation: search\n"
    (tmp_path / "r.yaml").write_text(f"data:\n  max_pts: 390\n{steps}")
    return tmp_path


@pytest.mark.needs("faiss")
def test_a_runbook_is_played(mihash, data):
    run = mihash("bench", "--runbook", data / "r.yaml", data / "data.npy", "--only", "FAISS flat", "--json")
    assert run.code == 0, run.err
    found = json.loads(run.out)
    assert (found["name"], found["recalls"]) == ("FAISS flat", [1.0])
    assert "data: 390 inserts, 1 search, at most 390 items" in run.err
    run = mihash("bench", "--runbook", "clustered", data / "data.npy", "--only", "FAISS flat", "--steps", 4)
    assert "FAISS flat" in run.out
    assert "1.000" in run.out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--runbook", "sliding-window"], "needs DATA"),
        (["--runbook", "none.yaml", "data.npy"], "There is no file none.yaml"),
        (["--runbook", "r.yaml", "data.npy", "--max-rows", "390"], "--queries"),
        (["--runbook", "r.yaml", "data.npy", "--only", "me"], "--only must be one of"),
        (["data.npy"], "DATA is for a runbook: give --runbook, or leave it out."),
        (["--steps", "4"], "--steps is for a runbook"),
        (["--only", "price"], "--only is for a runbook"),
        (["--runbook", "sliding-window", "data.npy", "--rows", "9000"], "--rows is an option of the measurement"),
    ],
)
def test_bad_runs_are_refused(mihash, data, monkeypatch, words, told):
    monkeypatch.chdir(data)
    run = mihash("bench", *words)
    assert run.code == 2
    assert told in run.err
