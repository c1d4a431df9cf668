"""What the journal of a migration has acknowledged; every process of the soak reads it for itself."""

import json
import time
from collections import Counter
from pathlib import Path
from typing import IO, Any

__all__ = ["Acknowledged", "write"]

EDITS = ("add", "delete", "replace", "note")
_SWAPS = {"cut over": 1, "roll back": -1}


def write(journal: IO[str], what: str, done: bool, **more: Any) -> dict[str, Any]:
    """Append a line, and return what it says."""
    entry = {"what": what, "done": done, "at": time.time(), **more}
    journal.write(json.dumps(entry) + "\n")
    journal.flush()
    return entry


class Acknowledged:
    """The items, how often each was changed, and which generation answers.

    Attributes
    ----------
    items, notes
        How often each item was changed, and its metadata.
    missing
        The items that have no valid new vector.
    generation, state
        Which one answers; "none", "filling" or "cut over".
    rolled
        Whether this migration was rolled back before.
    pending
        The step that has begun, and may have been done or not.
    counts, begun
        How often each step was done, and begun.
    seconds
        How long each step took when it was last done.
    """

    def __init__(self, journal: Path) -> None:
        self.items: dict[int, int] = {}
        self.notes: dict[int, int] = {}
        self.missing: set[int] = set()
        self.generation, self.state, self.rolled = 0, "none", False
        self.pending: dict[str, Any] | None = None
        self.counts: Counter[str] = Counter()
        self.begun: Counter[str] = Counter()
        self.seconds: dict[str, float] = {}
        self.next_key = 0
        self._journal, self._at = journal, 0

    def read(self) -> None:
        """Apply what was written since the last call."""
        with self._journal.open("rb") as file:
            file.seek(self._at)
            text = file.read()
        text = text[: text.rfind(b"\n") + 1]  # the rest is being written
        self._at += len(text)
        for line in text.splitlines():
            try:
                entry = json.loads(line)
            except ValueError:
                continue  # cut by a kill
            if entry["what"] == "checked":
                self.pending = None
            elif entry["done"]:
                self.apply(entry)
            else:
                self.pending = entry
                self.begun[entry["what"]] += 1

    def settle(self, was_done: bool) -> None:
        """Write to the journal whether the step that a kill has met was done."""
        entry = {**self.pending, "done": True} if was_done and self.pending else {"what": "checked"}
        with self._journal.open("a") as file:
            file.write("\n" + json.dumps(entry) + "\n")
        self.read()

    def apply(self, entry: dict[str, Any]) -> None:
        """Take over one step that was done."""
        what, keys = entry["what"], entry.get("keys", [])
        self.counts[what] += 1
        if self.pending is not None:
            self.seconds[what] = entry["at"] - self.pending["at"]
        self.pending = None
        if what == "add":
            self.items |= dict.fromkeys(keys, 0)
            self.next_key = max(self.next_key, max(keys) + 1)
        elif what == "delete":
            for key in keys:
                del self.items[key]
                self.notes.pop(key, None)
        elif what == "replace":
            for key in keys:
                self.items[key] += 1
        elif what == "note":
            self.notes |= dict.fromkeys(keys, entry["value"])
        elif what == "begin":
            self.state, self.missing = "filling", set(self.items)
        elif what == "finish":
            self.state, self.rolled = "none", False
        elif what in _SWAPS:
            self.generation += _SWAPS[what]
            self.state, self.rolled = ("cut over", self.rolled) if what == "cut over" else ("filling", True)
        if what in ("migrate", "delete"):
            self.missing.difference_update(keys)
        elif what in ("add", "replace") and self.state == "filling":
            self.missing.update(keys)

    @property
    def phase(self) -> str:
        """Where the migration is, in the words of the report."""
        if self.state == "none":
            return "after" if self.counts["finish"] else "before"
        return "rolled back" if self.state == "filling" and self.rolled else self.state

    @property
    def possible(self) -> set[int]:
        """The generations that may answer at this moment."""
        what = "" if self.pending is None else self.pending["what"]
        return {self.generation, self.generation + _SWAPS.get(what, 0)}

    @property
    def n_swaps(self) -> int:
        """How often another generation began to answer."""
        return sum(self.counts[what] for what in _SWAPS)

    @property
    def n_edits(self) -> int:
        """How often items were changed."""
        return sum(self.counts[what] for what in EDITS)
