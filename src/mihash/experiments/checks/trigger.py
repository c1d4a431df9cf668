"""With the trigger against the fixed rate (Sec. 4.2, App. C.1, D.1)."""

import numpy as np

from ...errors import NotReady
from ..definition import load_definition
from ..outcomes import SHARED_TIMES, Outcome, Study, timed_alone
from .groups import pairs
from .judgement import Judgement, bounded, listed, some

__all__ = ["area_change", "overhead", "reduction", "reservoir", "steadier"]


def reduction(study: Study, *, definitions: list[str], methods: list[str], over: str, above: float) -> Judgement:
    """Check by how much the trigger reduces the updates."""
    values = {
        name: fixed.mean("updates") / triggered.mean("updates")
        for name, fixed, triggered in pairs(study.outcomes(*definitions), methods)
    }
    return bounded(values, over, above=above, form="{:.1f}x")


def area_change(
    study: Study,
    *,
    definitions: list[str],
    methods: list[str],
    over: str,
    above: float | None = None,
    below: float | None = None,
    datasets: list[str] | None = None,
    theta: float = 0.0,
) -> Judgement:
    """Check by how many per cent AUC is higher with the trigger."""
    values = {
        name: 100 * (triggered.mean("area") / fixed.mean("area") - 1)
        for name, fixed, triggered in pairs(study.outcomes(*definitions), methods, theta)
        if datasets is None or triggered.run.dataset in datasets
    }
    return bounded(values, over, above=above, below=below, form="{:+.1f} %")


def steadier(study: Study, *, definition: str, methods: list[str]) -> Judgement:
    """Check that curves with the trigger fall less, summed over all falls between two checkpoints."""
    falls = {
        name: (_fall(fixed), _fall(triggered))
        for name, fixed, triggered in pairs(study.outcomes(definition), methods)
    }
    bad = [name for name, (fixed, triggered) in some(falls).items() if triggered >= fixed]
    figures = listed([f"{name} {fixed:.3f} -> {after:.3f}" for name, (fixed, after) in falls.items()], 6)
    return not bad, f"sum of the falls of mAP, fixed rate -> trigger: {figures}"


def overhead(study: Study, *, definition: str, methods: list[str], below: float) -> Judgement:
    """Check what the trigger adds, in per cent of the time of learning."""
    found = study.outcomes(definition)
    defined = load_definition(definition)
    if not timed_alone(defined, study.results, study.scale):
        message = SHARED_TIMES.format(command=defined.command(study.results, study.scale))
        raise NotReady(f"The times of {definition} do not say. {message}")
    values = {
        name: 100 * triggered.mean("deciding_s") / triggered.mean("learning_s")
        for name, _, triggered in pairs(found, methods)
    }
    return bounded(values, "median", below=below, form="{:.1f} %")


def reservoir(study: Study, *, definition: str, methods: list[str], percent: float, within: float) -> Judgement:
    """Compare the size that is nearest to a share of the stream with the one nearest to its double."""
    found = study.outcomes(definition)
    sizes: dict[str, dict[float, Outcome]] = {}
    for name, _, outcome in pairs(found, methods):
        share = 100 * outcome.trials[0]["protocol"]["reservoir_size"] / outcome.trials[0]["examples"][-1]
        sizes.setdefault(name.split(", reservoir")[0], {})[share] = outcome
    values, shares = {}, (0.0, 0.0)
    for name, by_share in sizes.items():
        small = min(by_share, key=lambda share: abs(share - percent))
        large = min((share for share in by_share if share > small), key=lambda share: abs(share - 2 * small))
        shares = small, large
        values[name] = 100 * (by_share[small].mean("area") / by_share[large].mean("area") - 1)
    held, figures = bounded({name: abs(value) for name, value in values.items()}, "each", at_most=within)
    return held, f"AUC with {shares[0]:.1f} % against {shares[1]:.1f} % of the stream, in %: {figures}"


def _fall(outcome: Outcome) -> float:
    """Return how much mAP falls between checkpoints, summed, in the mean over the trials."""
    steps = np.diff(outcome.curves, axis=1)
    return float(-np.minimum(steps, 0).sum(axis=1).mean())
