"""Ingest: the checks before, the position after; the command line's tests have the rest."""

import numpy as np
import pytest

import mihash
from mihash.errors import InvalidInput
from mihash.io.ingest import ingest, name_of
from mihash.io.readers import Columns, open_source
from mihash.io.source_checksums import Contents


def rows_in(index, file):
    return Contents.at(index.position(name_of(file))).n_rows


@pytest.fixture
def index(tmp_path):
    with mihash.OnlineIndex.create(tmp_path / "index", n_bits=8, learner="lsh") as opened:
        yield opened


def save(path, X, **others):
    np.savez(path, X=X, **others)
    return path


def test_positions_and_progress(index, tmp_path):
    file = save(tmp_path / "x.npz", np.random.default_rng(0).standard_normal((1500, 3)))
    calls = []
    (added,) = ingest(
        index,
        [(open_source(file), name_of(file))],
        progress=lambda what, _, *numbers: calls.append((what, *numbers)),
    )
    assert (added.before, added.added) == (0, 1500)
    assert calls == [(what, n, 1500) for what in ("checking", "adding") for n in (1024, 1500)]
    assert rows_in(index, file) == 1500
    assert rows_in(index, "nothing") == 0


def test_interrupted_in_a_chunk(index, tmp_path, monkeypatch):
    X = np.random.default_rng(0).standard_normal((3000, 3))
    file = save(tmp_path / "x.npz", X)
    add, calls = mihash.OnlineIndex.add, []

    def interrupted(self, *arguments, **options):
        keys = add(self, *arguments, **options)
        calls.append(keys)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return keys

    monkeypatch.setattr(mihash.OnlineIndex, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(index, [(open_source(file), name_of(file))])
    assert rows_in(index, file) == len(index) == 2048
    (added,) = ingest(index, [(open_source(file), name_of(file))])
    assert (added.before, added.added, len(index)) == (2048, 952, 3000)


def test_interrupted_while_deleted_rows_are_added(index, tmp_path, monkeypatch):
    file = save(tmp_path / "x.npz", np.random.default_rng(0).standard_normal((3000, 3)))
    sources = [(open_source(file), name_of(file))]
    ingest(index, sources)
    index.delete([10, 20, 1500, 2900])
    add = mihash.OnlineIndex.add

    def interrupted(self, *arguments, **options):
        add(self, *arguments, **options)
        raise KeyboardInterrupt

    monkeypatch.setattr(mihash.OnlineIndex, "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ingest(index, sources, deleted="add")
    monkeypatch.undo()
    assert len(index) == 2998
    with pytest.raises(
        InvalidInput, match="2 of the 3,000 rows that were added were deleted since, first row 1500"
    ):
        ingest(index, sources)
    (added,) = ingest(index, sources, deleted="add")
    assert (added.before, added.added, added.restored, len(index)) == (2998, 0, 2, 3000)
    (added,) = ingest(index, sources)
    assert (added.before, added.deleted) == (3000, 0)


def test_keys_across_files(index, tmp_path):
    first = save(tmp_path / "a.npz", np.eye(3), key=["a", "b", "c"])
    second = save(tmp_path / "b.npz", np.eye(3), key=["d", "b", "e"])
    with pytest.raises(InvalidInput, match=r"b\.npz: row 1 has the same key as .*a\.npz: row 1\."):
        ingest(index, [(open_source(file), name_of(file)) for file in (first, second)])
    assert len(index) == 0


def test_widths_across_files(index, tmp_path):
    files = [save(tmp_path / "a.npz", np.eye(3)), save(tmp_path / "b.npz", np.eye(4))]
    with pytest.raises(InvalidInput, match=r"b\.npz: row 0 has a vector of 4 numbers, and the index .* of 3"):
        ingest(index, [(open_source(file), None) for file in files])
    assert len(index) == 0


def test_numbers_and_texts_are_different_keys(index, tmp_path):
    first = save(tmp_path / "a.npz", np.eye(3), key=[1, 2, 3])
    second = save(tmp_path / "b.npz", np.eye(3), key=["1", "2", "-1"])
    ingest(index, [(open_source(file), None) for file in (first, second)])
    assert len(index) == 6


def test_labels_across_files(index, tmp_path):
    first = save(tmp_path / "a.npz", np.eye(3), y=[0, 1, 0])
    second = save(tmp_path / "b.npz", np.eye(3), y=np.eye(3, dtype=int))
    files = [(open_source(file, Columns(vector="X", label="y")), None) for file in (first, second)]
    told = r"b\.npz: rows 0 to 2 have other labels \(.* for 3 classes\) than those before them \(one number each\)"
    with pytest.raises(InvalidInput, match=told):
        ingest(index, files)
    assert len(index) == 0
    ingest(index, files[:1])
    with pytest.raises(InvalidInput, match=told):
        ingest(index, files[1:])
    assert len(index) == 3


def test_labels_after_a_file_without(index, tmp_path):
    file = save(tmp_path / "a.npz", np.eye(3), y=[0, 1, 0])
    plain, labelled = open_source(file, Columns(vector="X")), open_source(file, Columns(vector="X", label="y"))
    with pytest.raises(InvalidInput, match=r"a\.npz comes first and is without labels"):
        ingest(index, [(plain, None), (labelled, None)])
    assert len(index) == 0
    ingest(index, [(labelled, None), (plain, None)])
    assert len(index) == 6
