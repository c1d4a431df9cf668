"""Draws runbooks.png, and prints the table of docs/runbooks.md, from what `mihash bench --runbook --json` printed.

``python docs/images/runbooks.py gist22k:clustered=FILE cifar10_vgg16:clustered=FILE ...``
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
DRAWN = ("PriceUpdate", "TriggerUpdate", "FixedRate 100", "no rehash")


def read(words: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Return what each file has, by data set and kind."""
    named = (word.partition("=") for word in words)
    return {name: [json.loads(line) for line in Path(file).read_text().splitlines()] for name, _, file in named}


def show(found: dict[str, list[dict[str, Any]]]) -> None:
    """Print the table."""
    print(
        "| runbook | who | recall@10 | by codes | rehashes | re-encoded | cost / best | CPU | memory | search, p95 |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, rows in found.items():
        for each in rows:
            hashed = bool(each["code_recalls"])
            cells = [
                name.replace(":", ", "),
                each["name"],
                f"{each['recall']:.3f}",
                f"{np.mean(each['code_recalls']):.3f}" if hashed else "",
                f"{each['rehashes']}" if hashed else "",
                f"{each['encoded']:,}" if hashed else "",
                f"{each['hindsight']:.2f}" if each["hindsight"] else "",
                f"{each['cpu_s']:.1f} s",
                f"{each['memory'] / 1e6:.0f} MB",
                f"{each['latency_ms']:.1f}, {each['late_ms']:.0f} ms",
            ]
            print(f"| {' | '.join(cells)} |")
            name = ""


def draw(found: dict[str, list[dict[str, Any]]]) -> None:
    """Draw the recall of codes alone at each search."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    columns = (len(found) + 1) // 2
    figure, axes = plt.subplots(2, columns, figsize=(3.6 * columns, 5.2), layout="constrained", squeeze=False)
    for place, (name, rows) in enumerate(found.items()):
        plot = axes[place % 2, place // 2]
        for each in rows:
            if each["name"] in DRAWN:
                plot.plot(np.arange(1, len(each["code_recalls"]) + 1), each["code_recalls"], label=each["name"])
        plot.set_title(name.replace(":", ", "), fontsize=10)
        plot.set_xlabel("search")
        plot.set_ylabel("recall@10 of codes alone")
    axes[0, 0].legend(fontsize=8)
    figure.savefig(HERE / "runbooks.png", dpi=110, metadata={"Software": None})


if __name__ == "__main__":
    results = read(sys.argv[1:])
    show(results)
    draw(results)
