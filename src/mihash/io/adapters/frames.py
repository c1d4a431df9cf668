"""Data frames of pandas or polars into an index, and answers as data frames."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput
from ...index.online_index import OnlineIndex
from ...store.keys import Key


class FrameRows(NamedTuple):
    """What `OnlineIndex.add` takes, from a data frame."""

    X: NDArray[Any]
    y: NDArray[Any] | None
    keys: list[Any] | None
    metadata: list[dict[str, Any]] | None


def frame_rows(
    frame: Any,
    vector: str | Sequence[str],
    key: str | None = None,
    label: str | None = None,
    metadata: Sequence[str] | None = None,
) -> FrameRows:
    """Return the rows of a data frame of pandas or polars.

    Parameters
    ----------
    frame
        The frame.
    vector
        The column of vectors (lists or arrays), or the columns that are one number of the vector each.
    key, label
        The columns of the keys and of the labels.
    metadata
        Columns to store as metadata; a missing value (None, NaN, NaT) is left out of its item.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"name": ["a", "b"], "embedding": [[0.0, 1.0], [2.0, 3.0]], "year": [2024, None]})
    >>> rows = frame_rows(frame, "embedding", key="name", metadata=["year"])
    >>> rows.X.tolist(), rows.keys, rows.metadata
    ([[0.0, 1.0], [2.0, 3.0]], ['a', 'b'], [{'year': 2024.0}, {}])
    """
    vectors = [vector] if isinstance(vector, str) else list(vector)
    wanted = [*vectors, *(name for name in (key, label) if name is not None), *(metadata or ())]
    known = [str(name) for name in frame.columns]
    if unknown := [name for name in wanted if name not in known]:
        raise InvalidInput(f"The frame has no column {unknown[0]!r}; it has: {', '.join(known)}.")
    return FrameRows(
        _vectors(frame, vector),
        None if label is None else np.asarray(frame[label]),
        None if key is None else _values(frame, key),
        None if metadata is None else _records(frame, metadata),
    )


def add_frame(
    index: OnlineIndex,
    frame: Any,
    vector: str | Sequence[str],
    key: str | None = None,
    label: str | None = None,
    metadata: Sequence[str] | None = None,
) -> list[Key]:
    """Add the rows of a data frame to an index, and return their keys; the columns are those of `frame_rows`.

    Examples
    --------
    >>> import tempfile, mihash, polars as pl
    >>> frame = pl.DataFrame({"name": ["a", "b"], "x": [0.0, 2.0], "y": [1.0, 3.0]})
    >>> with mihash.open(tempfile.mkdtemp(), n_bits=16) as index:
    ...     add_frame(index, frame, ["x", "y"], key="name")
    ['a', 'b']
    """
    rows = frame_rows(frame, vector, key, label, metadata)
    return index.add(rows.X, rows.y, rows.keys, rows.metadata)


def _vectors(frame: Any, vector: str | Sequence[str]) -> NDArray[Any]:
    if not isinstance(vector, str):
        return np.column_stack([np.asarray(frame[name]) for name in vector])
    rows = [np.asarray(row) for row in frame[vector]]
    lengths = {row.shape for row in rows}
    if len(lengths) > 1 or any(len(shape) != 1 for shape in lengths):
        raise InvalidInput(f"The column {vector!r} must hold vectors of one length; got {sorted(lengths)[:3]}.")
    return np.stack(rows) if rows else np.empty((0, 0), dtype=np.float32)


def _values(frame: Any, name: str) -> list[Any]:
    column = frame[name]
    values: list[Any] = column.to_list() if hasattr(column, "to_list") else list(column)
    return values


def _records(frame: Any, names: Sequence[str]) -> list[dict[str, Any]]:
    columns = {name: _values(frame, name) for name in names}
    n = len(frame)
    return [{name: values[i] for name, values in columns.items() if not _missing(values[i])} for i in range(n)]


def _missing(value: Any) -> bool:
    """Tell whether a cell is empty; NaN and NaT are what differs from itself."""
    if isinstance(value, list | tuple | dict | np.ndarray):
        return False
    return value is None or bool(value != value)  # noqa: PLR0124 -- this is how NaN is told
