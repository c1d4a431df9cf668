"""The figure of the search benchmark, drawn from its numbers: ``python -m benchmarks.search_figure``."""

import json
from pathlib import Path
from typing import Any

import numpy as np

NUMBERS = Path(__file__).parents[1] / "docs" / "images" / "search.json"
COLORS = {
    "multi-index": "#2a9d8f",
    "auto": "#17527f",
    "scan": "#1f6fb4",
    "FAISS": "#d1495b",
    "NumPy": "#a0a0a0",
    "usearch": "#d0d0d0",
}
_SCANS = ("scan", "FAISS", "NumPy", "usearch")
_TABLES = ("multi-index", "scan", "FAISS")


def draw(numbers: Path) -> None:
    """Draw times of scans on random codes, and of multi-index hashing on learned ones, beside the numbers."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    records = [r for r in json.loads(numbers.read_text(encoding="utf-8"))["records"] if r["section"] == "batch"]
    figure = Figure(figsize=(13, 4.4), layout="constrained")
    FigureCanvasAgg(figure)
    left, middle, right = figure.subplots(1, 3)
    sizes = sorted({r["n"] for r in records if r["codes"] == "random"})
    for axes, n in zip((left, middle), sizes, strict=True):
        chosen = [r for r in records if (r["codes"], r["n"], r["search"]) == ("random", n, "k = 10")]
        _bars(axes, {(str(r["bits"]), r["contender"]): r["ms"] for r in chosen}, _SCANS)
        axes.set_title(f"scan of {n:,} random codes, k = 10", fontsize=11)
        axes.set_xlabel("bits")
    learned = [r for r in records if r["codes"].startswith("learned") and r["bits"] <= 64]
    name, n = max(((r["codes"], r["n"]) for r in learned), key=lambda pair: (pair[1], "real" in pair[0]))
    chosen = [r for r in learned if (r["codes"], r["n"]) == (name, n)]
    _bars(right, {(f"{r['bits']} bits\n{r['search']}", r["contender"]): r["ms"] for r in chosen}, _TABLES)
    right.set_title(f"{n:,} learned codes", fontsize=11)
    left.set_ylabel("ms per query, one thread")
    figure.savefig(numbers.with_suffix(".png"), dpi=130)


def _bars(axes: Any, times: dict[tuple[str, str], float], contenders: tuple[str, ...]) -> None:
    """Draw a group of bars for each first name, one bar for each contender, with the number on it."""
    groups = list(dict.fromkeys(group for group, _ in times))
    width = 0.8 / len(contenders)
    for number, contender in enumerate(contenders):
        here = [place for place, group in enumerate(groups) if (group, contender) in times]
        heights = [times[groups[place], contender] for place in here]
        at = np.array(here) + (number - (len(contenders) - 1) / 2) * width
        bars = axes.bar(at, heights, 0.92 * width, color=COLORS[contender], label=contender)
        axes.bar_label(
            bars, [f"{height:.2g}" if height < 10 else f"{height:.0f}" for height in heights], fontsize=6.5
        )
    axes.set_yscale("log")
    axes.set_xticks(range(len(groups)), groups, fontsize=8)
    shown = [ms for (_, contender), ms in times.items() if contender in contenders]
    axes.set_ylim(min(shown) / 2, 5 * max(shown))  # room for the legend
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, fontsize=8, ncols=2, loc="upper left")


if __name__ == "__main__":
    draw(NUMBERS)
