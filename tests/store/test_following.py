import json
import subprocess
import sys
import threading
from contextlib import suppress

import numpy as np
import pytest

import damage
from mihash.errors import CorruptStore, NotReady
from mihash.store.change import Change
from mihash.store.sqlite.sqlite_table import SQLiteTable
from stored import FIRST, SECOND, D, Q, X, answer, compact, metadata_of, opened


def test_a_reader_in_the_same_process_follows(table, folder):
    with opened(folder, read_only=True) as reader:
        deeds = [
            lambda: table.add(X[:10], range(50, 60), metadata=metadata_of(10)),
            lambda: table.delete([53]),
            lambda: table.write(Change.update([54], X[20:21])),
            lambda: table.rebuild(SECOND),
            lambda: table.add(X[30:35], list("abcde"), np.arange(5)),
            lambda: compact(table),
            lambda: table.delete("c"),
            lambda: table.build(0),
            lambda: table.add(X[35:40], list("fghij")),
        ]
        for deed in deeds:
            deed()
            assert answer(reader) == answer(table)
            assert answer(reader, where={"a": 1}) == answer(table, where={"a": 1})
            assert answer(reader, 4, rescore=10) == answer(table, 4, rescore=10)
            assert len(reader) == len(table)
            assert (reader.mapping, reader.n_features) == (table.mapping, D)
        assert reader.get("a").label == 0
        for call in (lambda: reader.add(X[:1]), lambda: reader.delete("a"), lambda: reader.rebuild(FIRST)):
            with pytest.raises(NotReady, match="read_only"):
                call()
        assert reader.verify() == table.verify()


def test_a_reader_begins_before_the_first_row(folder):
    table = SQLiteTable.create(folder)
    with opened(folder, read_only=True) as reader:
        assert answer(reader)[2] is None
        assert reader.n_features is None
        table.add(X[:5])
        assert len(reader) == 5
        table.rebuild(FIRST)
        assert answer(reader) == answer(table)
        assert reader.n_features == D
    table.close()


def in_a_thread(function):
    found = []

    def work():
        try:
            found.append(function())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    return found[0]


def test_a_reader_follows_in_every_thread(table, folder):
    table.add(X[:5], list("abcde"))
    with opened(folder, read_only=True) as reader:
        answer(reader)
        for change in (Change.add(X[5:10], list("fghij")), Change.update(["a"], X[20:21])):
            table.write(change)
            assert in_a_thread(lambda: answer(reader)) == answer(table)


READER = """
import json, sys
import numpy as np
from mihash.store.sqlite.sqlite_table import SQLiteTable
table = SQLiteTable(sys.argv[1], read_only=True)
Q = np.array(json.loads(sys.argv[2]), dtype=np.float32)
for _ in sys.stdin:
    hits = table.search(Q, 100, rescore=0)
    near = table.search(Q, 3, rescore=10)
    print(json.dumps([hits.keys.tolist(), hits.distances.tolist(), hits.version, near.keys.tolist()]), flush=True)
"""


def test_a_reader_in_another_process_follows(table, folder):
    def expected():
        keys, distances, version = answer(table)
        return [keys, distances, version, answer(table, 3, rescore=10)[0]]

    table.add(X[:10])
    command = [sys.executable, "-c", READER, str(folder), json.dumps(Q.tolist())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as reader:
        try:
            for deed in (
                lambda: None,
                lambda: table.add(X[10:20]),
                lambda: table.rebuild(SECOND),
                lambda: table.delete([3, 4]),
                lambda: compact(table),
                lambda: table.add(X[20:22], ["a", "b"]),
                lambda: table.write(Change.update(["a"], X[50:51])),
            ):
                deed()
                print(file=reader.stdin, flush=True)
                assert json.loads(reader.stdout.readline()) == expected()
        finally:
            reader.stdin.close()
            reader.wait(30)


def test_a_reader_says_that_the_next_version_is_damaged(table, folder):
    table.add(X[:10])
    with opened(folder, read_only=True) as reader:
        assert answer(reader) == answer(table)
        table.rebuild(SECOND)
        sound = damage.mapping_blob(folder, 1)
        damage.replace(folder, "version", "mapping", sound, sound[:-1])
        with pytest.raises(CorruptStore):
            answer(reader)


def test_a_reader_that_failed_once_does_not_stay_behind(table, folder):
    table.add(X[:10])
    with opened(folder, read_only=True) as reader:
        answer(reader)
        table.rebuild(SECOND)
        sound = damage.mapping_blob(folder, 1)
        damage.replace(folder, "version", "mapping", sound, sound[:-1])
        with suppress(CorruptStore):
            answer(reader)
        damage.replace(folder, "version", "mapping", sound[:-1], sound)
        assert answer(reader) == answer(table)
