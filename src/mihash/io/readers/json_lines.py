"""JSON lines: one object a line, or one list that is the vector."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from ...errors import InvalidInput
from .layout import Kind, Layout, is_named
from .text_lines import Lines, TextSource
from .values import metadata_of_row

_BARE = "vector"  # what the only column of a line that is a list is called


class JSONLinesSource(TextSource):
    """Rows of a file of JSON lines.

    Examples
    --------
    >>> import io
    >>> from mihash.io.readers import Columns
    >>> stream = io.BytesIO(b'{"id": 7, "embedding": [1, 2], "tags": {"year": 1999}}')
    >>> rows, = JSONLinesSource("stdin", stream, Columns(metadata=("tags",))).rows()
    >>> rows.X.tolist(), rows.keys, rows.metadata
    ([[1.0, 2.0]], [7], [{'tags': {'year': 1999}}])
    """

    def records(self, lines: Lines) -> Iterator[dict[str, Any]]:
        """Yield the object of each line."""
        row, only_objects = 0, False
        for text in lines:
            if not text.strip():
                continue
            try:
                found = json.loads(text)
            except (ValueError, RecursionError) as error:
                raise InvalidInput(
                    f"{self.name}: row {row} (line {lines.n}) is not JSON ({error}). Repair it: each line is one "
                    "object."
                ) from error
            if not isinstance(found, dict) and (only_objects or not isinstance(found, list)):
                rule = (
                    "not an object, as the lines before it are" if only_objects else "neither an object nor a list"
                )
                raise InvalidInput(
                    f"{self.name}: row {row} (line {lines.n}) is {rule}: {text.strip()!r:.40}. Repair it."
                )
            record = {_BARE: found} if isinstance(found, list) else found
            only_objects = only_objects or _BARE not in record  # their vectors have another name
            yield record
            row += 1

    def kinds(self, records: list[dict[str, Any]]) -> Mapping[str, Kind]:
        """Return the fields of the first objects, and what is in them; any field of a file may be metadata."""
        found: dict[str, Kind] = {}
        for record in records:
            for name, value in record.items():
                if found.get(name, "empty") == "empty":
                    found[name] = _kind(value)
        named = self._wanted.left_out if self._wanted.wants_all(found) else self._wanted.metadata
        missing = set(named) - set(found)
        return found | (dict.fromkeys(self._found_later(set(missing)), "other") if missing else {})

    def _found_later(self, names: set[str]) -> set[str]:
        """Return which of some fields a later object has."""
        found: set[str] = set()
        if self._path is not None:
            with self._path.open("rb") as stream:
                for record in self.records(Lines(self.name, stream)):
                    found |= names & record.keys()
                    if found == names:
                        break
        return found

    def vector(self, layout: Layout, record: dict[str, Any], where: str) -> Sequence[float]:
        """Return the vector of a row."""
        values = [self.value(record, name, where) for name in layout.vector]
        found = values[0] if layout.whole else values
        if not isinstance(found, list) or not {type(number) for number in found} <= {int, float}:
            raise InvalidInput(
                f"{self.name}: {where} has no vector: {layout.vector[0]!r} is {found!r:.40}, where numbers "
                f"should be. Repair it, or name the vector with {self._wanted.option('vector')}."
            )
        return found

    def value(self, record: dict[str, Any], column: str, where: str) -> Any:
        """Return what a row has in a field."""
        if record.get(column) is None:
            raise InvalidInput(f"{self.name}: {where} has no {column!r}. Repair it.")
        return record[column]

    def label(self, record: dict[str, Any], column: str) -> Any:
        """Return the label of a row, None if it is null or not there."""
        return record.get(column)

    def metadata(self, layout: Layout, record: dict[str, Any], where: str) -> dict[str, Any]:
        """Return the metadata of a row; each may have fields of its own."""
        names: Iterable[str] = layout.metadata
        if self._wanted.wants_all(layout.metadata):
            used = {*layout.vector, layout.key, layout.label, *self._wanted.left_out}
            names = [name for name in record if name not in used and is_named(name)]
        found = {name: record[name] for name in names if name in record}
        return metadata_of_row(found, f"{self.name}: {where}")


def _kind(value: Any) -> Kind:
    if value is None:
        return "empty"
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    if isinstance(value, list) and {type(each) for each in value} in ({int}, {float}, {int, float}):
        return "list"
    return "other"
