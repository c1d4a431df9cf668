"""MI, AP and NDCG as the measure of a mapping (Sec. 3.3), per item of a reservoir of n, and how each grows.

The paper sets O(n) of mutual information against O(n log n) of ranking measures, which sort. That is so for AP
by argsort. Over whole Hamming distances nothing need be sorted: our AP and NDCG count, and are O(n) as well.
"""

import numpy as np
from rich.table import Table

import mihash
from mihash import ranking

from .argsort_ranking import average_precisions
from .clock import best, timed
from .report import console
from .synthetic import labelled_bits

N_BITS = 32
SIZES = (250, 500, 1000, 2000, 4000)
N_SORTED = 100
ROUNDS = 15
NAMES = ("MI, counted", "AP, counted", "NDCG, counted", "AP, argsort")


def times_at(n: int) -> dict[str, float]:
    """Return each measure's seconds per item, every item compared with all n."""
    bits, y = labelled_bits(n, N_BITS)
    codes, signs = mihash.pack(bits), np.where(bits, np.float32(1), np.float32(-1))
    few = slice(min(N_SORTED, n))
    repeats = max(1, SIZES[-1] // n)
    works = (
        (lambda: mihash.quality(codes, y, N_BITS), n),
        (lambda: ranking.average_precision(codes, codes, (y, y), N_BITS), n),
        (lambda: ranking.ndcg(codes, codes, (y, y), N_BITS), n),
        (lambda: average_precisions(signs[few], signs, y[few], y), len(signs[few])),
    )
    return best({name: timed(*work, repeats) for name, work in zip(NAMES, works, strict=True)}, ROUNDS)


def run() -> None:
    times = {n: times_at(n) for n in SIZES}
    first, last = SIZES[0], SIZES[-1]
    table = Table(title=f"Measures of a mapping, b = {N_BITS}: us per item", title_justify="left")
    table.title_style = "bold"
    table.add_column("n", justify="right")
    for name in NAMES:
        table.add_column(name, justify="right")
    table.add_column("argsort against MI", justify="right")
    for n, row in times.items():
        cells = (f"{row[name] * 1e6:.2f}" for name in NAMES)
        table.add_row(f"{n:,}", *cells, f"{row['AP, argsort'] / row['MI, counted']:.1f}x")
    table.add_section()
    growth = (f"{times[last][name] / times[first][name]:.1f}x" for name in NAMES)
    table.add_row(f"growth, n x {last // first}", *growth, "")
    marginal = ((times[last][name] - times[SIZES[-2]][name]) / (last - SIZES[-2]) for name in NAMES)
    table.add_row("ns per further pair", *(f"{seconds * 1e9:.2f}" for seconds in marginal), "")
    console.print(table)
