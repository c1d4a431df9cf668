"""Mean average precision, per query: ours by counting, against sorting as most public hashing code does.

1,000 queries over 59,000 codes. The sort runs on a few of the queries; on those, ``ties="index"`` must give
what a stable sort gives.
"""

import numpy as np

import mihash

from .argsort_ranking import average_precisions
from .clock import best, timed
from .report import Target, show
from .synthetic import labelled_bits

N_QUERIES, N_CODES, N_BITS = 1000, 59_000, 32
N_SORTED = 30
OURS = "mihash, expected ties"
TARGETS = {"argsort": Target(least=20)}


def run() -> None:
    bits, y = labelled_bits(N_QUERIES + N_CODES, N_BITS)
    signs = np.where(bits, np.float32(1), np.float32(-1))
    codes = mihash.pack(bits)
    queries, base, few = slice(N_QUERIES), slice(N_QUERIES, None), slice(N_SORTED)

    def ours(part: slice, ties: str):
        return mihash.average_precision(codes[part], codes[base], (y[part], y[base]), N_BITS, ties=ties)

    def sort(kind: str | None = None):
        return average_precisions(signs[few], signs[base], y[few], y[base], kind)

    np.testing.assert_allclose(ours(few, "index"), sort("stable"))
    everything = (codes[queries], codes[base], (y[queries], y[base]), N_BITS)
    times = best(
        {
            OURS: timed(lambda: mihash.mean_average_precision(*everything), N_QUERIES),
            "mihash, ties by index": timed(
                lambda: mihash.mean_average_precision(*everything, ties="index"), N_QUERIES
            ),
            "argsort": timed(sort, N_SORTED),
            "argsort, stable": timed(lambda: sort("stable"), N_SORTED),
        },
        5,
    )
    title = f"mAP, {N_QUERIES:,} queries x {N_CODES:,} codes of {N_BITS} bits"
    show(title, times, OURS, "ms per query", TARGETS)
