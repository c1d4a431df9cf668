"""How numbers become a judgement: against bounds, or along a series, with the exceptions named."""

from collections.abc import Sequence
from itertools import pairwise
from typing import TypeVar

import numpy as np

from ... import validation
from ...errors import InvalidInput

_NAMED = 4  # how many exceptions are named before the rest is counted

Judgement = tuple[bool, str]
Values = dict[str, float]
T = TypeVar("T")


def bounded(
    values: Values,
    over: str,
    *,
    above: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
    form: str = "{:.2f}",
) -> Judgement:
    """Check the median of values, or each of them, against bounds."""
    validation.choice("over", over, ("median", "each"))
    median = float(np.median(list(some(values).values())))

    def good(value: float) -> bool:
        return (
            (above is None or value > above)
            and (below is None or value < below)
            and (at_most is None or value <= at_most)
        )

    least, most = (pick(values, key=values.__getitem__) for pick in (min, max))
    figures = f"median {form.format(median)}, from {form.format(values[least])} ({least})"
    figures += f" to {form.format(values[most])} ({most})"
    if over == "median":
        return good(median), figures
    bad = [f"{name} {form.format(value)}" for name, value in values.items() if not good(value)]
    return not bad, figures + (f"; not so: {listed(bad)}" if bad else "")


def falling(series: dict[str, list[float]], noise_updates: float, noise_percent: float, when: str) -> Judgement:
    """Check that no number of a series is above the one before it by more than the noise."""
    steps, bad = 0, []
    for name, updates in some(series).items():
        for before, after in pairwise(updates):
            steps += 1
            if after - before > max(noise_updates, noise_percent / 100 * before):
                bad.append(f"{name} {before:.1f} -> {after:.1f}")
    figures = f"{steps - len(bad)} of {steps} steps do not rise as {when}"
    return not bad, figures + (f"; rising: {listed(bad)}" if bad else "")


def some(values: dict[str, T]) -> dict[str, T]:
    """Refuse an empty collection, of which anything would hold."""
    if not values:
        raise InvalidInput("A claim must be about at least one run; no result fits its parameters.")
    return values


def listed(names: Sequence[str], most: int = _NAMED) -> str:
    """Return the first names, and how many more there are.

    Examples
    --------
    >>> listed(["OKH", "OSH", "LSH"], most=2)
    'OKH; OSH; and 1 more'
    """
    rest = len(names) - most
    return "; ".join(names[:most]) + (f"; and {rest} more" if rest > 0 else "")
