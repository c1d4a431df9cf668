"""The decision at one moment of a stream: whether the current mapping is worth a new hash table (Sec. 3.1)."""

from ..kernels import one_thread
from ..mapping import HashMapping
from ..trigger import UNMOVED, Decision, Trigger
from .blocks import Moment
from .quality import Gauge


def decide(trigger: Trigger, moment: Moment, snapshot: HashMapping, gauge: Gauge) -> Decision:
    """Ask the trigger, or follow the learner's own wish (App. D.2); both mappings are measured on its sample."""
    with one_thread():  # who is near whom must not depend on what other threads do meanwhile
        moved = moment.mapping.distance(snapshot) >= UNMOVED
        if moment.forced and moved:
            return Decision(True, float("nan"), "the learner asks for it at its start")
        return trigger.judge(
            moved,
            len(moment.reservoir),
            lambda: (gauge.measure(moment.reservoir, moment.mapping), gauge.measure(moment.reservoir, snapshot)),
        )
