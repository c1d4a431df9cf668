"""Kinds of checks, by the names that ``claims.toml`` calls them: a function of results and parameters each.

A check returns whether the claim held, and the numbers that decided.
"""

from collections.abc import Callable

from .information import correlation, less_overlap, nearer
from .intervals import interval_growth, interval_more, spread
from .judgement import Judgement
from .methods import alike, first, longer_codes, needs_labels, rising
from .thetas import theta_default, theta_fewer, theta_infinite, theta_low
from .trigger import area_change, overhead, reduction, reservoir, steadier

__all__ = ["CHECKS"]

CHECKS: dict[str, Callable[..., Judgement]] = {
    "reduction": reduction,
    "area-change": area_change,
    "steadier": steadier,
    "overhead": overhead,
    "reservoir": reservoir,
    "first": first,
    "rising": rising,
    "longer-codes": longer_codes,
    "alike": alike,
    "needs-labels": needs_labels,
    "theta-fewer": theta_fewer,
    "theta-infinite": theta_infinite,
    "theta-low": theta_low,
    "theta-default": theta_default,
    "interval-growth": interval_growth,
    "interval-more": interval_more,
    "spread": spread,
    "correlation": correlation,
    "nearer": nearer,
    "less-overlap": less_overlap,
}
