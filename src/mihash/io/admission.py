"""Checks whether rows of sources may be added to an index: labels, shape and keys, over all sources."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..index.online_index import OnlineIndex
from ..online import learner_class
from ..store.keys import Key
from .readers import Source
from .readers.values import class_names, class_numbers

_REMEDY = 'Name another column with `key`, or number the rows with `key="none"`.'


def check_labels(index: OnlineIndex, sources: Sequence[Source]) -> None:
    """Raise if a source has labels that the index does not take, or lacks labels that the learner needs."""
    stats = index.stats()
    begun, labelled = stats["n_features"] is not None, stats["labels"]
    for source in sources:
        if begun and not labelled and source.has_labels:
            first = (
                "This index began" if stats["n_features"] is not None else f"{sources[0].name} comes first and is"
            )
            raise InvalidInput(
                f"{first} without labels: items with near vectors are neighbours. Leave `label` out, "
                "or make an index whose first rows have labels."
            )
        if not begun and not source.has_labels and learner_class(stats["learner"]).needs_labels:
            raise InvalidInput(
                f"The learner {stats['learner']} needs labels, and {source.name} has none. Name the label column "
                "with `label`."
            )
        begun, labelled = True, labelled or source.has_labels


def fitting_labels(index: OnlineIndex, labels: NDArray[Any] | None) -> NDArray[Any] | None:
    """Return labels of a file as an index takes them: as names, or as numbers, whichever it began with.

    An index that began with numbers, as those of files did before mihash 0.2, has a hash in place of each name.
    """
    if labels is None or index._table.label_kind is None:
        return labels
    return class_names(labels) if index._table.setting("label_names") else class_numbers(labels)


class Shape(NamedTuple):
    """What rows have in common: the width of vectors, and of labels () for integers or (classes,) for 0 and 1."""

    width: int | None
    labels: tuple[int, ...] | None

    @classmethod
    def of(cls, index: OnlineIndex) -> "Shape":
        """Return what the rows of an index have in common."""
        kind = index._table.label_kind
        return cls(index.n_features, None if kind is None else (kind[1],) if kind[1] else ())


class NewKeys:
    """The keys that are about to be added to an index; 8 bytes of each are kept.

    Parameters
    ----------
    index
        The index.
    replaces
        Whether a key may be stored already.
    """

    def __init__(self, index: OnlineIndex, replaces: bool = False) -> None:
        self._index, self._replaces = index, replaces
        self._marks: list[NDArray[np.int64]] = []
        self._places: list[tuple[str, Sequence[int]]] = []

    def check(self, source: str, rows: Sequence[int], keys: Sequence[Key]) -> None:
        """Raise if a key of some rows is stored; `check_unique` tells later whether one comes twice."""
        if len(self._index) and len(keys) and not self._replaces:
            stored = np.flatnonzero(self._index.contains(keys))
            if len(stored):
                place = int(stored[0])
                raise InvalidInput(
                    f"{source}: row {rows[place]} has the key {keys[place]!r}, which is stored already. {_REMEDY} "
                    "To replace what is stored, use `upsert`."
                )
        self._marks.append(np.array([hash((key, isinstance(key, str))) for key in keys], dtype=np.int64))
        self._places.append((source, rows))

    def check_unique(self) -> None:
        """Raise where two rows have the same key."""
        marks = np.concatenate(self._marks) if self._marks else np.empty(0, dtype=np.int64)
        order = np.argsort(marks, kind="stable")
        again = order[1:][marks[order[1:]] == marks[order[:-1]]]
        if len(again):
            second = int(again.min())
            first = int(np.flatnonzero(marks == marks[second])[0])
            raise InvalidInput(f"{self._place(second)} has the same key as {self._place(first)}. {_REMEDY}")

    def _place(self, number: int) -> str:
        ends = np.cumsum([len(part) for part in self._marks])
        part = int(np.searchsorted(ends, number, side="right"))
        source, rows = self._places[part]
        return f"{source}: row {rows[number - (int(ends[part - 1]) if part else 0)]}"
