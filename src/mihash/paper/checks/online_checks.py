"""Online runs compared: with and without the trigger, by theta, interval, method (Sec. 4.2, 4.3.1, App. C, D)."""

from dataclasses import replace
from typing import Any

import numpy as np

from ...errors import InvalidInput, NotReady
from ..definition import load_definition
from ..jobs import Job
from ..outcomes import SHARED_TIMES, Outcome, Study, timed_alone
from ..paper_numbers import as_published, dataset_title, row_name
from .judgement import (
    Judgement,
    Leads,
    ahead,
    bounded,
    falling,
    groups,
    label,
    leading,
    listed,
    margins,
    pairs,
    some,
    whole_batches,
)

_ROUNDING = 1e-9  # a bar is a quotient of the paper's numbers
_MEASURES = {"final": "final mAP", "area": "AUC"}


def reduction(
    study: Study,
    *,
    definitions: list[str],
    methods: list[str],
    over: str,
    above: float,
    usual_interval: bool = True,
) -> Judgement:
    """Check by how much the trigger reduces the updates, in the median or each."""
    values = {
        name: fixed.mean("updates") / triggered.mean("updates")
        for name, fixed, triggered in pairs(_published(study, *definitions), methods)
        if usual_interval or triggered.job.every != 1
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
    usual_interval: bool = True,
) -> Judgement:
    """Check by how many per cent AUC is higher with the trigger."""
    values = {
        name: 100 * (triggered.mean("area") / fixed.mean("area") - 1)
        for name, fixed, triggered in pairs(_published(study, *definitions), methods, theta)
        if (datasets is None or triggered.job.dataset in datasets) and (usual_interval or triggered.job.every != 1)
    }
    return bounded(values, over, above=above, below=below, form="{:+.1f} %")


def steadier(study: Study, *, definition: str, methods: list[str]) -> Judgement:
    """Check that curves with the trigger fall less, summed over all falls between two checkpoints."""
    falls = {
        name: (_fall(fixed), _fall(triggered))
        for name, fixed, triggered in pairs(_published(study, definition), methods)
    }
    bad = [name for name, (fixed, triggered) in some(falls).items() if triggered >= fixed]
    figures = listed([f"{name} {fixed:.3f} -> {after:.3f}" for name, (fixed, after) in falls.items()], 6)
    return not bad, f"sum of the falls of mAP, fixed rate -> trigger: {figures}"


def overhead(study: Study, *, definition: str, methods: list[str], below: float) -> Judgement:
    """Check what the trigger adds, in per cent of the time of learning."""
    values = {
        name: 100 * triggered.mean("deciding_s") / triggered.mean("learning_s")
        for name, _, triggered in pairs(_timed(study, definition), methods)
    }
    return bounded(values, "median", below=below, form="{:.1f} %")


def reservoir(study: Study, *, definition: str, methods: list[str], percent: float, within: float) -> Judgement:
    """Compare the size that is nearest to a share of the stream with the one nearest to its double."""
    found = _published(study, definition)
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


def reservoir_sizes(
    study: Study, *, definition: str, methods: list[str], shares: list[float], against: float, within: float
) -> Judgement:
    """Compare AUC with a reservoir of some shares of the usual size with that of another share."""
    found = {
        (outcome.job.method, outcome.job.share): outcome
        for _, _, outcome in pairs(_published(study, definition), methods)
    }
    values = {
        label(found[method, share].job): 100
        * abs(found[method, share].mean("area") / found[method, against].mean("area") - 1)
        for method in methods
        for share in shares
    }
    return bounded(values, "each", at_most=within, form="{:.1f} %")


def _timed(study: Study, definition: str) -> dict[Job, Outcome]:
    """Return outcomes whose times are those of one trigger alone."""
    found = _published(study, definition)
    defined = load_definition(definition)
    if not timed_alone(defined, study.results, study.scale):
        message = SHARED_TIMES.format(command=defined.command(study.results, study.scale))
        raise NotReady(f"The times of {definition} do not decide this claim. {message}")
    return found


def _fall(outcome: Outcome) -> float:
    """Return how much mAP falls between checkpoints, summed, in the mean over the trials."""
    steps = np.diff(outcome.curves, axis=1)
    return float(-np.minimum(steps, 0).sum(axis=1).mean())


def theta_fewer(study: Study, *, definitions: list[str], noise_updates: float, noise_percent: float) -> Judgement:
    """Check that updates do not rise with theta, but for noise."""
    found = _published(study, *definitions)
    series = {
        name: [each.mean("updates") for each in sorted(group, key=_threshold)]
        for name, group in groups(found, lambda job: replace(job, theta=None))
    }
    return falling(series, noise_updates, noise_percent, "theta grows")


def theta_default(study: Study, *, definitions: list[str], within: float) -> Judgement:
    """Check how far AUC at theta = 0 is below the best of all thetas and the fixed rate."""
    values = {}
    for name, group in groups(_published(study, *definitions), lambda job: replace(job, theta=None)):
        areas = {outcome.job.theta: outcome.mean("area") for outcome in group}
        values[name] = 100 * (1 - areas[0.0] / max(areas.values()))
    return bounded(values, "each", at_most=within, form="{:.1f} %")


def theta_larger(study: Study, *, definitions: list[str], loses_at_most: float, cases: int) -> Judgement:
    """Count where some finite theta > 0 saves updates of theta = 0, and loses at most some per cent of its AUC."""
    best: dict[str, str] = {}
    others = []
    for name, group in groups(_published(study, *definitions), lambda job: replace(job, theta=None)):
        default = next(outcome for outcome in group if outcome.job.theta == 0)
        least = (1 - loses_at_most / 100) * default.mean("area")
        larger = [each for each in group if 0 < _threshold(each) < np.inf and each.mean("area") >= least]
        fewest = min(larger, key=lambda each: each.mean("updates"), default=default)
        if fewest.mean("updates") < default.mean("updates"):
            best[name] = (
                f"{name} {default.mean('updates'):.1f} -> {fewest.mean('updates'):.1f} at {fewest.job.theta:g}"
            )
        else:
            others.append(name)
    figures = f"{len(best)} of {len(best) + len(others)}: {listed(list(best.values()))}"
    return len(best) >= cases, figures + (f"; not so: {listed(others)}" if others else "")


def _threshold(outcome: Outcome) -> float:
    """Return theta; the fixed rate is a theta of -inf."""
    return -np.inf if outcome.job.theta is None else outcome.job.theta


def interval_growths(study: Study, *, definition: str, at_most: dict[str, float]) -> Judgement:
    """Check by how much each method's updates grow from its longest interval to its shortest, each by a bar."""
    bad, figures = [], []
    found = _published(study, definition)
    for name, group in groups(found, lambda job: replace(job, every=1.0)):
        method = group[0].job.method
        if group[0].job.theta is None or method not in at_most:
            continue
        short, *_, long = sorted(group, key=lambda outcome: outcome.job.every)
        growth = short.mean("updates") / long.mean("updates")
        times = long.job.every / short.job.every
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
    """Check that updates with the trigger do not rise with the interval, but for noise.

    At the fixed rate it is so by construction.
    """
    series = {
        name: [each.mean("updates") for each in sorted(group, key=lambda outcome: outcome.job.every)]
        for name, group in groups(_published(study, *definitions), lambda job: replace(job, every=1.0))
        if group[0].job.theta is not None
    }
    return falling(series, noise_updates, noise_percent, "U grows")


def spread(study: Study, *, definitions: list[str], below: float, below_at_smoke: float) -> Judgement:
    """Check the standard deviations over the trials, of AUC and of the final mAP."""
    values = {
        f"{_MEASURES[measure]} of {label(job)}" + (", fixed rate" if job.theta is None else ""): outcome.spread(
            measure
        )
        for measure in ("area", "final")
        for job, outcome in _published(study, *definitions).items()
        if whole_batches(job)
    }
    bound = below_at_smoke if study.scale == "smoke" else below
    return bounded(values, "each", below=bound, form="{:.4f}")


def first(
    study: Study, *, definition: str, method: str, among: list[str], measures: list[str], deviations: float
) -> Judgement:
    """Check that a method is before all others on each data set, in each measure, by a margin.

    The lead must be more than so many standard deviations over the trials, the larger one of the two methods.
    """
    found = _published(study, definition)
    leads: Leads = {}
    figures = []
    for dataset in dict.fromkeys(job.dataset for job in found if job.method == method):
        for measure in measures:
            each = {
                job.method: outcome
                for job, outcome in found.items()
                if job.dataset == dataset and job.theta is not None and job.method in (method, *among)
            }
            own = each.pop(method)
            second = max(each.values(), key=lambda outcome: outcome.mean(measure))
            lead, noise = leads[f"{dataset} {measure}"] = ahead(own, second, measure)
            figures.append(
                f"{dataset_title(dataset)} {_MEASURES[measure]} {own.mean(measure):.3f}, then "
                f"{row_name(second.job)} {second.mean(measure):.3f} (deviation {noise:.3f}"
                f"{'' if lead > deviations * noise else ': not clear'})"
            )
    return leading(leads, deviations), listed(figures, len(figures))


def rising(study: Study, *, definitions: list[str], method: str, deviations: float) -> Judgement:
    """Check that the last quarter of a curve lies above its third, by a margin.

    The rise must be more than so many standard deviations of it over the trials.
    """
    rises: Leads = {}
    for job, outcome in _published(study, *definitions).items():
        if job.method == method and job.theta is not None:
            third, last = np.array_split(outcome.curves, 4, axis=1)[2:]
            each = last.mean(axis=1) - third.mean(axis=1)
            rises[label(job)] = float(each.mean()), float(each.std(ddof=1)) if len(each) > 1 else 0.0
    return margins(rises, deviations, "{:+.4f}")


def longer_codes(study: Study, *, shorter: str, longer: str, methods: list[str], deviations: float) -> Judgement:
    """Check that the final mAP is higher with longer codes, by a margin as in `first`."""
    short, long = (
        {_key(job): each for job, each in _published(study, name).items()} for name in (shorter, longer)
    )
    leads = {
        label(outcome.job): ahead(long[key], outcome)
        for key, outcome in short.items()
        if outcome.job.method in methods and outcome.job.theta is not None
    }
    return margins(leads, deviations, "{:+.3f}")


def alike(study: Study, *, definition: str, dataset: str, methods: list[str], within: float) -> Judgement:
    """Check that methods differ by at most some per cent of the best."""
    scores = {
        row_name(job): outcome.mean("area")
        for job, outcome in _published(study, definition, repeated=True).items()
        if job.dataset == dataset and job.method in methods and job.theta is not None
    }
    gap = 100 * (1 - min(some(scores).values()) / max(scores.values()))
    figures = ", ".join(f"{name} {score:.3f}" for name, score in scores.items())
    return gap <= within, f"AUC {figures}: {gap:.1f} % apart"


def _published(study: Study, *definitions: str, repeated: bool = False) -> dict[Job, Outcome]:
    """Return the outcomes of methods that are the published ones: claims are about no others."""
    found = study.outcomes(*definitions, repeated=repeated)
    return {job: outcome for job, outcome in found.items() if as_published(job)}


def _key(job: Job) -> tuple[Any, ...]:
    return (job.dataset, job.method, job.theta, job.every, job.share)
