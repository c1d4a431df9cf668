"""Changes of what is stored: one add, upsert, update or delete, checked once, and then numbered once.

A caller's arguments become a `Change`. The table gives it sequence numbers, which makes it `NumberedRows`. These
are committed in one transaction: here, or by each shard of a table on Ray.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import DuplicateKey, InvalidInput
from .filters import Condition, compile_filter
from .keys import Key, as_keys
from .metadata import Metadata, as_metadata
from .sqlite.positions import Reading, as_position
from .sqlite.segments import Segment

Source = tuple[str, int] | Reading | None
Admitted = Callable[[NDArray[np.float32], int], None]
"""Takes vectors as they are stored, and the sequence number of the last one."""

_NOTHING: NDArray[np.float32] = np.empty((0, 0), dtype=np.float32)


@dataclass(frozen=True)
class Change:
    """One add, upsert, update or delete. The class methods check their arguments and make it.

    Attributes
    ----------
    kind
        ``"add"``, ``"upsert"``, ``"update"``, ``"describe"`` (an update of metadata alone) or ``"delete"``.
    keys
        The keys of the items, all different; None if the table numbers them, or finds them by ``where``.
    vectors
        The new vectors (n, d) as float32; none for a delete, and where only metadata changes.
    labels
        Class labels (n,), a 0/1 matrix (n, classes), or None.
    texts
        Metadata as JSON, one text or None for each row; None if none was given: a stored key then keeps what
        is stored.
    source
        Where the rows came from and up to where it was read, or None.
    where
        In place of keys, the items to delete as a compiled filter; None with keys.
    admitted
        Is called once no row can be refused because of its key, before the rows are committed. A table whose rows
        are on other machines does not call it.

    Examples
    --------
    >>> change = Change.add([[1.0, 2.0]], keys=["a"], metadata=[{"year": 2000}])
    >>> change.kind, change.keys, change.vectors.dtype.name, change.texts
    ('add', ['a'], 'float32', ['{"year":2000}'])
    """

    kind: Literal["add", "upsert", "update", "describe", "delete"]
    keys: list[Key] | None
    vectors: NDArray[np.float32]
    labels: NDArray[Any] | None = None
    texts: list[str | None] | None = None
    source: Source = None
    where: Condition | None = None
    admitted: Admitted | None = None

    @classmethod
    def add(
        cls,
        X: ArrayLike,
        keys: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        metadata: Metadata = None,
        source: Source = None,
    ) -> Change:
        """Return the addition of vectors under new keys.

        Parameters
        ----------
        X
            Feature vectors (n, d).
        keys
            Strings or whole numbers, all different; by default the sequential number of the row.
        labels
            Class labels (n,) or a 0/1 matrix (n, classes); None without.
        metadata
            A dictionary for each item, or None.
        source
            Where the rows came from and up to where it was read; stored with them.
        """
        vectors, checked, texts = _rows(X, labels, metadata)
        chosen = None if keys is None else as_keys(keys, len(vectors))
        if chosen is not None and (twice := _repeated(chosen)) is not None:
            raise DuplicateKey(f"The key {twice!r} is given twice. Nothing was stored.")
        if source is not None:
            as_position(source)
        return cls("add", chosen, vectors, checked, texts, source)

    @classmethod
    def upsert(
        cls, X: ArrayLike, keys: ArrayLike | Key, labels: ArrayLike | None = None, metadata: Metadata = None
    ) -> Change:
        """Return vectors for keys of which some are stored: these are replaced, the others are added.

        Without ``metadata`` a stored key keeps its own.
        """
        vectors, checked, texts = _rows(X, labels, metadata)
        return cls("upsert", _named(keys, len(vectors)), vectors, checked, texts)

    @classmethod
    def update(
        cls,
        keys: ArrayLike | Key,
        X: ArrayLike | None = None,
        labels: ArrayLike | None = None,
        metadata: Metadata = None,
    ) -> Change:
        """Return new vectors for stored keys, new metadata, or both.

        What is not given stays as it is stored; a label belongs to its vector, and comes with it or not at all.
        """
        if X is not None:
            vectors, checked, texts = _rows(X, labels, metadata)
            return cls("update", _named(keys, len(vectors)), vectors, checked, texts)
        if metadata is None or labels is not None:
            given = "`y`" if labels is not None else "neither"
            raise InvalidInput(f"An update needs `X`, `metadata` or both, and `y` only with `X`; got {given}.")
        names = as_keys(keys)
        return cls("describe", _named(names, len(names)), _NOTHING, None, as_metadata(metadata, len(names)))

    @classmethod
    def delete(cls, keys: ArrayLike | Key | None = None, where: Mapping[str, Any] | None = None) -> Change:
        """Return the removal of items by key or by a filter; a key that is given twice counts once."""
        if (keys is None) == (where is None):
            raise InvalidInput("Give exactly one of `keys` and `where`: it names the items to delete.")
        if where is not None:
            return cls("delete", None, _NOTHING, where=compile_filter(where))
        names: Any = list(keys) if isinstance(keys, set | frozenset) else keys  # in any order
        return cls("delete", list(dict.fromkeys(as_keys(names))), _NOTHING)


def _named(keys: ArrayLike | Key, n: int) -> list[Key]:
    """Return n different keys."""
    chosen = as_keys(keys, n)
    if (twice := _repeated(chosen)) is not None:
        raise DuplicateKey(f"`keys` must be different keys; {twice!r} is given twice. Nothing was changed.")
    return chosen


def _rows(
    X: ArrayLike, labels: ArrayLike | None, metadata: Metadata
) -> tuple[NDArray[np.float32], NDArray[Any] | None, list[str | None] | None]:
    vectors = validation.features("X", X, allow_empty=True)
    n = len(vectors)
    checked = None if labels is None or not n else validation.labels("y", labels, n)
    return vectors, checked, as_metadata(metadata, n)


def _repeated(keys: list[Key]) -> Key | None:
    """Return the first key that was given before, None where all are different."""
    if len(set(keys)) == len(keys):
        return None
    seen: set[Key] = set()
    return next(key for key in keys if key in seen or seen.add(key))  # type: ignore[func-returns-value]


@dataclass(frozen=True)
class NumberedRows:
    """A change with its sequence numbers.

    An update has as many new rows as rows that go; a delete has none that come.

    Attributes
    ----------
    segment
        The rows that come: their sequence numbers, vectors in the stored type, and labels.
    keys
        The keys of the items, those of the removed ones for a delete; None if they are the sequence numbers.
    texts
        Metadata as JSON for each row that comes, or that is described; None if no row has any.
    gone
        For each item the sequence number of the row that goes, -1 if none does; empty if none goes at all.
    described
        The sequence numbers of the rows that stay and get the metadata ``texts``.
    expired
        The sequence numbers of other rows that go because the index does not keep them any longer.
    admitted
        As for `Change`.
    """

    segment: Segment
    keys: list[Key] | None
    texts: list[str | None] | None
    gone: list[int]
    described: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)
    admitted: Admitted | None = None

    def __len__(self) -> int:
        """Return the number of items that change."""
        return max(len(self.segment), len(self.gone), len(self.described))

    @property
    def names(self) -> list[Key]:
        """The keys of the items."""
        return list(self.segment.ids.tolist()) if self.keys is None else self.keys

    @property
    def removed(self) -> list[int]:
        """The sequence numbers of the rows that go."""
        return [number for number in self.gone if number >= 0] + self.expired

    def admit(self) -> None:
        """Call ``admitted`` with the rows that come."""
        if self.admitted is not None:
            self.admitted(self.segment.features, int(self.segment.ids[-1]))

    def part(self, places: list[int]) -> NumberedRows:
        """Return the change of some of the items."""
        texts = None if self.texts is None else [self.texts[place] for place in places]
        return NumberedRows(
            self.segment.part(np.array(places, dtype=np.int64)) if len(self.segment) else self.segment,
            None if self.keys is None else [self.keys[place] for place in places],
            texts if texts is not None and any(text is not None for text in texts) else None,
            [self.gone[place] for place in places] if self.gone else [],
            [self.described[place] for place in places] if self.described else [],
        )
