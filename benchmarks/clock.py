"""CPU time of contenders that take turns, so that a busy machine affects all of them alike."""

import time
from collections.abc import Callable, Mapping

Contender = Callable[[], float]
"""Does its work once and returns the seconds, of CPU unless stated, that one unit of it took."""


def timed(
    work: Callable[[], object],
    units: int = 1,
    repeats: int = 1,
    clock: Callable[[], float] = time.process_time,
) -> Contender:
    """Return a contender whose work has ``units`` units, such as examples or queries; the time of one is reported.

    Work of microseconds is repeated, so that the clock's own call does not count. Where several threads or the
    wait of a single call are the point, the clock is that on the wall.
    """

    def contend() -> float:
        start = clock()
        for _ in range(repeats):
            work()
        return (clock() - start) / (units * repeats)

    return contend


def best(contenders: Mapping[str, Contender], rounds: int) -> dict[str, float]:
    """Return each contender's least seconds per unit over rounds in which every one runs once.

    The first round also compiles and fills caches; the minimum leaves it out by itself.
    """
    times = {name: float("inf") for name in contenders}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name] = min(times[name], contender())
    return times
