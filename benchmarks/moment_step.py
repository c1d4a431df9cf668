"""MomentHash per example, with refreshes and moments, against MIHash: `learn` with labels and without.

The first 20,000 examples and the 10,000 after them, where information steps are rarer; MIHash after 4,200, from
which on it costs the same. CPU seconds in one process, taking turns; the sum over the stream, not the best block,
as refreshes are part of the cost.
"""

import time

import numpy as np
from numpy.typing import NDArray

from mihash import Reservoir
from mihash.kernels import one_thread
from mihash.online import MIHash, MomentHash, OnlineLearner

from .report import show_grid
from .synthetic import labelled_features

SIZES = ((128, 64), (512, 32), (512, 64), (784, 64), (784, 128))
STREAM, LATER, POOL = 20_000, 10_000, 10_000
WARM_UP, MEASURED = 4_200, 2_000
TURN = 500


class Stream:
    """A learner with its reservoir, and endless examples: a pool over and over."""

    def __init__(self, learner: OnlineLearner, X: NDArray[np.float32], y: NDArray[np.int64] | None) -> None:
        self.learner, self.X, self.y = learner, X, y
        learner.start(X.shape[1])
        self.reservoir = Reservoir(1000 if y is not None else 2000)

    def advance(self, n: int) -> float:
        """Learn from n examples; return the CPU seconds spent in `learn`."""
        spent, block = 0.0, self.learner.block_size
        with one_thread():
            for _ in range(n // block):
                start = self.reservoir.seen % POOL
                X, y = self.X[start : start + block], None if self.y is None else self.y[start : start + block]
                slots = self.reservoir.plan(block)
                before = time.process_time()
                self.learner.learn(X, y, self.reservoir, slots)
                spent += time.process_time() - before
                self.reservoir.apply(X, y, slots)
        return spent


def measure(d: int, n_bits: int, labelled: bool) -> tuple[float, float, float]:
    """Return the seconds per example of MomentHash at first and later, and of MIHash."""
    X, labels = labelled_features(POOL, d)
    y = labels if labelled else None
    Stream(MomentHash(n_bits), X, y).advance(600)  # compiles
    ours, paper = Stream(MomentHash(n_bits), X, y), Stream(MIHash(n_bits), X, y)
    paper.advance(WARM_UP)
    spent = [0.0, 0.0, 0.0]
    for done in range(0, STREAM + LATER, TURN):
        spent[int(done >= STREAM)] += ours.advance(TURN)
        if done < MEASURED:
            spent[2] += paper.advance(TURN)
    return spent[0] / STREAM, spent[1] / LATER, spent[2] / MEASURED


def run() -> None:
    for labelled in (True, False):
        rows = []
        for d, n_bits in SIZES:
            first, later, paper = measure(d, n_bits, labelled)
            cells = (f"{value * 1e6:.1f}" for value in (first, later, paper))
            rows.append((str(d), str(n_bits), *cells, f"{first / paper:.2f}x", f"{later / paper:.2f}x"))
        show_grid(
            f"MomentHash, us per example, {'10 classes' if labelled else 'no labels'}",
            ("d", "bits", "first 20,000", "later", "MIHash", "first / MIHash", "later / MIHash"),
            rows,
        )
