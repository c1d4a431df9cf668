import hashlib

import numpy as np
import pytest

import mihash
from damage import flip_column, replace
from mihash.errors import CorruptStore
from mihash.mapping import LinearMapping
from mihash.search import nearest
from mihash.store.edition import CODE_ROWS, Edition, read_codes, write_codes

rng = np.random.default_rng(0)
X = rng.standard_normal((40, 6)).astype(np.float32)
MAPPING = LinearMapping(rng.standard_normal((6, 12)))


def filled(n=20, capacity=0, mapping=MAPPING, ids=None):
    edition = Edition.empty(3, mapping, capacity)
    return edition.encoded(np.arange(n) if ids is None else ids, X[:n])


def answers(edition):
    rows, distances = nearest(edition.columns[:2], edition.columns, 100, edition.live)
    return edition.ids[rows].tolist(), distances.tolist(), edition.codes().tolist(), edition.n_items, edition.last


@pytest.mark.parametrize("n_bits", [1, 8, 12, 64, 65, 130])
@pytest.mark.parametrize("capacity", [0, 5, 100])
def test_rows_have_the_codes_of_their_vectors(n_bits, capacity):
    mapping = LinearMapping(rng.standard_normal((6, n_bits)))
    edition = Edition.empty(0, mapping, capacity)
    assert (edition.n, edition.n_items, edition.last) == (0, 0, -1)
    for start in range(0, 40, 7):
        part = slice(start, start + 7)
        edition = edition.encoded(np.arange(40)[part] * 2, X[part])
    assert np.array_equal(edition.codes(), mapping.encode(X))
    assert np.array_equal(edition.codes(5, 9), mapping.encode(X[5:9]))
    assert edition.ids.tolist() == list(range(0, 80, 2))
    assert (edition.n_items, edition.last) == (40, 78)


@pytest.mark.parametrize("capacity", [0, 100])
def test_an_edition_that_somebody_holds_gives_its_own_answers_whatever_happens(capacity):
    newest = filled(capacity=capacity)
    held = []
    for turn in range(12):
        held.append((newest, answers(newest)))
        if turn % 4 == 0:
            newest = newest.without([turn, turn + 1])
        elif turn % 4 == 3:
            newest = newest.purged()
        else:
            newest = newest.encoded(np.arange(2) + newest.last + 1, X[turn : turn + 2])
        for edition, before in held:
            assert answers(edition) == before
    assert newest.n_items == 20 + 6 * 2 - 3 * 2


def test_deleted_rows_are_marked_and_unknown_ones_passed_over():
    edition = filled(ids=np.arange(0, 60, 3))
    fewer = edition.without([3, 4, 57, 58, 99, -1])
    assert fewer.ids[fewer.dead].tolist() == [3, 57]
    assert (fewer.n, fewer.n_dead, fewer.n_items) == (20, 2, 18)
    assert fewer.without([3]).n_dead == 2
    assert edition.without([]).n_dead == 0
    assert edition.n_dead == 0
    assert Edition.empty(0, MAPPING).without([5]).n == 0


def test_places_are_those_of_ids_that_are_there():
    edition = filled(ids=np.arange(0, 60, 3))
    assert edition.places(np.array([0, 6, 57])).tolist() == [0, 2, 19]
    assert edition.places(np.array([1, 5, 58, 1000])).tolist() == []
    assert sorted(set(edition.places(np.array([5, 6, 7])).tolist())) == [2]
    assert edition.places(np.array([57, 0])).tolist() == [19, 0]


def test_purged_rows_are_gone_and_more_can_be_added():
    edition = filled().without([0, 7, 19]).purged()
    kept = [i for i in range(20) if i not in (0, 7, 19)]
    assert edition.ids.tolist() == kept
    assert np.array_equal(edition.codes(), MAPPING.encode(X[kept]))
    assert (edition.n, edition.n_dead) == (17, 0)
    grown = edition.encoded(np.array([20]), X[20:21])
    assert grown.ids.tolist() == [*kept, 20]
    assert np.array_equal(grown.codes()[-1:], MAPPING.encode(X[20:21]))


def test_tables_of_purged_rows_are_not_searched():
    codes = np.random.default_rng(0).integers(0, 256, (3210, 2), dtype=np.uint8)
    codes[:, 1] &= 15
    edition = Edition.empty(3, MAPPING).appended(np.arange(3210), codes)
    edition.searcher.nearest(edition.columns[:1], edition.columns, 1, None, "multi-index")
    purged = edition.without([0, 1, 2]).purged()  # more are left than the 3,200 that the tables know
    found = purged.searcher.nearest(purged.columns[:20], purged.columns, 1, None, "multi-index")
    expected = nearest(purged.columns[:20], purged.columns, 1)
    assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))


def test_deletions_are_taken_over_by_a_new_version():
    old, mapping = filled().without([2, 5]), LinearMapping(rng.standard_normal((6, 70)))
    new = Edition.empty(4, mapping, 50).encoded(np.arange(20), X[:20]).with_deletions_of(old)
    assert new.ids[new.dead].tolist() == [2, 5]
    assert new.n_items == 18
    more = new.encoded(np.arange(20, 25), X[20:25])
    assert more.ids[more.dead].tolist() == [2, 5]


def stored(database, edition, start=0):
    with database.write() as connection:
        write_codes(connection, edition, start)


def loaded(database, edition, ids=None):
    with database.read() as connection:
        return read_codes(
            connection, Edition.empty(edition.version, edition.mapping), edition.ids if ids is None else ids
        )


@pytest.mark.parametrize("n_bits", [1, 12, 64, 100])
def test_codes_come_back_from_the_disk(database, n_bits):
    edition = filled(30, mapping=LinearMapping(rng.standard_normal((6, n_bits))))
    stored(database, edition)
    grown = edition.encoded(np.arange(30, 40), X[30:])
    stored(database, grown, 30)
    again, damage = loaded(database, grown)
    assert damage is None
    assert answers(again) == answers(grown)


def test_codes_are_stored_in_pieces_of_65536_rows(database):
    n = CODE_ROWS + 5
    codes = rng.integers(0, 256, (n, 2), dtype=np.uint8)
    codes[:, 1] &= 15
    edition = Edition.empty(1, MAPPING).appended(np.arange(n), codes)
    stored(database, edition)
    with database.read() as connection:
        assert connection.execute("SELECT first, last, n FROM code ORDER BY first").fetchall() == [
            (0, CODE_ROWS - 1, CODE_ROWS),
            (CODE_ROWS, n - 1, 5),
        ]
    again, damage = loaded(database, edition)
    assert damage is None
    assert np.array_equal(again.codes(), codes)


def test_stored_codes_are_packed_bytes(database):
    edition = filled(3)
    stored(database, edition)
    with database.read() as connection:
        ((blob,),) = connection.execute("SELECT codes FROM code")
    assert blob == MAPPING.encode(X[:3]).tobytes()


def test_fewer_codes_than_rows_are_no_damage(database):
    edition = filled(20)
    stored(database, edition)
    again, damage = loaded(database, edition, np.arange(40))
    assert damage is None
    assert again.n == 20


@pytest.mark.parametrize("column", ["codes", "digest", "first", "last", "n"])
@pytest.mark.parametrize("seed", range(3))
def test_damage_is_noticed_and_the_rows_from_there_on_left_out(database, column, seed):
    edition = filled(30)
    stored(database, edition)
    grown = edition.encoded(np.arange(30, 40), X[30:])
    stored(database, grown, 30)
    flip_column(database.folder, "code", column, np.random.default_rng(seed))
    again, damage = loaded(database, grown)
    assert isinstance(damage, CorruptStore)
    assert again.n in (0, 30)
    assert np.array_equal(again.codes(), MAPPING.encode(X[: again.n]))


def test_codes_of_another_mapping_or_version_or_of_other_rows_are_not_taken(database):
    edition = filled(20)
    stored(database, edition)
    other = Edition.empty(3, LinearMapping(rng.standard_normal((6, 12))))
    with database.read() as connection:
        assert isinstance(read_codes(connection, other, edition.ids)[1], CorruptStore)
    for ids in (np.arange(1, 21), np.arange(19), np.empty(0, np.int64)):
        again, damage = loaded(database, edition, ids)
        assert isinstance(damage, CorruptStore)
        assert again.n == 0
    replace(database.folder, "code", "version", 3, 4)
    assert loaded(database, edition)[0].n == 0
    with database.read() as connection:
        assert isinstance(read_codes(connection, Edition.empty(4, MAPPING), edition.ids)[1], CorruptStore)


@pytest.mark.parametrize("ids", [[0, 1, 2, 4, 6], [0, 1, 3, 4, 5], [0, 2, 3, 4, 5]])
def test_codes_of_other_rows_between_the_same_ends_are_not_taken(database, ids):
    edition = filled(5, ids=np.array([0, 1, 2, 4, 5]))
    stored(database, edition)
    assert loaded(database, edition)[1] is None
    again, damage = loaded(database, edition, np.array(ids))
    assert isinstance(damage, CorruptStore)
    assert again.n == 0


def test_codes_with_a_missing_piece_are_read_up_to_there(database):
    edition = filled(10)
    stored(database, edition)
    for n in (20, 30):
        edition = edition.encoded(np.arange(n - 10, n), X[n - 10 : n])
        stored(database, edition, n - 10)
    with database.write() as connection:
        connection.execute("DELETE FROM code WHERE first = 10")
    again, damage = loaded(database, edition)
    assert isinstance(damage, CorruptStore)
    assert np.array_equal(again.codes(), MAPPING.encode(X[:10]))


def test_digests_without_ids_are_accepted(database):
    """Indexes that were compacted before ids were part of the digest."""
    edition = filled(5, ids=np.array([0, 1, 2, 4, 5]))
    stored(database, edition)
    blob = MAPPING.encode(X[:5]).tobytes()
    digest = hashlib.blake2b(f"3 {MAPPING.fingerprint} 0 5 5".encode() + blob, digest_size=16).digest()
    with database.write() as connection:
        assert connection.execute("SELECT digest FROM code").fetchall() != [(digest,)]
        connection.execute("UPDATE code SET digest = ?", (digest,))
    again, damage = loaded(database, edition)
    assert damage is None
    assert answers(again) == answers(edition)


def test_distances_are_those_of_the_codes():
    edition = filled()
    rows, distances = nearest(edition.columns[:1], edition.columns, 20)
    codes = MAPPING.encode(X[:20])
    assert np.array_equal(np.sort(mihash.hamming(codes[:1], codes)), distances)
    assert sorted(rows[0].tolist()) == list(range(20))
