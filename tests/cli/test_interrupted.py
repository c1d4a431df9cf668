"""`mihash add` stopped by kill -9 and by Ctrl-C: nothing lost, nothing doubled, and the same bits as without."""

import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import mihash as library
from mihash.io.ingest import name_of
from mihash.io.source_checksums import Contents

N_ROWS = 40_000
OPTIONS = {"n_bits": 16, "reservoir_size": 100, "trigger": library.TriggerUpdate(0.02, 500, relative=True)}


def rows_in(index, file):
    return Contents.at(index.position(name_of(file))).n_rows


def listening():
    """Take Ctrl-C as in a terminal; a job in the background is born deaf to it."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def start(*words):
    return subprocess.Popen(
        [sys.executable, "-m", "mihash", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=listening,  # noqa: PLW1509 -- it only sets a signal
        env=os.environ | {"COLUMNS": "80"},
    )


def stop_in_the_middle(folder, file, sign):
    """Add a file, and send a signal when more rows are in than before; return the process, and how many are."""
    with library.OnlineIndex.open(folder, read_only=True) as index:
        before = rows_in(index, file)
        process = start("add", folder, file)  # once the reader is there: to open may take as long as to add
        while rows_in(index, file) == before:
            assert process.poll() is None, process.communicate()
            time.sleep(0.002)
        process.send_signal(sign)
        _, err = process.communicate(timeout=60)
        return process, rows_in(index, file), len(index), err


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_kill_and_interrupt(tmp_path):
    X = np.random.default_rng(0).standard_normal((N_ROWS, 12)).astype(np.float32)
    file, folder = tmp_path / "x.npy", tmp_path / "index"
    np.save(file, X)
    library.OnlineIndex.create(folder, **OPTIONS).close()
    n_in = 0
    for sign in (signal.SIGKILL, signal.SIGINT, signal.SIGKILL):
        process, n_rows, n_items, err = stop_in_the_middle(folder, file, sign)
        assert n_in < n_rows == n_items < N_ROWS
        added, n_in = n_rows - n_in, n_rows
        if sign == signal.SIGINT:
            assert process.returncode == 130
            *_, last = err.splitlines()  # on a slow machine, a line of progress comes before
            assert last == f"Stopped: this run added {added:,} rows. Run the same command to continue from there."
        else:
            assert process.returncode == -signal.SIGKILL
    process = start("add", folder, file)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert f"added {N_ROWS - n_in:,} rows, after {n_in:,} that were in already" in out
    with library.OnlineIndex.create(tmp_path / "other", **OPTIONS) as other:
        other.add(X)
        other.wait()
        with library.OnlineIndex.open(folder, read_only=True) as index:
            assert len(index) == N_ROWS
            assert index.snapshot.fingerprint == other.snapshot.fingerprint
            for i in range(0, N_ROWS, 500):
                assert index.get(i).vector.tolist() == X[i].tolist()
            index.verify()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "The standard input cannot be resumed: it was added without --source NAME."),
        (["--source", "mine"], "Run the same command to continue from there."),
        (["--source", "mine", "--again"], "Run it without --again to continue from there."),
    ],
)
def test_an_interrupted_stream(mihash, index, monkeypatch, words, told):
    add = library.OnlineIndex.add

    def interrupted(self, *arguments, **options):
        add(self, *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(library.OnlineIndex, "add", interrupted)
    run = mihash("add", index, "-", "--format", "jsonl", *words, sent=b"[1, 2, 3, 4, 5, 6]\n" * 3000)
    assert (run.code, run.out) == (130, "")
    assert run.err == f"Stopped: this run added 1,024 rows. {told}\n"
