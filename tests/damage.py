"""Ways to damage a closed index, as a bad disk would: one value of a table, or one byte of the file."""

import shutil
import sqlite3
from contextlib import suppress
from pathlib import Path

import numpy as np


def values(folder, table, column):
    """Return what a column holds, as a list."""
    connection = sqlite3.connect(Path(folder) / "index.db")
    try:
        return [value for (value,) in connection.execute(f"SELECT {column} FROM {table}") if value is not None]
    finally:
        connection.close()


def flip_column(folder, table, column, rng, value=None):
    """Change one bit in one value of a column that is not NULL (one that equals ``value``, if given)."""
    found = values(folder, table, column)
    for _ in range(20):
        old = found[int(rng.integers(len(found)))] if value is None else value
        with suppress(sqlite3.IntegrityError):  # the other key of that name
            replace(folder, table, column, old, _flipped(old, rng))
            return
    raise AssertionError("nothing was changed")


def mapping_blob(folder, number):
    """Return the stored mapping of a version."""
    connection = sqlite3.connect(Path(folder) / "index.db")
    try:
        return connection.execute("SELECT mapping FROM version WHERE number = ?", (number,)).fetchone()[0]
    finally:
        connection.close()


def change_setting(folder, name, value):
    """Put another value in place of a setting's."""
    connection = sqlite3.connect(Path(folder) / "index.db", isolation_level=None)
    try:
        connection.execute("UPDATE setting SET value = ? WHERE name = ?", (value, name))
    finally:
        connection.close()


def replace(folder, table, column, old, new):
    """Put another value in place of one of a column."""
    connection = sqlite3.connect(Path(folder) / "index.db", isolation_level=None)
    try:
        done = connection.execute(f"UPDATE {table} SET {column} = ? WHERE {column} IS ?", (new, old)).rowcount
        assert done >= 1, "nothing was changed"
    finally:
        connection.close()


def flip_byte(path, offset, bit):
    """Change one bit of a file."""
    with Path(path).open("r+b") as file:
        file.seek(offset)
        byte = file.read(1)[0]
        file.seek(offset)
        file.write(bytes([byte ^ (1 << bit)]))


def used_bytes(path):
    """Return the offsets of a file's bytes that are not zero: where something is stored."""
    return np.flatnonzero(np.frombuffer(Path(path).read_bytes(), dtype=np.uint8))


def copied(folder, target):
    """Copy an index's database alone, and return its new folder."""
    shutil.rmtree(target, ignore_errors=True)
    Path(target).mkdir(parents=True)
    shutil.copyfile(Path(folder) / "index.db", Path(target) / "index.db")
    return Path(target)


def _flipped(old, rng):
    if isinstance(old, bytes):
        at = int(rng.integers(len(old)))
        return old[:at] + bytes([old[at] ^ (1 << int(rng.integers(8)))]) + old[at + 1 :]
    if isinstance(old, str):
        letters = [at for at, letter in enumerate(old) if letter.isalnum()]
        at = int(rng.choice(letters))
        return old[:at] + chr(ord(old[at]) ^ 1) + old[at + 1 :]
    return int(old) ^ (1 << int(rng.integers(8)))
