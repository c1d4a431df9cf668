"""Hash table recompute: encoding all stored vectors, against reading them once and against whole-array NumPy.

The floor is one pass over the features (their maximum): no encoder that reads them can take less.
"""

import numpy as np

import mihash
from mihash.mapping import LinearMapping

from .clock import best, timed
from .report import show

N_BITS = 32
SIZES = ((1_000_000, 128), (60_000, 4096))
FLOOR = "reading alone"
ROUNDS = 5


def run() -> None:
    for n, d in SIZES:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        W = rng.standard_normal((d, N_BITS), dtype=np.float32)
        mapping = LinearMapping(W)
        contenders = {
            FLOOR: X.max,
            "LinearMapping.encode": lambda X=X, mapping=mapping: mapping.encode(X),
            "whole array": lambda X=X, W=W: np.packbits(X @ W > 0, axis=1, bitorder="little"),
        }
        ours, whole = (mihash.unpack(contenders[name](), N_BITS) for name in list(contenders)[1:])
        share = float((ours != whole).mean())  # projections near 0 round differently in other products
        if share > 1e-5:
            raise AssertionError(f"A share {share:.2g} of the bits differs from whole-array NumPy.")
        del ours, whole
        times = best({name: timed(work) for name, work in contenders.items()}, ROUNDS)
        show(f"Hash table recompute, {n:,} x {d} to {N_BITS} bits", times, FLOOR, "ms")
