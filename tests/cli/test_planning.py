"""`mihash plan`: what it refuses before it measures, what it reads and what it tells."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest

import mihash.sizing.calibration
from mihash.sizing.calibration import Calibration


@pytest.fixture
def calls(monkeypatch):
    """The calls of a calibration that measures nothing."""
    made = []

    def calibrate(n_features, n_bits, *, dtype, interval, sample, labels, **more):
        made.append({"n_features": n_features, "interval": interval, "sample": sample, "labels": labels, **more})
        labelled = labels is not False
        return Calibration(
            n_features,
            n_bits,
            dtype,
            9e-5,
            1e-5,
            1e-6,
            2e-10,
            1e-4,
            600.0,
            0.0,
            2e8,
            8192,
            30,
            5,
            interval,
            labelled,
        )

    monkeypatch.setattr(mihash.sizing.calibration, "calibrate", calibrate)
    return made


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--rate 0", "--rate must be a finite number above 0; got 0.0."),
        ("--rate -1", "--rate"),
        ("--rate nan", "--rate"),
        ("--disk 0", "--disk must be a finite number above 0; got 0.0."),
        ("--disk -5", "--disk"),
        ("--rows 0", "--rows must be a whole number from 1 to 1e+15; got 0."),
        ("--rows 1.5", "--rows"),
        ("--rows nan", "--rows"),
        ("--rows inf", "--rows"),
        ("--rows 2e15", "--rows"),
        ("--nodes 0", "Invalid value for '--nodes'"),
        ("--cores 0", "Invalid value for '--cores'"),
        ("--features 0", "Invalid value for '--features'"),
        ("--dtype float64", "--dtype must be one of 'float32', 'float16'"),
        ("--bits 0", "--bits must be"),
        ("--interval 0", "--interval must be"),
        ("--learner tree", "no learner 'tree'"),
        ("--label y", "--label needs --sample"),
        ("--vector x", "--vector needs --sample"),
        ("--sample none.npy", "does not exist"),
        ("--sample none.npy --labels", "--labels needs a sample with labels"),
        ("--sample none.npy --learner hcoh", "hcoh needs a sample with labels"),
    ],
)
def test_nonsense_is_refused_before_anything_is_measured(mihash, calls, words, said):
    code, out, err = mihash("plan", *words.split())
    assert (code, out, calls) == (2, "", [])
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("name", ["scalar.npy", "names.npy", "empty.npy", "text.npy", "nan.npz", "short.csv"])
def test_a_file_that_is_no_sample_is_refused_in_one_line(mihash, tmp_path, name):
    file = tmp_path / name
    np.save(tmp_path / "scalar.npy", np.float32(3))
    np.save(tmp_path / "names.npy", np.array(["a", "b"]))
    np.save(tmp_path / "empty.npy", np.zeros((0, 4)))
    np.savez(tmp_path / "nan.npz", X=np.full((2000, 4), np.nan))
    (tmp_path / "text.npy").write_text("no array")
    (tmp_path / "short.csv").write_text("a,b\n1,2\n")
    code, out, err = mihash("plan", "--sample", file)
    assert (code, out) == (2, "")
    assert "unexpected" not in err
    assert [line for line in err.splitlines() if line.startswith("mihash: ")] == err.splitlines()[-1:]


def written(folder, form, X, y):
    file = folder / f"mine.{form}"
    if form == "npy":
        np.save(file, X)
        np.save(folder / "y.npy", y)
        return file, folder / "y.npy"
    if form == "npz":
        np.savez(file, X=X, y=y)
    elif form == "parquet":
        pa.parquet.write_table(pa.table({"X": X.tolist(), "y": y}), file)
    else:
        rows = np.column_stack([X, y])
        np.savetxt(file, rows, ["%.9g"] * X.shape[1] + ["%d"], ",", header="a0,a1,a2,a3,y", comments="")
    return file, "y"


@pytest.mark.parametrize("form", ["npy", "npz", "parquet", "csv"])
def test_a_sample_is_read_from_any_file_and_not_to_its_end(mihash, calls, monkeypatch, tmp_path, form):
    monkeypatch.setattr("mihash.sizing.calibration._LEARNED", 8192)
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((8200, 4)).astype(np.float32), rng.integers(0, 3, 8200)
    file, label = written(tmp_path, form, X, y)
    assert "with labels" in mihash("plan", "--sample", file, "--label", label).out
    assert "without labels" in mihash("plan", "--sample", file).out
    (labelled, plain) = calls
    assert np.array_equal(labelled["sample"], X[:8192])
    assert np.array_equal(labelled["labels"], y[:8192])
    assert np.array_equal(plain["sample"], X[:8192])
    assert plain["labels"] is False
    assert labelled["n_features"] == plain["n_features"] == 4


def test_the_title_and_the_calibration_know_of_labels_and_the_interval(mihash, calls):
    assert "1,000,000 vectors of 128 numbers with labels, 64 bits, 1 node" in mihash("plan", "--labels").out
    assert "without labels" in mihash("plan", "--interval", 50).out
    assert [(call["labels"], call["interval"]) for call in calls] == [(True, 100), (False, 50)]
    found = json.loads(mihash("plan", "--interval", 50, "--json").out)
    assert (found["measured_interval"], found["measured_labelled"], found["updates_fixed"]) == (50, False, 20001)


@pytest.mark.parametrize("words", ["--rows 1e15", "--rows 1e15 --rate 1e-300 --disk 1e-300", "--rows 1 --nodes 9"])
def test_the_largest_and_the_smallest_are_told(mihash, calls, words):
    code, out, _ = mihash("plan", *words.split())
    assert code == 0
    assert "inf" not in out
    assert len(calls) == 1


def test_a_stream_that_is_too_fast_is_told(mihash, calls):
    assert "rows would queue up" in mihash("plan", "--rate", 1e6).err
    assert "rows would queue up" not in mihash("plan", "--rate", 10).err
    assert len(calls) == 2


def test_a_real_run(mihash, monkeypatch, data, tmp_path):
    monkeypatch.setattr("mihash.sizing.storing_costs._FLOATS", 60_000)
    X, y = data
    np.savez(tmp_path / "mine.npz", X=X, y=y)
    words = ("--sample", tmp_path / "mine.npz", "--label", "y", "--bits", 16, "--interval", 200)
    code, out, err = mihash("plan", "--rows", 1e8, *words, "--json")
    found = json.loads(out)
    assert code == 0, err
    assert "storing and rehashing" in err
    assert (found["measured_n_learned"], found["measured_interval"], found["measured_labelled"]) == (
        1500,
        200,
        True,
    )
    assert found["rows_per_node"] == 10**8
    assert found["updates_fixed"] == 500_001
