"""Features that were computed before, by the digest of the image and by what made them."""

import sqlite3
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import InvalidInput

_SCHEMA = "CREATE TABLE IF NOT EXISTS feature (model TEXT, digest BLOB, vector BLOB, PRIMARY KEY (model, digest))"


class FeatureCache:
    """A file of features; what was stored survives an interruption.

    Parameters
    ----------
    path
        The file; made where there is none. None keeps nothing.
    model
        What makes the features: those of another model are left alone.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     cache = FeatureCache(Path(folder, "features.cache"), "gist")
    ...     cache.store([b"1"], np.ones((1, 2), np.float32))
    ...     found = cache.find(b"1"), cache.find(b"2")
    ...     cache.close()
    >>> found
    (array([1., 1.], dtype=float32), None)
    """

    def __init__(self, path: Path | None, model: str) -> None:
        self._model = model
        try:
            self._file = sqlite3.connect(":memory:" if path is None else path)
            try:
                self._file.execute(_SCHEMA)
            except sqlite3.DatabaseError:
                self._file.close()
                raise
        except sqlite3.DatabaseError as error:
            raise InvalidInput(f"{path} cannot be used as a cache of features: {error}.") from error

    def find(self, digest: bytes) -> NDArray[np.float32] | None:
        """Return the features of an image; None if they are not known."""
        query = "SELECT vector FROM feature WHERE model = ? AND digest = ?"
        row = self._file.execute(query, (self._model, digest)).fetchone()
        return None if row is None else np.frombuffer(row[0], dtype="<f4")

    def store(self, digests: Sequence[bytes], rows: NDArray[np.float32]) -> None:
        """Keep the features of some images."""
        pairs = zip(digests, rows, strict=True)
        with self._file:
            self._file.executemany(
                "INSERT OR REPLACE INTO feature VALUES (?, ?, ?)",
                [(self._model, digest, row.astype("<f4").tobytes()) for digest, row in pairs],
            )

    def close(self) -> None:
        """Close the file."""
        self._file.close()
