"""Elapsed time that is always positive.

On some virtual machines the clocks of two processors differ by milliseconds. A thread that moves from one to the
other may see time stand still, or go back, so a difference of two readings may be zero or negative.
"""

import time

_LEAST_S = 1e-6


class Stopwatch:
    """Measures the time since it was made.

    Examples
    --------
    >>> watch = Stopwatch()
    >>> 0 < watch.seconds < 60
    True
    """

    def __init__(self) -> None:
        self._begin = time.perf_counter()

    @property
    def seconds(self) -> float:
        """How many seconds have passed, at least a millionth of one."""
        return max(time.perf_counter() - self._begin, _LEAST_S)
