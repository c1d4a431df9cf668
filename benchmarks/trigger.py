"""What the trigger adds to learning, per example: all of `OnlineHashing.feed` except the learner's own time.

That is keeping the reservoir, encoding it, both qualities and the decision, at an interval of 100 with 1,000
examples in the reservoir, class labels and an empty table. The peer is `TriggerUpdate.decide`, which keeps
nothing between two decisions and encodes the sample with both mappings each time. The learning time is that
of the default MIHash and holds its whitening estimates after 2,048 and 4,096 examples. The reservoir's projections
under the current mapping count as the trigger's, although the learner goes on with them and so saves its own.
"""

import time

import numpy as np

from mihash import OnlineHashing, TriggerUpdate
from mihash.online import MIHash

from .clock import best
from .report import Target, console, show
from .synthetic import labelled_features

N_BITS, SIZE, INTERVAL = 32, 1000, 100
WARM_UP, N, PART = 2000, 5000, 500
TARGETS = {512: Target(most=30, unit="us"), 4096: Target(most=65, unit="us")}
ROUNDS = 6
OURS, LEARNING, PEER = "trigger and reservoir", "learning", "decide, stateless"


class TimedMIHash(MIHash):
    """MIHash that keeps account of its own CPU seconds."""

    spent = 0.0

    def learn(self, *block) -> None:
        """Learn, and add up how long that took."""
        start = time.process_time()
        super().learn(*block)
        self.spent += time.process_time() - start


class Stream:
    """A stream that new loops are fed with, the same each time.

    A pass is long enough to meet a busy moment of the machine, so the least time is kept for each of its parts.
    """

    def __init__(self, d: int) -> None:
        self.X, self.y = labelled_features(WARM_UP + N, d)
        self.least = np.full((2, N // PART), np.inf)  # seconds outside and inside the learner, by part
        self.last: OnlineHashing | None = None

    def overhead(self) -> float:
        """Feed a new loop; return the CPU seconds per example that were not the learner's."""
        learner = TimedMIHash(N_BITS)
        self.last = OnlineHashing(learner, TriggerUpdate(interval=INTERVAL), SIZE)
        self.last.feed(self.X[:WARM_UP], self.y[:WARM_UP])
        for part in range(N // PART):
            rows = slice(WARM_UP + part * PART, WARM_UP + (part + 1) * PART)
            learner.spent = 0.0
            start = time.process_time()
            self.last.feed(self.X[rows], self.y[rows])
            total = time.process_time() - start
            self.least[:, part] = np.minimum(self.least[:, part], (total - learner.spent, learner.spent))
        return float(self.least[0].sum()) / N

    def learning(self) -> float:
        """Return the learner's own CPU seconds per example in the passes so far."""
        return float(self.least[1].sum()) / N

    def decide(self) -> float:
        """Decide once without a memory of the last time; return CPU seconds per example of the interval."""
        learner, system = MIHash(N_BITS), self.last
        learner.start(self.X.shape[1])
        start = time.process_time()
        system.trigger.decide(system.current, learner.mapping, system.reservoir.X, system.reservoir.y)
        return (time.process_time() - start) / INTERVAL


def run() -> None:
    for d, target in TARGETS.items():
        stream = Stream(d)
        contenders = {OURS: stream.overhead, LEARNING: stream.learning, PEER: stream.decide}
        times = best(contenders, ROUNDS)
        title = f"Trigger, d = {d}, b = {N_BITS}, R = {SIZE}, every {INTERVAL}"
        show(title, times, LEARNING, "us per example", {OURS: target})
        share = times[OURS] / (times[OURS] + times[LEARNING])
        console.print(f"{share:.0%} of the loop's time; {stream.last.updates} table updates.")
