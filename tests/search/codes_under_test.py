"""Codes to search, and the answer that sorting gives."""

import numpy as np

import mihash
from mihash.search import as_bitmap, as_columns


def clustered(n, n_bits, seed, n_centres=20, flip=0.08):
    """Return packed codes around a few centres, as learned codes are."""
    rng = np.random.default_rng(seed)
    centres = rng.random((n_centres, n_bits)) > 0.5
    return mihash.pack(centres[rng.integers(0, n_centres, n)] ^ (rng.random((n, n_bits)) < flip))


def random_codes(n, n_bits, seed):
    return mihash.pack(np.random.default_rng(seed).random((n, n_bits)) > 0.5)


def sorted_answer(queries, codes, mask=None):
    """Return for each query the (distance, id) of all codes that may be found, by distance, then id."""
    distances = mihash.hamming(queries, codes).astype(np.int64)
    ids = np.arange(len(codes)) if mask is None else np.flatnonzero(mask)
    return [sorted(zip(row[ids].tolist(), ids.tolist(), strict=True)) for row in distances]


def pairs(ids, distances):
    return list(zip(distances.tolist(), ids.tolist(), strict=True))


def live(mask):
    return None if mask is None else as_bitmap(mask)


def columns(codes):
    return as_columns(codes)
