"""The demonstration: one stream through MIHash with and without the trigger, a table and a picture.

Shows the two results of the paper on data that ships: the trigger saves most table updates at the same
retrieval quality (Fig. 4), and learning pulls the distances of neighbours and of others apart (Fig. 6).
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .datasets import Protocol, Split, checkpoints, find_protocol, open_dataset
from .hashing import OnlineHashing
from .mapping import HashMapping
from .online import MIHash
from .ranking import distance_distributions, mean_average_precision
from .trigger import FixedRate, Trigger, TriggerUpdate

__all__ = ["Demo", "Run", "draw", "run_demo"]

Progress = Callable[[str, int, int], None]
Distributions = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass
class Run:
    """One pass over the stream: the curve of mAP, and when the table was updated."""

    name: str
    examples: list[int] = field(default_factory=list)
    precisions: list[float] = field(default_factory=list)
    updated_at: list[int] = field(default_factory=list)
    updates: int = 0
    learning_s: float = 0.0
    mapping: HashMapping | None = None

    @property
    def area(self) -> float:
        """The area under the curve: the mean of mAP over the checkpoints (App. B.1)."""
        return float(np.mean(self.precisions))


@dataclass(frozen=True)
class Demo:
    """Both runs, and the distance distributions before and after learning."""

    dataset: str
    n_bits: int
    n_stream: int
    fixed: Run
    triggered: Run
    before: Distributions
    after: Distributions


def run_demo(
    name: str = "digits",
    *,
    n_bits: int = 32,
    theta: float = 0.0,
    seed: int = 0,
    data: Path | None = None,
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005
) -> Demo:
    """Stream a data set through MIHash twice: with a table update at a fixed rate, and with the trigger.

    Parameters
    ----------
    name
        A data set by name, or the path of a file with features; see `mihash.datasets.open_dataset`.
    n_bits
        The code length.
    theta
        The trigger's threshold.
    seed
        Seeds the split, the stream, the reservoir and the learner.
    data
        Where named data sets lie; the environment variable MIHASH_DATA by default.
    progress
        Called with what is being done, and how much of how much.
    """
    dataset = open_dataset(name, data)
    protocol = find_protocol(name)
    split = protocol.split(dataset, seed=seed)
    progress("compiling (once)", 0, 1)
    _warm_up(split, n_bits)
    learner = MIHash(n_bits, seed=seed)
    learner.start(split.X_base.shape[1])
    triggers: dict[str, Trigger] = {
        "fixed rate": FixedRate(protocol.interval),
        "trigger": TriggerUpdate(theta, protocol.interval),
    }
    runs = [
        _stream(split, protocol, label, trigger, learner.copy(), seed, progress)
        for label, trigger in triggers.items()
    ]
    before, after = (_distributions(split, mapping) for mapping in (learner.mapping, runs[1].mapping))
    return Demo(dataset.name, n_bits, len(split.stream), runs[0], runs[1], before, after)


def _warm_up(split: Split, n_bits: int) -> None:
    n = min(len(split.stream), 120)
    X, y = split.X_stream[:n], None if split.y_stream is None else split.y_stream[:n]
    system = OnlineHashing(MIHash(n_bits), TriggerUpdate(interval=50), reservoir_size=50)
    system.feed(X, y)


def _stream(
    split: Split,
    protocol: Protocol,
    name: str,
    trigger: Trigger,
    learner: MIHash,
    seed: int,
    progress: Progress,
) -> Run:
    size = min(protocol.reservoir_size, len(split.stream))
    system = OnlineHashing(learner, trigger, size, seed=seed)
    X, y = split.X_stream, split.y_stream
    run = Run(name)
    measured: dict[str, float] = {}

    def measure(seen: int) -> None:
        mapping = system.snapshot if seen else learner.mapping
        if mapping.fingerprint not in measured:  # the table, and so mAP, changes with the snapshot alone
            measured[mapping.fingerprint] = _precision(split, mapping, protocol.top)
        run.examples.append(seen)
        run.precisions.append(measured[mapping.fingerprint])

    measure(0)
    done = 0
    for seen in checkpoints(len(X), 50, seed=seed).tolist():
        part = slice(done, seen)
        begin = time.perf_counter()
        system.feed(X[part], None if y is None else y[part])
        run.learning_s += time.perf_counter() - begin
        done = seen
        measure(seen)
        progress(name, done, len(X))
    run.updates = system.updates
    run.updated_at = [0, *(check.seen for check in system.history if check.decision.update)]
    run.mapping = system.snapshot
    return run


def _precision(split: Split, mapping: HashMapping, top: int | None) -> float:
    queries, base = mapping.encode(split.X_query), mapping.encode(split.X_base)
    return mean_average_precision(queries, base, split.relevant, mapping.n_bits, top=top)


def _distributions(split: Split, mapping: HashMapping | None) -> Distributions:
    assert mapping is not None  # set by `_stream`
    queries, base = mapping.encode(split.X_query), mapping.encode(split.X_base)
    return distance_distributions(queries, base, split.relevant, mapping.n_bits)


def draw(demo: Demo, path: Path) -> None:
    """Draw the curves with a mark at each table update, and the distributions before and after."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.6), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplot_mosaic([["curve", "before"], ["curve", "after"]], width_ratios=[1.5, 1])
    axes = panels["curve"]
    for run, color, marker, offset in (
        (demo.fixed, "#b0b0b0", "|", -0.02),
        (demo.triggered, "#1f6fb4", "o", 0.0),
    ):
        label = f"{run.name}: {run.updates} table updates"
        axes.plot(run.examples, run.precisions, color=color, lw=2, label=label, zorder=2)
        heights = np.interp(run.updated_at, run.examples, run.precisions)
        axes.plot(run.updated_at, heights + offset, marker, color=color, ms=6, mfc="white", mew=1.5, zorder=3)
    axes.set_xlabel("examples of the stream")
    axes.set_ylabel("mAP of the table at that moment")
    axes.set_title(f"{demo.dataset}, {demo.n_bits} bits: a mark is a recomputation of all codes", fontsize=11)
    axes.legend(loc="lower right", frameon=False)
    axes.grid(alpha=0.25)
    for panel, (p_pos, p_neg), precision in (
        ("before", demo.before, demo.triggered.precisions[0]),
        ("after", demo.after, demo.triggered.precisions[-1]),
    ):
        axes = panels[panel]
        distances = np.arange(demo.n_bits + 1)
        axes.fill_between(distances, p_neg, step="mid", alpha=0.5, color="#d1495b", label="others, $p^-$")
        axes.fill_between(distances, p_pos, step="mid", alpha=0.6, color="#2a9d8f", label="neighbours, $p^+$")
        axes.set_title(f"{panel} learning: mAP {precision:.2f}", fontsize=11)
        axes.set_yticks([])
        axes.set_xlim(0, demo.n_bits)
    panels["before"].legend(frameon=False, fontsize=9)
    panels["after"].set_xlabel("Hamming distance to a query")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=130)
