"""The figure of the drift benchmark: mAP over time of each stream of a data set (docs/drift.md)."""

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from .definition import Definition
from .drawing import new_figure
from .drift_run import PRICE
from .drift_tables import DriftFigures
from .outcomes import outcomes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_BLUE, _GREY, _ORANGE, _RED = "#1f6fb4", "#9a9a9a", "#e08e0b", "#c8385a"
_COLUMNS = 3
_CURVES = (
    ("paper", "share", _GREY, "MIHash, 2 % rule, no watch"),
    ("still", "price", _ORANGE, "MomentHash, price, no watch"),
    ("follows", "price", _BLUE, "MomentHash, price, watch"),
)


def draw_streams(definition: Definition, results: Path, scale: str) -> "Figure":
    """Draw quality over time for each stream of a data set: the first seed, with alarms and rehashes."""
    found = DriftFigures(outcomes(definition, results, scale))
    n_rows = -(-len(found.streams) // _COLUMNS)
    figure = new_figure(figsize=(11, 2.6 * n_rows), layout="constrained")
    panels = figure.subplots(n_rows, _COLUMNS, squeeze=False).ravel()
    for panel, stream in zip(panels, found.streams, strict=False):
        result = found.trials(stream)[0]
        for system, rule, color, name in _CURVES:
            for other in found.trials(stream, system)[:1]:
                y = np.array(other["rules"][rule]["precisions"], dtype=np.float64)  # None becomes NaN: a gap
                panel.plot(result["examples"], y, color=color, label=name, linewidth=1.4)
        for change in result["changes"]:
            panel.axvline(change, color="#bbbbbb", linewidth=3, zorder=0)
        for alarm in result["alarms"]:
            panel.axvline(alarm["seen"], color=_RED, linewidth=1, linestyle="--")
        low = panel.get_ylim()[0]
        rehashes = result["rules"]["price"]["updated_at"]
        panel.plot(rehashes, [low] * len(rehashes), "|", color=_BLUE, markersize=7)
        panel.set_title(stream, loc="left", fontsize=10)
        panel.set_xticks(np.linspace(0, result["rows"], 5))
        panel.tick_params(labelsize=8)
    for panel in panels[len(found.streams) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    legend = f"grey: change, red: alarm, ticks: rehashes, price {PRICE:g}"
    figure.suptitle(f"{definition.title}: mAP of the next 100 rows; {legend}", fontsize=10)
    return figure
