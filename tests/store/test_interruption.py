import sys

import numpy as np
import pytest

from mihash.errors import StoreError
from mihash.mapping import LinearMapping
from mihash.store.change import Change
from stored import D, X, answer, compact, everything, opened


def interrupted_at(line, names, function):
    """Call a function and press Ctrl-C at a line of the table's methods; return whether it came so far."""
    passed = 0

    def local(frame, event, argument):  # noqa: ARG001
        nonlocal passed
        passed += event == "line"
        if passed == line:
            raise KeyboardInterrupt
        return local

    def trace(frame, event, argument):  # noqa: ARG001
        code = frame.f_code
        return local if code.co_name in names and code.co_filename.endswith("sqlite.py") else None

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        function()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


@pytest.mark.parametrize("deed", ["add", "update", "delete"])
def test_an_interrupt_leaves_what_is_on_the_disk(table, folder, deed):
    table.add(X[:20], [f"key {i}" for i in range(20)])
    line, goes_on = 0, True
    while goes_on:
        line += 1
        deeds = {
            "add": lambda: table.add(X[line : line + 2], [f"new {line}", f"more {line}"]),  # noqa: B023
            "update": lambda: table.write(Change.update(["key 3"], X[line : line + 1])),  # noqa: B023
            "delete": lambda: table.delete([f"gone {line}"]),  # noqa: B023
        }
        if deed == "delete":
            table.add(X[:1], [f"gone {line}"])
        goes_on = interrupted_at(line, ("_store", "delete"), deeds[deed])
        with opened(folder, read_only=True) as reader:
            assert answer(table) == answer(reader)
            assert len(table) == len(reader)
        table.add(X[:1], [f"after {line}"])


def room(table, n_pages):
    with table.database.write() as connection:
        if n_pages is None:
            connection.execute("PRAGMA max_page_count = 1000000")
        else:
            (used,) = connection.execute("PRAGMA page_count").fetchone()
            connection.execute(f"PRAGMA max_page_count = {used + n_pages}")


DEEDS = ("add", "update", "delete", "rebuild", "compact")


@pytest.mark.parametrize("deed", DEEDS)
def test_a_full_disk_leaves_all_as_it_was_and_room_is_used_again(table, folder, deed):
    keys, n = [f"key {i}" for i in range(3000)], 3000
    vectors = np.random.default_rng(0).standard_normal((n, D)).astype(np.float32)
    table.add(vectors, keys, metadata=[{"a": "x" * 50} for _ in range(n)])
    deeds = {
        "add": lambda: table.add(vectors, [f"new {i}" for i in range(n)]),
        "update": lambda: table.write(
            Change.update(keys, vectors[::-1], metadata=[{"b": "y" * 100} for _ in range(n)])
        ),
        "delete": lambda: table.delete(keys[10:]),
        "rebuild": lambda: table.rebuild(LinearMapping(np.random.default_rng(1).standard_normal((D, 4000)))),
        "compact": lambda: compact(table),
    }
    if deed == "compact":
        table.delete(keys[10::2])
    before, some = answer(table), keys[:10]
    room(table, 0 if deed != "rebuild" else 2)
    full = False
    try:
        deeds[deed]()
    except StoreError:
        full = True
        assert answer(table) == before
    with opened(folder, read_only=True) as reader:
        assert everything(reader, some) == everything(table, some)
    assert full or deed in ("delete", "compact")  # these need none, as a rule
    room(table, None)
    if full:
        deeds[deed]()
    table.verify()
    after = answer(table)
    assert after != before or deed == "compact"
    table.close()
    with opened(folder) as again:
        assert answer(again) == after


def test_a_full_disk_is_named(table):
    table.add(X)
    room(table, 0)
    with pytest.raises(StoreError, match="disk is full, and nothing was changed"):
        table.add(np.ones((5000, D)))
    room(table, None)
    assert table.verify()["rows"] == 80
