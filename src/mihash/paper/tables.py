"""What results say, as tables with the paper's rows beside ours (Tables 1-9, Fig. 4, 5, 7 and 8).

Only files are read: the results of a definition, and ``paper.json``, which restates the paper's numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from .. import validation
from .checks.result_groups import whole_batches
from .definition import Definition
from .fit_tables import fit_notes, lengths, trainings
from .outcomes import SHARED_TIMES, Outcome, fitted, outcomes, timed_alone
from .published import DATASET_NAMES, METHOD_NAMES, covers, dataset_title, paper_rows, slips
from .runs import Run
from .setting2.reproduction import trained
from .training_tables import end_to_end, training_notes

LABELS = ("data set", "bits", "method")

Row = dict[str, str]
Found = dict[Run, Outcome]
Made = Iterable[tuple[Outcome, Row]]


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


def make_table(definition: Definition, results: Path, scale: str) -> Table:
    """Return the table of a definition, from its results.

    Parameters
    ----------
    definition
        One that draws curves (the table sums them up), thetas, intervals, times or reservoirs; batch methods;
        or networks.
    results
        The folder of results.
    scale
        The scale at which it was run.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from mihash.paper.runner import pending, run_tasks
    >>> tiny = Definition("tiny", "LSH", "online", "curves", ("cifar10",), ("lsh",), bits=(8,), trials=1)
    >>> with TemporaryDirectory() as folder:
    ...     run_tasks(pending([tiny], Path(folder), "smoke"))
    ...     table = make_table(tiny, Path(folder), "smoke")
    >>> table.columns[1:], table.rows[0][3:]
    (('final mAP', 'AUC', 'updates', 'reduction'), ('1 -> 1', '1.0x'))
    >>> table.notes[1]
    "Not the paper's features: CIFAR-10 is 'cifar10 (digits)', the shipped digits. Compare ..."
    """
    if definition.kind == "batch":
        return _of_fits(definition, results, scale)
    if definition.kind == "images":
        return _of_trainings(definition, results, scale)
    validation.choice("draws", definition.draws, tuple(_MAKERS))
    made = outcomes(definition, results, scale)
    found = {run: outcome for run, outcome in made.items() if whole_batches(run)}
    rows = [
        {
            "data set": dataset_title(outcome.run.dataset),
            "bits": str(outcome.run.n_bits),
            "method": METHOD_NAMES.get(outcome.run.method, outcome.run.method),
        }
        | cells
        for outcome, cells in _MAKERS[definition.draws](found)
    ]
    columns = _telling(rows)
    notes = [*_notes(found.values()), *_NOTES.get(definition.draws, ())]
    if any(column.startswith("paper: ") for column in columns):
        notes += _PAPER_NOTES.get(definition.draws, ())
    notes += _left_out(made, found)
    if definition.draws == "thetas":
        notes += _not_run(found)
    notes += slips(definition)
    if definition.draws == "times" and not timed_alone(definition, results, scale):
        notes.insert(
            0,
            f"These times are not to be used. {SHARED_TIMES.format(command=definition.command(results, scale))}",
        )
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    return Table(definition.title, columns, cells, tuple(notes))


def _of_fits(definition: Definition, results: Path, scale: str) -> Table:
    """Return the table of a definition of batch methods (Tables 1 and 3)."""
    found = fitted(definition, results, scale)
    rows = list(lengths(found) if definition.draws == "lengths" else trainings(found))
    columns = _telling(rows)
    notes = [*data_notes({each.fit.dataset: each.trials[0] for each in found.values() if each.trials})]
    notes = [*fit_notes(definition, found), *notes]
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    return Table(definition.title, columns, cells, tuple(notes))


def _of_trainings(definition: Definition, results: Path, scale: str) -> Table:
    """Return the table of a definition of networks trained end to end (Table 1, Setting 2)."""
    found = trained(definition, results, scale)
    rows = list(end_to_end(found))
    columns = _telling(rows)
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    return Table(definition.title, columns, cells, tuple(training_notes(found)))


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
        for row in (row for row in printed if covers(row, run)):
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
_COMPUTED = "The paper's ratios, and its changes of AUC over intervals, are computed here from what it prints."
_PAPER_NOTES = {"thetas": (_COMPUTED,), "intervals": (_COMPUTED,)}
_NOTES = {
    "times": (
        "Seconds of CPU. The reservoir is part of learning here, and of what the trigger adds in the paper.",
    ),
}


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
    columns = tuple(rows[0]) if rows else LABELS
    constant = {name for name in LABELS[:2] if len({row[name] for row in rows}) == 1}
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
    yield from data_notes({each.run.dataset: each.trials[0] for each in every})


def data_notes(names: dict[str, dict[str, Any]]) -> Iterable[str]:
    """Yield what the data are, from one result of each data set."""
    stands = "; ".join(
        f"{dataset_title(name)} is {trial['data']!r}, {_origin(trial['data'])}"
        for name, trial in names.items()
        if name in DATASET_NAMES
    )
    if stands:
        yield f"Not the paper's features: {stands}. Compare order, ratios and signs, not absolute numbers."
    for name, trial in names.items():
        if name not in DATASET_NAMES:
            rows = trial["protocol"]["rows"]
            yield f"{name} is the file {trial['data']}, {rows:,} rows; the paper has no numbers for it."


def _left_out(made: Found, found: Found) -> Iterable[str]:
    """Yield the intervals that are left out."""
    for run in made:
        if run not in found and run.theta is not None:
            yield (
                f"{METHOD_NAMES[run.method]} at U x {run.every:g} was run and is left out: its batch is longer "
                "than that U at the paper's sizes, and the paper has no U below a batch."
            )


def _not_run(found: Found) -> Iterable[str]:
    """Yield what the paper prints of thresholds that are not run here."""
    for run in {replace(run, theta=None): None for run in found}:
        thetas = [each for each in found if replace(each, theta=None) == run]
        for row in paper_rows("thetas", run.dataset, run.method, run.n_bits):
            if not any(covers(row, each) for each in thetas):
                yield (
                    f"The paper has one more theta for {METHOD_NAMES[run.method]}, not run here: {row['theta']}, "
                    f"{_count(row['updates'])} updates, AUC {row['area']:.3f}."
                )


def _origin(data: str) -> str:
    if data.endswith("(digits)"):
        return "the shipped digits"
    return "generated" if data.endswith("-like") else "substitute features"
