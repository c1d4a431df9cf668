"""What learning takes on this machine: the first examples of a stream, late ones, and how often it updates."""

import time
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import InvalidInput
from ..index.options import Options
from ..loop.decisions import Check
from ..mapping import HashMapping

FEWEST = 1000
"""Examples that are needed."""

_WARM = 2500  # with the first checks of a stream, and the first measurements of its watch
_SHORT_S = 4.0
_LONGEST_S = 30.0  # a learner that steps row by row takes minutes for all of them


class Learned(NamedTuple):
    """What learning took: of n examples in all, of a late one, and by how much that falls; updates and mapping."""

    n: int
    seconds: float
    late_s: float
    falling_s: float
    updates: int
    updates_doubling: int
    mapping: HashMapping


def learning_costs(X: NDArray[np.float32], y: NDArray[Any] | None, options: Options) -> Learned:
    """Learn from examples; return what that takes, and the updates in all and in the last half.

    What takes a few seconds only is done twice, and the shorter time counts.

    Along a stream the steps of a learner and the measurements of its watch become rarer. So the s-th example takes
    late + falling / s seconds: the last two quarters of the examples, 1/4 to 1/2 and 1/2 to 1, give both.
    """
    warm = options.make_loop()
    warm.feed(*warm.check(X[:_WARM], None if y is None else y[:_WARM]))
    first = _learned(X, y, options)
    return (
        min(first, _learned(X, y, options), key=lambda each: each.seconds) if first.seconds < _SHORT_S else first
    )


def _learned(X: NDArray[np.float32], y: NDArray[Any] | None, options: Options) -> Learned:
    loop, seen = options.make_loop(), []

    def note(check: Check, mapping: HashMapping | None, _branch: int) -> None:
        if mapping is not None:
            seen.append(check.seen)

    begin = time.process_time()
    loop.put(*loop.check(X, y))
    passed = [(0, 0.0)]  # after how many examples, and seconds
    while loop.queue.later and not (loop.seen >= FEWEST and passed[-1][1] > _LONGEST_S):
        loop.learn(options.interval, note)
        passed.append((loop.seen, time.process_time() - begin))
    if loop.failure is not None:
        raise InvalidInput(loop.failure)
    n, seconds = passed[-1]
    late_s, falling_s = _late(passed)
    return Learned(n, seconds, late_s, falling_s, len(seen), sum(at > n // 2 for at in seen), loop.current)


def _late(passed: list[tuple[int, float]]) -> tuple[float, float]:
    """Return a and b of a + b / s, the seconds of the s-th example, from pairs of (examples, total seconds).

    Examples
    --------
    >>> total = [0.0, *(2.0 * s + 30.0 * np.log(s) for s in range(1, 4001))]
    >>> [round(float(found), 1) for found in _late(list(enumerate(total)))]
    [2.0, 30.0]
    """
    n, seconds = passed[-1]
    half, half_s = next(each for each in passed if each[0] >= n / 2)
    quarter, quarter_s = next(each for each in passed if each[0] >= n / 4)
    if not 0 < quarter < half < n:
        return seconds / n, 0.0
    before, after = (half_s - quarter_s) / (half - quarter), (seconds - half_s) / (n - half)
    means = log(half / quarter) / (half - quarter), log(n / half) / (n - half)  # of 1 / s
    falling = max((before - after) / (means[0] - means[1]), 0.0)
    late = after - falling * means[1]
    least = after / 2  # what is measured of few examples varies
    return (late, falling) if late >= least else (least, (after - least) / means[1])
