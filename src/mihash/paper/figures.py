"""The paper's figures from result files: PNG and SVG, nothing recomputed, the same bytes each time.

Curves with and without the trigger (Fig. 4, 7) and of all methods (Fig. 5, 8), mutual information against ranking
measures (Fig. 3), distances before and after learning (Fig. 1, 6), theta (Tables 4-6), the reservoir's size, and
streams that change.
"""

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from textwrap import wrap
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from ..errors import InvalidInput, StoreError
from ..state import replace_file
from .axes_and_legends import legend, log_axis, mark, stream_axis
from .definition import Definition
from .drawing import new_figure
from .drift_figures import draw_streams
from .jobs import Job
from .outcomes import outcomes
from .paper_numbers import METHOD_NAMES, dataset_title, row_name

COLORS = {
    "mihash": "#1f6fb4",
    "okh": "#e08e0b",
    "osh": "#2a9d5c",
    "adapthash": "#c8385a",
    "sketchhash": "#8257b5",
    "hcoh": "#7a5230",
    "hmoh": "#3bb3c3",
    "refit": "#b05fa8",
    "momenthash": "#16425b",
    "lsh": "#555555",
    "randomrotation": "#9a8c7c",
}
MEASURES = {"ap": "AP", "dcg": "DCG", "ndcg": "NDCG"}
_THETA, _TIMES = "\N{GREEK SMALL LETTER THETA}", "\N{MULTIPLICATION SIGN}"
_FIXED, _NEAR, _FAR = "#8c8c8c", "#2a9d8f", "#d1495b"
_SQUARE: dict[str, Any] = {"marker": "s", "color": _FIXED}
_WIDTH = 10.0  # inches; a README shows it at about 900 pixels, so 8 points are still 10 pixels
_TITLE_CHARACTERS, _NAME_CHARACTERS = 110, 30
_WIDE_COLUMNS = 5
_STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "legend.frameon": False,
    "svg.fonttype": "none",
    "svg.hashsalt": "mihash",
}

Result = dict[str, Any]


@dataclass(frozen=True)
class Row:
    """A method with one of its settings: its name for a person, and its colour."""

    method: str
    name: str
    color: str


Trials = dict[Job, tuple[Result, ...]]  # by the job of trial 0
Points = dict[float, tuple[float, float]]  # table updates and area, by theta


def draw_figure(definition: Definition, results: Path, scale: str) -> tuple[Path, ...]:
    """Draw what a definition shows, from its results alone; return the files, none where it is a table only.

    Parameters
    ----------
    definition
        What to draw, and of which results.
    results
        The folder of results; the figures lie beside them, in ``<scale>/figures``.
    scale
        Which results.

    Examples
    --------
    >>> from mihash.paper.definition import load_definition
    >>> draw_figure(load_definition("figure4"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 102 of the 102 results of figure4 are not in nowhere/smoke. Run `mihash reproduce ...
    >>> draw_figure(load_definition("table2"), Path("nowhere"), "smoke")
    ()
    """
    draw = _DRAWINGS.get(definition.draws)
    if draw is None:
        return ()
    if definition.kind == "online" and not definition.thetas and definition.draws != "learners":
        raise InvalidInput(f"`thetas` of {definition.name} must not be empty; give at least one to draw.")
    with matplotlib.rc_context(_STYLE):
        figure = draw(definition.at(scale), results, scale)
        return _save(figure, results / scale / "figures" / definition.name)


# Results -------------------------------------------------------------------------------------------------


def _trials(definition: Definition, results: Path, scale: str, varied: str | None = None) -> Trials:
    """Return the results of every job, the trials of one together; what is not varied has its first value."""
    kept = {key: getattr(definition, key)[:1] for key in ("thetas", "intervals", "reservoirs") if key != varied}
    found = outcomes(replace(definition, **kept), results, scale)
    return {job: outcome.trials for job, outcome in found.items()}


def _names(definition: Definition) -> list[str]:
    return [source.name for source in definition.sources]


def _of(trials: Trials, dataset: str, n_bits: int, method: str) -> Trials:
    wanted = (dataset, n_bits, method)
    return {job: found for job, found in trials.items() if (job.dataset, job.n_bits, job.method) == wanted}


def _rows(definition: Definition, trials: Trials) -> list[Row]:
    """Return each method with each of its settings; a method that was not run, for want of labels, has one."""
    rows = []
    for method in definition.methods:
        names = dict.fromkeys(row_name(job, trials) for job in trials if job.method == method)
        for index, name in enumerate(names or [METHOD_NAMES.get(method, method)]):
            rows.append(Row(method, name, _tint(COLORS[method], index)))
    return rows


def _of_row(trials: Trials, dataset: str, n_bits: int, row: Row) -> Trials:
    found = _of(trials, dataset, n_bits, row.method)
    return {job: each for job, each in found.items() if row_name(job, trials) == row.name}


def _tint(color: str, index: int) -> str:
    """Return the colour of a method's settings: the method's own for the first, lighter ones for others."""
    red, green, blue = (1 - 0.55**index * (1 - part) for part in to_rgb(color))
    return to_hex((red, green, blue))


def _mean(results: Iterable[Result], key: str) -> float:
    return float(np.mean([result[key] for result in results]))


def _curves(results: Sequence[Result], key: str) -> NDArray[np.float64]:
    """Return lists of the results as (n_trials, n); the checkpoints of two trials differ only by their jitter."""
    return np.array([result[key] for result in results], dtype=np.float64)


# Parts of a figure ---------------------------------------------------------------------------------------


def _figure(
    title: str, n_rows: int, n_columns: int, row_height: float, **options: Any
) -> tuple[Figure, NDArray[Any]]:
    figure = new_figure(figsize=(_WIDTH, row_height * n_rows + 0.9), layout="constrained")
    figure.suptitle("\n".join(wrap(_plain(title), _TITLE_CHARACTERS)), fontsize=11.5, fontweight="bold")
    return figure, figure.subplots(n_rows, n_columns, squeeze=False, **options)


def _place(name: str, result: Result) -> str:
    """Return a data set's name, and below it what stood for it."""
    data = str(result["data"]).removeprefix(f"{name} (").removesuffix(")")
    return _plain(f"{_short(dataset_title(name))}\n({_short(data)})")


def _short(text: str) -> str:
    """Return a name that fits beside a panel: of a long one, the middle is left out."""
    most = _NAME_CHARACTERS
    return text if len(text) <= most else f"{text[: most - 12]}\N{HORIZONTAL ELLIPSIS}{text[-11:]}"


def _plain(text: str) -> str:
    """Return text that Matplotlib takes as it is, a file's name with a dollar in it for no formula."""
    return text.replace("$", r"\$")


def _precision(result: Result) -> str:
    top = result["protocol"]["top"]
    return "mAP" if top is None else f"mAP@{top}"


def _line(axes: Axes, results: Sequence[Result], color: str, width: float) -> None:
    """Draw the mean of a curve over the trials, and their range as a light band."""
    x, y = _curves(results, "examples").mean(axis=0), _curves(results, "precisions")
    axes.plot(x, y.mean(axis=0), color=color, lw=width)
    axes.fill_between(x, y.min(axis=0), y.max(axis=0), color=color, alpha=0.15, lw=0)


def _method_marks(rows: Sequence[Row]) -> list[Line2D]:
    return [mark(row.name, color=row.color) for row in rows]


def _save(figure: Figure, stem: Path) -> tuple[Path, ...]:
    try:
        stem.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StoreError(f"Cannot write {stem.parent}: {error}.") from error
    written = []
    for kind, metadata in (("png", {"Software": None}), ("svg", {"Date": None})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=kind, dpi=150, metadata=metadata)
        written.append(stem.with_name(f"{stem.name}.{kind}"))
        replace_file(written[-1], buffer.getvalue())
    return tuple(written)


# Figures -------------------------------------------------------------------------------------------------


def _draw_curves(definition: Definition, results: Path, scale: str) -> Figure:
    trials = _trials(definition, results, scale)
    return (_draw_triggers if definition.fixed else _draw_methods)(definition, trials)


def _draw_triggers(definition: Definition, trials: Trials) -> Figure:
    """Fig. 4 and 7: a row for each data set, a column for each method, a circle at each table update."""
    rows, columns = list(product(_names(definition), definition.bits)), _rows(definition, trials)
    figure, grid = _figure(definition.title, len(rows), len(columns), 1.95, sharex="row", sharey="row")
    size = 9 if len(columns) <= _WIDE_COLUMNS else 8
    for (i, (name, n_bits)), (j, column) in product(enumerate(rows), enumerate(columns)):
        axes = grid[i, j]
        found = {job.theta: each for job, each in _of_row(trials, name, n_bits, column).items()}
        if not found:
            axes.axis("off")
            axes.set_title(column.name, fontsize=size)
            axes.text(0.5, 0.5, "needs labels", transform=axes.transAxes, ha="center", color=_FIXED)
            continue
        fixed, triggered = found[None], found[definition.thetas[0]]
        _line(axes, fixed, _FIXED, 1.2)
        _line(axes, triggered, column.color, 1.8)
        first = triggered[0]
        heights = np.interp(first["updated_at"], first["examples"], _curves(triggered, "precisions").mean(axis=0))
        axes.plot(first["updated_at"], heights, "o", color=column.color, ms=4, mfc="white", mew=1)
        ratio = _mean(fixed, "updates") / _mean(triggered, "updates")
        axes.set_title(f"{column.name}\n{ratio:.1f}{_TIMES} fewer", fontsize=size)
        stream_axis(axes)
        axes.xaxis.label.set_fontsize(size)
        if i < len(rows) - 1:
            axes.set_xlabel("")
        if j == 0:
            axes.set_ylabel(f"{_place(name, first)}\n{_precision(first)}", fontsize=8)
    rule = f"trigger, {_THETA} = {definition.thetas[0]:g}"
    circle = mark("table update (first trial)", lw=0, marker="o", mfc="white", ms=4)
    saved = mark(f"N{_TIMES} fewer: table updates, fixed rate / trigger", lw=0)
    legend(figure, [mark("fixed rate", color=_FIXED, lw=1.2), mark(rule), circle, saved])
    return figure


def _draw_methods(definition: Definition, trials: Trials) -> Figure:
    """Fig. 5 and 8: a panel for each data set with every method, all under the trigger."""
    panels, rows = list(product(_names(definition), definition.bits)), _rows(definition, trials)
    figure, grid = _figure(definition.title, 1, len(panels), 3.6)
    for axes, (name, n_bits) in zip(grid[0], panels, strict=True):
        for row in sorted(rows, key=lambda row: row.method == "mihash"):  # MIHash last, on top
            for found in _of_row(trials, name, n_bits, row).values():
                _line(axes, found, row.color, 2.6 if row.method == "mihash" else 1.5)
                axes.set_title(_place(name, found[0]))
                axes.set_ylabel(_precision(found[0]))
        stream_axis(axes)
    legend(figure, _method_marks(rows))
    return figure


def _draw_learners(definition: Definition, results: Path, scale: str) -> Figure:
    """Draw mAP at the end of the stream against the code length, a panel for each data set."""
    trials = _trials(definition, results, scale)
    names, bits = _names(definition), definition.bits
    figure, grid = _figure(definition.title, 1, len(names), 3.6)
    for axes, name in zip(grid[0], names, strict=True):
        for method in definition.methods:
            found = [each for n_bits in bits for each in _of(trials, name, n_bits, method).values()]
            if found:
                values = [_mean(each, "final") for each in found]
                axes.plot(bits, values, "o-", color=COLORS[method], lw=1.6, ms=4)
                axes.set_title(_place(name, found[0][0]))
                axes.set_ylabel(f"{_precision(found[0][0])} at the end")
        axes.set_xscale("log", base=2)
        axes.set_xticks(bits, [str(n_bits) for n_bits in bits])
        axes.set_xlabel("bits")
    legend(figure, _method_marks(_rows(definition, trials)))
    return figure


def _draw_thetas(definition: Definition, results: Path, scale: str) -> Figure:
    """Tables 4-6: how many updates a larger theta saves, and what that costs, a panel for each method."""
    trials = _trials(definition, results, scale, "thetas")
    cases = product(_names(definition), definition.bits, definition.methods)
    found = {case: each for case in cases if (each := _of(trials, *case))}
    figure, grid = _figure(definition.title, -(-len(found) // 2), 2, 2.5, sharex=True, sharey=True)
    ring: dict[str, Any] = {"marker": "o", "lw": 0, "ms": 11, "mfc": "none", "mew": 1.6}
    named: list[tuple[Axes, Points]] = []
    for axes, ((name, _, method), each) in zip(grid.flat, found.items(), strict=False):
        points = {job.theta: (_mean(made, "updates"), _mean(made, "area")) for job, made in each.items()}
        some, color = next(iter(each.values()))[0], COLORS[method]
        axes.set_title(f"{row_name(next(iter(each)), trials)}, {_place(name, some)}".replace("\n", " "))
        axes.set_ylabel(f"AUC: mean {_precision(some)}")
        if None in points:
            axes.plot(*points.pop(None), **ring | _SQUARE)
        known = {theta: points[theta] for theta in sorted(theta for theta in points if theta is not None)}
        axes.plot(*zip(*known.values(), strict=True), "o-", color=color, lw=1.2, ms=5)
        if 0 in known:
            axes.plot(*known[0], **ring | {"color": color})
        named.append((axes, known))
    for axes, known in named:  # now that the panels share their limits
        axes.set_xscale("log")
        axes.margins(0.1, 0.2)
        log_axis(axes.xaxis, "{x:g}")
        _name_thetas(axes, known)
    for axes in grid.flat[max(0, len(found) - 2) : len(found)]:  # the lowest of each column
        axes.set_xlabel("table updates")
        axes.tick_params(labelbottom=True)
    for axes in grid.flat[len(found) :]:
        axes.axis("off")
    each_theta = mark(f"a {_THETA}, as written", marker="o", ms=5, lw=1.2)
    legend(figure, [each_theta, mark(f"{_THETA} = 0", **ring), mark("fixed rate", **ring | _SQUARE)])
    return figure


def _name_thetas(axes: Axes, points: Points) -> None:
    """Write its theta at each point; neighbouring ones that would lie under each other's text share one."""
    (left, right), (low, high) = np.log(axes.get_xlim()), axes.get_ylim()
    groups: list[list[float]] = []
    place = np.full(2, np.inf)
    for theta in sorted(points):
        x, y = points[theta]
        here = np.array([(np.log(x) - left) / (right - left), (y - low) / (high - low)])
        if np.abs(here - place).max() > 0.1:
            groups.append([])
            place = here
        groups[-1].append(theta)
    for index, group in enumerate(groups):
        text = f"{group[0]:g} to {group[-1]:g}"
        if len(group) == 1:
            text = f"{group[0]:g}".replace("inf", "\N{INFINITY}")
        elif len(groups) == 1:
            text = f"every {_THETA}"
        elif index == 0:
            text = f"\N{LESS-THAN OR EQUAL TO} {group[-1]:g}"
        elif index == len(groups) - 1:
            text = f"\N{GREATER-THAN OR EQUAL TO} {group[0]:g}"
        middle, side = points[group[len(group) // 2]], 9 if index % 2 else -9
        options: Any = {"textcoords": "offset points", "ha": "center", "va": "top" if side < 0 else "bottom"}
        axes.annotate(text, middle, (0, side), fontsize=8, **options)


def _draw_reservoirs(definition: Definition, results: Path, scale: str) -> Figure:
    """Sec. 4.2: area under the curve and table updates against the size of the reservoir."""
    trials = _trials(definition, results, scale, "reservoirs")
    places, rows = list(product(_names(definition), definition.bits)), _rows(definition, trials)
    figure, grid = _figure(definition.title, len(places), 2, 3.4, sharex=True)
    for (i, (name, n_bits)), row in product(enumerate(places), rows):
        for theta, style in ((None, "--"), (definition.thetas[0], "o-")):
            found = [each for job, each in _of_row(trials, name, n_bits, row).items() if job.theta == theta]
            shares = [each[0]["protocol"]["reservoir_size"] / each[0]["examples"][-1] for each in found]
            for axes, key in zip(grid[i], ("area", "updates"), strict=True):
                values = [_mean(each, key) for each in found]
                axes.plot(shares, values, style, color=row.color, lw=1 if theta is None else 1.8, ms=5)
            if found:
                first = found[0][0]
                grid[i, 0].set_ylabel(f"{_place(name, first)}\nAUC: mean {_precision(first)} over the stream")
        grid[i, 1].set_ylabel("table updates")
        grid[i, 1].set_yscale("log")
        log_axis(grid[i, 1].yaxis, "{x:g}")
    for axes in grid.flat:
        axes.set_xscale("log")
        log_axis(axes.xaxis, "{x:.0%}")
        axes.set_xlabel("size of the reservoir, share of the stream")
    rules = [mark("trigger", marker="o", ms=5), mark("fixed rate", ls="--", lw=1)]
    legend(figure, [*_method_marks(rows), *rules])
    return figure


def _draw_correlation(definition: Definition, results: Path, scale: str) -> Figure:
    """Fig. 3: a row for each data set, a column for each measure, a point for each mapping."""
    found = [(job.dataset, trials[0]) for job, trials in _trials(definition, results, scale).items()]
    figure, grid = _figure(definition.title, len(found), len(MEASURES), 2.2)
    for (i, (name, result)), (j, (key, label)) in product(enumerate(found), enumerate(MEASURES.items())):
        axes = grid[i, j]
        x, y = np.array(result["mi"]), np.array(result[key])
        if np.ptp(x) > 0:
            ends = np.array([x.min(), x.max()])
            axes.plot(ends, np.poly1d(np.polyfit(x, y, 1))(ends), color=_FIXED, lw=1.2)
        axes.plot(x, y, "o", color=COLORS["mihash"], alpha=0.65, mew=0, ms=5)
        axes.set_title(f"{label}: r = {result['pearson'][key]:.3f}")
        axes.xaxis.set_major_locator(MaxNLocator(5))
        axes.yaxis.set_major_locator(MaxNLocator(5))
        axes.set_ylabel(f"{_place(name, result)}\n{label}" if j == 0 else label)
    for axes in grid[-1]:
        axes.set_xlabel("mutual information I(D; C), bits")
    return figure


def _draw_distributions(definition: Definition, results: Path, scale: str) -> Figure:
    """Fig. 1 and 6: one query under a bad and a good mapping; all queries before and after learning."""
    found = _trials(definition, results, scale)
    figure, grid = _figure(definition.title, 2 * len(found), 2, 2.2, sharex=True, sharey="row")
    for i, (job, (result,)) in enumerate(found.items()):
        one = result["one_query"]
        for j, (when, mapping) in enumerate((("before", "bad"), ("after", "good"))):
            _histograms(grid[2 * i, j], one[mapping], f"one query, {mapping} mapping: ")
            _histograms(grid[2 * i + 1, j], result[when], f"all queries, {when} {row_name(job)}: ")
        for axes in grid[2 * i : 2 * i + 2, 0]:
            axes.set_ylabel(f"{_place(job.dataset, result)}\nshare of items")
    for axes in grid[-1]:
        axes.set_xlabel("Hamming distance to the query, bits")
    patches: dict[str, Any] = {"lw": 7, "alpha": 0.5}
    legend(
        figure,
        [
            mark("neighbours, p\N{SUPERSCRIPT PLUS SIGN}", color=_NEAR, **patches),
            mark("others, p\N{SUPERSCRIPT MINUS}", color=_FAR, **patches),
        ],
    )
    return figure


def _histograms(axes: Axes, part: Result, title: str) -> None:
    for key, color in (("p_neg", _FAR), ("p_pos", _NEAR)):
        axes.stairs(part[key], np.arange(len(part[key]) + 1) - 0.5, fill=True, color=color, alpha=0.5, lw=0)
    precision = f", mAP {part['map']:.2f}" if "map" in part else ""
    axes.set_title(f"{title}I = {part['mi']:.3f} bits{precision}")
    axes.set_xlim(-0.5, len(part["p_pos"]) - 0.5)
    axes.yaxis.set_major_locator(MaxNLocator(6, steps=(1, 2, 5, 10)))
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))


_DRAWINGS: dict[str, Callable[[Definition, Path, str], Figure]] = {
    "curves": _draw_curves,
    "thetas": _draw_thetas,
    "reservoirs": _draw_reservoirs,
    "learners": _draw_learners,
    "correlation": _draw_correlation,
    "distributions": _draw_distributions,
    "streams": draw_streams,
}
