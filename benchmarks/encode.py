"""Certified signs: codes that are the same everywhere, against products of 64 rows and plain signs.

The first version multiplied 64 rows at a time and took the signs as BLAS gave them. On some processors a code then
depended on the place of its vector.
"""

import numpy as np
from numpy.typing import NDArray

from mihash import validation
from mihash.kernels import one_thread
from mihash.mapping import LinearMapping, NormalizedMapping
from mihash.mapping.hash_mapping import HashMapping, Matrix

from .clock import best, timed
from .report import Target, show

SIZES = ((1_000_000, 128, 64), (1_000_000, 128, 32), (100_000, 512, 32), (60_000, 4096, 64), (12_000, 16_384, 64))
BEFORE, PLAIN, CERTIFIED = "64 rows at a time", "signs of one product", "certified"
ROUNDS = 5


def in_blocks(X: Matrix, W: Matrix) -> NDArray[np.uint8]:
    """Encode as the first version did: checked chunks that fit the cache, a product for each 64 rows."""
    chunk = max(64, (1 << 20) // (4 * X.shape[1]) // 64 * 64)
    codes = []
    with one_thread():
        for start in range(0, len(X), chunk):
            part = X[start : start + chunk]
            validation.finite("X", part)
            whole = len(part) - len(part) % 64
            blocks = part[:whole].reshape(whole // 64, 64, X.shape[1])
            out = np.matmul(blocks, W).reshape(whole, W.shape[1])
            codes += [np.packbits(values > 0, axis=1, bitorder="little") for values in (out, part[whole:] @ W)]
    return np.concatenate(codes)


def kinds(X: Matrix, W: Matrix) -> dict[str, tuple[Matrix, HashMapping]]:
    """Return rows and a mapping of them: plain, of unit length, and far from the origin."""
    inner = LinearMapping(W)
    mean = np.full(X.shape[1], 0.3 / np.sqrt(X.shape[1]))
    return {
        "plain": (X, inner),
        "unit length": (X, NormalizedMapping(inner, mean, unit=True)),
        "far": (X + np.float32(100), NormalizedMapping(inner, np.full(X.shape[1], 100.0))),
    }


def run() -> None:
    for n, d, b in SIZES:
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        W = rng.standard_normal((d, b), dtype=np.float32)
        contenders = {
            BEFORE: timed(lambda X=X, W=W: in_blocks(X, W)),
            PLAIN: timed(lambda X=X, W=W: np.packbits(X @ W > 0, axis=1, bitorder="little")),
        }
        for kind, (rows, mapping) in kinds(X, W).items():
            contenders[f"{CERTIFIED}, {kind}"] = timed(lambda rows=rows, mapping=mapping: mapping.encode(rows))
        targets = {f"{CERTIFIED}, plain": Target(most=1.0 if d == 4096 else 1.2)}
        show(f"Encoding {n:,} x {d} to {b} bits", best(contenders, ROUNDS), BEFORE, "ms", targets)
