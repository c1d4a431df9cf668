"""Draws the pictures of docs/concepts.md: python docs/images/concepts.py."""

from pathlib import Path

import matplotlib
import numpy as np

import mihash
from mihash.paper.drawing import new_figure

HERE = Path(__file__).parent
NEAR, FAR, LINE, STALE = "#2a9d8f", "#d1495b", "#1f6fb4", "#8c8c8c"
STYLE = {"svg.hashsalt": "mihash", "svg.fonttype": "path", "font.size": 10}


def learn() -> tuple[mihash.OnlineHashing, np.ndarray, np.ndarray]:
    """Stream the digits through MIHash, and return the system with the sample that the pictures measure on."""
    data = mihash.datasets.digits()
    order = np.random.default_rng(0).permutation(len(data.X))
    X, y = data.X[order], data.y[order]
    system = mihash.OnlineHashing(
        mihash.online.MIHash(32, seed=0), mihash.TriggerUpdate(theta=0.01, interval=40), reservoir_size=300
    )
    system.table.add(X[:300])
    system.feed(X, y)
    return system, X[:500], y[:500]


def draw_information(system: mihash.OnlineHashing, X: np.ndarray, y: np.ndarray) -> None:
    """Draw the distances of neighbours and of others before and after learning."""
    W = np.random.default_rng(0).standard_normal((X.shape[1], 32))
    first = mihash.mapping.LinearMapping(W, -X.mean(axis=0) @ W)
    same = y[:, None] == y
    pairs = ~np.eye(len(y), dtype=bool)
    figure = new_figure(figsize=(9, 3.2), layout="constrained")
    for axes, name, mapping in zip(
        figure.subplots(1, 2, sharey=True), ("random hyperplanes", "learned"), (first, system.current), strict=True
    ):
        codes = mapping.encode(X)
        distances = mihash.hamming(codes, codes)
        for color, label, chosen in ((FAR, "others", ~same), (NEAR, "neighbours", same & pairs)):
            counts = np.bincount(distances[chosen], minlength=33) / chosen.sum()
            axes.fill_between(np.arange(33), counts, step="mid", alpha=0.55, color=color, label=label)
        gain = mihash.quality(codes, same, 32)
        axes.set_title(f"{name}: mutual information {gain:.2f} bits", fontsize=10)
        axes.set_xlabel("Hamming distance")
        axes.set_yticks([])
    axes.legend(frameon=False)
    figure.savefig(HERE / "concept-information.svg", metadata={"Date": None})


def draw_trigger(system: mihash.OnlineHashing) -> None:
    """Draw both qualities at every check, and a mark at each rehash."""
    checks = [check for check in system.history() if check.snapshot is not None]
    seen = [check.seen for check in checks]
    figure = new_figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots()
    axes.plot(seen, [check.current for check in checks], color=LINE, lw=2, label="current mapping")
    axes.plot(seen, [check.snapshot for check in checks], color=STALE, lw=2, label="stored codes")
    marks = [(check.seen, check.current) for check in checks if check.accepted]
    axes.plot(*zip(*marks, strict=True), "o", color=LINE, mfc="white", label=f"rehash ({len(marks)} of {len(checks)} checks)")
    axes.set_xlabel("examples of the stream")
    axes.set_ylabel("mutual information, bits")
    axes.legend(frameon=False, loc="lower right")
    axes.grid(alpha=0.25)
    figure.savefig(HERE / "concept-trigger.svg", metadata={"Date": None})


if __name__ == "__main__":
    with matplotlib.rc_context(STYLE):
        system, X, y = learn()
        draw_information(system, X, y)
        draw_trigger(system)
