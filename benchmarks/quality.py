"""The quality Q_R (Eq. 6), per evaluation: ours, item by item with np.histogram, and NumPy's bincount."""

import numpy as np
from numpy.typing import NDArray

import mihash

from .clock import best, timed
from .report import Target, show
from .synthetic import labelled_bits

N_BITS = 32
SIZES = (1000, 5000)
TARGETS = {1000: {"item by item": Target(least=50)}}
_ROWS = 50

Bits = NDArray[np.bool_]
Labels = NDArray[np.int64]


def item_by_item(bits: Bits, y: Labels) -> float:
    """Compare bits, make two histograms, compute three entropies; the item itself is left out."""
    n, n_bits = bits.shape
    total = 0.0
    for i in range(n):
        distances = (bits != bits[i]).sum(axis=1)
        near = y == y[i]
        far = ~near
        near[i] = False
        sides = [np.histogram(distances[side], n_bits + 1, (-0.5, n_bits + 0.5))[0] for side in (near, far)]
        counts = [side.sum() for side in sides]
        if min(counts) == 0:
            continue
        prior = counts[0] / (n - 1)
        p_pos, p_neg = (side / count for side, count in zip(sides, counts, strict=True))
        p = prior * p_pos + (1 - prior) * p_neg
        total += _entropy(p) - prior * _entropy(p_pos) - (1 - prior) * _entropy(p_neg)
    return total / n


def by_bincount(words: NDArray[np.uint32], y: Labels, n_bits: int) -> float:
    """Count the keys (row, neighbour or not, distance) of a few rows at a time, all in NumPy."""
    n, levels = len(words), n_bits + 1
    x = np.arange(n + 1, dtype=np.float64)
    table = x * np.log2(np.maximum(x, 1))
    total = 0.0
    for start in range(0, n, _ROWS):
        rows = np.arange(start, min(start + _ROWS, n))
        keys = np.bitwise_count(words[rows, None] ^ words).astype(np.intp)
        keys += levels * (y[rows, None] == y)
        keys += 2 * levels * np.arange(len(rows))[:, None]
        counts = np.bincount(keys.ravel(), minlength=2 * levels * len(rows)).reshape(-1, 2, levels)
        counts[:, 1, 0] -= 1  # the item itself, at distance 0
        sides = counts.sum(axis=2)
        inner = table[counts].sum(axis=(1, 2)) - table[counts.sum(axis=1)].sum(axis=1)
        information = (inner - table[sides].sum(axis=1) + table[n - 1]) / (n - 1)
        total += information[sides.min(axis=1) > 0].sum()
    return float(total / n)


def _entropy(p: NDArray[np.float64]) -> float:
    p = p[p > 0]
    return float(-(p * np.log2(p)).sum())


def run() -> None:
    for n in SIZES:
        bits, y = labelled_bits(n, N_BITS)
        codes = mihash.pack(bits)
        words = codes.view(np.uint32).ravel()
        contenders = {
            "mihash.quality": lambda codes=codes, y=y: mihash.quality(codes, y, N_BITS),
            "NumPy bincount": lambda words=words, y=y: by_bincount(words, y, N_BITS),
            "item by item": lambda bits=bits, y=y: item_by_item(bits, y),
        }
        np.testing.assert_allclose([work() for work in contenders.values()], contenders["item by item"]())
        times = best({name: timed(work) for name, work in contenders.items()}, 7 if n < 2000 else 3)
        show(f"Quality Q_R, R = {n}, b = {N_BITS}", times, "mihash.quality", "ms", TARGETS.get(n))
