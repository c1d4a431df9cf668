"""Durable tables to test with, and what is asked of them."""

from contextlib import contextmanager

import numpy as np

from mihash.mapping import LinearMapping
from mihash.store.sqlite.code_versions import propose
from mihash.store.sqlite.sqlite_table import SQLiteTable

rng = np.random.default_rng(0)
D = 6
X = rng.standard_normal((80, D)).astype(np.float32)
Q = rng.standard_normal((3, D)).astype(np.float32)
FIRST, SECOND, THIRD = (LinearMapping(rng.standard_normal((D, 12))) for _ in range(3))


@contextmanager
def opened(folder, read_only=False):
    """Open a table for a while."""
    table = SQLiteTable(folder, read_only)
    try:
        yield table
    finally:
        table.close()


def compact(table):
    """Compact a table, as an index does."""
    with table.database.write() as connection:
        fresh = table.compact(connection)
    table.compacted(fresh)


def proposed(table, number, mapping):
    """Have a version wait for being built."""
    with table.database.write() as connection:
        propose(connection, number, mapping)


def metadata_of(n, first=0):
    """Return metadata for some rows, every seventh without."""
    return [None if i % 7 == 6 else {"a": i % 3, "b": "x" * (i % 4)} for i in range(first, first + n)]


def answer(table, k=100, **options):
    """Return the answer to a search as plain lists, and the version."""
    hits = table.search(Q, k, **{"rescore": 0} | options)
    return [keys.tolist() for keys in hits.keys], [each.tolist() for each in hits.distances], hits.version


def described(item):
    """Return an item in plain values."""
    return item.key, item.vector.tolist(), None if item.label is None else int(item.label), item.metadata


def everything(table, keys):
    """Return what a table says to a number of questions, as one comparable value."""
    items = [described(table.get(key)) for key in keys]
    return answer(table), answer(table, radius=4), answer(table, 5, rescore=20), len(table), items


def put(database, number, n_bytes=10):
    """Store a number, with some bytes."""
    with database.write() as connection:
        connection.execute("INSERT INTO checkpoint VALUES (?, ?)", (number, b"x" * n_bytes))


def numbers(database):
    """Return the numbers that are stored."""
    with database.read() as connection:
        return [row[0] for row in connection.execute("SELECT through FROM checkpoint ORDER BY through")]
