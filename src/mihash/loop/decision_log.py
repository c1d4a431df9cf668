"""Stored checks that a replay reads in place of making them again."""

from collections.abc import Iterable

from ..mapping import HashMapping
from ..trigger import Decision
from .decisions import Check

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
        """Remove and return the check of a number; None where the log has it not, or another one."""
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
