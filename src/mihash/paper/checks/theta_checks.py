"""The trigger's threshold (App. D.2)."""

from dataclasses import replace

import numpy as np

from ..outcomes import Outcome, Study
from .judgement import Judgement, bounded, falling, listed, some
from .result_groups import groups, label


def theta_fewer(study: Study, *, definitions: list[str], noise_updates: float, noise_percent: float) -> Judgement:
    """Check that updates do not rise with theta, but for noise."""
    found = study.outcomes(*definitions)
    series = {
        name: [each.mean("updates") for each in sorted(group, key=_threshold)]
        for name, group in groups(found, lambda run: replace(run, theta=None))
    }
    return falling(series, noise_updates, noise_percent, "theta grows")


def theta_infinite(study: Study, *, definitions: list[str], forced: dict[str, int]) -> Judgement:
    """Check that nothing but what is forced is updated at an infinite theta."""
    counts = {
        label(run): (outcome.mean("updates"), forced.get(run.method, 1))
        for run, outcome in study.outcomes(*definitions).items()
        if run.theta == np.inf
    }
    bad = [f"{name} {n:g}" for name, (n, most) in some(counts).items() if n > most or (most > 1 and n <= 1)]
    more = [f"{name} {n:g}" for name, (n, most) in counts.items() if most > 1]
    return not bad, f"{len(counts)} runs; forced: {listed(more)}" + (f"; not so: {listed(bad)}" if bad else "")


def theta_low(study: Study, *, definitions: list[str], at_most: float, within: float) -> Judgement:
    """Check that a low theta updates as often as the fixed rate does."""
    found = study.outcomes(*definitions)
    values = {
        f"{label(run)} at {run.theta:g}": 100
        * abs(outcome.mean("updates") / found[replace(run, theta=None)].mean("updates") - 1)
        for run, outcome in found.items()
        if run.theta is not None and run.theta <= at_most
    }
    return bounded(values, "each", at_most=within, form="{:.1f} %")


def theta_default(study: Study, *, definitions: list[str], over: str, within: float) -> Judgement:
    """Check how far AUC at theta = 0 is below the best of all thetas and the fixed rate."""
    values = {}
    for name, group in groups(study.outcomes(*definitions), lambda run: replace(run, theta=None)):
        areas = {outcome.run.theta: outcome.mean("area") for outcome in group}
        values[name] = 100 * (1 - areas[0.0] / max(areas.values()))
    return bounded(values, over, at_most=within, form="{:.1f} %")


def theta_larger(study: Study, *, definitions: list[str], loses_at_most: float, cases: int) -> Judgement:
    """Count where some finite theta > 0 saves updates of theta = 0, and loses at most some per cent of its AUC."""
    best: dict[str, str] = {}
    others = []
    for name, group in groups(study.outcomes(*definitions), lambda run: replace(run, theta=None)):
        default = next(outcome for outcome in group if outcome.run.theta == 0)
        least = (1 - loses_at_most / 100) * default.mean("area")
        larger = [each for each in group if 0 < _threshold(each) < np.inf and each.mean("area") >= least]
        fewest = min(larger, key=lambda each: each.mean("updates"), default=default)
        if fewest.mean("updates") < default.mean("updates"):
            best[name] = (
                f"{name} {default.mean('updates'):.1f} -> {fewest.mean('updates'):.1f} at {fewest.run.theta:g}"
            )
        else:
            others.append(name)
    figures = f"{len(best)} of {len(best) + len(others)}: {listed(list(best.values()))}"
    return len(best) >= cases, figures + (f"; not so: {listed(others)}" if others else "")


def _threshold(outcome: Outcome) -> float:
    """Return theta; the fixed rate is a theta of -inf."""
    return -np.inf if outcome.run.theta is None else outcome.run.theta
