import sqlite3
from itertools import chain

import numpy as np
import pytest

from damage import flip_column, replace
from mihash.errors import CorruptStore, InvalidInput, TooLarge
from mihash.store.sqlite import segments as module
from mihash.store.sqlite.segments import Segment, Segments

rng = np.random.default_rng(0)
X = rng.standard_normal((60, 5)).astype(np.float32)
PLAIN, MATRIX = ("int64", 0), ("uint8", 3)


def filled(database, sizes, dtype="float32", labels=None, vectors=X):
    segments, at = Segments(database, dtype), 0
    with database.write() as connection:
        for n in sizes:
            ids = np.arange(at, at + n)
            some = None if labels is None else labels[at : at + n]
            segments.append(connection, Segment(ids, segments.cast(vectors[at : at + n]), some))
            at += n
    return segments


def firsts(database):
    with database.read() as connection:
        return [row[0] for row in connection.execute("SELECT first FROM segment ORDER BY first")]


def purge(database, segments, ids, kind=None):
    with database.write() as connection:
        segments.purge(connection, np.array(ids), kind, 5)


def merge(database, segments, kind=None):
    with database.write() as connection:
        segments.merge(connection, kind, 5)


def everything(segments, last=-1, kind=None, d=5):
    parts = list(segments.after(last, kind, d))
    labels = [None if part.labels is None else part.labels.tolist() for part in parts]
    if not parts:
        return [], np.empty((0, d), np.float32), []
    return (
        np.concatenate([part.ids for part in parts]).tolist(),
        np.concatenate([p.features for p in parts]),
        labels,
    )


@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize(
    ("labels", "kind"),
    [(None, None), (rng.integers(-5, 5, 60), PLAIN), (rng.integers(0, 2, (60, 3)).astype(np.uint8), MATRIX)],
)
def test_what_is_stored_comes_back(database, dtype, labels, kind):
    segments = filled(database, [1, 20, 39], dtype, labels)
    stored = X if dtype == "float32" else X.astype(np.float16).astype(np.float32)
    ids, vectors, found = everything(segments, kind=kind)
    assert ids == list(range(60))
    assert np.array_equal(vectors, stored)
    assert vectors.dtype == np.float32
    if labels is not None:
        assert list(chain(*found)) == labels.tolist()
        for row in (0, 1, 20, 21, 59):
            assert np.array_equal(segments.labels_of(np.array([row]), kind)[0], labels[row])
            ids, after = segments.labels_after(row, kind)
            assert ids.tolist() == list(range(row + 1, 60))
            assert (after.tolist(), after.dtype) == (labels[row + 1 :].tolist(), labels.dtype)
    some = np.array([59, 0, 21, 3, 20])
    assert np.array_equal(segments.fetch(some, 5), stored[some])


@pytest.mark.parametrize(("d", "most"), [(5, 450), (128, 30), (384, 10), (900, 4), (1024, 12), (20_000, 1)])
@pytest.mark.parametrize("labelled", [False, True])
def test_a_segment_fills_a_page_or_is_a_short_chain_of_pages(database, d, most, labelled):
    n = 2 * most + 1
    vectors, labels = rng.standard_normal((n, d)).astype(np.float32), np.arange(n) if labelled else None
    segments = filled(database, [n], vectors=vectors, labels=labels)
    assert firsts(database) == [0, most, 2 * most]
    assert np.concatenate([part.ids for part in segments.after(-1, None, d)]).tolist() == list(range(n))
    edges = np.array([most - 1, most, n - 1, 0])
    assert np.array_equal(segments.fetch(edges, d), vectors[edges])


def test_a_scan_reads_thousands_of_rows_at_a_time(database):
    vectors = rng.standard_normal((9000, 5)).astype(np.float32)
    segments = filled(database, [9000], vectors=vectors)
    sizes = [len(part) for part in segments.after(-1, None, 5)]
    assert sizes == [2250] * 4
    assert sum(len(part) for part in segments.each(None, 5)) == 9000


def test_large_segments_are_read_and_cut_anew(database, monkeypatch):
    """As files of format 1 have them."""
    vectors = rng.standard_normal((8200, 5)).astype(np.float32)
    monkeypatch.setattr(module, "rows_at_most", lambda _: 4096)
    segments = filled(database, [8200], vectors=vectors)
    monkeypatch.undo()
    assert firsts(database) == [0, 4096, 8192]
    some = rng.permutation(8200)[:50]
    assert np.array_equal(segments.fetch(some, 5), vectors[some])
    assert segments.fetch(np.array([3, 8200]), 5) is None
    merge(database, segments)
    assert firsts(database) == [0, 4096, 8192]  # not amid the work
    with database.write() as connection:
        last = segments.merge(connection, None, 5, full=True)
    assert firsts(database) == [*range(0, 8200, 450)]
    assert last == firsts(database)[-1]
    assert np.array_equal(segments.fetch(some, 5), vectors[some])
    assert np.array_equal(everything(segments)[1], vectors)


@pytest.mark.parametrize("last", [-1, 0, 5, 19, 20, 58, 59, 99])
def test_after_begins_behind_a_row_even_inside_a_segment(database, last):
    segments = filled(database, [20, 20, 20])
    ids, vectors, _ = everything(segments, last)
    assert ids == list(range(last + 1, 60))
    assert np.array_equal(vectors, X[last + 1 :])


def test_rows_that_come_or_are_merged_while_one_reads_are_seen_once(database):
    segments = filled(database, [10, 10, 10])
    found = []
    for part in segments.after(-1, None, 5):
        found += part.ids.tolist()
        if len(found) == 10:
            merge(database, segments)
        if len(found) == 30:
            with database.write() as connection:
                segments.append(connection, Segment(np.arange(30, 40), X[30:40], None))
    assert found == list(range(40))


def test_labels_are_little_endian_bytes_of_their_type(database):
    filled(database, [2], labels=np.array([1, -2]))
    with database.read() as connection:
        ((labels, vectors, ids),) = connection.execute("SELECT labels, vectors, ids FROM segment")
    assert labels == np.array([1, -2], dtype="<i8").tobytes()
    assert vectors == X[:2].astype("<f4").tobytes()
    assert ids is None


def test_a_row_that_is_not_there(database):
    segments = filled(database, [10, 10])
    purge(database, segments, [3, 15])
    for missing in ([3], [15], [20], [0, 3, 19], [10**9]):
        assert segments.fetch(np.array(missing), 5) is None
    with pytest.raises(CorruptStore):
        segments.labels_of(np.array([3]), PLAIN)
    assert np.array_equal(segments.fetch(np.array([4, 2, 14, 16]), 5), X[[4, 2, 14, 16]])
    assert segments.fetch(np.empty(0, dtype=np.int64), 5).shape == (0, 5)
    assert Segments(database, "float32").fetch(np.array([-1]), 5) is None


def test_one_row_may_be_asked_for_twice(database):
    twice = np.array([7, 3, 7, 7])
    assert np.array_equal(filled(database, [10]).fetch(twice, 5), X[twice])


@pytest.mark.parametrize("seed", range(6))
def test_purging_and_merging_keep_the_rest(database, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 9, 60)
    segments = filled(database, [13, 1, 30, 16], "float16", labels)
    stored, alive = X.astype(np.float16).astype(np.float32), np.arange(60)
    for _ in range(4):
        dead = np.sort(rng.choice(alive, len(alive) // 3, replace=False))
        purge(database, segments, dead, PLAIN)
        alive = np.setdiff1d(alive, dead)
        if rng.random() < 0.5:
            merge(database, segments, PLAIN)
            assert len(firsts(database)) == 1
        ids, vectors, found = everything(segments, kind=PLAIN)
        assert ids == alive.tolist()
        assert np.array_equal(vectors, stored[alive])
        assert list(chain(*found)) == labels[alive].tolist()
        order = rng.permutation(alive)
        assert np.array_equal(segments.fetch(order, 5), stored[order])
        assert [segments.labels_of(np.array([row]), PLAIN)[0] for row in order] == labels[order].tolist()
        with database.read() as connection:
            assert segments.ids(connection).tolist() == alive.tolist()
        middle = int(rng.choice(60))
        assert everything(segments, middle, PLAIN)[0] == alive[alive > middle].tolist()


def test_a_segment_whose_rows_are_all_purged_is_gone(database):
    segments = filled(database, [10, 10, 10])
    purge(database, segments, range(10, 20))
    assert firsts(database) == [0, 20]
    purge(database, segments, [*range(10), *range(20, 30)])
    assert firsts(database) == []
    assert everything(segments)[0] == []
    with database.read() as connection:
        assert segments.ids(connection).shape == (0,)
    merge(database, segments)


def test_merging_stops_at_a_page_and_where_labels_begin(database):
    segments, d = Segments(database, "float32"), 5
    with database.write() as connection:
        at = 0
        for n, labelled in [(300, 0), (150, 0), (1, 0), (7, 1), (8, 1), (9, 0)]:
            vectors = np.full((n, d), at, dtype=np.float32)
            segments.append(
                connection, Segment(np.arange(at, at + n), vectors, np.arange(n) if labelled else None)
            )
            at += n
    merge(database, segments, PLAIN)
    assert firsts(database) == [0, 450, 451, 466]
    parts = list(segments.after(-1, PLAIN, d))
    labels = [None if part.labels is None else part.labels.tolist() for part in parts]
    assert labels == [None, [*range(7), *range(8)], None]
    merge(database, segments, PLAIN)
    assert firsts(database) == [0, 450, 451, 466]


def test_what_is_too_large_for_float16_is_refused_with_its_row(database):
    segments = Segments(database, "float16")
    big = X[:3].copy()
    big[1, 2] = 70000
    with pytest.raises(InvalidInput, match=r"float16 .* row 1 does not"):
        segments.cast(big)
    assert np.array_equal(segments.cast(X), X.astype(np.float16))
    assert Segments(database, "float32").cast(big) is big


@pytest.mark.parametrize("column", ["labels", "digest", "checks", "vectors", "n", "last"])
@pytest.mark.parametrize("seed", range(3))
def test_damage_in_any_column_is_noticed_by_who_reads_the_segment(database, column, seed):
    segments = filled(database, [10, 12], labels=np.arange(60))
    flip_column(database.folder, "segment", column, np.random.default_rng(seed))
    with pytest.raises(CorruptStore, match="checksum"):
        everything(segments, kind=PLAIN)
    found = list(segments.each(PLAIN, 5))
    assert [isinstance(part, CorruptStore) for part in found].count(True) == 1
    assert len(found) == 2


@pytest.mark.parametrize("seed", range(3))
def test_damaged_ids_of_purged_segments_are_noticed(database, seed):
    segments = filled(database, [30], labels=np.arange(60))
    purge(database, segments, [4, 9], PLAIN)
    flip_column(database.folder, "segment", "ids", np.random.default_rng(seed))
    with pytest.raises(CorruptStore):
        everything(segments, kind=PLAIN)
    alive = np.delete(np.arange(30), [4, 9])
    try:  # one row may be found no more; none is another's
        found = segments.fetch(alive, 5)
    except CorruptStore:
        found = None
    assert found is None


def test_a_row_is_checked_without_its_segment(database):
    segments = filled(database, [10])
    flip_column(database.folder, "segment", "vectors", np.random.default_rng(0))
    sound = []
    for row in range(10):
        try:
            sound.append(np.array_equal(segments.fetch(np.array([row]), 5)[0], X[row]))
        except CorruptStore:
            sound.append(None)
    assert sound.count(None) == 1
    assert sound.count(True) == 9


def test_rows_in_exchange_are_noticed(database):
    segments = filled(database, [2])
    blob = X[:2].tobytes()
    replace(database.folder, "segment", "vectors", blob, X[[1, 0]].tobytes())
    with pytest.raises(CorruptStore):
        segments.fetch(np.array([0]), 5)
    with pytest.raises(CorruptStore):
        everything(segments)


@pytest.mark.parametrize("column", ["vectors", "checks", "digest"])
def test_a_blob_that_is_too_short_or_empty(database, column):
    segments = filled(database, [4])
    with database.read() as connection:
        ((blob,),) = connection.execute(f"SELECT {column} FROM segment")
    for new in (blob[:-1], b"", blob + b"\0"):
        replace(database.folder, "segment", column, blob, new)
        with pytest.raises(CorruptStore):
            everything(segments, kind=PLAIN)
        if new == b"" and column != "digest":  # where less is missing, the row itself may be there
            with pytest.raises(CorruptStore):
                segments.fetch(np.array([1]), 5)
        else:
            assert np.array_equal(segments.fetch(np.array([1]), 5), X[1:2])
        replace(database.folder, "segment", column, new, blob)
    assert everything(segments)[0] == [0, 1, 2, 3]


@pytest.mark.parametrize("cut", [8, 3])
def test_packed_ids_that_are_too_short(database, cut):
    segments = filled(database, [10])
    purge(database, segments, [4])
    with database.read() as connection:
        ((blob,),) = connection.execute("SELECT ids FROM segment")
    replace(database.folder, "segment", "ids", blob, blob[:-cut])
    with pytest.raises(CorruptStore):
        segments.fetch(np.array([9]), 5)


def test_a_damaged_label_is_noticed(database):
    segments = filled(database, [10], labels=np.arange(10))
    flip_column(database.folder, "segment", "labels", np.random.default_rng(0))
    with pytest.raises(CorruptStore):
        segments.labels_of(np.arange(10), PLAIN)


def test_damaged_ids_are_not_handed_out(database):
    segments = filled(database, [30])
    purge(database, segments, [4, 9])
    flip_column(database.folder, "segment", "ids", np.random.default_rng(0))
    with pytest.raises(CorruptStore), database.read() as connection:
        segments.ids(connection)


def test_filling_leaves_full_segments_and_the_same_rows(database):
    segments = Segments(database, "float32")
    X = np.random.default_rng(0).standard_normal((20_000, 3)).astype(np.float32)
    sizes = [100, 3000, 4096, 1500, 2700, 1, 4000, 96, 3000]
    ids, at = np.arange(20_000) * 2, 0
    with database.write() as connection:
        for size in sizes:
            segments.append(connection, Segment(ids[at : at + size], X[at : at + size], None))
            at += size
    for _ in range(2):
        with database.write() as connection:
            segments.merge(connection, None, 3, full=True)
        sizes = np.diff([*firsts(database), 2 * at]) // 2
        full = sizes == 579
        assert (full[:-1] | full[1:]).all()  # no two neighbours could be put together
        assert np.count_nonzero(~full) <= 8
        found = list(segments.after(-1, None, 3))
        assert np.array_equal(np.concatenate([each.ids for each in found]), ids[:at])
        assert np.array_equal(np.concatenate([each.vectors for each in found]), X[:at])


def test_wide_rows_are_cut_by_bytes(database, monkeypatch):
    monkeypatch.setattr(module, "_CHAIN_BYTES", 300_000)
    wide = np.arange(100 * 5000, dtype=np.float32).reshape(100, 5000)  # 2 MB
    with database.write() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 400_000)  # in place of 10^9
    segments = filled(database, [3, 1, 2, 30, 64], vectors=wide)
    with database.write() as connection:
        segments.merge(connection, None, 5000)
        lengths = [n for (n,) in connection.execute("SELECT length(vectors) FROM segment")]
    assert sum(lengths) == wide.nbytes
    assert max(lengths) <= 300_000
    with database.write() as connection:
        segments.merge(connection, None, 5000, full=True)
        counts = [n for (n,) in connection.execute("SELECT n FROM segment ORDER BY first")]
    assert (sum(counts), max(counts)) == (100, 15)
    assert np.concatenate([part.vectors for part in segments.after(-1, None, 5000)]).tobytes() == wide.tobytes()


def test_a_row_that_does_not_fit_is_not_called_damage(database):
    with database.write() as connection:
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 10_000)
    with pytest.raises(TooLarge, match=r"larger than SQLite stores .* nothing was changed"):
        filled(database, [1], vectors=np.zeros((1, 5000), dtype=np.float32))
    filled(database, [2])
    assert firsts(database) == [0]
