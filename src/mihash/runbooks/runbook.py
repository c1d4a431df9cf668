"""A runbook: the steps of a stream, in the format of the streaming track of big-ann-benchmarks.

::

    gist22k:
      max_pts: 20000
      1: {operation: insert, start: 0, end: 10000}      # in the files, one indented line for each name
      2: {operation: search}
      3: {operation: delete, start: 0, end: 500}
      4: {operation: replace, tags_start: 500, tags_end: 600, ids_start: 10000, ids_end: 10100}

Rows of the data are stored under tags. An insert stores rows ``start`` to ``end - 1`` under their own numbers; a
replacement stores rows ``ids_start`` to ``ids_end - 1`` under the tags from ``tags_start`` on. The files are YAML
with mappings and scalars alone, or JSON.
"""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from .. import validation
from ..errors import InvalidInput

INSERT, DELETE, REPLACE, SEARCH = "insert", "delete", "replace", "search"
_FIELDS = {
    INSERT: ("start", "end"),
    DELETE: ("start", "end"),
    REPLACE: ("tags_start", "tags_end", "ids_start", "ids_end"),
    SEARCH: (),
}


@dataclass(frozen=True)
class Step:
    """One step.

    Attributes
    ----------
    operation
        ``"insert"``, ``"delete"``, ``"replace"`` or ``"search"``.
    tags
        The tags that it is about, as a half-open range.
    rows
        The rows of the data that are stored under these tags; of an insert, the same numbers.
    """

    operation: str
    tags: range = range(0)
    rows: range = range(0)

    @classmethod
    def of(cls, number: int, fields: Mapping[str, Any]) -> "Step":
        """Return a step from the fields of a file."""
        operation = fields.get("operation")
        if operation not in _FIELDS:
            raise InvalidInput(f"Step {number} has the operation {operation!r}; known: {', '.join(_FIELDS)}.")
        names = _FIELDS[operation]
        missing = [name for name in names if not isinstance(fields.get(name), int)]
        if missing:
            raise InvalidInput(f"Step {number}, {operation}, needs `{missing[0]}` as a whole number.")
        values = [fields[name] for name in names]
        tags = range(*values[:2]) if names else range(0)
        rows = range(*values[2:]) if operation == REPLACE else tags if operation == INSERT else range(0)
        if names and (min(values) < 0 or not len(tags) or (operation == REPLACE and len(rows) != len(tags))):
            raise InvalidInput(f"Step {number}, {operation}, has the empty or unequal ranges {values}.")
        return cls(operation, tags, rows)

    def fields(self) -> dict[str, Any]:
        """Return the fields as a file has them."""
        names = _FIELDS[self.operation]
        values = (self.tags.start, self.tags.stop, self.rows.start, self.rows.stop)
        return {"operation": self.operation} | dict(zip(names, values, strict=False))


@dataclass(frozen=True)
class Runbook:
    """The steps of a stream.

    Attributes
    ----------
    name
        The data set that it is for.
    max_points
        The most items that are stored at a time (``max_pts``).
    steps
        The steps, in order.

    Examples
    --------
    >>> steps = [Step("insert", range(0, 8), range(0, 8)), Step("search"), Step("delete", range(0, 4))]
    >>> runbook = Runbook.of_steps("digits", steps)
    >>> runbook.max_points, runbook.n_rows, Runbook.from_text(runbook.to_text()) == runbook
    (8, 8, True)
    """

    name: str
    max_points: int
    steps: tuple[Step, ...]

    @classmethod
    def of_steps(cls, name: str, steps: Sequence[Step]) -> "Runbook":
        """Return a runbook with the number of points that its steps need; raise if one cannot be done."""
        stored: set[int] = set()
        most = 0
        for number, step in enumerate(steps, 1):
            tags = set(step.tags)
            if step.operation == INSERT and stored & tags:
                raise InvalidInput(f"Step {number} inserts tag {min(stored & tags)}, which is stored already.")
            if step.operation in (DELETE, REPLACE) and tags - stored:
                raise InvalidInput(f"Step {number}, {step.operation}, needs tag {min(tags - stored)}: not stored.")
            stored = stored - tags if step.operation == DELETE else stored | tags
            most = max(most, len(stored))
        return cls(name, most, tuple(steps))

    @classmethod
    def read(cls, path: str | os.PathLike[str], name: str | None = None) -> "Runbook":
        """Read a file; ``name`` says which data set, where it is for several."""
        try:
            text = Path(path).read_text(encoding="utf-8")
        except FileNotFoundError as error:
            raise InvalidInput(f"There is no file {path}.") from error
        except (OSError, ValueError) as error:
            raise InvalidInput(f"The runbook {path} cannot be read: {error}.") from error
        return cls.from_text(text, name)

    @classmethod
    def from_text(cls, text: str, name: str | None = None) -> "Runbook":
        """Return the runbook that a text in YAML or JSON describes."""
        try:
            found = json.loads(text) if text.lstrip().startswith("{") else parse_mappings(text)
        except ValueError as error:
            raise InvalidInput(f"The runbook is neither JSON nor YAML of mappings: {error}") from error
        if not found or not all(isinstance(each, dict) for each in found.values()):
            raise InvalidInput("A runbook must have the name of a data set at the top, and steps 1, 2, ... in it.")
        if name is None and len(found) > 1:
            raise InvalidInput(f"This runbook is for {', '.join(found)}: name one of them.")
        name = next(iter(found)) if name is None else name
        if name not in found:
            raise InvalidInput(f"This runbook is not for {name!r}; it is for {', '.join(found)}.")
        entries = found[name]
        numbered = {int(key): value for key, value in entries.items() if str(key).isdecimal()}
        if sorted(numbered) != list(range(1, len(numbered) + 1)) or not numbered:
            raise InvalidInput("The steps of a runbook must be numbered 1, 2, 3 and so on.")
        if not all(isinstance(value, dict) for value in numbered.values()):
            raise InvalidInput("Each step of a runbook must have an `operation`.")
        runbook = cls.of_steps(name, [Step.of(number, numbered[number]) for number in sorted(numbered)])
        stated = entries.get("max_pts")
        if stated is not None and validation.integer("max_pts", stated, minimum=1) < runbook.max_points:
            raise InvalidInput(f"`max_pts` is {stated}, and the steps store {runbook.max_points} items at a time.")
        return runbook if stated is None else cls(name, int(stated), runbook.steps)

    def to_text(self) -> str:
        """Return it as YAML."""
        lines = [f"{self.name}:", f"  max_pts: {self.max_points}"]
        for number, step in enumerate(self.steps, 1):
            lines += [f"  {number}:", *(f"    {name}: {value}" for name, value in step.fields().items())]
        return "\n".join([*lines, ""])

    @property
    def n_rows(self) -> int:
        """How many rows of the data it needs."""
        return max((step.rows.stop for step in self.steps), default=0)

    @property
    def n_searches(self) -> int:
        """How often it searches."""
        return sum(step.operation == SEARCH for step in self.steps)

    def shown(self) -> str:
        """Return what it does, in a sentence."""
        counts = {name: sum(len(step.tags) for step in self.steps if step.operation == name) for name in _FIELDS}
        changes = ", ".join(f"{counts[name]:,} {name}s" for name in (INSERT, DELETE, REPLACE) if counts[name])
        searches = "1 search" if self.n_searches == 1 else f"{self.n_searches:,} searches"
        return f"{self.name}: {changes}, {searches}, at most {self.max_points:,} items"


def live_rows(runbook: Runbook) -> "list[np.ndarray[Any, np.dtype[np.int64]]]":
    """Return what is stored at each search, as an array (2, n) of tags and of their rows, by tag."""
    rows: dict[int, int] = {}
    found = []
    for step in runbook.steps:
        if step.operation == SEARCH:
            found.append(np.array(sorted(rows.items()), dtype=np.int64).reshape(-1, 2).T)
        elif step.operation == DELETE:
            for tag in step.tags:
                del rows[tag]
        else:
            rows.update(zip(step.tags, step.rows, strict=True))
    return found


def parse_mappings(text: str) -> dict[str, Any]:
    r"""Return YAML that has nothing but mappings and scalars, nested by spaces; keys are strings.

    Examples
    --------
    >>> parse_mappings('a:\n  max_pts: 3  # most\n  1:\n    operation: "search"\n')
    {'a': {'max_pts': 3, '1': {'operation': 'search'}}}
    """
    root: dict[str, Any] = {}
    open_mappings: list[tuple[int, dict[str, Any]]] = [(-1, root)]
    for number, raw in enumerate(text.splitlines(), 1):
        line = raw.split(" #")[0].rstrip()
        if not line.strip() or line.lstrip().startswith("#") or line in ("---", "..."):
            continue
        indent, (key, colon, value) = len(line) - len(line.lstrip(" ")), line.strip().partition(":")
        if not colon or key.startswith(("-", "{", "[", "\t")) or (value and not value.startswith(" ")):
            raise ValueError(f"line {number}, {raw.strip()!r:.80}, is not `name: value`.")
        while indent <= open_mappings[-1][0]:
            open_mappings.pop()
        mapping, name = open_mappings[-1][1], str(_scalar(key))
        if name in mapping:
            raise ValueError(f"line {number} has {name} a second time.")
        if value.strip():
            mapping[name] = _scalar(value.strip())
        else:
            mapping[name] = {}
            open_mappings.append((indent, mapping[name]))
    return root


def _scalar(text: str) -> int | float | str:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
