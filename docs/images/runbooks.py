"""Draws runbooks.png, and prints the table of docs/runbooks.md, from what `mihash bench --runbook --json` printed.

``python docs/images/runbooks.py gist22k:clustered=SEED0,SEED1,SEED2 cifar10_vgg16:clustered=SEED0,SEED1,SEED2 ...``
Each file is the run of one seed; the table has means over the seeds, and of recall by codes the standard deviation.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
DRAWN = ("PriceUpdate", "TriggerUpdate", "FixedRate 100", "no rehash")
Seeds = list[dict[str, Any]]


def read(words: list[str]) -> dict[str, dict[str, Seeds]]:
    """Return what each seed has found, by data set and kind, then by who played."""
    found: dict[str, dict[str, Seeds]] = {}
    for word in words:
        name, _, files = word.partition("=")
        for file in files.split(","):
            for line in Path(file).read_text().splitlines():
                played = json.loads(line)
                found.setdefault(name, {}).setdefault(played["name"], []).append(played)
    return found


def show(found: dict[str, dict[str, Seeds]]) -> None:
    """Print the table."""
    print(
        "| runbook | system | recall@10 | by codes | rehashes | re-encoded | cost / best | CPU | memory | search, p95 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, players in found.items():
        for who, (first, *cells) in zip(players, rows(players), strict=True):
            print(f"| {name.replace(':', ', ') if first else ''} | {who} | {' | '.join(cells)} |")


def rows(players: dict[str, Seeds]) -> Iterator[list[str]]:
    """Yield the cells of each one that played; the first says whether it is the first of its runbook."""
    for place, seeds in enumerate(players.values()):
        hashed = bool(seeds[0]["code_recalls"])
        codes = [np.mean(each["code_recalls"]) for each in seeds] if hashed else [0.0]
        spread = f" ± {np.std(codes, ddof=1):.3f}" if len(seeds) > 1 else ""
        costs = [each["hindsight"] for each in seeds if each["hindsight"]]
        yield [
            "" if place else "first",
            f"{mean(seeds, 'recall'):.3f}",
            f"{np.mean(codes):.3f}{spread}" if hashed else "",
            f"{mean(seeds, 'rehashes'):.0f}" if hashed else "",
            f"{mean(seeds, 'encoded'):,.0f}" if hashed else "",
            f"{np.mean(costs):.2f}" if costs else "",
            f"{mean(seeds, 'cpu_s'):.1f} s",
            f"{mean(seeds, 'memory') / 1e6:.0f} MB",
            f"{mean(seeds, 'latency_ms'):.1f}, {mean(seeds, 'late_ms'):.0f} ms",
        ]


def mean(seeds: Seeds, field: str) -> float:
    """Return the mean of a field over the seeds."""
    return float(np.mean([each[field] for each in seeds]))


def draw(found: dict[str, dict[str, Seeds]]) -> None:
    """Draw the recall of codes alone at each search: the mean over the seeds, and their range."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = (len(found) + 1) // 2
    figure, axes = plt.subplots(2, columns, figsize=(3.6 * columns, 5.2), layout="constrained", squeeze=False)
    for place, (name, players) in enumerate(found.items()):
        plot = axes[place % 2, place // 2]
        for who in DRAWN:
            shortest = min(len(each["code_recalls"]) for each in players[who])
            recalls = np.array([each["code_recalls"][:shortest] for each in players[who]])
            at = np.arange(1, shortest + 1)
            (line,) = plot.plot(at, recalls.mean(axis=0), label=who)
            plot.fill_between(
                at, recalls.min(axis=0), recalls.max(axis=0), color=line.get_color(), alpha=0.2, lw=0
            )
        plot.set_title(name.replace(":", ", "), fontsize=10)
        plot.set_xlabel("search")
        plot.set_ylabel("recall@10 of codes alone")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(HERE / "runbooks.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = read(sys.argv[1:])
    show(results)
    draw(results)
