"""What results say, as tables with the paper's rows beside ours (Tables 2 and 4-9, Fig. 4, 5, 7 and 8).

Only files are read: the results of a definition, and ``paper.json``, which restates the paper's numbers.
"""

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import CorruptStore, NotReady
from .definition import Definition, Run, load_parameters
from .results import read_result

__all__ = [
    "DATASET_NAMES",
    "METHOD_NAMES",
    "Outcome",
    "Table",
    "make_table",
    "outcomes",
    "paper_rows",
    "timed_alone",
    "to_html",
    "to_markdown",
]

DATASET_NAMES = {"cifar10": "CIFAR-10", "places205": "Places205", "labelme": "LabelMe"}
METHOD_NAMES = {
    "okh": "OKH",
    "osh": "OSH",
    "adapthash": "AdaptHash",
    "sketchhash": "SketchHash",
    "mihash": "MIHash",
    "hcoh": "HCOH",
    "hmoh": "HMOH",
    "lsh": "LSH",
}
MEASURES = ("updates", "area", "final", "learning_s", "deciding_s")
_PAPER = Path(__file__).with_name("paper.json")
_LABELS = ("data set", "bits", "method")

Row = dict[str, str]
Found = dict[Run, "Outcome"]


@dataclass(frozen=True)
class Table:
    """A table as it is printed.

    Attributes
    ----------
    title
        What it shows.
    columns
        The heads.
    rows
        Cells as text, as many in each row as there are columns.
    notes
        What a reader must know beside it.
    """

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Outcome:
    """One run in all its trials.

    Attributes
    ----------
    run
        The run of the first trial.
    trials
        The result of each trial, as it was written.
    """

    run: Run
    trials: tuple[dict[str, Any], ...]

    def values(self, measure: str) -> NDArray[np.float64]:
        """Return a measure of each trial: ``"updates"``, ``"area"``, ``"final"``, or a time in seconds."""
        validation.choice("measure", measure, MEASURES)
        return np.array([(trial["times"] if measure.endswith("_s") else trial)[measure] for trial in self.trials])

    def mean(self, measure: str) -> float:
        """Return the mean of a measure over the trials.

        Examples
        --------
        >>> run = Run("cifar10", "okh", (), 32, 0, 1.0, 0.0, 1.0)
        >>> outcome = Outcome(run, ({"updates": 7}, {"updates": 8}, {"updates": 9}))
        >>> outcome.mean("updates"), outcome.spread("updates")
        (8.0, 1.0)
        """
        return float(self.values(measure).mean())

    def spread(self, measure: str) -> float:
        """Return the standard deviation of a measure over the trials (n - 1 in the divisor), 0 for one trial."""
        return float(self.values(measure).std(ddof=1)) if len(self.trials) > 1 else 0.0

    @property
    def curves(self) -> NDArray[np.float64]:
        """The curves: mAP at the checkpoints, a row for each trial."""
        return np.array([trial["precisions"] for trial in self.trials])


def outcomes(definition: Definition, results: Path, scale: str) -> dict[Run, Outcome]:
    """Return what the runs of a definition gave, by the run of the first trial.

    Raises
    ------
    NotReady
        Where results are missing; the message names the command that makes them.

    Examples
    --------
    >>> from mihash.experiments.definition import load_definition
    >>> outcomes(load_definition("table2"), Path("nowhere"), "smoke")
    Traceback (most recent call last):
    mihash.errors.NotReady: 30 of the 30 results of table2 are not in nowhere/smoke. Run `mihash reproduce table2
    --scale smoke --results nowhere`.
    """
    trials: dict[Run, list[dict[str, Any]]] = {}
    n_runs, n_missing = 0, 0
    for run in definition.runs(load_parameters()):
        path = results / scale / run.path
        result = read_result(path)
        n_runs += 1
        if result is None:
            n_missing += 1
            continue
        try:
            for name in ("updates", "area", "final", "precisions", "data", "protocol", "examples"):
                _ = result[name]
            _ = result["times"]["learning_s"], result["times"]["deciding_s"]
        except KeyError as error:
            raise CorruptStore(f"{path} has no {error}. Remove it, and it is made again.") from error
        trials.setdefault(replace(run, trial=0), []).append(result)
    if n_missing:
        where = "" if results == Path("results") else f" --results {results}"
        raise NotReady(
            f"{n_missing} of the {n_runs} results of {definition.name} are not in {results / scale}. "
            f"Run `mihash reproduce {definition.name} --scale {scale}{where}`."
        )
    return {run: Outcome(run, tuple(found)) for run, found in trials.items()}


def paper_rows(draws: str, dataset: str, method: str, n_bits: int = 32) -> list[dict[str, Any]]:
    """Return the paper's rows for a method; none where the paper prints none.

    Parameters
    ----------
    draws
        What the paper's table shows: ``"times"``, ``"thetas"`` or ``"intervals"``.
    dataset, method, n_bits
        Of what.

    Examples
    --------
    >>> paper_rows("thetas", "cifar10", "okh")[3]
    {'theta': '0', 'updates': 8.0, 'area': 0.287, 'change': 10.8}
    >>> paper_rows("thetas", "labelme", "osh")
    []
    """
    for table in _paper()["tables"].values():
        if (table["draws"], table["dataset"], table["n_bits"]) == (draws, dataset, n_bits):
            rows: list[dict[str, Any]] = table["methods"].get(method, [])
            return rows
    return []


def make_table(definition: Definition, results: Path, scale: str) -> Table:
    """Return the table of a definition, from its results.

    Parameters
    ----------
    definition
        One that draws curves (the table sums them up), thetas, intervals, times or reservoirs.
    results
        The folder of results.
    scale
        The scale at which it was run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from mihash.experiments.runner import pending, run_tasks
    >>> tiny = Definition("tiny", "LSH", "online", "curves", ("cifar10",), ("lsh",), bits=(8,), trials=1)
    >>> with TemporaryDirectory() as folder:
    ...     run_tasks(pending([tiny], Path(folder), "smoke"))
    ...     table = make_table(tiny, Path(folder), "smoke")
    >>> table.columns[1:], table.rows[0][3:]
    (('final mAP', 'AUC', 'updates', 'reduction'), ('1 -> 1', '1.0x'))
    >>> table.notes[1]
    "Not the paper's features: CIFAR-10 is 'cifar10 (digits)', the shipped digits. Compare ..."
    """
    validation.choice("draws", definition.draws, tuple(_MAKERS))
    found = outcomes(definition, results, scale)
    rows = [
        {
            "data set": DATASET_NAMES[outcome.run.dataset],
            "bits": str(outcome.run.n_bits),
            "method": METHOD_NAMES.get(outcome.run.method, outcome.run.method),
        }
        | cells
        for outcome, cells in _MAKERS[definition.draws](found)
    ]
    columns = _telling(rows)
    notes = [*_notes(found.values()), *_NOTES.get(definition.draws, ()), *_slips(definition)]
    if definition.draws == "times" and not timed_alone(definition, results, scale):
        notes.insert(
            0, f"These times are not to be used. {SHARED_TIMES.format(name=definition.name, scale=scale)}"
        )
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    return Table(definition.title, columns, cells, tuple(notes))


def timed_alone(definition: Definition, results: Path, scale: str) -> bool:
    """Tell whether the learning passes of a definition served no trigger but its own.

    A pass that is shared with short intervals learns in small pieces, and triggers in it share measurements: it
    overstates what learning takes, and understates what a trigger adds. Results of one pass have the same
    ``learning_s``, to the last digit.

    Examples
    --------
    >>> from mihash.experiments.definition import load_definition
    >>> int(timed_alone(load_definition("table2"), Path("nowhere"), "smoke"))
    1
    """
    own = {results / scale / run.path for run in definition.runs(load_parameters())}
    for folder in sorted({path.parent for path in own}):
        times: dict[bool, set[float]] = {True: set(), False: set()}
        for path in folder.glob("*.json"):
            result = read_result(path) or {}
            times[path in own].add(result.get("times", {}).get("learning_s"))
        if times[True] & times[False]:
            return False
    return True


def to_markdown(table: Table) -> str:
    """Return a table as Markdown: a heading, the rows, the notes as a list.

    Examples
    --------
    >>> print(to_markdown(Table("T", ("method", "AUC"), (("OKH", "0.287"),), ("One trial.",))))
    ### T
    <BLANKLINE>
    | method | AUC |
    |---|---:|
    | OKH | 0.287 |
    <BLANKLINE>
    - One trial.
    """

    def line(cells: Iterable[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    rule = "|" + "|".join("---:" if right else "---" for right in _right_aligned(table)) + "|"
    lines = [f"### {table.title}", "", line(table.columns), rule, *map(line, table.rows)]
    if table.notes:
        lines += ["", *(f"- {note}" for note in table.notes)]
    return "\n".join(lines)


def to_html(table: Table) -> str:
    """Return a table as a fragment of HTML; cells of numbers have the class ``number``.

    Examples
    --------
    >>> print(to_html(Table("U < 2", ("method", "AUC"), (("OKH", "0.287"),))))
    <table>
    <caption>U &lt; 2</caption>
    <thead><tr><th>method</th><th class="number">AUC</th></tr></thead>
    <tbody>
    <tr><td>OKH</td><td class="number">0.287</td></tr>
    </tbody>
    </table>
    """
    kinds = [' class="number"' if right else "" for right in _right_aligned(table)]

    def line(tag: str, cells: Sequence[str]) -> str:
        inner = "".join(f"<{tag}{kind}>{escape(cell)}</{tag}>" for kind, cell in zip(kinds, cells, strict=True))
        return f"<tr>{inner}</tr>"

    lines = [
        "<table>",
        f"<caption>{escape(table.title)}</caption>",
        f"<thead>{line('th', table.columns)}</thead>",
        "<tbody>",
        *(line("td", row) for row in table.rows),
        "</tbody>",
        "</table>",
    ]
    if table.notes:
        lines += ['<ul class="notes">', *(f"<li>{escape(note)}</li>" for note in table.notes), "</ul>"]
    return "\n".join(lines)


Made = Iterable[tuple[Outcome, Row]]


def _thetas(found: Found) -> Made:
    """Yield a row for each threshold (Tables 4-6)."""
    for run, outcome in found.items():
        fixed = found.get(replace(run, theta=None))
        base = None if fixed is None or run.theta is None else fixed
        cells = {
            "theta": "fixed rate" if run.theta is None else f"{run.theta:g}",
            "updates": _reduced(outcome.mean("updates"), None if base is None else base.mean("updates")),
            "AUC": f"{outcome.mean('area'):.3f}",
            "change": "" if base is None else _change(outcome.mean("area"), base.mean("area")),
            "paper: updates": "",
            "paper: AUC": "",
            "paper: change": "",
        }
        printed = paper_rows("thetas", run.dataset, run.method, run.n_bits)
        for row in (row for row in printed if _covers(row, run)):
            cells["paper: updates"] = _reduced(row["updates"], printed[0]["updates"])
            cells["paper: AUC"] = f"{row['area']:.3f}"
            cells["paper: change"] = "" if row["change"] is None else f"{row['change']:+.1f} %"
        yield outcome, cells


def _intervals(found: Found) -> Made:
    """Yield a row for each update interval (Tables 7-9)."""
    for fixed, outcome in _pairs(found):
        run = outcome.run
        cells = {"U": str(outcome.trials[0]["protocol"]["interval"])} | _pair_cells(fixed, outcome)
        yield outcome, cells | _paper_pair(run, run.every)


def _times(found: Found) -> Made:
    """Yield what learning takes and what the trigger adds (Table 2)."""
    for _, outcome in _pairs(found):
        run = outcome.run
        printed = paper_rows("times", run.dataset, run.method, run.n_bits)
        ours = _time_cells("", outcome.mean("learning_s"), outcome.mean("deciding_s"), 3)
        theirs = dict.fromkeys((f"paper: {column}" for column in ours), "")
        for row in printed:
            theirs = _time_cells("paper: ", row["learning_s"], row["with_trigger_s"] - row["learning_s"], 1)
        yield outcome, ours | theirs


def _reservoirs(found: Found) -> Made:
    """Yield a row for each size of the reservoir (Sec. 4.2)."""
    for fixed, outcome in _pairs(found):
        size, n_stream = outcome.trials[0]["protocol"]["reservoir_size"], outcome.trials[0]["examples"][-1]
        usual = found.get(replace(outcome.run, share=1.0))
        cells = {"reservoir": str(size), "of the stream": f"{100 * size / n_stream:.1f} %"}
        cells |= _pair_cells(fixed, outcome)
        change = "" if usual is None else _change(outcome.mean("area"), usual.mean("area"))
        yield outcome, cells | {"AUC against the usual size": change}


def _curves(found: Found) -> Made:
    """Yield what sums up each curve (Fig. 4, 5, 7 and 8)."""
    for fixed, outcome in _pairs(found):
        cells = _pair_cells(fixed, outcome)
        reduction = "" if fixed is None else f"{fixed.mean('updates') / outcome.mean('updates'):.1f}x"
        cells["updates"] = cells["updates"].split(" (")[0]
        names = ("final mAP", "AUC", "updates")
        theirs = _paper_pair(outcome.run, 1.0, fixed is None)
        ours = {name: cells[name] for name in names} | {"reduction": reduction}
        yield outcome, ours | {f"paper: {name}": theirs[f"paper: {name}"] for name in names}


_MAKERS: dict[str, Callable[[Found], Made]] = {
    "curves": _curves,
    "thetas": _thetas,
    "intervals": _intervals,
    "times": _times,
    "reservoirs": _reservoirs,
}
SHARED_TIMES = (
    "They were taken in passes shared with other triggers, which overstates learning and understates what the "
    "trigger adds. Run `mihash reproduce {name} --scale {scale}` into an empty folder, before the others."
)
_COMPUTED = "The paper's ratios, and its changes of AUC over intervals, are computed here from what it prints."
_NOTES = {
    "thetas": (_COMPUTED,),
    "intervals": (_COMPUTED,),
    "times": (
        "Seconds of CPU. The reservoir is part of learning here, and of what the trigger adds in the paper.",
    ),
}


@lru_cache(maxsize=1)
def _paper() -> dict[str, Any]:
    paper: dict[str, Any] = json.loads(_PAPER.read_text(encoding="utf-8"))
    return paper


def _covers(row: dict[str, Any], run: Run) -> bool:
    """Tell whether a row of the paper is about the threshold of a run; the fixed rate is the lowest one."""
    text = row["theta"]
    theta = float("-inf") if run.theta is None else run.theta
    if text.startswith("<="):
        return theta <= float(text[2:])
    return theta >= float(text[2:]) if text.startswith(">=") else theta == float(text)


def _pairs(found: Found) -> Iterable[tuple[Outcome | None, Outcome]]:
    """Yield each outcome under the trigger after that under the fixed rate, None where it was not run."""
    for run, outcome in found.items():
        if run.theta is not None:
            yield found.get(replace(run, theta=None)), outcome


def _pair_cells(fixed: Outcome | None, outcome: Outcome) -> Row:
    means = [
        {name: each.mean(name) for name in ("updates", "final", "area")}
        for each in (fixed, outcome)
        if each is not None
    ]
    return _before_after(means)


def _paper_pair(run: Run, every: float, triggered_only: bool = False) -> Row:
    for row in paper_rows("intervals", run.dataset, run.method, run.n_bits):
        if row["every"] == every:
            means = [row["trigger"]] if triggered_only else [row["fixed"], row["trigger"]]
            return {f"paper: {name}": cell for name, cell in _before_after(means).items()}
    return dict.fromkeys(("paper: updates", "paper: final mAP", "paper: AUC"), "")


def _before_after(means: Sequence[dict[str, float]]) -> Row:
    """Return the cells of ``fixed rate -> trigger``, or of the trigger alone."""
    cells = {
        "updates": " -> ".join(_count(each["updates"]) for each in means),
        "final mAP": " -> ".join(f"{each['final']:.3f}" for each in means),
        "AUC": " -> ".join(f"{each['area']:.3f}" for each in means),
    }
    if len(means) == 2:
        cells["updates"] += f" ({means[0]['updates'] / means[1]['updates']:.1f}x)"
        cells["AUC"] += f" ({_change(means[1]['area'], means[0]['area'])})"
    return cells


def _time_cells(prefix: str, learning_s: float, added_s: float, digits: int) -> Row:
    return {
        f"{prefix}learning, s": f"{learning_s:.{digits}f}",
        f"{prefix}trigger adds, s": f"{added_s:.{digits}f}",
        f"{prefix}share": f"{100 * added_s / learning_s:.1f} %" if learning_s else "",
    }


def _count(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _reduced(updates: float, base: float | None) -> str:
    return _count(updates) + ("" if base is None or base == updates else f" ({base / updates:.1f}x)")


def _change(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else ""


def _telling(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns that tell something: not a label that is the same in all rows, nor an empty column."""
    columns = tuple(rows[0]) if rows else _LABELS
    constant = {name for name in _LABELS[:2] if len({row[name] for row in rows}) == 1}
    empty = {name for name in columns if not any(row[name] for row in rows)}
    return tuple(name for name in columns if name not in constant | empty)


def _notes(found: Iterable[Outcome]) -> Iterable[str]:
    """Yield how many trials there were, how much they differ, and what the data are."""
    every = list(found)
    n_trials = max((len(each.trials) for each in every), default=0)
    if n_trials > 1:
        final, area = (max(each.spread(name) for each in every) for name in ("final", "area"))
        yield (
            f"Means over {n_trials} trials; the largest standard deviation over them is {final:.3f} for the final "
            f"mAP and {area:.3f} for AUC."
        )
    else:
        yield "One trial."
    names = {each.run.dataset: each.trials[0]["data"] for each in every}
    stands = "; ".join(f"{DATASET_NAMES[name]} is {data!r}, {_origin(data)}" for name, data in names.items())
    yield f"Not the paper's features: {stands}. Compare order, ratios and signs, not absolute numbers."


def _origin(data: str) -> str:
    if data.endswith("(digits)"):
        return "the shipped digits"
    return "generated" if data.endswith("-like") else "substitute features"


def _slips(definition: Definition) -> Iterable[str]:
    """Yield the paper's own slips about what a definition shows."""
    about = {definition.name} | {
        name
        for name, table in _paper()["tables"].items()
        if table["draws"] == definition.draws
        and table["dataset"] in definition.datasets
        and table["n_bits"] in definition.bits
    }
    for note in _paper()["notes"]:
        if about & set(note["tables"]):
            yield f"In the paper: {note['text']}"


def _right_aligned(table: Table) -> list[bool]:
    """Tell which columns hold numbers for the most part, so that they are set to the right."""
    filled = [[row[index] for row in table.rows if row[index]] for index in range(len(table.columns))]
    return [
        name not in _LABELS and 2 * sum(cell[0] in "+-0123456789" for cell in cells) > len(cells)
        for name, cells in zip(table.columns, filled, strict=True)
    ]
