import json
import threading

import numpy as np
import pytest

from mihash import state
from mihash.errors import UnknownName
from mihash.stopwatch import Stopwatch
from mihash.store.change import Change
from mihash.store.edition import CODE_ROWS
from mihash.store.sqlite.code_versions import KEPT_MAPPINGS, drop_mappings, kept_mappings
from mihash.store.sqlite.sqlite_table import SQLiteTable
from oracles_tables import PlainTable, assert_answers
from stored import FIRST, SECOND, THIRD, D, Q, X, answer, compact, opened, proposed


def test_versions_are_built_published_and_gone_back_to(table, folder):
    table.add(X[:30])
    answers = {0: answer(table)}
    for number, mapping in ((1, SECOND), (2, THIRD)):
        table.rebuild(mapping)
        answers[number] = answer(table)
        assert answers[number][2] == number
        assert table.mapping == mapping
    assert len({json.dumps(each[:2]) for each in answers.values()}) == 3
    for number in (0, 2, 1, 1):
        assert table.build(number)
        assert answer(table) == answers[number]
        with opened(folder, read_only=True) as reader:
            assert answer(reader) == answers[number]
    table.close()
    with opened(folder) as again:
        assert answer(again) == answers[1]
        assert again.mapping == SECOND
        assert [again.mapping_of(number) for number in range(3)] == [FIRST, SECOND, THIRD]


def test_codes_of_two_versions_at_most_are_kept(table):
    table.add(X[:30])
    for _ in range(3):
        for mapping in (FIRST, SECOND, THIRD):
            table.rebuild(mapping)
    with table.database.read() as connection:
        kept = {row[0] for row in connection.execute("SELECT DISTINCT version FROM code")}
    assert kept == {8, 9}


def test_a_newer_version_supersedes_one_that_waits(table):
    table.add(X[:5])
    proposed(table, 1, SECOND)
    assert table.waiting() == 1
    proposed(table, 2, THIRD)
    assert table.waiting() == 2
    assert table.build(2)
    assert table.waiting() is None
    with table.database.read() as connection:
        rows = connection.execute("SELECT number, status, items FROM version ORDER BY number").fetchall()
    assert rows == [(0, "published", 0), (1, "superseded", None), (2, "published", 5)]


def test_a_build_that_is_stopped_changes_nothing_and_is_made_again(table, folder):
    n = CODE_ROWS + 100
    vectors = np.random.default_rng(0).standard_normal((n, D)).astype(np.float32)
    table.add(vectors)
    before = answer(table, 50)
    proposed(table, 1, SECOND)
    turns = []

    def stopped():
        turns.append(1)
        return len(turns) > 27  # the first piece of codes is on the disk by then

    assert not table.build(1, stopped)
    assert answer(table, 50) == before
    assert table.waiting() == 1
    with table.database.read() as connection:
        assert connection.execute("SELECT count(*) FROM code WHERE version = 1").fetchone()[0] > 0
    table.close()
    with opened(folder) as again:
        assert answer(again, 50) == before
        with again.database.read() as connection:
            assert connection.execute("SELECT count(*) FROM code WHERE version = 1").fetchone() == (0,)
        assert again.waiting() == 1
        assert again.build(1)
        codes = SECOND.encode(vectors)
        assert np.array_equal(again.edition.codes(), codes)
    with opened(folder, read_only=True) as reader:
        assert np.array_equal(reader.edition.codes(), codes)
        assert reader.edition.version == 1


def test_what_happens_during_a_build_is_in_both_versions(table, folder):
    plain = PlainTable()
    for each in (table, plain):
        each.add(X[:30], range(100, 130))
        each.add(X[30:40], range(130, 140))
    proposed(table, 1, SECOND)
    turns = []

    def meanwhile():
        turns.append(1)
        for each in (table, plain):
            each.add(X[40:44] + len(turns), [f"{len(turns)} {i}" for i in range(4)])
            each.delete([100 + len(turns)])
        table.write(Change.update([110], X[60:61] * len(turns)))
        plain.update([110], X[60:61] * len(turns))
        assert_answers(table.search(Q, 100, rescore=0), [plain.search(q, FIRST, 100) for q in Q])
        assert table.search(Q).version == 0
        return len(turns) > 4

    assert not table.build(1, meanwhile)
    turns[:] = range(10)
    rest = iter(range(3))

    def again():
        if next(rest, None) is not None:
            meanwhile()
        return False

    assert table.build(1, again)
    assert table.search(Q).version == 1
    assert_answers(table.search(Q, 100, rescore=0), [plain.search(q, SECOND, 100) for q in Q])
    table.verify()
    table.close()
    with opened(folder) as reopened:
        assert_answers(reopened.search(Q, 100, rescore=0), [plain.search(q, SECOND, 100) for q in Q])


def test_no_answer_mixes_two_versions(table):
    table.add(X, range(100, 180))
    mappings, right, wrong, done = (FIRST, SECOND), {}, [], threading.Event()
    for number, mapping in enumerate(mappings):
        table.rebuild(mapping)
        right[number] = answer(table)[:2]
    offset = table.edition.version

    def work():
        n = 0
        try:
            while not done.is_set() or n < 5:
                keys, distances, version = answer(table)
                if (keys, distances) != right[(version - offset + 1) % 2]:
                    wrong.append(version)
                n += 1
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work) for _ in range(3)]
    for thread in threads:
        thread.start()
    for turn in range(20):
        table.rebuild(mappings[turn % 2])
    done.set()
    for thread in threads:
        thread.join(60)
    assert wrong == []


def test_searches_miss_nothing_while_keys_get_new_vectors(table, folder):
    names = [f"key {i}" for i in range(20)]
    table.add(X[:20], names)
    reader, wrong, done = SQLiteTable(folder, read_only=True), [], threading.Event()

    def work(each):
        try:
            while not done.is_set():
                found = each.search(Q, 50, rescore=50 if each is table else 0).keys
                if any(sorted(keys) != sorted(names) for keys in found.tolist()):
                    wrong.append(found)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(each,)) for each in (table, table, reader)]
    for thread in threads:
        thread.start()
    for turn in range(60):
        table.write(Change.update([names[turn % 20]], X[turn : turn + 1]))
        if turn % 20 == 10:
            compact(table)
    done.set()
    for thread in threads:
        thread.join(60)
    reader.close()
    assert wrong == []


def dropped(table, n_events, **options):
    """Drop old mappings where the oldest checkpoint was taken after so many decisions; return what is kept."""
    with table.database.write() as connection:
        for through, each in ((3, n_events), (4, 10**6)):
            blob = state.dump({"n_events": each})
            connection.execute("INSERT OR REPLACE INTO checkpoint VALUES (?, ?)", (through, blob))
        drop_mappings(connection, table.setting("published"), **options)
        return kept_mappings(connection)


def test_mappings_that_nobody_can_need_are_dropped(table, folder):
    table.add(X[:5])
    for _ in range(24):
        table.rebuild(SECOND)  # versions 1 to 24 have answered, as 0 has
    for number in range(30, 50):
        proposed(table, number, THIRD)  # all but 49 are superseded
    everything = [*range(25), *range(30, 50)]
    assert dropped(table, 0) == everything  # a replay may come to every decision
    assert dropped(table, 5) == everything[5:]
    answered, newest = list(range(25 - KEPT_MAPPINGS, 25)), list(range(50 - KEPT_MAPPINGS, 50))
    assert dropped(table, 32) == [*answered, 32, 33, *newest]
    table.rebuild(FIRST)
    assert table.build(9)  # a rollback to one that is not of the newest any more
    assert dropped(table, 60) == [*answered, *newest[1:], 50]
    with pytest.raises(UnknownName, match=r"The mapping of version 3 was dropped; known: 9, 10"):
        table.mapping_of(3)
    assert table.verify()["versions"] == 2 * KEPT_MAPPINGS
    table.close()
    with opened(folder) as again:
        assert again.edition.version == 9


def test_a_checkpoint_that_cannot_be_read_keeps_every_mapping(table):
    for _ in range(KEPT_MAPPINGS + 9):
        table.rebuild(SECOND)
    with table.database.write() as connection:
        connection.execute("INSERT INTO checkpoint VALUES (1, x'00')")
        drop_mappings(connection, table.setting("published"))
        assert len(kept_mappings(connection)) == KEPT_MAPPINGS + 10
        drop_mappings(connection, table.setting("published"), first=2**62)
        assert len(kept_mappings(connection)) == KEPT_MAPPINGS


def test_a_version_that_is_superseded_while_it_is_built_has_its_mapping(table, folder):
    table.add(X[:30])
    proposed(table, 1, SECOND)
    staged = table.stage(1)
    for number in range(2, KEPT_MAPPINGS + 3):  # accepted meanwhile
        proposed(table, number, THIRD)
    with table.database.write() as connection:
        drop_mappings(connection, table.setting("published"), first=2**62)
    table.publish(*staged, Stopwatch())
    expected = answer(table)
    assert expected[2] == 1
    table.close()
    with opened(folder) as again:
        assert answer(again) == expected
        assert again.mapping_of(1) == SECOND


def test_the_versions_that_have_answered_are_records(table):
    table.add(X[:10])
    table.rebuild(SECOND)
    versions = table.versions()
    assert [version.number for version in versions] == [0, 1]
    assert [version["items"] for version in versions] == [0, 10]
    assert list(dict(versions[1])) == ["number", "kind", "seen", "items", "seconds", "at"]
