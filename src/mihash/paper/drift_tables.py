"""Results of the drift benchmark on a data set: figures of streams, and the rows of its tables (docs/drift.md)."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from .definition import Definition
from .drift_benchmark import WHOLE
from .drift_run import RECENT
from .jobs import Job
from .outcomes import Outcome

Row = dict[str, str]
Found = dict[Job, Outcome]
Trials = Sequence[dict[str, Any]]

_PRICE = f"price ({RECENT:,})"
_COLUMNS = {  # triggers and systems that are compared
    _PRICE: ("price", "follows"),
    "2 %": ("share", "follows"),
    "every check": ("always", "follows"),
    "no watch": ("price", "still"),
    "MIHash, 2 %": ("share", "paper"),
}
_FORMS = {"rehashes": ".1f", "false_alarms": ".1f", "recomputed": ",.0f", "cost_ratio": ".2f"}
_WORST = ("delay", "alarms")  # the largest of the trials, not the mean


class DriftFigures:
    """The figures of the streams of one data set: means over the seeds, and the worst of delays and alarms.

    Parameters
    ----------
    found
        What the jobs of the data set gave.

    Examples
    --------
    >>> job = Job("drift", "digits", "follows", (), 32, stream="none")
    >>> trials = tuple({"rules": {"price": {"area": area}}} for area in (0.5, 0.7))
    >>> DriftFigures({job: Outcome(trials, job)}).figure("none", "area")
    0.6
    """

    def __init__(self, found: Found) -> None:
        self._found = {(job.stream, job.method): outcome.trials for job, outcome in found.items()}

    @property
    def streams(self) -> list[str]:
        """The streams, but for the whole data set."""
        return [stream for stream, system in self._found if system == "follows" and stream != WHOLE]

    def trials(self, stream: str, system: str = "follows") -> Trials:
        """Return the results of a stream, one for each seed; none where it was not sent through the system."""
        return self._found.get((stream, system), ())

    def figure(self, stream: str, measure: str, rule: str = "price", system: str = "follows") -> float | None:
        """Return a figure of a stream; None where it has none, or is a ratio of costs that are not positive."""
        values = [_value(result, measure, rule) for result in self.trials(stream, system)]
        known = [value for value in values if value is not None]
        if not known or len(known) < len(values):
            return None
        return max(known) if measure in _WORST else float(np.mean(known))

    def cost_difference(self, stream: str, measure: str) -> float:
        """Return by how much the price costs more than what a ratio compares it with."""
        costs = [_costs(result["rules"], measure, "price") for result in self._found[stream, "follows"]]
        return float(np.mean([cost - other for cost, other in costs]))


def _costs(rules: dict[str, dict[str, Any]], measure: str, rule: str) -> tuple[float, float]:
    """Return the two costs whose ratio a measure is."""
    others = {"cost_ratio": rules[rule]["best_cost"], "cost_of_share": rules.get("share", {}).get("cost")}
    return float(rules[rule]["cost"]), float(others[measure])


def _value(result: dict[str, Any], measure: str, rule: str) -> float | None:
    """Return a figure of one trial; without an alarm, a delay is infinite."""
    rules = result["rules"]
    if measure == "delay":
        return max((np.inf if delay is None else float(delay) for delay in result["delays_of_new"]), default=0.0)
    if measure == "alarms":
        return float(len(result["alarms"]))
    if measure == "share_of_always":
        return float(rules[rule]["area"] / rules["always"]["area"])
    if measure in ("cost_ratio", "cost_of_share"):
        cost, other = _costs(rules, measure, rule)
        return cost / other if min(cost, other) > 0 else None
    value = result.get(measure, rules[rule].get(measure))
    return None if value is None else float(value)


def stream_rows(found: Found) -> Iterator[Row]:
    """Yield the figures of each stream, means over the seeds.

    AUC is that of the table of everything: under the price (in brackets with the table of the last rows), the 2 %
    rule, a rehash at every check; and at the first seed without the watch, and of the paper's learner.
    """
    figures = DriftFigures(found)
    for stream in figures.streams:
        text, trials = partial(_text, figures, stream), figures.trials(stream)
        cells = {"stream": stream, "seeds": str(len(trials))}
        cells |= {name: text("area", *which) for name, which in _COLUMNS.items()}
        cells[_PRICE] = f"**{cells[_PRICE]}** ({text('area_recent')})"
        cells["rehashes"] = f"{text('rehashes')} / {text('rehashes', 'share')}"
        cells["codes made"] = text("recomputed")
        cells["cost: price"] = f"**{text('cost_ratio') or '-'}**"
        cells["cost: 2 %"] = text("cost_ratio", "share")
        cells["cost: every check"] = text("cost_ratio", "always")
        yield cells | {"alarm after": _delays(trials), "false": text("false_alarms")}


def held_out_rows(found: Found) -> Iterator[Row]:
    """Yield AUC of held-out queries, in brackets with the table of the last rows, of streams that have them."""
    figures = DriftFigures(found)
    for stream in figures.streams:
        cells = {}
        for name, which in _COLUMNS.items():
            area, recent = (figures.figure(stream, f"area_held_out{table}", *which) for table in ("", "_recent"))
            cells[name] = "" if area is None or recent is None else f"{area:.3f} ({recent:.3f})"
        if any(cells.values()):
            yield {"stream": stream, "seeds": str(len(figures.trials(stream)))} | cells


DRIFT_ROWS: dict[str, Callable[[Found], Iterator[Row]]] = {"streams": stream_rows, "held-out": held_out_rows}


def drift_notes(definition: Definition, found: Found) -> Iterator[str]:
    """Yield how many alarms there were on the whole data set in random order."""
    whole = DriftFigures(found).trials(WHOLE)
    if whole and definition.draws == "streams":
        n = sum(len(result["alarms"]) for result in whole)
        yield f"All {whole[0]['rows']:,} rows in random order: {n} alarms."


def _text(figures: DriftFigures, stream: str, measure: str, rule: str = "price", system: str = "follows") -> str:
    value = figures.figure(stream, measure, rule, system)
    return "" if value is None else format(value, _FORMS.get(measure, ".3f")).removesuffix(".0")


def _delays(trials: Trials) -> str:
    """Return how long after each change the alarm came: of every seed, in order of the changes."""
    columns = zip(*(result["delays"] for result in trials), strict=True)
    texts = [["never" if delay is None else str(delay) for delay in dict.fromkeys(column)] for column in columns]
    return "; ".join(", ".join(part) for part in texts)
