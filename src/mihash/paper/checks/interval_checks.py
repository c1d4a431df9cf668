"""The update interval, and how much trials differ (App. D.3)."""

from dataclasses import replace

from ...errors import InvalidInput
from ..outcomes import Study
from .judgement import Judgement, bounded, falling, listed
from .result_groups import groups, label, whole_batches

_ROUNDING = 1e-9  # a bar is a quotient of the paper's numbers


def interval_growth(
    study: Study, *, definition: str, method: str, shortest: float, longest: float, at_most: float
) -> Judgement:
    """Check by how much updates with the trigger grow from the longest interval to the shortest."""
    updates = {
        run.every: outcome.mean("updates")
        for run, outcome in study.outcomes(definition).items()
        if run.method == method and run.theta is not None
    }
    growth = updates[shortest] / updates[longest]
    return growth <= at_most, (
        f"{updates[longest]:.1f} -> {updates[shortest]:.1f} updates, {growth:.1f}x while U shrinks "
        f"{longest / shortest:g}x"
    )


def interval_growths(study: Study, *, definition: str, at_most: dict[str, float]) -> Judgement:
    """Check by how much each method's updates grow from its longest interval to its shortest, each by a bar."""
    bad, figures = [], []
    found = study.outcomes(definition)
    for name, group in groups(found, lambda run: replace(run, every=1.0)):
        method = group[0].run.method
        if group[0].run.theta is None or method not in at_most:
            continue
        short, *_, long = sorted(group, key=lambda outcome: outcome.run.every)
        growth = short.mean("updates") / long.mean("updates")
        times = long.run.every / short.run.every
        figures.append(f"{name} {growth:.1f}x while U shrinks {times:g}x (the paper: {at_most[method]:.1f}x)")
        if growth > at_most[method] + _ROUNDING:
            bad.append(name)
    missing = len(at_most) - len(figures)
    if missing:
        raise InvalidInput(f"`at_most` must name methods of {definition}; {missing} of them are not in it.")
    return not bad, listed(figures, len(figures)) + (f"; not so: {listed(bad)}" if bad else "")


def interval_more(
    study: Study, *, definitions: list[str], noise_updates: float, noise_percent: float
) -> Judgement:
    """Check that updates do not rise with the interval, but for noise."""
    series = {
        name: [each.mean("updates") for each in sorted(group, key=lambda outcome: outcome.run.every)]
        for name, group in groups(study.outcomes(*definitions), lambda run: replace(run, every=1.0))
    }
    return falling(series, noise_updates, noise_percent, "U grows")


def spread(
    study: Study, *, definitions: list[str], measure: str, below: float, below_at_smoke: float
) -> Judgement:
    """Check the standard deviation over the trials."""
    values = {
        label(run) + (", fixed rate" if run.theta is None else ""): outcome.spread(measure)
        for run, outcome in study.outcomes(*definitions).items()
        if whole_batches(run)
    }
    bound = below_at_smoke if study.scale == "smoke" else below
    return bounded(values, "each", below=bound, form="{:.4f}")
