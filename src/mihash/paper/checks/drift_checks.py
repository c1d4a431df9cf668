"""Claims about streams that change, against a bar for each stream (docs/drift.md)."""

import numpy as np

from ..drift_benchmark import drift_definitions
from ..drift_tables import DriftFigures
from ..outcomes import Study, outcomes
from .judgement import Judgement


def stream_figure(
    study: Study,
    *,
    dataset: str,
    streams: list[str],
    measure: str,
    at_least: float = -np.inf,
    at_most: float = np.inf,
) -> Judgement:
    """Check a figure of each stream of a data set, of all where none is named.

    Where a ratio of costs has no meaning, as they are not positive, the costs are subtracted: a bar of 1 becomes a
    difference of 0, and no other bar can be judged.
    """
    (definition,) = drift_definitions(study.scale, [dataset])
    found = DriftFigures(outcomes(definition, study.results, study.scale))
    verdicts, figures = set[bool | None](), []
    for stream in streams or found.streams:
        value = found.figure(stream, measure)
        if value is not None:
            verdicts.add(at_least <= value <= at_most)
            figures.append(f"{stream} {value:.4g}")
        else:
            more = found.cost_difference(stream, measure)
            verdicts.add(at_least <= 1 + more <= at_most if 1 in (at_least, at_most) else None)
            figures.append(f"{stream} {more:+,.0f} queries (no ratio: costs are not positive)")
    return False if False in verdicts else None if None in verdicts else True, ", ".join(figures)
