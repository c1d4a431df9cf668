"""Answers questions from one edition: filter, search the codes, rescore, and look up keys."""

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...search import Bitmap, as_bitmap, as_columns
from ..edition import Edition
from ..keys import key_array
from ..question import Found, Nearest, Question
from ..rescoring import rescored
from .database import Database
from .items import check_items, keys_of, matching
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
        # By what they depend on, for a prefix of the rows.
        self._matches: dict[tuple[Any, ...], tuple[NDArray[np.bool_], Bitmap | None]] = {}

    def nearest(self, edition: Edition, question: Question, with_keys: bool) -> Nearest | None:
        """Return what an edition finds for each query, None where a row of it is no longer stored."""
        if not edition.n:
            return question.nothing(edition.version)
        found = self._found(edition, question)
        if found is None:
            return None
        lists = [ids for ids, _ in found]
        if question.where is not None and not self._are_sound(lists):
            return None
        keys = self._keys(lists) if with_keys else []
        return None if keys is None else Nearest(found, keys if with_keys else None, edition.version)

    def rescored(self, question: Question, lists: Found, with_keys: bool) -> Nearest | None:
        """Return ids of rows, ranked again by the distance of their vectors; None where a row is gone."""
        k = question.k if question.radius is None else None
        found = rescored(self._segments, question.queries, lists, k, self._metric)
        keys = self._keys([ids for ids, _ in found]) if found is not None and with_keys else []
        return None if found is None or keys is None else Nearest(found, keys if with_keys else None)

    def _found(self, edition: Edition, question: Question) -> Found | None:
        """Return ids and distances for each query."""
        live = edition.live
        if question.where is not None:
            live = self._matching(edition, *question.where)
            if live is None:
                return None
        queries = as_columns(edition.mapping.encode_rows(question.queries))
        k, rescore, radius = question.k, question.rescore, question.radius
        how = live, question.method, question.n_threads
        if radius is None:
            rows, distances = edition.searcher.nearest(queries, edition.columns, max(k, rescore), *how)
            lists: Found = [(edition.ids[row], each) for row, each in zip(rows, distances, strict=True)]
        else:
            found = edition.searcher.within(queries, edition.columns, radius, *how)
            lists = [(edition.ids[row], each) for row, each in found]
        if not rescore:
            return lists
        return rescored(self._segments, question.queries, lists, k if radius is None else None, self._metric)

    def _keys(self, lists: list[NDArray[np.int64]]) -> list[NDArray[Any]] | None:
        """Return the keys of ids, None where one is no longer stored."""
        wanted = _distinct(lists)
        with self._database.read() as connection:
            found = keys_of(connection, wanted)
        if len(found) < len(wanted):
            return None
        return [key_array([found[number] for number in ids.tolist()]) for ids in lists]

    def _are_sound(self, lists: list[NDArray[np.int64]]) -> bool:
        """Check the seals of rows that a filter has found; return False where one is no longer stored."""
        wanted = _distinct(lists)
        with self._database.read() as connection:
            return check_items(connection, wanted) == len(wanted)

    def _matching(self, edition: Edition, sql: str, parameters: list[Any]) -> Bitmap | None:
        """Return the rows that are not deleted and whose metadata matches; None where some are gone meanwhile.

        Rows never change, so what is known of the first ones stays, and only those that came since are read.
        """
        name = (edition.n_purges, sql, json.dumps(parameters))
        known, bits = self._matches.get(name, (np.empty(0, dtype=np.bool_), None))
        if len(known) < edition.n:
            mask = np.zeros(edition.n, dtype=np.bool_)
            mask[: len(known)] = known
            fresh = edition.ids[len(known) :][~edition.dead[len(known) :]]
            with self._database.read() as connection:
                settings = read_settings(connection)
                current = (settings.get("tombstones", 0), settings.get("compactions", 0))
                if current != (edition.n_tombstones, edition.n_purges):
                    return None
                found = matching(connection, sql, parameters, fresh)
            mask[edition.places(np.array(found, dtype=np.int64))] = True
            known, bits = mask, as_bitmap(mask)
            kept = {each: of for each, of in list(self._matches.items())[1 - _REMEMBERED :] if each != name}
            self._matches = {**kept, name: (known, bits)}
        if bits is None or len(known) > edition.n:
            bits = as_bitmap(known[: edition.n])
        return bits if edition.live is None else bits & edition.live


def _distinct(lists: list[NDArray[np.int64]]) -> NDArray[np.int64]:
    return np.unique(np.concatenate(lists)) if lists else np.empty(0, dtype=np.int64)
