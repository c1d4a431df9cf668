"""The update interval, and how much trials differ (App. D.3)."""

from dataclasses import replace

from ..outcomes import Study
from .groups import groups, label
from .judgement import Judgement, bounded, falling

__all__ = ["interval_growth", "interval_more", "spread"]


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
    }
    bound = below_at_smoke if study.scale == "smoke" else below
    return bounded(values, "each", below=bound, form="{:.4f}")
