"""The log beside an index: a line before each operation, and one after it returned, both on the disk."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Entry", "Journal"]


@dataclass(frozen=True)
class Entry:
    """What became of an operation.

    Attributes
    ----------
    number, name
        Which one, -1 for opening the index; and its kind.
    outcome
        ``"begun"``, then ``"done"``; or, found out after a kill, ``"kept"`` or ``"lost"``.
    paused
        Whether the index was found paused after a kill; None where nobody looked.
    """

    number: int
    name: str
    outcome: str
    paused: bool | None = None


class Journal:
    """A file of entries, one in a line.

    Parameters
    ----------
    path
        The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, entry: Entry) -> None:
        """Append an entry; it is on the disk when this returns."""
        with self.path.open("ab") as file:
            file.write(json.dumps(vars(entry)).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())

    def read(self) -> tuple[list[Entry], Entry | None]:
        """Return the operations that ended, and the one that has begun and not ended."""
        ended: list[Entry] = []
        begun: Entry | None = None
        for fields in self._lines():
            entry = Entry(**fields)
            if entry.outcome == "begun":
                begun = entry
            else:
                begun = None
                ended.append(entry)
        return ended, begun

    def _lines(self) -> list[dict[str, Any]]:
        """Return the whole lines; a kill may have cut the last one, which is taken away."""
        data = self.path.read_bytes() if self.path.exists() else b""
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            os.truncate(self.path, len(whole))
        return [json.loads(line) for line in whole.splitlines()]
