"""mAP early in a stream and at its end: MomentHash, also with RBF features and replay, HMOH and MIHash.

CIFAR-10 features in the folder MIHASH_DATA, the paper's protocol with other seeds, or else the shipped digits.
Each cell has mAP after 300, 1,000 and 3,000 examples and after the stream, the mean of three splits, and the CPU
of the whole pass in us an example. MIHASH_EARLY_BITS and MIHASH_EARLY_SEEDS choose lengths and seeds.
"""

import os
import time
from pathlib import Path

import numpy as np

import mihash
from mihash.online import HMOH, MIHash, MomentHash, OnlineLearner
from mihash.paper.scales import Stage, stage

from .report import console, show_grid

BITS = tuple(int(each) for each in os.environ.get("MIHASH_EARLY_BITS", "32,64,128").split(","))
SEEDS = tuple(int(each) for each in os.environ.get("MIHASH_EARLY_SEEDS", "21,22,23").split(","))
EXAMPLES = (300, 1000, 3000)
LEARNERS = {
    "MIHash": lambda n_bits, seed: MIHash(n_bits, seed=seed),
    "HMOH": lambda n_bits, seed: HMOH(n_bits, seed=seed),
    "MomentHash": lambda n_bits, seed: MomentHash(n_bits, seed=seed),
    "MomentHash, RBF": lambda n_bits, seed: MomentHash(n_bits, features="rbf", seed=seed),
    "MomentHash, replay": lambda n_bits, seed: MomentHash(n_bits, replay=5, seed=seed),
}


def run() -> None:
    """Print the table."""
    folder = os.environ.get("MIHASH_DATA")
    scale, data = ("full", Path(folder)) if folder else ("smoke", None)
    rows = []
    for name, make in LEARNERS.items():
        cells = []
        for n_bits in BITS:
            found = [_curve(stage("cifar10", scale, data, seed), make(n_bits, seed), seed) for seed in SEEDS]
            means = np.mean(found, axis=0)
            cells.append(" ".join(f"{value:.3f}" for value in means[:-1]) + f", {means[-1]:.0f}")
            console.print(f"{name}, {n_bits} bits: {cells[-1]}")
        rows.append([name, *cells])
    where = "CIFAR-10" if folder else "digits"
    show_grid(
        f"{where}: mAP after 300, 1,000, 3,000 and all examples; us", ["", *(f"{b} bits" for b in BITS)], rows
    )


def _curve(where: Stage, learner: OnlineLearner, seed: int) -> list[float]:
    split = where.split(0)
    X, y = split.X_stream, split.y_stream
    relevant = split.y_query[:, None] == split.y_base
    system = mihash.OnlineHashing(
        learner, mihash.FixedRate(100), reservoir_size=where.reservoir_size(split), seed=seed
    )
    found, spent = [], 0.0
    ends = [*(n for n in EXAMPLES if n < len(X)), len(X)]
    for start, end in zip([0, *ends], ends, strict=False):
        begin = time.process_time()
        system.feed(X[start:end], y[start:end])
        spent += time.process_time() - begin
        mapping = system.current
        codes = mapping.encode(split.X_base), mapping.encode(split.X_query)
        found.append(mihash.mean_average_precision(codes[1], codes[0], relevant, mapping.n_bits))
    return [*found, 1e6 * spent / len(X)]
