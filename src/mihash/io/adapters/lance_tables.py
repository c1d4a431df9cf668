"""Tables of LanceDB into an index, and back."""

import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import validation
from ...errors import InvalidInput
from ...extras import load_extra
from ...index.online_index import OnlineIndex
from .item_pages import item_pages


def add_lance(
    index: OnlineIndex,
    table: Any,
    *,
    vector: str = "vector",
    key: str | None = None,
    label: str | None = None,
    metadata: Sequence[str] | None = None,
    at_once: int = 10_000,
) -> int:
    """Add the rows of a table of LanceDB to an index, and return how many.

    Parameters
    ----------
    index
        The index.
    table
        The table.
    vector, key, label
        The columns of the vectors, of the keys and of the labels.
    metadata
        Columns to store as metadata; all others by default. A null is left out of its item.
    at_once
        How many rows are read at a time; each part is one transaction.

    Examples
    --------
    >>> import tempfile, lancedb, mihash
    >>> database = lancedb.connect(tempfile.mkdtemp())
    >>> table = database.create_table("photos", [{"name": "a", "vector": [0.0, 1.0], "year": 2024}])
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     add_lance(index, table, key="name"), index.get("a").metadata
    (1, {'year': 2024})
    """
    validation.integer("at_once", at_once, minimum=1)
    columns = list(table.schema.names)
    named = [name for name in (vector, key, label) if name is not None]
    fields = [name for name in columns if name not in named] if metadata is None else list(metadata)
    if unknown := [name for name in (*named, *fields) if name not in columns]:
        raise InvalidInput(f"The table has no column {unknown[0]!r}; it has: {', '.join(columns)}.")
    n = 0
    for batch in table.search().to_batches(at_once):
        rows = batch.to_pylist()
        if not rows:
            continue
        records = [{name: row[name] for name in fields if row[name] is not None} for row in rows]
        index.add(
            np.asarray([row[vector] for row in rows], dtype=np.float32),
            None if label is None else np.asarray([row[label] for row in rows]),
            None if key is None else [row[key] for row in rows],
            records if fields else None,
        )
        n += len(rows)
    return n


def write_lance(index: OnlineIndex, database: Any, name: str, at_once: int = 10_000) -> int:
    """Write the items of an index to a new table of LanceDB, and return how many.

    The columns are ``key``, ``vector``, ``label`` and ``metadata`` (JSON). A table of that name is an error.

    Parameters
    ----------
    index
        The index.
    database
        A connection of LanceDB, or the path of a database.
    name
        The name of the table.
    at_once
        How many items are written at a time.

    Examples
    --------
    >>> import tempfile, lancedb, mihash
    >>> database = lancedb.connect(tempfile.mkdtemp())
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     keys = index.add([[0.0, 1.0], [5.0, 5.0]], keys=["a", "b"])
    ...     n = write_lance(index, database, "photos")
    >>> n, database.open_table("photos").search([4.0, 4.0]).limit(1).to_list()[0]["key"]
    (2, 'b')
    """
    validation.integer("at_once", at_once, minimum=1)
    reason = "A table of LanceDB needs lancedb"
    lancedb, pa = (load_extra("lance", reason, name) for name in ("lancedb", "pyarrow"))
    if isinstance(database, str):
        database = lancedb.connect(database)
    table, n = None, 0
    for page in item_pages(index, at_once):
        vectors = np.stack([item.vector for item in page]).astype(np.float32)
        keys = pa.array([item.key for item in page])
        labels = [None if item.label is None else np.asarray(item.label).tolist() for item in page]
        batch = pa.table(
            {
                "key": keys,
                "vector": pa.FixedSizeListArray.from_arrays(pa.array(vectors.ravel()), vectors.shape[1]),
                "label": pa.array(labels)
                if any(each is not None for each in labels)
                else pa.nulls(len(page), pa.int64()),
                "metadata": pa.array(
                    [None if item.metadata is None else json.dumps(item.metadata) for item in page]
                ),
            }
        )
        if table is None:
            table = database.create_table(name, batch)
        else:
            table.add(batch)
        n += len(page)
    return n
