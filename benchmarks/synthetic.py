"""Synthetic streams and codes: classes that a hash mapping can tell apart, from a fixed seed."""

import numpy as np
from numpy.typing import NDArray

N_CLASSES = 10


def labelled_features(n: int, d: int, seed: int = 0) -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """Return centred vectors (n, d) of unit length around class means, and their classes (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, size=n)
    X = rng.standard_normal((n, d), dtype=np.float32)
    # Two class means are about four deviations apart: were they further, learning would end and steps vanish.
    X += np.float32(3 / np.sqrt(d)) * rng.standard_normal((N_CLASSES, d), dtype=np.float32)[y]
    X -= X.mean(axis=0)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, y


def labelled_bits(n: int, n_bits: int, seed: int = 0) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Return bits (n, b), those of the item's class with three in ten flipped, and the classes (n,)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, N_CLASSES, size=n)
    prototypes = rng.random((N_CLASSES, n_bits)) < 0.5
    return prototypes[y] ^ (rng.random((n, n_bits)) < 0.3), y
