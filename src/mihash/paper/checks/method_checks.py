"""Methods and code lengths compared (Sec. 4.3.1, App. D.1)."""

from typing import Any

import numpy as np

from ...errors import MIHashError
from ...loop.online_hashing import OnlineHashing
from ...online import learner_class
from ...trigger import TriggerUpdate
from ..definition import load_definition
from ..outcomes import Outcome, Study
from ..published import METHOD_NAMES, dataset_title
from ..runs import Run
from .judgement import Judgement, bounded, listed, some
from .result_groups import label

_MEASURES = {"final": "final mAP", "area": "AUC"}


def first(study: Study, *, definition: str, method: str, among: list[str], measures: list[str]) -> Judgement:
    """Check that a method is before all others on each data set, in each measure."""
    found = study.outcomes(definition)
    bad, figures = [], []
    for dataset in _datasets(found):
        for measure in measures:
            scores = {
                run.method: outcome.mean(measure)
                for run, outcome in found.items()
                if run.dataset == dataset and run.theta is not None and run.method in (method, *among)
            }
            own = scores.pop(method)
            second = max(scores, key=scores.__getitem__)
            figures.append(
                f"{dataset_title(dataset)} {_MEASURES[measure]} {own:.3f}, then {METHOD_NAMES[second]} "
                f"{scores[second]:.3f}"
            )
            if own <= scores[second]:
                bad.append(dataset)
    return not bad, listed(figures, len(figures))


def rising(study: Study, *, definitions: list[str], method: str) -> Judgement:
    """Check that the last quarter of a curve lies above its third."""
    values = {}
    for run, outcome in study.outcomes(*definitions).items():
        if run.method == method and run.theta is not None:
            third, last = np.array_split(outcome.curves.mean(axis=0), 4)[2:]
            values[label(run)] = float(last.mean() - third.mean())
    return bounded(values, "each", above=0, form="{:+.4f}")


def longer_codes(study: Study, *, shorter: str, longer: str, methods: list[str]) -> Judgement:
    """Check that the final mAP is higher with longer codes."""
    short, long = ({_key(run): each for run, each in study.outcomes(name).items()} for name in (shorter, longer))
    values = {
        label(outcome.run): long[key].mean("final") - outcome.mean("final")
        for key, outcome in short.items()
        if outcome.run.method in methods and outcome.run.theta is not None
    }
    return bounded(values, "each", above=0, form="{:+.3f}")


def alike(study: Study, *, definition: str, dataset: str, methods: list[str], within: float) -> Judgement:
    """Check that methods differ by at most some per cent of the best."""
    scores = {
        METHOD_NAMES[run.method]: outcome.mean("area")
        for run, outcome in study.outcomes(definition).items()
        if run.dataset == dataset and run.method in methods and run.theta is not None
    }
    gap = 100 * (1 - min(some(scores).values()) / max(scores.values()))
    figures = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    return gap <= within, f"AUC {figures}: {gap:.1f} % apart"


def needs_labels(study: Study, *, method: str, definition: str, dataset: str) -> Judgement:  # noqa: ARG001 -- the class says it, not the results
    """Check that a method refuses a stream without labels, and is not run where there are none."""
    runs = [run for run in load_definition(definition).runs({}) if run.dataset == dataset]
    own = sum(run.method == method for run in runs)
    X = np.random.default_rng(0).standard_normal((20, 4))
    try:
        OnlineHashing(learner_class(method)(4, seed=0), TriggerUpdate(), 10).feed(X)
    except MIHashError as error:
        refused = "label" in str(error)
    else:
        refused = False
    return refused and own == 0, (
        f"{METHOD_NAMES[method]} {'refuses' if refused else 'takes'} a stream without labels, and {own} of the "
        f"{len(runs)} runs of {definition} on {dataset_title(dataset)} are its."
    )


def _key(run: Run) -> tuple[Any, ...]:
    return (run.dataset, run.method, run.theta, run.every, run.share)


def _datasets(found: dict[Run, Outcome]) -> list[str]:
    return list(dict.fromkeys(run.dataset for run in found))
