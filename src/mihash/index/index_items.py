"""The items of an index: add, upsert, update, delete and expire them, get them back, and list their keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput, NotReady
from ..store.change import Change
from ..store.filters import compile_filter
from ..store.generations import generation_of
from ..store.keys import Key, as_keys
from ..store.metadata import Metadata
from ..store.question import Item
from ..store.sqlite.items import all_found
from ..store.sqlite.positions import Reading, read_position
from ..store.table import Table
from ..store.window import Keep, Window
from .index_state import IndexState
from .page import Page, number_of, place
from .unknown_fields import warn_of_unknown_fields

_PAGE = 1000


class IndexItems(IndexState):
    """The operations on items. Every change is one transaction: all of it is stored, or nothing."""

    def add(
        self,
        X: ArrayLike,
        y: validation.GivenLabels | None = None,
        keys: ArrayLike | None = None,
        metadata: Metadata = None,
        *,
        source: tuple[str, int] | Reading | None = None,
        at_once: int | None = None,
    ) -> list[Key]:
        """Store vectors, learn from them, and return their keys; on return, they are on disk and searchable.

        Parameters
        ----------
        X
            Feature vectors (n, d), or one vector (d,).
        y
            Class labels (n,), integers or strings, or a 0/1 matrix (n, classes). Whether the first examples have
            labels decides how neighbours are defined: same class, or small distance. In an index with labels, some
            may be missing: None, NaN, pandas' NA, masked, or a row of a matrix that is all of it; or ``y`` itself.
            Rows without a label are stored and found, and are not learned from.
        keys
            Strings or whole numbers, unique; by default the sequential number of the row, from 0.
        metadata
            A dictionary for each row, to filter by and to get back.
        source
            The name of a source and the position up to which it was read, committed with the rows; see `position`.
            A `Reading` stores details, too, as `mihash.io.ingest` does for files.
        at_once
            How many rows to learn from before the call returns; `catch_up` learns from the others. All by default.
        """
        at_once = _few(at_once)
        X, y = validation.as_rows("X", X, y)
        return self._write(Change.add(X, keys, None, metadata, source), y, at_once)

    def upsert(
        self,
        X: ArrayLike,
        keys: ArrayLike | Key,
        y: validation.GivenLabels | None = None,
        metadata: Metadata = None,
        *,
        at_once: int | None = None,
    ) -> list[Key]:
        """Store vectors under keys, replace items that have these keys, learn, and return the keys.

        A replaced item counts as new: it becomes the youngest, and the index learns from it again. Without
        ``metadata`` a stored key keeps its own. A key that is given twice raises `DuplicateKey`, and nothing is
        stored.

        Parameters
        ----------
        X
            Feature vectors (n, d), or one vector (d,).
        keys
            A key for each, stored or not.
        y, metadata, at_once
            As for `add`.

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mihash.open(folder.name, n_bits=16) as index:
        ...     keys = index.add(np.eye(3), keys=["a", "b", "c"], metadata=[{"year": 1999}] * 3)
        ...     keys = index.upsert([[5.0, 0, 0], [0, 5, 0]], ["b", "d"])
        ...     index.update("a", metadata={"year": 2001})
        ...     print(list(index), "d" in index, index.get("b").vector.tolist(), index.get("b").metadata)
        ...     print(index.keys(where={"year": 2001}), index.delete(where={"year": 1999}), len(index))
        ['a', 'c', 'b', 'd'] True [5.0, 0.0, 0.0] {'year': 1999}
        ['a'] 2 2
        >>> folder.cleanup()
        """
        at_once = _few(at_once)
        X, y = validation.as_rows("X", X, y)
        return self._write(Change.upsert(X, keys, None, metadata), y, at_once)

    def update(
        self,
        keys: ArrayLike | Key,
        X: ArrayLike | None = None,
        y: validation.GivenLabels | None = None,
        metadata: Metadata = None,
        *,
        at_once: int | None = None,
    ) -> None:
        """Give stored keys new vectors, new metadata, or both; an unknown key raises `UnknownName`.

        New vectors are learned from, and without ``metadata`` the items keep theirs. New metadata replaces all of
        the old; without ``X`` nothing else changes, and nothing is learned. A label belongs to a vector: without
        ``y`` new vectors have none, and in an index with labels they are not learned from. ``at_once`` is as for
        `add`.
        """
        if X is None:
            change = Change.update(keys, None, y, metadata)
            with self._writing:
                self._table.write(change)
            return
        at_once = _few(at_once)
        X, y = validation.as_rows("X", X, y)
        self._write(Change.update(keys, X, None, metadata), y, at_once)

    def delete(self, keys: ArrayLike | Key | None = None, where: Mapping[str, Any] | None = None) -> int:
        """Remove items by key, or those that match a filter, and return how many.

        An unknown key raises `UnknownName`, and nothing is removed. The filter ``{}`` matches every item. If a
        filter matches nothing and no item has one of its fields, the call warns (`UnknownField`).
        """
        with self._writing:
            n = self._table.delete(keys, where)
        if where and not n:
            warn_of_unknown_fields(self._table, compile_filter(where))
        return n

    def set_window(self, keep: Keep | None) -> int:
        """Keep only the newest items from now on; older ones expire with each change. Return how many expired.

        Parameters
        ----------
        keep
            How many items; or a span such as ``"30d"`` or ``"12h"``, with the time of an item in its metadata as
            ``time`` (ISO 8601 text or seconds since 1970); or another field with a span, ``{"created": "30d"}``.
            A span ends at the time of the newest item, or now, whichever is earlier. None keeps all items.

        Examples
        --------
        >>> import numpy as np, tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mihash.open(folder.name, n_bits=16, keep=100) as index:
        ...     keys = index.add(np.random.default_rng(0).standard_normal((250, 8)))
        ...     print(len(index), index.keys(limit=1), index.set_window(60), len(index))
        100 [150] 40 60
        >>> folder.cleanup()
        """
        window = None if keep is None else Window.of(keep)
        with self._writing:
            self._ready()
            if self._table.setting("table") == "ray":
                raise NotReady("An index on Ray has no window: it keeps all its items.")
            n_before = len(self._table)
            with self._table.database.lock, self._table.loaded_again():
                self._table.store_settings(keep=None if window is None else window.text)
            if window is not None and self._table.edition is not None:
                self._table.delete([])  # a change, with which the others expire
                self._purge_expired()
            return n_before - len(self._table)

    @overload
    def get(self, keys: Key) -> Item: ...

    @overload
    def get(self, keys: list[Key]) -> list[Item]: ...

    @overload
    def get(self, keys: ArrayLike) -> Item | list[Item]: ...

    def get(self, keys: ArrayLike | Key) -> Item | list[Item]:
        """Return a stored item: key, vector, label and metadata; for several keys, a list of items in their order.

        An unknown key raises `UnknownName`.
        """
        found, names = self._table.get(keys), self._class_names().names

        def named(item: Item) -> Item:
            label = item.label.item() if isinstance(item.label, np.generic) else item.label
            return item._replace(label=names[label] if names and label is not None else label)

        return [named(item) for item in found] if isinstance(found, list) else named(found)

    def keys(
        self, where: Mapping[str, Any] | None = None, after: Key | None = None, limit: int | None = None
    ) -> list[Key]:
        """Return the keys of stored items, oldest first.

        An item whose vector was replaced counts as new.

        Parameters
        ----------
        where
            Only items whose metadata matches this filter (docs/index.md). If none does and no item has one of its
            fields, the call warns (`UnknownField`).
        after
            Only items that are younger than the item of this key: with ``limit``, the next page. If a page that
            this process has read ended with the key, the list goes on where that page ended, even if the item was
            replaced or deleted since. Otherwise an unknown key raises `UnknownName`. `page` needs no key.
        limit
            Return at most this many keys.
        """
        condition = None if where is None else compile_filter(where)
        most = None if limit is None else validation.integer("limit", limit, minimum=0, maximum=2**62)
        table = self._table
        ids, found = table.listed(condition, -1 if after is None else self._number(table, after), most)
        if most is not None and ids:
            self._page_ends.keep(generation_of(table.database.folder), found[-1], ids[-1])
        if condition is not None and not found:
            warn_of_unknown_fields(table, condition)
        return found

    def page(self, where: Mapping[str, Any] | None = None, after: str | None = None, limit: int = _PAGE) -> Page:
        """Return a page of keys, oldest first, and the cursor of the next page.

        The cursor stays valid if items are replaced or deleted, also in other processes. After the cut-over of a
        migration it raises `NotReady`.

        Parameters
        ----------
        where
            Only items whose metadata matches this filter.
        after
            The `next` value of the page before.
        limit
            Return at most this many keys.

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mihash.open(folder.name, n_bits=16) as index:
        ...     keys = index.add(np.eye(5))
        ...     first = index.page(limit=3)
        ...     index.delete(2)
        ...     print(first.keys, index.page(after=first.next, limit=3))
        1
        [0, 1, 2] Page(keys=[3, 4], next=None)
        >>> folder.cleanup()
        """
        condition = None if where is None else compile_filter(where)
        most = validation.integer("limit", limit, minimum=1, maximum=2**62)
        table = self._table
        ids, found = table.listed(condition, -1 if after is None else number_of(table, after), most + 1)
        if not ids and condition is not None:
            warn_of_unknown_fields(table, condition)
        if len(ids) <= most:
            return Page(found, None)
        self._page_ends.keep(generation_of(table.database.folder), found[most - 1], ids[most - 1])
        return Page(found[:most], place(table, ids[most - 1]))

    def place(self, key: Key) -> str:
        """Return the cursor after an item, for `page`; if a page ended with its key, the end of that page."""
        table = self._table
        return place(table, self._number(table, key))

    def _number(self, table: Table, key: Key) -> int:
        """Return the sequence number of a key; if a page ended with it, the one that it had then."""
        (wanted,) = as_keys([key])
        ended = self._page_ends.get(generation_of(table.database.folder), wanted)
        return all_found([wanted], table.lookup([wanted], False)[0])[0] if ended is None else ended

    def __iter__(self) -> Iterator[Key]:
        """Yield the keys of stored items, oldest first, including items that are added meanwhile."""
        last = -1
        while True:
            ids, keys = self._table.listed(None, last, _PAGE)
            if not ids:
                return
            yield from keys
            last = ids[-1]

    def __contains__(self, key: object) -> bool:
        """Tell whether a key is stored."""
        try:
            wanted = as_keys([key])  # type: ignore[arg-type]  # anything may be asked for
        except InvalidInput:
            return False
        return bool(self._table.contains(wanted)[0])

    def __len__(self) -> int:
        """Return how many items are stored."""
        return len(self._table)

    def count(self, where: Mapping[str, Any] | None = None) -> int:
        """Return how many items match a filter; without one, how many are stored.

        If a filter matches nothing and no item has one of its fields, the call warns (`UnknownField`).

        Examples
        --------
        >>> import tempfile, mihash
        >>> folder = tempfile.TemporaryDirectory()
        >>> with mihash.open(folder.name, n_bits=16) as index:
        ...     keys = index.add(np.eye(3), metadata=[{"year": 1999}, {"year": 2001}, None])
        ...     print(index.count(), index.count({"year": {"$gte": 2000}}))
        3 1
        >>> folder.cleanup()
        """
        if where is None:
            return len(self)
        condition = compile_filter(where)
        n = self._table.count(condition)
        if not n:
            warn_of_unknown_fields(self._table, condition)
        return n

    def contains(self, keys: ArrayLike) -> NDArray[np.bool_]:
        """Return for each key whether it is stored."""
        return self._table.contains(keys)

    def metadata(self, keys: ArrayLike, max_bytes: int | None = None) -> list[dict[str, Any] | None]:
        """Return the metadata of several items; None for those that have none or are not stored.

        Where it is more than ``max_bytes`` bytes of JSON in all, `InvalidInput` is raised and nothing decoded.
        """
        most = None if max_bytes is None else validation.integer("max_bytes", max_bytes, minimum=0)
        return self._table.metadata(keys, most)

    def position(self, source: str) -> int | None:
        """Return the position stored by the last `add` with this `source`; None if there was none."""
        if not isinstance(source, str):
            raise InvalidInput(f"The name of a source must be a string; got {source!r:.80}.")
        with self._table.database.read() as connection:
            return read_position(connection, source)


def _few(at_once: int | None) -> int | None:
    return None if at_once is None else validation.integer("at_once", at_once, minimum=1)
