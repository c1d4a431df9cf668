"""Whole items: key, vector, label and metadata, read together."""

import sqlite3
from collections.abc import Sequence

import numpy as np

from ...errors import CorruptStore
from ..keys import Key
from ..metadata import decode_metadata
from ..question import Item
from .items import all_found, lookup
from .segments import LabelKind, Segments


def stored_items(
    connection: sqlite3.Connection,
    segments: Segments,
    keys: Sequence[Key],
    n_features: int,
    kind: LabelKind | None,
) -> list[Item]:
    """Return the items of keys, in their order, inside a transaction; an unknown key raises `UnknownName`."""
    ids, texts = lookup(connection, keys, with_texts=True)
    numbers = np.array(all_found(keys, ids), dtype=np.int64)
    if not len(numbers):
        return []
    wanted, places = np.unique(numbers, return_inverse=True)
    vectors = segments.fetch(wanted, n_features)
    if vectors is None:
        raise CorruptStore(f"A vector of {len(keys)} stored keys is missing. Use a backup.")
    labels = [None] * len(wanted) if kind is None else segments.labels_of(wanted, kind)
    return [
        Item(key, vectors[place], labels[place], decode_metadata(text))
        for key, place, text in zip(keys, places.tolist(), texts, strict=True)
    ]
