"""Kinds of checks, by the names that ``claims.toml`` calls them: a function of results and parameters each.

A check returns whether the claim held, and the numbers that decided.
"""

from collections.abc import Callable

from .fit_checks import first_on_map, one_epoch_above, step_faster, training_time
from .information_checks import correlation, learned, less_overlap, nearer
from .interval_checks import interval_growth, interval_growths, interval_more, spread
from .judgement import Judgement
from .method_checks import alike, first, longer_codes, needs_labels, rising
from .theta_checks import theta_default, theta_fewer, theta_infinite, theta_larger, theta_low
from .training_checks import above_end_to_end, reaches_end_to_end
from .trigger_checks import area_change, overhead, overhead_order, reduction, reservoir, reservoir_sizes, steadier

__all__ = ["CHECKS"]

CHECKS: dict[str, Callable[..., Judgement]] = {
    "reduction": reduction,
    "area-change": area_change,
    "steadier": steadier,
    "overhead": overhead,
    "overhead-order": overhead_order,
    "reservoir": reservoir,
    "reservoir-sizes": reservoir_sizes,
    "first": first,
    "rising": rising,
    "longer-codes": longer_codes,
    "alike": alike,
    "needs-labels": needs_labels,
    "theta-fewer": theta_fewer,
    "theta-infinite": theta_infinite,
    "theta-low": theta_low,
    "theta-default": theta_default,
    "theta-larger": theta_larger,
    "interval-growth": interval_growth,
    "interval-growths": interval_growths,
    "interval-more": interval_more,
    "spread": spread,
    "correlation": correlation,
    "nearer": nearer,
    "learned": learned,
    "less-overlap": less_overlap,
    "first-on-map": first_on_map,
    "one-epoch-above": one_epoch_above,
    "training-time": training_time,
    "step-faster": step_faster,
    "above-end-to-end": above_end_to_end,
    "reaches-end-to-end": reaches_end_to_end,
}
