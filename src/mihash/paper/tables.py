"""What results say, as tables with the paper's rows beside ours (Tables 1-9, Fig. 4, 5, 7 and 8; drift).

Only files are read: the results of a definition, and ``paper.json``, which restates the paper's numbers.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import validation
from .checks.judgement import whole_batches
from .definition import Definition
from .drift_tables import DRIFT_ROWS, drift_notes
from .fit_tables import end_to_end, fit_notes, lengths, network_notes, training_times
from .jobs import Job
from .outcomes import SHARED_TIMES, Outcome, outcomes, timed_alone
from .paper_numbers import (
    DATASET_NAMES,
    METHOD_NAMES,
    as_published,
    covers,
    dataset_title,
    paper_rows,
    row_name,
    slips,
)

THEIRS = "paper: "
"""How the names of columns with the paper's numbers begin."""

LABELS = ("data set", "bits", "method")
_EARLY = 0.05  # of the stream

Row = dict[str, str]
Found = dict[Job, Outcome]
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
        One that draws curves (the table sums them up), thetas, intervals, times, reservoirs, learners or missing
        labels; batch methods; networks; or streams that change.
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
    validation.choice("draws", definition.draws, (*_STREAM_ROWS, *_FIT_ROWS, *DRIFT_ROWS))
    made = outcomes(definition, results, scale)
    if definition.draws in DRIFT_ROWS:
        notes = list(drift_notes(definition, made))
        return _table(definition, list(DRIFT_ROWS[definition.draws](made)), notes, scale)
    if definition.draws in _FIT_ROWS:
        rows = list(_FIT_ROWS[definition.draws](made))
        notes = [*network_notes(made)] if definition.kind == "images" else [*fit_notes(definition, made)]
        if definition.kind == "batch":
            notes += data_notes({job.dataset: each.trials[0] for job, each in made.items() if each.trials})
        return _table(definition, rows, notes, scale)
    found = {job: outcome for job, outcome in made.items() if whole_batches(job)}
    rows = [
        {
            "data set": dataset_title(outcome.job.dataset),
            "bits": str(outcome.job.n_bits),
            "method": row_name(outcome.job, made),
        }
        | cells
        for outcome, cells in _STREAM_ROWS[definition.draws](found)
    ]
    notes = [*_notes(found.values()), *_options(definition), *_NOTES.get(definition.draws, ())]
    if any(column.startswith(THEIRS) for column in _shown_columns(rows)):
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
    return _table(definition, rows, notes, scale)


def _table(definition: Definition, rows: Sequence[Row], notes: Sequence[str], scale: str) -> Table:
    columns = _shown_columns(rows)
    cells = tuple(tuple(row[column] for column in columns) for row in rows)
    own = definition.notes if scale == "full" else ()
    return Table(definition.title, columns, cells, (*notes, *own))


def _thetas(found: Found) -> Made:
    """Yield a row for each threshold (Tables 4-6)."""
    for job, outcome in found.items():
        fixed = found.get(replace(job, theta=None))
        base = None if fixed is None or job.theta is None else fixed
        cells = {
            "theta": "fixed rate" if job.theta is None else f"{job.theta:g}",
            "updates": _reduced(outcome.mean("updates"), None if base is None else base.mean("updates")),
            "AUC": f"{outcome.mean('area'):.3f}",
            "change": "" if base is None else _change(outcome.mean("area"), base.mean("area")),
            "paper: updates": "",
            "paper: AUC": "",
            "paper: change": "",
        }
        printed = _printed("thetas", job)
        for row in (row for row in printed if covers(row, job)):
            cells["paper: updates"] = _reduced(row["updates"], printed[0]["updates"])
            cells["paper: AUC"] = f"{row['area']:.3f}"
            cells["paper: change"] = "" if row["change"] is None else f"{row['change']:+.1f} %"
        yield outcome, cells


def _intervals(found: Found) -> Made:
    """Yield a row for each update interval (Tables 7-9)."""
    for fixed, outcome in _pairs(found):
        job = outcome.job
        cells = {"U": str(outcome.trials[0]["protocol"]["interval"])} | _pair_cells(fixed, outcome)
        yield outcome, cells | _paper_pair(job, job.every)


def _times(found: Found) -> Made:
    """Yield what learning takes and what the trigger adds (Table 2)."""
    for fixed, outcome in _pairs(found):
        job = outcome.job
        printed = _printed("times", job)
        ours = _time_cells("", outcome.mean("learning_s"), outcome.mean("deciding_s"), 3)
        ours |= _saved_cells(fixed, outcome)
        theirs = dict.fromkeys((f"paper: {column}" for column in _time_cells("", 1, 1, 1)), "")
        for row in printed:
            theirs = _time_cells("paper: ", row["learning_s"], row["with_trigger_s"] - row["learning_s"], 1)
        yield outcome, ours | theirs


def _reservoirs(found: Found) -> Made:
    """Yield a row for each size of the reservoir (Sec. 4.2)."""
    for fixed, outcome in _pairs(found):
        size, n_stream = outcome.trials[0]["protocol"]["reservoir_size"], outcome.trials[0]["examples"][-1]
        usual = found.get(replace(outcome.job, share=1.0))
        cells = {"reservoir": str(size), "of the stream": f"{100 * size / n_stream:.1f} %"}
        cells |= _pair_cells(fixed, outcome)
        change = "" if usual is None else _change(outcome.mean("area"), usual.mean("area"))
        yield outcome, cells | {"AUC against the usual size": change}


def _learners(found: Found) -> Made:
    """Yield a row for each learner, data set and code length: means over the trials.

    "early" is mAP after a twentieth of the stream, between the two checkpoints around it.

    Examples
    --------
    >>> trial = {"examples": [0, 100], "precisions": [0.2, 0.4], "final": 0.4, "area": 0.3}
    >>> job = Job("online", "cifar10", "lsh", (), 32)
    >>> outcome = Outcome((trial | {"times": {"learning_s": 0.001}},), job)
    >>> next(iter(_learners({job: outcome})))[1]
    {'final mAP': '0.400', 'AUC': '0.300', 'early': '0.210', 'us per example': '10.0'}
    """
    for outcome in found.values():
        streams = [(trial["examples"], trial["precisions"]) for trial in outcome.trials]
        early = [np.interp(_EARLY * examples[-1], examples, precisions) for examples, precisions in streams]
        n = np.mean([examples[-1] for examples, _ in streams])
        cells = {
            "final mAP": f"{outcome.mean('final'):.3f}",
            "AUC": f"{outcome.mean('area'):.3f}",
            "early": f"{np.mean(early):.3f}",
            "us per example": f"{1e6 * outcome.mean('learning_s') / n:.1f}",
        }
        yield outcome, cells


def _missing(found: Found) -> Made:
    """Yield a row for each share of missing labels, and what is left of the mAP with all labels."""
    for job, outcome in found.items():
        whole = found.get(replace(job, missing=0.0))
        change = "" if whole is None or not job.missing else _change(outcome.mean("final"), whole.mean("final"))
        cells = {"labels missing": f"{100 * job.missing:g} %", "final mAP": f"{outcome.mean('final'):.3f}"}
        yield outcome, cells | {"against all labels": change}


def _curves(found: Found) -> Made:
    """Yield what sums up each curve (Fig. 4, 5, 7 and 8)."""
    for fixed, outcome in _pairs(found):
        cells = _pair_cells(fixed, outcome)
        reduction = "" if fixed is None else f"{fixed.mean('updates') / outcome.mean('updates'):.1f}x"
        cells["updates"] = cells["updates"].split(" (")[0]
        names = ("final mAP", "AUC", "updates")
        theirs = _paper_pair(outcome.job, 1.0, fixed is None)
        ours = {name: cells[name] for name in names} | {"reduction": reduction}
        yield outcome, ours | {f"paper: {name}": theirs[f"paper: {name}"] for name in names}


_STREAM_ROWS: dict[str, Callable[[Found], Made]] = {
    "curves": _curves,
    "methods": _curves,
    "thetas": _thetas,
    "intervals": _intervals,
    "times": _times,
    "reservoirs": _reservoirs,
    "learners": _learners,
    "missing": _missing,
}
_FIT_ROWS: dict[str, Callable[[Found], Iterable[Row]]] = {
    "lengths": lengths,
    "training": training_times,
    "end-to-end": end_to_end,
}
_COMPUTED = "The paper's ratios, and its changes of AUC over intervals, are computed here from what it prints."
_PAPER_NOTES = {"thetas": (_COMPUTED,), "intervals": (_COMPUTED,)}
_NOTES = {
    "learners": (
        '"early" is mAP after a twentieth of the stream, "us per example" the CPU time of learning and of the '
        "reservoir.",
    ),
    "times": (
        "Seconds of CPU. The reservoir is part of learning here, and of what the trigger adds in the paper. A "
        "table update encodes all rows of the table in memory; reading them from a disk would be added.",
    ),
}


def _pairs(found: Found) -> Iterable[tuple[Outcome | None, Outcome]]:
    """Yield each outcome under the trigger after that under the fixed rate, None where it was not run."""
    for job, outcome in found.items():
        if job.theta is not None:
            yield found.get(replace(job, theta=None)), outcome


def _pair_cells(fixed: Outcome | None, outcome: Outcome) -> Row:
    means = [
        {name: each.mean(name) for name in ("updates", "final", "area")}
        for each in (fixed, outcome)
        if each is not None
    ]
    return _before_after(means)


def _paper_pair(job: Job, every: float, triggered_only: bool = False) -> Row:
    for row in _printed("intervals", job):
        if row["every"] == every:
            means = [row["trigger"]] if triggered_only else [row["fixed"], row["trigger"]]
            return {f"paper: {name}": cell for name, cell in _before_after(means).items()}
    return dict.fromkeys(("paper: updates", "paper: final mAP", "paper: AUC"), "")


def _printed(draws: str, job: Job) -> list[dict[str, Any]]:
    """Return the paper's rows for a method that is the paper's."""
    return paper_rows(draws, job.dataset, job.method, job.n_bits) if as_published(job) else []


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


def _saved_cells(fixed: Outcome | None, outcome: Outcome) -> Row:
    """Return the reservoir's time, that of one table update, and what the updates take that the trigger saves."""
    names = ("reservoir, s", "a table update, s", "updates", "updates saved, s")
    if fixed is None or not (outcome.has("update_s") and outcome.has("reservoir_s")):
        return dict.fromkeys(names, "")
    before, after, seconds = fixed.mean("updates"), outcome.mean("updates"), outcome.mean("update_s")
    cells = (
        f"{outcome.mean('reservoir_s'):.3f}",
        f"{seconds:.3f}",
        f"{_count(before)} -> {_count(after)}",
        f"{(before - after) * seconds:.1f}",
    )
    return dict(zip(names, cells, strict=True))


def _count(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _reduced(updates: float, base: float | None) -> str:
    return _count(updates) + ("" if base is None or base == updates else f" ({base / updates:.1f}x)")


def _change(value: float, base: float) -> str:
    return f"{100 * (value / base - 1):+.1f} %" if base else ""


def _shown_columns(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns without empty ones, and without labels that are the same in all rows."""
    columns = tuple(rows[0]) if rows else LABELS
    constant = {name for name in LABELS[:2] if len({row.get(name) for row in rows}) == 1}
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
    yield from data_notes({each.job.dataset: each.trials[0] for each in every})


def _options(definition: Definition) -> Iterable[str]:
    """Yield what is not as in the paper by choice of the definition."""
    if definition.auc == "trapezoid":
        yield "AUC is taken by the trapezoidal rule."
    if definition.ends:
        yield "Tables are also updated after the first block and after the last example, whatever a trigger says."


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
    for job in made:
        if job not in found and job.theta is not None:
            yield (
                f"{METHOD_NAMES[job.method]} at U x {job.every:g} was run and is left out: its batch is longer "
                "than that U at the paper's sizes, and the paper has no U below a batch."
            )


def _not_run(found: Found) -> Iterable[str]:
    """Yield what the paper prints of thresholds that are not run here."""
    for job in {replace(job, theta=None): None for job in found}:
        thetas = [each for each in found if replace(each, theta=None) == job]
        for row in paper_rows("thetas", job.dataset, job.method, job.n_bits):
            if not any(covers(row, each) for each in thetas):
                yield (
                    f"The paper has one more theta for {METHOD_NAMES[job.method]}, not run here: {row['theta']}, "
                    f"{_count(row['updates'])} updates, AUC {row['area']:.3f}."
                )


def _origin(data: str) -> str:
    if data.endswith("(digits)"):
        return "the shipped digits"
    return "generated" if data.endswith("-like") else "substitute features"
