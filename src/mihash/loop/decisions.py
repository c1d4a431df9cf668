"""The decision of Sec. 3.1 (is the current mapping worth a new hash table?) and the records of it."""

from collections.abc import Iterable
from dataclasses import dataclass
from math import isnan, nan
from typing import Self

from ..comparison import UNMOVED
from ..kernels import one_thread
from ..mapping import HashMapping
from ..records import Record
from ..reservoir import Reservoir
from ..trigger import Decision, PriceUpdate, Trigger
from .quality import SampleQuality

EVENTS = ("alarm", "price")  # kinds of checks that decide about no mapping


@dataclass
class TriggerState:
    """A trigger and what it has decided.

    Attributes
    ----------
    trigger
        When a mapping is accepted; None for only on request.
    accepted
        The mapping that was accepted last, of normalised features; None before the first.
    n_checks
        How many checks there were.
    deciding_s
        CPU seconds that these took.
    """

    trigger: Trigger | None
    accepted: HashMapping | None = None
    n_checks: int = 0
    deciding_s: float = 0.0

    def accept(self, mapping: HashMapping) -> None:
        """Take over an accepted mapping; what its trigger has summed up begins again."""
        self.accepted = mapping
        if isinstance(self.trigger, PriceUpdate):
            self.trigger.updated()


@dataclass(frozen=True)
class Check(Record):
    """One decision about the hash table.

    Attributes
    ----------
    number
        Which decision it is, from 0; the first mapping is number 0. A version has the number of its decision.
    kind
        What led to the decision: ``"start"``, ``"normalization"``, ``"trigger"``, ``"request"`` (a call of
        `rehash`), or ``"offer"`` (the trigger, about a mapping that was learned elsewhere). Two kinds decide about
        no mapping: ``"alarm"`` (the stream has changed) and ``"price"`` (what a rehash costs).
    seen
        After how many examples.
    accepted
        Whether the current mapping was accepted.
    gain, current, snapshot
        The gain in quality and the two qualities that were compared, in bits; None if they were not measured.
        For an alarm: its strength, and the information of the codes about new examples and about the sample. For a
        price: ``current`` is the new price, and ``snapshot`` the old one.
    reason
        One sentence for a person.
    at, status, items, seconds
        In an index: when the decision was stored; and the status of its version, how many items were encoded for
        it and how long that took. None if there is no version.

    Examples
    --------
    >>> check = Check.of(3, "trigger", 300, Decision(False, 0.01, "the gain is not above theta", 0.51, 0.5))
    >>> check.seen, check["accepted"], check.decision.gain
    (300, False, 0.01)
    """

    number: int
    kind: str
    seen: int
    accepted: bool
    gain: float | None
    current: float | None
    snapshot: float | None
    reason: str
    at: str | None = None
    status: str | None = None
    items: int | None = None
    seconds: float | None = None

    @classmethod
    def of(cls, number: int, kind: str, seen: int, decision: Decision) -> Self:
        """Return the record of a decision."""
        gain, current, snapshot = (
            None if isnan(value) else value for value in (decision.gain, decision.current, decision.snapshot)
        )
        return cls(number, kind, seen, decision.update, gain, current, snapshot, decision.reason)

    @property
    def decision(self) -> Decision:
        """What was decided, as a trigger returns it: NaN if nothing was measured."""
        gain, current, snapshot = (
            nan if value is None else value for value in (self.gain, self.current, self.snapshot)
        )
        return Decision(self.accepted, gain, self.reason, current, snapshot)


Entry = tuple[Check, HashMapping | None]


class DecisionLog:
    """Stored checks by number, each with the mapping that it accepted.

    Parameters
    ----------
    entries
        The checks, with their mappings.

    Examples
    --------
    >>> log = DecisionLog([(Check.of(3, "alarm", 400, Decision(False, 7.0, "the stream has changed")), None)])
    >>> log.alarm(3, 300, None), log.alarm(3, 400, None).gain
    (None, 7.0)
    >>> log.take(3, "alarm", 400)[0].reason, log.alarm(4, 500, None)
    ('the stream has changed', None)
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self._entries = {check.number: (check, mapping) for check, mapping in entries}

    def take(self, number: int, kind: str, seen: int) -> Entry | None:
        """Remove and return the check of a number; None if the log has no such check."""
        found = self._entries.get(number)
        if found is None or (found[0].kind, found[0].seen) != (kind, seen):
            return None
        return self._entries.pop(number)

    def rest(self, number: int) -> list[Entry]:
        """Remove and return what is left, if that begins with a number: learning came to another point."""
        if number not in self._entries:
            return []
        rest = list(self._entries.values())
        self._entries.clear()
        return rest

    def alarm(self, number: int, seen: int, made: Decision | None) -> Decision | None:
        """Return the alarm at an example count: the log's while there is one, then the one that was made."""
        found = self._entries.get(number)
        if found is None:
            return made
        return found[0].decision if (found[0].kind, found[0].seen) == ("alarm", seen) else None


def asks_for_threshold(trigger: Trigger | None) -> bool:
    """Tell whether a trigger measures pairs of a sample without labels: all but one with a price."""
    return trigger is not None and not isinstance(trigger, PriceUpdate)


def decide(
    trigger: Trigger,
    mapping: HashMapping,
    snapshot: HashMapping,
    reservoir: Reservoir,
    quality: SampleQuality,
    forced: bool = False,
    offered: bool = False,
) -> Decision:
    """Ask the trigger whether ``mapping`` should replace ``snapshot``; both are measured on the reservoir.

    Where the learner forces an update (App. D.2), the trigger is not asked. One that has a price is asked about
    the examples of the reservoir where the mapping is offered: no sum was made for it.
    """
    with one_thread():  # which examples are neighbours must not depend on other threads
        moved = mapping.distance(snapshot) >= UNMOVED
        if forced and moved:
            return Decision(True, nan, "the learner updates the table after each of its first blocks")
        if offered and isinstance(trigger, PriceUpdate) and len(reservoir):
            rule = reservoir.neighborhood if reservoir.y is None else None
            return trigger.decide(mapping, snapshot, reservoir.X, reservoir.y, rule)
        return trigger.judge(
            moved,
            len(reservoir),
            lambda: (quality.measure(reservoir, mapping), quality.measure(reservoir, snapshot)),
        )
