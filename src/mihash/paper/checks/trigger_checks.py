"""With the trigger against the fixed rate (Sec. 4.2, App. C.1, D.1)."""

import numpy as np

from ...errors import NotReady
from ..definition import load_definition
from ..outcomes import SHARED_TIMES, Outcome, Study, timed_alone
from ..published import METHOD_NAMES
from ..runs import Run
from .judgement import Judgement, bounded, listed, some
from .result_groups import label, pairs


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
    measure: str = "area",
) -> Judgement:
    """Check by how many per cent AUC, or another measure, is higher with the trigger."""
    values = {
        name: 100 * (triggered.mean(measure) / fixed.mean(measure) - 1)
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
    values = {
        name: 100 * triggered.mean("deciding_s") / triggered.mean("learning_s")
        for name, _, triggered in pairs(_timed(study, definition), methods)
    }
    return bounded(values, "median", below=below, form="{:.1f} %")


def overhead_order(study: Study, *, definition: str, more: list[str], less: str) -> Judgement:
    """Check that the trigger adds more to some methods than to another, in seconds and as a share of learning."""
    costs = {
        triggered.run.method: (triggered.mean("deciding_s"), triggered.mean("learning_s"))
        for _, _, triggered in pairs(_timed(study, definition), [*more, less])
    }
    shares = {method: 100 * added / learning for method, (added, learning) in costs.items()}
    bad = [method for method in more if costs[method][0] <= costs[less][0] or shares[method] <= shares[less]]
    figures = [
        f"{METHOD_NAMES[method]} {costs[method][0]:.2f} s ({shares[method]:.0f} %)" for method in (*more, less)
    ]
    return not bad, f"added to learning: {listed(figures, len(figures))}"


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


def reservoir_sizes(
    study: Study, *, definition: str, methods: list[str], shares: list[float], against: float, within: float
) -> Judgement:
    """Compare AUC with a reservoir of some shares of the usual size with that of another share."""
    found = {
        (outcome.run.method, outcome.run.share): outcome
        for _, _, outcome in pairs(study.outcomes(definition), methods)
    }
    values = {
        label(found[method, share].run): 100
        * abs(found[method, share].mean("area") / found[method, against].mean("area") - 1)
        for method in methods
        for share in shares
    }
    return bounded(values, "each", at_most=within, form="{:.1f} %")


def _timed(study: Study, definition: str) -> dict[Run, Outcome]:
    """Return outcomes whose times are those of one trigger alone."""
    found = study.outcomes(definition)
    defined = load_definition(definition)
    if not timed_alone(defined, study.results, study.scale):
        message = SHARED_TIMES.format(command=defined.command(study.results, study.scale))
        raise NotReady(f"The times of {definition} do not say. {message}")
    return found


def _fall(outcome: Outcome) -> float:
    """Return how much mAP falls between checkpoints, summed, in the mean over the trials."""
    steps = np.diff(outcome.curves, axis=1)
    return float(-np.minimum(steps, 0).sum(axis=1).mean())
