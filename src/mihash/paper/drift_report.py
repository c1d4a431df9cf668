"""The report of the drift benchmark: tables, verdicts on the claims, and pictures, from results alone."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..state import replace_file
from .drawing import new_figure
from .drift_benchmark import NOT_TESTED, WHOLE, DriftJob, Results, load_drift_claims
from .drift_run import PRICE, RECENT

TITLES = {
    "digits": "Digits",
    "cifar10": "CIFAR-10 features",
    "places205": "Tiny-ImageNet features (mAP@1000)",
    "labelme": "GIST, without labels",
}
_BLUE, _GREY, _ORANGE, _RED = "#1f6fb4", "#9a9a9a", "#e08e0b", "#c8385a"
_COLUMNS = 3


def write_drift_report(jobs: Sequence[DriftJob], folder: Path, scale: str) -> tuple[Path, list[Path]]:
    """Write the tables and verdicts as Markdown, and a picture for each data set; return their paths."""
    results, place = Results(jobs, folder), folder / scale
    pictures = []
    for dataset in results.datasets:
        path = place / f"drift-{dataset}.png"
        draw_streams(results, dataset, path)
        pictures.append(path)
    text = "\n\n".join(["# Streams that change", *report_sections(results)])
    page = place / "drift.md"
    replace_file(page, (text + "\n").encode())
    return page, pictures


def report_sections(results: Results) -> list[str]:
    """Return the parts of the report: a table for each data set, false alarms, and the claims."""
    parts = []
    for dataset in results.datasets:
        parts += [f"## {TITLES[dataset]}", stream_table(results, dataset)]
        held_out = held_out_table(results, dataset)
        parts += [f"Held-out queries over all classes so far:\n\n{held_out}"] if held_out else []
        whole = results.of(dataset, WHOLE)
        if whole:
            n = sum(len(result["alarms"]) for result in whole)
            parts.append(f"All {whole[0]['rows']:,} rows in random order: {n} alarms.")
    verdicts = claims_table(results)
    return [*parts, "## Claims, fixed before the runs", verdicts] if verdicts else parts


def stream_table(results: Results, dataset: str) -> str:
    """Return the figures of each stream of a data set, the means over the seeds, as a table in Markdown.

    AUC is that of the table of everything: under the price (in brackets with the table of the last rows), the 2 %
    rule, a rehash at every check; and at the first seed without the watch, and of the paper's learner.
    """
    head = (
        "stream", "seeds", f"price ({RECENT:,})", "2 %", "every check", "no watch", "MIHash, 2 %", "rehashes",
        "codes made", "cost: price", "2 %", "every check", "alarm after", "false",
    )  # fmt: skip
    lines = [" | ".join(head), " | ".join(["---"] * len(head))]
    for stream in results.streams(dataset):

        def figure(measure: str, rule: str = "price", system: str = "follows", stream: str = stream) -> str:
            value = results.figure(dataset, stream, measure, rule, system)
            return "" if value is None else _number(value, measure)

        found = results.of(dataset, stream)
        lines.append(
            " | ".join(
                [
                    stream,
                    str(len(found)),
                    f"**{figure('area')}** ({figure('area_recent')})",
                    figure("area", "share"),
                    figure("area", "always"),
                    figure("area", "price", "still"),
                    figure("area", "share", "paper"),
                    f"{figure('rehashes')} / {figure('rehashes', 'share')}",
                    figure("recomputed"),
                    f"**{figure('cost_ratio') or '-'}**",
                    figure("cost_ratio", "share"),
                    figure("cost_ratio", "always"),
                    _delays(found),
                    figure("false_alarms"),
                ]
            )
        )
    return "\n".join(f"| {line} |" for line in lines)


def held_out_table(results: Results, dataset: str) -> str:
    """Return AUC of held-out queries, in brackets with the table of the last rows; empty where none were held out.

    The columns are the rules and systems of `stream_table`.
    """
    columns = {
        f"price ({RECENT:,})": ("price", "follows"),
        "2 %": ("share", "follows"),
        "every check": ("always", "follows"),
        "no watch": ("price", "still"),
        "MIHash, 2 %": ("share", "paper"),
    }
    lines = []
    for stream in results.streams(dataset):
        cells = [stream, str(len(results.of(dataset, stream)))]
        for rule, system in columns.values():
            found = [
                results.figure(dataset, stream, f"area_held_out{table}", rule, system) for table in ("", "_recent")
            ]
            known = [value for value in found if value is not None]
            cells.append(f"{known[0]:.3f} ({known[1]:.3f})" if len(known) == len(found) else "")
        if any(cells[2:]):
            lines.append(" | ".join(cells))
    head = " | ".join(["stream", "seeds", *columns])
    return "\n".join(f"| {line} |" for line in [head, " | ".join(["---"] * 7), *lines]) if lines else ""


def claims_table(results: Results) -> str:
    """Return the verdicts on the claims about the data sets that have results, as a table in Markdown."""
    lines = []
    for claim in load_drift_claims():
        if claim.dataset in results.datasets:
            held, figures = claim.judge(results)
            unknown = NOT_TESTED if figures == NOT_TESTED else "no ratio"
            verdict = {True: "held", False: "**not held**", None: unknown}[held]
            lines.append(f"| {claim.statement} | {verdict} | {figures} |")
    return "\n".join(["| claim | | figures |", "| --- | --- | --- |", *lines]) if lines else ""


def _number(value: float, measure: str) -> str:
    if measure in ("rehashes", "false_alarms"):
        return f"{value:.0f}" if value == round(value) else f"{value:.1f}"
    if measure == "recomputed":
        return f"{value:,.0f}"
    return f"{value:.2f}" if measure == "cost_ratio" else f"{value:.3f}"


def _delays(found: Sequence[dict[str, Any]]) -> str:
    """Return how long after each change the alarm came: of every seed, in order of the changes."""
    columns = zip(*(result["delays"] for result in found), strict=True)
    texts = [["never" if delay is None else str(delay) for delay in dict.fromkeys(column)] for column in columns]
    return "; ".join(", ".join(part) for part in texts)


def draw_streams(results: Results, dataset: str, path: Path) -> None:
    """Draw quality over time for each stream of a data set: the first seed, with alarms and rehashes."""
    streams = results.streams(dataset)
    n_rows = -(-len(streams) // _COLUMNS)
    figure = new_figure(figsize=(11, 2.6 * n_rows), dpi=110, layout="constrained")
    panels = np.atleast_1d(figure.subplots(n_rows, _COLUMNS, squeeze=False)).ravel()
    for panel, stream in zip(panels, streams, strict=False):
        result = results.of(dataset, stream)[0]
        x = result["examples"]
        for system, rule, colour, name in (
            ("paper", "share", _GREY, "MIHash, 2 % rule, no watch"),
            ("still", "price", _ORANGE, "MomentHash, price, no watch"),
            ("follows", "price", _BLUE, "MomentHash, price, watch"),
        ):
            for other in results.of(dataset, stream, system)[:1]:
                y = np.array(other["rules"][rule]["precisions"], dtype=np.float64)  # None becomes NaN: a gap
                panel.plot(x, y, color=colour, label=name, linewidth=1.4)
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
    for panel in panels[len(streams) :]:
        panel.set_axis_off()
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, fontsize=9, frameon=False)
    figure.suptitle(
        f"{TITLES[dataset]}: mAP of the next 100 rows; grey: change, red: alarm, ticks: rehashes, price {PRICE:g}",
        fontsize=10,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": None})
