"""The demonstration: one stream through MomentHash with and without the trigger, a table and a picture.

Shows the two results of the paper on data that ships: the trigger saves most table updates at the same
retrieval quality (Fig. 4), and learning pulls the distances of neighbours and of others apart (Fig. 6).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..loop.online_hashing import OnlineHashing
from ..mapping import HashMapping
from ..online import MomentHash
from ..ranking import distance_distributions
from ..trigger import FixedRate, TriggerUpdate
from .datasets import Split, checkpoints, open_dataset, protocol_for
from .drawing import new_figure
from .learning_pass import Branch, Pass, learn_once

Progress = Callable[[str, int, int], None]
Distributions = tuple[NDArray[np.float64], NDArray[np.float64]]


@dataclass(frozen=True)
class Demo:
    """A pass under both triggers, and the distance distributions before and after learning."""

    dataset: str
    n_bits: int
    n_stream: int
    n_items: int
    result: Pass
    before: Distributions
    after: Distributions

    @property
    def fixed(self) -> Branch:
        """The table updated at a fixed rate."""
        return self.result.branches[0]

    @property
    def triggered(self) -> Branch:
        """The table updated by the trigger."""
        return self.result.branches[1]

    def rate(self, branch: Branch) -> float:
        """Return how many examples a second were learned from and decided about."""
        return self.n_stream / (self.result.learning_s + branch.deciding_s)


def run_demo(
    name: str = "digits",
    *,
    n_bits: int = 32,
    theta: float = 0.0,
    seed: int = 0,
    data: Path | None = None,
    progress: Progress = lambda what, done, total: None,  # noqa: ARG005 -- reports nothing
) -> Demo:
    """Stream a data set through MomentHash, with the table updated at a fixed rate and by the trigger.

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
    learner = MomentHash(n_bits, seed=seed)
    dataset = open_dataset(name, data)
    protocol = protocol_for(dataset)
    rules = [FixedRate(protocol.interval), TriggerUpdate(theta, protocol.interval)]
    split = protocol.split(dataset, seed=seed)
    progress("compiling (once)", 0, 1)
    _warm_up(split, n_bits)
    n_stream = len(split.stream)
    result = learn_once(
        split,
        learner,
        rules,
        np.concatenate([[0], checkpoints(n_stream, 50, seed=seed)]),
        reservoir_size=min(protocol.reservoir_size, n_stream),
        top=protocol.top,
        seed=seed,
        progress=lambda done, total: progress("streaming", done, total),
    )
    before, after = (_distributions(split, mapping) for mapping in (result.first, result.branches[1].snapshot))
    return Demo(dataset.name, n_bits, n_stream, len(split.X_base), result, before, after)


def _warm_up(split: Split, n_bits: int) -> None:
    n = min(len(split.stream), 800)
    system = OnlineHashing(MomentHash(n_bits), TriggerUpdate(interval=50), reservoir_size=50)
    system.feed(split.X_stream[:n], None if split.y_stream is None else split.y_stream[:n])


def _distributions(split: Split, mapping: HashMapping) -> Distributions:
    queries, base = mapping.encode(split.X_query), mapping.encode(split.X_base)
    return distance_distributions(queries, base, split.relevant, mapping.n_bits)


def draw(demo: Demo, path: Path) -> None:
    """Draw the curves with a mark at each table update, and the distributions before and after."""
    figure = new_figure(figsize=(12, 4.6), layout="constrained")
    panels = figure.subplot_mosaic([["curve", "before"], ["curve", "after"]], width_ratios=[1.5, 1])
    axes = panels["curve"]
    examples = demo.result.examples
    fixed, triggered = demo.fixed, demo.triggered
    axes.plot(
        examples, fixed.precisions, color="#a0a0a0", lw=2, label=f"fixed rate: {fixed.updates} table updates"
    )
    axes.plot(
        examples, triggered.precisions, color="#1f6fb4", lw=2, label=f"trigger: {triggered.updates} table updates"
    )
    heights = np.interp(triggered.updated_at, examples, triggered.precisions)
    axes.plot(triggered.updated_at, heights, "o", color="#1f6fb4", ms=6, mfc="white", mew=1.5)
    low = min(*fixed.precisions, *triggered.precisions) - 0.02
    for row, (branch, color) in enumerate(((triggered, "#1f6fb4"), (fixed, "#a0a0a0"))):
        axes.plot(branch.updated_at, np.full(branch.updates, low - 0.025 * row), "|", color=color, ms=7, mew=1.2)
    axes.set_xlabel("examples of the stream")
    axes.set_ylabel("mAP of the table at that moment")
    axes.set_title(f"{demo.dataset}, {demo.n_bits} bits: a mark is a recomputation of all codes", fontsize=11)
    axes.legend(loc="center right", frameon=False)
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
