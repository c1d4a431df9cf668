"""Data sets from files of vectors, in every format that `mihash.io.readers` reads.

Nothing in a file is executed: arrays of Python objects (pickles) are refused. Half-precision features become
float32 before any arithmetic, since a float16 sum overflows.
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...io.readers import Columns, Source, open_source
from .dataset import Dataset

_NO_LIMIT = 1 << 62  # a data set is held as a whole anyway
_CALLED = {"vector": "`features`", "label": "`labels`"}


def load(
    path: str | os.PathLike[str],
    *,
    features: str | Sequence[str] | None = None,
    labels: str | os.PathLike[str] | Sequence[str] | None = None,
) -> Dataset:
    """Load a data set from a file; it is called by the file's name.

    Parameters
    ----------
    path
        The file: ``.npz``, ``.npy``, ``.parquet``, ``.csv``, ``.jsonl`` or ``.mat``. Its arrays or columns are
        ``features`` (or ``embedding``, ``embeddings``, ``vector``, ``emb``, ``X``; or a column for each feature),
        and where they are known ``labels`` (or ``label``, ``y``) and ``is_test``; ``.npy`` holds the features
        alone; ``.mat`` holds whatever its maker called them. Names of classes are numbered in alphabetical order.
    features
        The name of the features, if it is another, or several numeric columns. In a ``.mat`` file the rows of
        several variables are put one below the other (``("trainCNN", "testCNN")``).
    labels
        The name of the labels, if it is another; for a ``.npy`` file, the path of a second ``.npy`` file that
        holds them.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", features=np.eye(4, dtype=np.float16), labels=[0, 0, 1, 1])
    ...     load(f"{folder}/mine.npz")
    Dataset('mine', 4 x 4, 2 classes)
    """
    source = _opened(path, features, labels)
    parts: list[tuple[NDArray[Any] | None, NDArray[np.bool_] | None]] = []
    matrices = []
    for rows in source.rows():
        matrices.append(rows.X)
        parts.append((rows.y, rows.is_test))
    y, is_test = (None if column[0] is None else np.concatenate(column) for column in zip(*parts, strict=True))
    if y is not None and y.dtype.kind == "U":
        y = np.unique(y, return_inverse=True)[1]
    return Dataset(Path(path).stem, np.concatenate(matrices), y, is_test)


def has_labels(path: str | os.PathLike[str]) -> bool:
    """Tell whether `load` finds labels in a file; only a ``.mat`` file is read for it.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     np.savez(f"{folder}/mine.npz", features=np.eye(4))
    ...     has_labels(f"{folder}/mine.npz")
    False
    """
    return _opened(path).has_labels


def _opened(path: str | os.PathLike[str], features: Any = None, labels: Any = None) -> Source:
    vector, label = (
        os.fspath(given) if isinstance(given, str | os.PathLike) else given and tuple(given)
        for given in (features, labels)
    )
    columns = Columns(vector, label=label, dataset=True, called=_CALLED)
    return open_source(path, columns, held_bytes=_NO_LIMIT)
