"""Which page of an SQLite file belongs to which table or index, read from its bytes.

After https://www.sqlite.org/fileformat2.html: every table and index is a tree of pages that begins at its root;
what does not fit into a cell is in a chain of overflow pages, and what is not used in a list of free pages.
"""

import sqlite3
from contextlib import closing
from pathlib import Path

__all__ = ["FREE", "SCHEMA", "pages_of"]

SCHEMA, FREE = "sqlite_master", "free pages"

_HEADER_BYTES = 100  # before the tree of the first page
_LEAF_TABLE, _LEAF_INDEX, _INNER_TABLE, _INNER_INDEX = 13, 10, 5, 2


def pages_of(path: Path) -> tuple[int, dict[str, list[int]]]:
    """Return the size of a page, and the numbers of the pages (from 1) of each table and index."""
    with closing(sqlite3.connect(path)) as connection:
        roots = dict(connection.execute("SELECT name, rootpage FROM sqlite_master").fetchall())
    data = path.read_bytes()
    file = _File(data)
    found = {name: file.tree(root) for name, root in {SCHEMA: 1, **roots}.items()}
    free = file.free()
    return file.size, found | ({FREE: free} if free else {})


class _File:
    """The bytes of a database."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        stored = int.from_bytes(data[16:18], "big")
        self.size = 65_536 if stored == 1 else stored
        self._usable = self.size - data[20]

    def _number(self, page: int, at: int, n_bytes: int = 4) -> int:
        start = (page - 1) * self.size + at
        return int.from_bytes(self._data[start : start + n_bytes], "big")

    def tree(self, root: int) -> list[int]:
        """Return the pages of a tree, with those that its cells flow over into."""
        found, left = [], [root]
        while left:
            page = left.pop()
            found.append(page)
            at = _HEADER_BYTES if page == 1 else 0
            kind = self._number(page, at, 1)
            inner = kind in (_INNER_TABLE, _INNER_INDEX)
            if inner:
                left.append(self._number(page, at + 8))
            for cell in range(self._number(page, at + 3, 2)):
                place = self._number(page, at + (12 if inner else 8) + 2 * cell, 2)
                if inner:
                    left.append(self._number(page, place))
                if kind != _INNER_TABLE:
                    found += self._overflow(page, place + (4 if inner else 0), kind == _LEAF_TABLE)
        return found

    def _overflow(self, page: int, at: int, in_table: bool) -> list[int]:
        payload, at = self._varint(page, at)
        if in_table:
            _, at = self._varint(page, at)
        usable = self._usable
        most = usable - 35 if in_table else (usable - 12) * 64 // 255 - 23
        if payload <= most:
            return []
        least = (usable - 12) * 32 // 255 - 23
        local = least + (payload - least) % (usable - 4)
        found, following = [], self._number(page, at + (local if local <= most else least))
        while following:
            found.append(following)
            following = self._number(following, 0)
        return found

    def _varint(self, page: int, at: int) -> tuple[int, int]:
        value = 0
        for n in range(9):
            byte = self._number(page, at + n, 1)
            if n == 8:
                return (value << 8) | byte, at + 9
            value = (value << 7) | (byte & 0x7F)
            if byte < 0x80:
                return value, at + n + 1
        raise AssertionError

    def free(self) -> list[int]:
        """Return the free pages: each trunk of the list, and those that it names."""
        found, trunk = [], self._number(1, 32)
        while trunk:
            n = self._number(trunk, 4)
            found += [trunk, *(self._number(trunk, 8 + 4 * each) for each in range(n))]
            trunk = self._number(trunk, 0)
        return found
