"""Rows that are read from the file beside SQLite are the rows that SQLite finds, whatever the file looks like."""

import os
import sqlite3

import numpy as np
import pytest

from mihash.errors import CorruptStore
from mihash.store.sqlite.database import DATABASE, PAGE_BYTES, Database
from mihash.store.sqlite.file_reads import FileReads
from mihash.store.sqlite.segment_pages import SegmentPages
from mihash.store.sqlite.segments import Segment, Segments

pytestmark = pytest.mark.skipif(not hasattr(os, "pread"), reason="rows are read through SQLite alone")

D, N = 200, 3000
X = np.random.default_rng(0).standard_normal((N, D)).astype(np.float32)
SOME = np.random.default_rng(1).choice(N, 300, replace=False)


@pytest.fixture(params=["float32", "float16"])
def folder(request, tmp_path):
    """An index of 3,000 rows whose log is written to its file."""
    with_rows(Database.create(tmp_path / "index", {}), request.param)
    return tmp_path / "index"


def with_rows(database, dtype):
    segments = Segments(database, dtype)
    with database.write() as connection:
        segments.append(connection, Segment(np.arange(N), segments.cast(X), None))
    database.close()


def stored(folder):
    """Return the segments of a folder, in the type that they are stored in, and the rows as they are stored."""
    database = Database(folder, read_only=False)
    with database.read() as connection:
        (size,) = connection.execute("SELECT length(vectors) / n FROM segment LIMIT 1").fetchone()
    dtype = "float32" if size == 4 * D else "float16"
    return database, Segments(database, dtype), X.astype(dtype).astype(np.float32)


def from_file(segments):
    """Return how many of some rows are found in the file."""
    single = segments._single
    pages = single._known_pages()
    return int(pages.fetch(np.sort(SOME), single._firsts, D, single._dtype)[1].sum())


def test_rows_are_read_from_the_file(folder):
    database, segments, rows = stored(folder)
    assert np.array_equal(segments.fetch(SOME, D), rows[SOME])
    assert from_file(segments) >= len(SOME) - 10  # all but those of the last segment
    database.close()


def test_rows_that_are_in_the_log_are_found_too(tmp_path):
    database = Database.create(tmp_path / "index", {})
    segments = Segments(database, "float32")
    for start in range(0, N, 500):
        with database.write() as connection:
            segments.append(connection, Segment(np.arange(start, start + 500), X[start : start + 500], None))
        some = SOME[start + 500 > SOME]
        assert np.array_equal(segments.fetch(some, D), X[some])
    database.close()


@pytest.mark.parametrize("wrong", ["others", "beyond", "none", "negative"])
def test_pages_that_are_wrong_change_nothing(folder, wrong):
    database, segments, rows = stored(folder)
    segments.fetch(SOME, D)
    pages = segments._single._pages
    pages.pages = {
        "others": np.roll(pages.pages, 1),
        "beyond": pages.pages + 10**6,
        "none": pages.pages[:0],
        "negative": -pages.pages,
    }[wrong]
    assert not from_file(segments)
    assert np.array_equal(segments.fetch(SOME, D), rows[SOME])
    assert segments._single._pages is pages
    for _ in range(101):
        assert np.array_equal(segments.fetch(SOME[:3], D), rows[SOME[:3]])
    assert from_file(segments) >= len(SOME) - 10  # they were looked for again
    database.close()


def test_rows_that_were_purged_are_gone_and_others_are_found(folder):
    database, segments, rows = stored(folder)
    segments.fetch(SOME, D)
    dead, alive = np.arange(0, N, 3), np.array([i for i in SOME if i % 3])
    with database.write() as connection:
        segments.purge(connection, dead, None, D)
        segments.merge(connection, None, D, full=True)
    assert np.array_equal(segments.fetch(alive, D), rows[alive])
    database.vacuum()
    for _ in range(3):
        assert np.array_equal(segments.fetch(alive, D), rows[alive])
    assert Segments(database, segments._dtype.name).fetch(SOME, D) is None
    database.close()


@pytest.mark.parametrize("seed", range(8))
def test_a_flipped_byte_is_noticed_or_does_not_matter(folder, seed):
    rng, file = np.random.default_rng(seed), folder / DATABASE
    data = bytearray(file.read_bytes())
    for place in rng.integers(PAGE_BYTES, len(data), 40):
        data[place] ^= 1 << rng.integers(8)
    file.write_bytes(data)
    try:
        database, segments, rows = stored(folder)
    except (CorruptStore, sqlite3.DatabaseError):
        return
    n_wrong = 0
    for row in range(0, N, 7):
        try:
            found = segments.fetch(np.array([row]), D)
        except CorruptStore:
            n_wrong += 1
        else:
            assert found is None or np.array_equal(found[0], rows[row])
    assert n_wrong
    database.close()


def test_a_file_that_ends_early_is_an_error(folder):
    database, segments, rows = stored(folder)
    assert np.array_equal(segments.fetch(SOME, D), rows[SOME])
    os.truncate(folder / DATABASE, (folder / DATABASE).stat().st_size // 2)
    with pytest.raises(CorruptStore):
        segments.fetch(SOME, D)
    database.close()


def test_pages_of_another_size_are_left_to_sqlite(tmp_path):
    connection = sqlite3.connect(tmp_path / "small.db")
    connection.execute("CREATE TABLE segment (first INTEGER PRIMARY KEY)")
    assert len(SegmentPages(FileReads(tmp_path / "small.db"), connection).pages) == 0
    connection.close()


def test_a_descriptor_is_closed_with_the_last_database_of_its_file(folder):
    """Closing it earlier would drop the locks of the other's connections."""
    first, segments, rows = stored(folder)
    second = Database(folder, read_only=True)
    others = Segments(second, segments._dtype.name)
    assert np.array_equal(others.fetch(SOME, D), rows[SOME])
    descriptor = FileReads._opened[first.file._place]
    second.close()  # the only one that has read
    assert os.fstat(descriptor).st_ino == (folder / DATABASE).stat().st_ino
    assert np.array_equal(segments.fetch(SOME, D), rows[SOME])
    place = first.file._place
    first.close()
    assert place not in FileReads._opened
    with pytest.raises(OSError, match="not open"):
        first.file.read(1, [0])
