"""Kinds of checks, by the names that files of claims call them: a function of results and parameters each.

Every public function of `online_checks`, `fit_checks` and `drift_checks` is one. It returns whether the claim
held, and the numbers that decided.
"""

from collections.abc import Callable

from . import drift_checks, fit_checks, online_checks
from .judgement import Judgement

__all__ = ["CHECKS"]

CHECKS: dict[str, Callable[..., Judgement]] = {
    name.replace("_", "-"): check
    for module in (online_checks, fit_checks, drift_checks)
    for name, check in vars(module).items()
    if not name.startswith("_") and getattr(check, "__module__", "") == module.__name__
}
