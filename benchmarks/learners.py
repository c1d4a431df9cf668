"""The methods compared with MIHash, per example: `learn`, against direct ports of their update rules.

All have learned from 1,000 examples before, so that OKH has its anchors; they and their ports then go on through
the same ones. Class labels; blocks of 100, and of 50 for SketchHash, whose time includes making the mapping after
each. The reservoir stands still: of these methods, two ask it which labels are neighbours and none looks at it.

Before the clock starts, each must have made the same hash functions as its port (SketchHash: of the same
subspace) from 200 further examples. Bounds in us are twice what a prototype of the blocked update took.
"""

import time
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from mihash import Reservoir
from mihash.online import HCOH, HMOH, OKH, OSH, AdaptHash, OnlineLearner, SketchHash

from . import direct_learners as direct
from .clock import best
from .report import Target, console, verdict
from .synthetic import labelled_features

N_BITS = 32
FEATURES = (128, 4096)
ROUNDS = 20
POOL, WARM_UP, PART = 4000, 1000, 200
RESERVOIR = 1000
PROTOTYPES = {  # us per example, by the number of features
    "OKH": {128: 26.4, 4096: 48},
    "OSH": {128: 43, 4096: 45},
    "AdaptHash": {128: 67, 4096: 68},
    "SketchHash, l = 100": {128: 44, 4096: 120},
}
METHODS: dict[str, tuple[Callable[[], OnlineLearner], type[direct.Port]]] = {
    "OKH": (lambda: OKH(N_BITS), direct.DirectOKH),
    "OSH": (lambda: OSH(N_BITS), direct.DirectBoosting),
    "OSH, hinge": (lambda: OSH(N_BITS, loss="hinge"), direct.DirectHinge),
    "AdaptHash": (lambda: AdaptHash(N_BITS), direct.DirectAdaptHash),
    "SketchHash, l = 100": (lambda: SketchHash(N_BITS, sketch_size=100), direct.DirectSketchHash),
    "HCOH": (lambda: HCOH(N_BITS), direct.DirectHCOH),
    "HMOH": (lambda: HMOH(N_BITS), direct.DirectHMOH),
}
AT_LEAST = Target(least=1)
PORT = "port of "


class Pool:
    """Labelled examples that learners pass over repeatedly, and a full reservoir of them."""

    def __init__(self, d: int) -> None:
        self.X, self.y = labelled_features(POOL, d)
        self.reservoir = Reservoir(RESERVOIR)
        self.reservoir.add(self.X, self.y)


class Stream:
    """Something that learns from the pool, block after block; a contender."""

    def __init__(self, learn: Callable[..., None], pool: Pool, block: int) -> None:
        self.learn, self.pool, self.block = learn, pool, block
        self.seen = 0

    def __call__(self) -> float:
        """Learn from a part of the pool; return the CPU seconds per example."""
        return self.advance(PART)

    def advance(self, n: int) -> float:
        """Learn from the next n examples; return the CPU seconds per example."""
        start = time.process_time()
        for _ in range(n // self.block):
            rows = slice(self.seen % POOL, self.seen % POOL + self.block)
            self.learn(self.pool.X[rows], self.pool.y[rows])
            self.seen += self.block
        return (time.process_time() - start) / n


def pair(name: str, pool: Pool) -> tuple[Stream, Stream]:
    """Return our learner and its port, warmed up and checked to learn the same."""
    make, port_class = METHODS[name]
    learner = make()
    learner.start(pool.X.shape[1])
    slots = np.full(learner.block_size, -1)

    def learn(X: NDArray[np.float32], y: NDArray[np.int64]) -> None:
        learner.learn(X, y, pool.reservoir, slots)
        if isinstance(learner, SketchHash):
            learner.current()

    ours = Stream(learn, pool, learner.block_size)
    ours.advance(WARM_UP)
    port = port_class(learner)
    theirs = Stream(port.learn, pool, learner.block_size)
    theirs.seen = ours.seen
    before = _weights(learner)
    ours.advance(PART)
    theirs.advance(PART)
    W, wanted = _weights(learner), port.weights
    if isinstance(learner, SketchHash):  # orthonormal columns, rotated at random
        error, moved = np.linalg.norm(W - wanted @ (wanted.T @ W)), 1.0
    else:
        error, moved = np.linalg.norm(W - wanted), np.linalg.norm(W - before)
    if not error < 1e-3 * moved:
        raise AssertionError(f"{name} and its port differ by {error / moved:.2g} of what they learned.")
    return ours, theirs


def _weights(learner: OnlineLearner) -> NDArray[np.float32]:
    return learner.current().arrays()["weights"]


def show(d: int, times: dict[str, float], ports: dict[str, float]) -> None:
    """Print one row for each method: its time, its port's, and both bounds."""
    table = Table(title=f"Compared methods, d = {d}, b = {N_BITS}: us per example", title_justify="left")
    table.title_style = "bold"
    table.add_column("what")
    table.add_column("ours", justify="right")
    table.add_column("target")
    table.add_column("")
    table.add_column("direct port", justify="right")
    table.add_column("against ours", justify="right")
    table.add_column("target")
    table.add_column("")
    for name, seconds in times.items():
        ratio = ports[name] / seconds
        judged = ("", "")
        if name in PROTOTYPES:
            at_most = Target(most=2 * PROTOTYPES[name][d], unit="us")
            judged = (str(at_most), verdict(at_most.held(seconds, 1)))
        compared = (f"{ports[name] * 1e6:,.1f}", f"{ratio:.1f}x", str(AT_LEAST))
        held = verdict(AT_LEAST.held(ports[name], ratio))
        table.add_row(name, f"{seconds * 1e6:,.1f}", *judged, *compared, held)
    console.print(table)


def run() -> None:
    for d in FEATURES:
        pool = Pool(d)
        contenders = {}
        for name in METHODS:
            contenders[name], contenders[PORT + name] = pair(name, pool)
        times = best(contenders, ROUNDS)
        show(d, {name: times[name] for name in METHODS}, {name: times[PORT + name] for name in METHODS})
