"""Answers questions from one edition: filter, search the codes, rescore, and look up keys."""

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import CorruptStore, StoreError
from ...search import Bitmap, as_bitmap, as_mask
from ...search.columns import n_live
from ..edition import Edition
from ..filters import Condition
from ..held_vectors import MOST_NUMBERS, HeldVectors, n_held
from ..keys import key_array, key_dtype
from ..nearest_codes import Reached, candidates, reached
from ..question import Found, Nearest, Question
from ..recall_target import most_candidates
from ..rescoring import PRODUCT, rescored
from .database import Database
from .field_index import FEWEST_ITEMS, can_index, filtered_fields, has_field, index_field, mask_of
from .items import check_items, count_items, count_matching, keys_of, largest_key, matching
from .segments import Segments
from .settings import read_settings

_REMEMBERED = 8


class Answers:
    """Answers questions from editions, with keys, metadata and vectors from the disk.

    Parameters
    ----------
    database, segments
        Where keys, metadata and vectors are.
    metric
        How vectors are compared when they are rescored.
    """

    def __init__(self, database: Database, segments: Segments, metric: str) -> None:
        self._database, self._segments, self._metric = database, segments, metric
        self._held = HeldVectors(segments, metric)
        # By what they depend on, for a prefix of the rows.
        self._matches: dict[tuple[Any, ...], tuple[NDArray[np.bool_], Bitmap | None]] = {}
        self._fields: set[str] = set()  # that have an index, or cannot get one

    def nearest(self, edition: Edition, question: Question, with_keys: bool) -> Nearest | None:
        """Return what an edition finds for each query, None if a row of it is no longer stored."""
        measure = question.measure(self._metric, edition.mapping)
        if not edition.n_items:
            return question.nothing(edition.version, measure)
        question.by_margins(edition.mapping)  # raises if margins are asked for and it has none
        exactly, question = self._held_or_looked_up(edition, question)
        live, gone = self._live(edition, question.where)
        if gone:
            return None
        if exactly:
            mask = None if live is None else as_mask(live, edition.n)
            found = self._held.nearest(edition, question.queries, question.k, mask)
        else:
            found = _with_ids(edition, candidates(edition, question, live, self._metric == PRODUCT))
        if found is None or (
            question.where is not None and not self._are_sound(found, question.where, edition.n_described)
        ):
            return None
        if question.rescore and not exactly:
            return self.rescored(question, found, with_keys, edition.version)
        return self.named(found, with_keys, edition.version, measure)

    def _held_or_looked_up(self, edition: Edition, question: Question) -> tuple[bool, Question]:
        """Tell whether to answer from vectors in memory; look up candidates if the table is too large now."""
        if not question.compares_all:
            return False, question
        if n_held(edition.n, question.queries.shape[1]) <= 2 * MOST_NUMBERS:  # it has grown since the choice
            return True, question
        self.free()
        return False, replace(question, rescore=most_candidates(edition.n_items))

    def free(self) -> None:
        """Free the vectors in memory: the codes find enough now, or the table is too large."""
        self._held.forget()

    def rescored(self, question: Question, lists: Found, with_keys: bool, version: int = -1) -> Nearest | None:
        """Return rows ranked again by the distance of their vectors; None if one is no longer stored."""
        k = question.k if question.radius is None else None
        found = rescored(self._segments, question.queries, lists, k, self._metric)
        return None if found is None else self.named(found, with_keys, version, self._metric)

    def reached(self, edition: Edition, question: Question) -> Reached | None:
        """Return the nearest codes, with sums of margins where they are ranked by these; None if rows are gone."""
        live, gone = self._live(edition, question.where)
        if gone:
            return None
        rows = reached(edition, question, live, self._metric == PRODUCT)
        return rows._replace(by_codes=_with_ids(edition, rows.by_codes))

    def named(self, found: Found, with_keys: bool, version: int, measure: str) -> Nearest | None:
        """Add keys to the rows found, if requested; return None if a row was purged."""
        if not with_keys:
            return Nearest(found, None, version, measure=measure)
        wanted = _distinct(found)
        with self._database.read() as connection:
            keys = keys_of(connection, wanted)
            dtype = key_dtype(keys.values() or largest_key(connection))
        if len(keys) < len(wanted):
            return None
        names = [key_array([keys[number] for number in ids.tolist()], dtype) for ids, _ in found]
        return Nearest(found, names, version, measure=measure)

    def _are_sound(self, found: Found, where: Condition, n_described: int) -> bool:
        """Check the seals of rows that a filter has found; return False if one is no longer stored.

        An index of a field has no seals. So while no metadata was changed since, the rows must match the filter.
        """
        wanted = _distinct(found)
        with self._database.read() as connection:
            n = check_items(connection, wanted)
            same = n == len(wanted) and read_settings(connection).get("described", 0) == n_described
            if same and count_matching(connection, where.sql, where.parameters, wanted) < n:
                raise CorruptStore("The index of a metadata field does not match the metadata. Use a backup.")
            return n == len(wanted)

    def _index_fields(self, edition: Edition, where: Condition) -> None:
        """Make indexes of fields that are filtered by for the first time, where this process may write now."""
        wanted = {leaf.name for leaf in where.leaves if can_index(leaf)} - self._fields
        if not wanted or edition.n < FEWEST_ITEMS or self._database.read_only:
            return
        if self._database.lock.acquire(blocking=False):
            try:
                with suppress(StoreError), self._database.write() as connection:
                    for name in sorted(wanted):
                        index_field(connection, name)
                self._fields |= wanted  # or there are too many, or there is no room
            finally:
                self._database.lock.release()

    def unknown_fields(self, where: Condition) -> list[str]:
        """Return which fields of a filter no item has."""
        with self._database.read() as connection:
            return [name for name in where.fields if not has_field(connection, name)]

    def count(self, edition: Edition | None, where: Condition | None = None) -> int:
        """Return how many items are stored, or match a filter.

        As in a search, the rows of the edition that match are remembered for the next filter. Without an edition,
        or if rows of it are gone, the disk is asked.
        """
        if edition is not None and where is None:
            return edition.n_items
        bits = None if edition is None or where is None else self._matching(edition, where)
        if bits is not None:
            return n_live(bits)
        with self._database.read() as connection:
            return count_items(connection, where)

    def _live(self, edition: Edition, where: Condition | None) -> tuple[Bitmap | None, bool]:
        """Return the live rows that match the filter, None for all, and whether items changed meanwhile."""
        if where is None:
            return edition.live, False
        matching = self._matching(edition, where)
        return matching, matching is None

    def _matching(self, edition: Edition, where: Condition) -> Bitmap | None:
        """Return the rows that are not deleted and whose metadata matches; None if items changed meanwhile.

        While no metadata is changed, what is known of the first rows stays, and only those that came since are
        read.
        """
        name = (edition.n_purges, edition.n_described, where.sql, json.dumps(where.parameters))
        known, bits = self._matches.get(name, (np.empty(0, dtype=np.bool_), None))
        if len(known) < edition.n:
            if not len(known):
                self._index_fields(edition, where)
            mask = np.zeros(edition.n, dtype=np.bool_)
            mask[: len(known)] = known
            fresh = edition.ids[len(known) :][~edition.dead[len(known) :]]
            with self._database.read() as connection:
                settings = read_settings(connection)
                current = [settings.get(each, 0) for each in ("tombstones", "compactions", "described")]
                if current != [edition.n_tombstones, edition.n_purges, edition.n_described]:
                    return None
                fields = filtered_fields(connection)
                if all(leaf.name in fields and can_index(leaf) for leaf in where.leaves):
                    mask = mask_of(connection, where.tree, edition.ids, fields)
                else:
                    found = matching(connection, where.sql, where.parameters, fresh)
                    mask[edition.places(np.array(found, dtype=np.int64))] = True
            known, bits = mask, as_bitmap(mask)
            kept = {each: of for each, of in list(self._matches.items())[1 - _REMEMBERED :] if each != name}
            self._matches = {**kept, name: (known, bits)}
        if bits is None or len(known) > edition.n:
            bits = as_bitmap(known[: edition.n])
        return bits if edition.live is None else bits & edition.live


def _with_ids(edition: Edition, found: Found) -> Found:
    """Return what was found with ids in place of rows."""
    return [(edition.ids[row], each) for row, each in found]


def _distinct(found: Found) -> NDArray[np.int64]:
    return np.unique(np.concatenate([ids for ids, _ in found])) if found else np.empty(0, dtype=np.int64)
