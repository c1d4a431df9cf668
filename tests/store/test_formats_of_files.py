"""An index that an earlier mihash wrote is opened, changed and compacted; one of a later format is refused."""

import zipfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest

import mihash
from mihash.errors import UnsupportedVersion
from mihash.store.sqlite.database import Database
from mihash.store.sqlite.file_format import FORMAT
from mihash.store.sqlite.settings import read_settings, write_settings

X = np.random.default_rng(0).integers(-8, 8, (600, 4)).astype(np.float32)


@pytest.fixture
def old(tmp_path):
    """An index of format 1: 597 items in segments of up to 4,096 rows, with keys, metadata and deletions."""
    with zipfile.ZipFile(Path(__file__).parent / "fixtures" / "format1.zip") as archive:
        archive.extractall(tmp_path / "index")
    return tmp_path / "index"


def stored_format(folder):
    with closing(Database(folder, read_only=True)) as database, database.read() as connection:
        (sizes,) = [[n for (n,) in connection.execute("SELECT n FROM segment ORDER BY first")]]
        return read_settings(connection)["format"], max(sizes)


def check(index, n=598):
    assert len(index) == n
    assert np.array_equal(index.get("k7").vector, X[7])
    assert np.array_equal(index.get("k5").vector, X[0])
    assert np.array_equal([item.vector for item in index.get([500, "k9", 599])], X[[500, 9, 599]])
    hits = index.search(X[8], k=3, rescore=600, where={"group": 3})
    assert hits.keys[0] == "k8"
    assert index.keys(where={"group": 4}, limit=2) == ["k9", "k14"]
    index.verify()


def test_an_index_of_format_1_is_read_in_place(old):
    with mihash.open(old, read_only=True) as index:
        check(index)
    assert stored_format(old) == (1, 601)


def test_an_index_of_format_1_is_upgraded_by_writing_and_cut_anew_by_compacting(old):
    with mihash.open(old) as index:
        check(index)
        assert stored_format(old)[0] == FORMAT == 2
        index.add(X[:50], keys=[f"n{i}" for i in range(50)])
        index.upsert(X[10:12], ["k11", "n50"])
        check(index, 649)
        index.compact()
        check(index, 649)
    assert stored_format(old) == (FORMAT, 507)
    with mihash.open(old) as index:
        check(index, 649)


def test_a_later_format_is_refused(old):
    with closing(Database(old, read_only=False)) as database, database.write() as connection:
        write_settings(connection, format=FORMAT + 1)
    for read_only in (False, True):
        with pytest.raises(UnsupportedVersion, match=r"has format 3, .* up to 2\. Upgrade mihash"):
            mihash.open(old, read_only=read_only)
