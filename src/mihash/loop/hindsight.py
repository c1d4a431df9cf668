"""When it would have been best to rehash, in hindsight: a dynamic programme over recorded curves.

The cost of a schedule is what its tables missed, in perfectly answered queries, plus a price for each rehash. A
trigger decides without knowing what comes. How much more it cost than the best schedule shows how well it did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..records import Record
from .decisions import EVENTS, Check

Floats = NDArray[np.float64]

_FIRST = ("start", "normalization")  # the first table: it costs nothing
_VISIBLE = 0.05  # queries: less is written as 0.0


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


def best_schedule(missed: ArrayLike, begins: ArrayLike, price: ArrayLike) -> RehashSchedule:
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
        What each rehash costs: one number, or one for each candidate (candidates,).

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
    prices = np.asarray(price, dtype=np.float64)
    if prices.shape not in ((), (n,)):
        raise InvalidInput(f"`price` must be one number or one for each of the {n} candidates.")
    prices = np.broadcast_to(prices, n)
    sums = np.concatenate([np.zeros((n, 1)), np.cumsum(values, axis=1)], axis=1)
    cost, before = np.zeros(n), np.full(n, -1)
    for k in range(1, n):
        until = cost[:k] + sums[np.arange(k), starts[k]] - sums[np.arange(k), starts[:k]] + prices[k]
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
        What a rehash costs, in perfectly answered queries; if that has changed, what the last one would cost.
    rehashes, missed, cost
        The number of rehashes after the first tables, the total loss, and the cost of both.
    best_rehashes, best_cost
        The same for the best schedule.
    best_at
        After how many examples the best schedule rehashes.
    ratio
        ``cost / best_cost``; None if ``best_cost`` is not above 0.
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
        if self.ratio is not None:
            return f"the trigger cost {max(0.0, 100 * (self.ratio - 1)):.0f} % more than the best schedule."
        more = self.cost - self.best_cost
        if more < _VISIBLE:
            return "there was nothing to gain."
        return f"the trigger cost {more:,.1f} queries more than the best schedule."


def prices_in_force(checks: Iterable[Check], price: float) -> list[float]:
    """Return the price of a rehash at each check; ``price`` if the history has no price.

    Examples
    --------
    >>> first, second = (Check(i, "trigger", 100 * i, False, 0.0, 0.5, 0.5, "") for i in (0, 2))
    >>> prices_in_force([first, Check(1, "price", 100, False, None, 50.0, 20.0, ""), second], price=5)
    [20.0, 50.0, 50.0]
    """
    checks = list(checks)
    events = [check for check in checks if check.kind == "price" and check.current is not None]
    if events and events[0].snapshot is not None:
        price = events[0].snapshot
    prices = list[float]()
    for check in checks:
        if check.kind == "price" and check.current is not None:
            price = check.current
        prices.append(price)
    return prices


def in_hindsight(checks: Iterable[Check], price: float | Sequence[float]) -> Hindsight | None:
    """Compare the checks of a history with the best schedule; None if none of them measured anything.

    A history has the quality of the current mapping and of the table at each check, but not that of a table made
    at another time. The loss of such a table is estimated: what the real table missed at the check, minus what it
    missed when the other table would have been made. This assumes that mappings improve alike for every table.

    Every accepted check is a rehash and costs its price, also one that was requested or offered. Tables that were
    made before anything was measured are the first ones and cost nothing. If the mapping has not moved since the
    table was made, the table misses nothing. If a rehash was not measured, the table is taken to miss as much as
    at the check before.

    Parameters
    ----------
    checks
        The history.
    price
        What a rehash costs, in perfectly answered queries: one number for the whole history, or one for each
        check, as `prices_in_force` finds them. The best schedule pays the price of the check that it rehashes at.

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
    history = list(checks)
    given = np.asarray(price, dtype=np.float64)
    if given.shape not in ((), (len(history),)):
        raise InvalidInput(f"`price` must be one number or one for each of the {len(history)} checks.")
    prices = np.broadcast_to(given, len(history))
    kept = [i for i, check in enumerate(history) if _is_compared(check)]
    measured = [i for i in kept if history[i].gain is not None and history[i].current is not None]
    if not measured:
        return None
    compared = [history[i] for i in kept]
    seen = np.array([0, *(check.seen for check in compared)])
    usual = float(np.mean([history[i].current for i in measured])) or 1.0
    levels = _levels(compared, usual)
    widths, n = np.diff(seen), len(compared)
    # A table made at check k serves the intervals after it; the table of the start serves the first ones.
    reference = np.concatenate([[0.0], levels.at_check])
    missed = (levels.before[None] - reference[:, None]) * widths
    best = best_schedule(missed, np.arange(n + 1), np.concatenate([[0.0], prices[kept]]))
    paid = [i for i in kept if history[i].accepted and not _is_first(history[i], i < measured[0])]
    total = float(((levels.before - levels.table) * widths).sum())
    cost = total + float(prices[paid].sum())
    least = min(best.cost, cost)  # sums in another order may differ in their last bits
    return Hindsight(
        n,
        float(prices[-1]),
        len(paid),
        total,
        cost,
        len(best.tables),
        least,
        tuple(int(seen[table]) for table in best.tables),
        cost / least if least > 0 else None,
    )


class _Levels(NamedTuple):
    """How good mappings are, in shares of a query above the table of the start: one value for each check.

    Attributes
    ----------
    before
        The newest mapping in the interval before the check.
    at_check
        The mapping that the check was about.
    table
        The table in the interval before the check.
    """

    before: Floats
    at_check: Floats
    table: Floats


def _levels(checks: Sequence[Check], usual: float) -> _Levels:
    """Add up the gains of a history, each from the table that it was measured against."""
    before, at_check, table = np.zeros((3, len(checks)))
    level = base = 0.0
    for i, check in enumerate(checks):
        known = level
        if check.gain is not None:
            level = base + check.gain / usual
        # An offered mapping was not there in the interval before.
        before[i], at_check[i], table[i] = known if check.kind == "offer" else level, level, base
        if check.accepted:
            base = level
    return _Levels(before, at_check, table)


def _is_compared(check: Check) -> bool:
    """Tell whether a check decided about a mapping after the first and measured it or made a table."""
    decides = check.kind not in (*EVENTS, *_FIRST)
    return decides and (check.accepted or check.gain is not None)


def _is_first(check: Check, before_measures: bool) -> bool:
    """Tell whether the trigger made a table without a measure, as it does with the first ones."""
    return before_measures and check.kind == "trigger" and check.gain is None
