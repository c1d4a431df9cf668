"""Compiles every kernel that an index needs when it is imported: by the fork server, so that no child has to."""

import tempfile
from pathlib import Path

import numpy as np

from .configurations import CONFIGURATIONS


def _warm() -> None:
    """Use an index of each kind."""
    rng = np.random.default_rng(0)
    for configuration in CONFIGURATIONS:
        with tempfile.TemporaryDirectory() as folder, configuration.create(Path(folder)) as index:
            X = rng.standard_normal((450, configuration.d))
            classes = rng.integers(4, size=len(X))
            y = {None: None, "class": classes, "matrix": np.eye(4, dtype=np.int64)[classes]}[configuration.labels]
            index.add(X, y)
            index.rehash()
            index.wait()
            index.search(X[:2], 3, rescore=5)
            index.search(X[:2], radius=3)


_warm()
