"""Filters as masks over rows, from the indexes of fields."""

import sqlite3
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ..filter_sql import Leaf, Negation, Tree
from .field_index import matching_ids

Mask = NDArray[np.bool_]


def mask_of(connection: sqlite3.Connection, tree: Tree, ids: NDArray[np.int64], fields: Mapping[str, int]) -> Mask:
    """Return for each row, by its id (increasing), whether a filter is true of it; all fields have an index.

    It says nothing of rows that were deleted.
    """
    if isinstance(tree, Leaf):
        found, are_those = matching_ids(connection, tree, fields[tree.name])
        mask = np.full(len(ids), not are_those)
        rows = np.searchsorted(ids, found)
        there = rows < len(ids)
        rows, found = rows[there], found[there]
        mask[rows[ids[rows] == found]] = are_those
        return mask
    if isinstance(tree, Negation):
        return ~mask_of(connection, tree.part, ids, fields)
    masks = [mask_of(connection, part, ids, fields) for part in tree.parts]
    if not masks:
        return np.full(len(ids), tree.every)
    joined: Mask = (np.logical_and if tree.every else np.logical_or).reduce(masks)
    return joined
