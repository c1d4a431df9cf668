"""`mihash migrate`: from a file of new vectors to the cut-over and back."""

import json

import numpy as np

import mihash as library


def test_the_whole_procedure(mihash, index, tmp_path):
    rng = np.random.default_rng(1)
    new = rng.standard_normal((1500, 9)).astype(np.float32)
    half, whole = tmp_path / "half.npz", tmp_path / "whole.npz"
    np.savez(half, X=new[:700], id=np.arange(700))
    np.savez(whole, X=np.vstack([new, new[:2]]), id=np.array([*range(1500), 9000, 9001]))
    run = mihash("migrate", index)
    assert (run.code, "no migration in progress: give a file" in run.err) == (2, True)
    run = mihash("migrate", index, half, "--bits", 24)
    assert run.code == 0
    assert "stored 700 new vectors" in run.out
    assert "700 of 1,500 items have new vectors" in run.out
    assert "800 items have no new vector yet" in mihash("migrate", index, "--cut-over").err
    run = mihash("migrate", index, whole, "--cut-over")
    assert "stored 800 new vectors. 2 rows with keys that the index does not have: skipped." in run.out
    assert "The new vectors answer." in run.out
    assert json.loads(mihash("migrate", index, "--json").out)["state"] == "cut over"
    assert "1,500 of 1,500 items have new vectors" in mihash("migrate", index, "--roll-back").out
    assert json.loads(mihash("stats", index, "--json").out)["n_features"] == 6
    assert mihash("migrate", index, "--cut-over").code == 0
    assert "no migration is under way" in mihash("migrate", index, "--finish").out
    with library.open(index) as opened:
        assert (opened.n_features, opened.options.n_bits, len(opened)) == (9, 24, 1500)
        assert opened.search(new[3], k=1, rescore=300).keys.tolist() == [3]
        assert opened.get(3).metadata["year"] == 1993


def test_a_step_that_stores_nothing_takes_no_files(mihash, index, tmp_path):
    np.savez(tmp_path / "new.npz", X=np.eye(9, dtype=np.float32), id=np.arange(9))
    for step in ("--finish", "--roll-back", "--cancel"):
        run = mihash("migrate", index, tmp_path / "new.npz", step)
        assert (run.code, f"Leave the files out with {step}" in run.err) == (2, True)
    assert "no migration in progress" in mihash("migrate", index).err  # nothing was begun


def test_steps_exclude_each_other(mihash, index):
    run = mihash("migrate", index, "--cut-over", "--cancel")
    assert (run.code, "Give only one of --cut-over and --cancel" in run.err) == (2, True)
