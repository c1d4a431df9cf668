"""The checksums that an index stores of the rows added from a source.

The checksums do not depend on how the rows were cut into chunks. Rows without keys are identified by the
sequential numbers that the index gave them, so that deleted rows are detected.
"""

import json
import zlib
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .readers import Rows
from .readers.values import class_numbers

_ROWS_BIT = 32  # a position is the number of rows, and in the lower bits the CRC-32 of their vectors
_UNKNOWN = -1


class Contents(NamedTuple):
    """The number of rows, and a CRC-32 each of their vectors, keys, labels and metadata.

    Examples
    --------
    >>> row = Rows(0, np.ones((1, 2), dtype=np.float32), keys=["a"], metadata=[{"year": 1999}])
    >>> one = Contents().after(row)
    >>> one.differences(Contents().after(row._replace(keys=["b"], metadata=None)))
    ['keys', 'metadata']
    """

    n_rows: int = 0
    vectors: int = 0
    keys: int = 0
    labels: int = 0
    metadata: int = 0

    @classmethod
    def at(cls, position: int | None) -> "Contents":
        """Return the row count and the vector checksum that are packed in a position."""
        return cls() if position is None else cls(position >> _ROWS_BIT, position & (1 << _ROWS_BIT) - 1)

    @property
    def position(self) -> int:
        """The row count and the vector checksum, packed into one number."""
        return self.n_rows << _ROWS_BIT | self.vectors

    def after(self, rows: Rows) -> "Contents":
        """Return the checksums after more rows."""
        n = len(rows.X)
        labels = None if rows.y is None else class_numbers(rows.y).tolist()  # as earlier versions stored names
        metadata = None if rows.metadata is None else [row or None for row in rows.metadata]
        return Contents(
            self.n_rows + n,
            zlib.crc32(rows.X.data, self.vectors),
            _checksum(rows.keys, n, self.keys),
            _checksum(labels, n, self.labels),
            _checksum(metadata, n, self.metadata),
        )

    def differences(self, other: "Contents") -> list[str]:
        """Return what differs between two sources of the same number of rows."""
        return [name for name in self._fields[1:] if getattr(self, name) != getattr(other, name)]


def _checksum(values: Sequence[Any] | None, n: int, before: int) -> int:
    """Return the CRC-32 of one value a row, after others; what cannot be stored has one too."""
    if not n:
        return before
    text = json.dumps(values or [None] * n, sort_keys=True, default=repr, separators=("\n", ":"))
    return zlib.crc32(f"{text[1:-1]}\n".encode(), before)  # of a list without its brackets: cut anywhere, the same


class Numbers:
    """The sequential numbers of the rows of a source, where they came without keys.

    Parameters
    ----------
    runs
        Rows whose numbers follow one another: the first row, how many, and the number of the first.

    Examples
    --------
    >>> numbers = Numbers().replaced(0, [7, 8, 9]).replaced(1, [30])
    >>> numbers.runs
    [(0, 1, 7), (1, 1, 30), (2, 1, 9)]
    >>> numbers.of(0, 4).tolist()
    [7, 30, 9, -1]
    """

    def __init__(self, runs: Iterable[Sequence[int]] = ()) -> None:
        self.runs = [(row, n, number) for row, n, number in runs]

    def of(self, first: int, n: int) -> NDArray[np.int64]:
        """Return the numbers of some rows, -1 if that is not known."""
        found = np.full(n, _UNKNOWN, dtype=np.int64)
        for row, length, number in self.runs:
            begin, end = max(row, first), min(row + length, first + n)
            if begin < end:
                found[begin - first : end - first] = np.arange(number + begin - row, number + end - row)
        return found

    def replaced(self, first: int, numbers: Sequence[int]) -> "Numbers":
        """Return the numbers after those of consecutive rows, from ``first`` on, became ``numbers``."""
        last = first + len(numbers)
        runs = [(row, min(n, first - row), number) for row, n, number in self.runs if row < first]
        runs += [(row, 1, number) for row, number in enumerate(numbers, first) if number != _UNKNOWN]
        for row, n, number in self.runs:
            begin = max(row, last)
            if begin < row + n:
                runs.append((begin, row + n - begin, number + begin - row))
        return Numbers(_merged(runs))


def _merged(runs: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    merged: list[tuple[int, int, int]] = []
    for row, n, number in runs:
        if merged:
            before, length, begin = merged[-1]
            if (before + length, begin + length) == (row, number):
                merged[-1] = (before, length + n, begin)
                continue
        merged.append((row, n, number))
    return merged


class Remembered(NamedTuple):
    """What an index stores about a source.

    Attributes
    ----------
    contents
        Checksums of the rows that were added.
    numbers
        Their sequential numbers, if they have no keys.
    deletions
        How many deletions the index had seen when all the rows were there; None if some were missing, or where
        that was not checked. As long as there are no more deletions, none of the rows was deleted.
    whole
        Whether there are checksums of keys, labels and metadata; earlier versions stored those of vectors only.
    """

    contents: Contents = Contents()
    numbers: Numbers = Numbers()
    deletions: int | None = None
    whole: bool = True

    @classmethod
    def of(cls, position: int | None, details: str | None) -> "Remembered":
        """Return what a position and its details stand for."""
        if position is None:
            return cls()
        contents = Contents.at(position)
        if details is None:
            return cls(contents, whole=False)
        found = json.loads(details)
        others = {name: found[name] for name in ("keys", "labels", "metadata")}
        return cls(contents._replace(**others), Numbers(found["numbers"]), found["deletions"])

    @property
    def details(self) -> str:
        """What is remembered in addition to the position."""
        others = {name: getattr(self.contents, name) for name in ("keys", "labels", "metadata")}
        return json.dumps({**others, "numbers": self.numbers.runs, "deletions": self.deletions})
