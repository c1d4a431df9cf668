"""When it would have been best to rehash, in hindsight: a dynamic programme over recorded curves.

The cost of a schedule is what its tables missed, in perfectly answered queries, plus a price for each rehash. A
trigger decides without knowing what comes; how much more than the best schedule it cost says how well it did.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..records import Record
from .decisions import Check

Floats = NDArray[np.float64]


class RehashSchedule(NamedTuple):
    """The best times to rehash.

    Attributes
    ----------
    cost
        What it costs in all.
    tables
        Which candidates were made, after the first, which is there from the start.
    """

    cost: float
    tables: list[int]


def best_schedule(missed: ArrayLike, begins: ArrayLike, price: float) -> RehashSchedule:
    """Return the cheapest schedule of rehashes.

    Parameters
    ----------
    missed
        A matrix (candidates, intervals): what a table of each candidate mapping misses in each interval. Before
        a candidate begins, its values are not looked at.
    begins
        From which interval on each candidate can be used (candidates,), in rising order; the first is there from
        the start and costs nothing.
    price
        What each rehash costs.

    Examples
    --------
    >>> schedule = best_schedule([[0, 3, 5, 5], [0, 0, 1, 2], [0, 0, 0, 1]], begins=[0, 1, 2], price=2.5)
    >>> schedule.cost, schedule.tables
    (5.5, [1])
    """
    values = validation.numbers("missed", missed, ndim=2)
    starts = np.asarray(begins, dtype=np.int64)
    if starts.shape != (len(values),) or (len(starts) and (starts[0] != 0 or (np.diff(starts) < 0).any())):
        raise InvalidInput("`begins` must have one interval for each candidate, from 0, in rising order.")
    n, n_intervals = values.shape
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(values, axis=1)], axis=1)
    cost, before = np.zeros(n), np.full(n, -1)
    for k in range(1, n):
        until = cost[:k] + sums[np.arange(k), starts[k]] - sums[np.arange(k), starts[:k]] + price
        before[k] = int(np.argmin(until))
        cost[k] = until[before[k]]
    total = cost + sums[:, n_intervals] - sums[np.arange(n), starts]
    last = int(np.argmin(total))
    tables, at = list[int](), last
    while at > 0:
        tables.append(at)
        at = int(before[at])
    return RehashSchedule(float(total[last]), tables[::-1])


@dataclass(frozen=True)
class Hindsight(Record):
    """How the tables of an index compare with the best schedule in hindsight.

    Attributes
    ----------
    checks
        How many checks were compared.
    price
        What a rehash costs, in perfectly answered queries.
    rehashes, missed, cost
        The number of rehashes, the total loss, and the cost of both.
    best_rehashes, best_cost
        The same for the best schedule.
    best_at
        After how many examples the best schedule rehashes.
    ratio
        ``cost / best_cost``; None if that is 0.
    """

    checks: int
    price: float
    rehashes: int
    missed: float
    cost: float
    best_rehashes: int
    best_cost: float
    best_at: tuple[int, ...]
    ratio: float | None

    @property
    def sentence(self) -> str:
        """How much more than the best schedule it cost, in words."""
        if self.ratio is None:
            return "there was nothing to gain."
        return f"the trigger cost {100 * (self.ratio - 1):.0f} % more than the best schedule."


def in_hindsight(checks: Iterable[Check], price: float) -> Hindsight | None:
    """Compare the checks of a history with the best schedule; None if none of them measured anything.

    A history has the quality of the current mapping and of the table at each check, but not that of a table made
    at another time. The loss of such a table is estimated: what the real table missed at the check, minus what it
    missed when the other table would have been made. This assumes that mappings improve alike for every table.

    Parameters
    ----------
    checks
        The history.
    price
        What a rehash costs, in perfectly answered queries.

    Examples
    --------
    >>> gains = [0.0, 0.1, 0.1, 0.1, 0.0]
    >>> checks = [
    ...     Check(i, "trigger", 100 * i + 100, i == 3, gain, 0.5, 0.5 - gain, "") for i, gain in enumerate(gains)
    ... ]
    >>> found = in_hindsight(checks, price=20)
    >>> round(found.missed), found.best_at, round(found.best_cost), found.ratio
    (60, (200,), 40, 2.0)
    """
    measured = [
        check
        for check in checks
        if check.kind == "trigger" and check.gain is not None and check.current is not None
    ]
    if not measured:
        return None
    seen = np.array([0, *(check.seen for check in measured)])
    usual = float(np.mean([check.current for check in measured])) or 1.0
    gaps = np.array([check.gain or 0.0 for check in measured]) / usual * np.diff(seen)
    level, base = np.zeros(len(measured)), 0.0
    for i, check in enumerate(measured):
        level[i] = base + gaps[i]
        if check.accepted:
            base = level[i]
    # A table made at check k serves the intervals after it; the table of the start serves the first ones.
    reference = np.concatenate([[0.0], level])
    missed = level[None] - reference[:, None]
    best = best_schedule(missed, np.arange(len(measured) + 1), price)
    rehashes, total = sum(check.accepted for check in measured), float(gaps.sum())
    cost = total + price * rehashes
    return Hindsight(
        len(measured),
        price,
        rehashes,
        total,
        cost,
        len(best.tables),
        best.cost,
        tuple(int(seen[table]) for table in best.tables),
        cost / best.cost if best.cost > 0 else None,
    )
