"""JSON lines: one object a line, or one list that is the vector."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import InvalidInput
from .columns import Kind, Layout
from .text import Lines, TextSource
from .values import as_metadata

__all__ = ["JSONLinesSource"]

_BARE = "vector"  # what the only column of a line that is a list is called


class JSONLinesSource(TextSource):
    """Rows of a file of JSON lines.

    Examples
    --------
    >>> import io
    >>> from mihash.files import Columns
    >>> stream = io.BytesIO(b'{"id": 7, "embedding": [1, 2], "tags": {"year": 1999}}')
    >>> rows, = JSONLinesSource("stdin", stream, Columns(metadata=("tags",))).rows()
    >>> rows.X.tolist(), rows.keys, rows.metadata
    ([[1.0, 2.0]], [7], [{'year': 1999}])
    """

    def records(self, lines: Lines) -> Iterator[dict[str, Any]]:
        """Yield the object of each line."""
        row = 0
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
            if isinstance(found, list):
                found = {_BARE: found}
            if not isinstance(found, dict):
                raise InvalidInput(
                    f"{self.name}: row {row} (line {lines.n}) is neither an object nor a list: "
                    f"{text.strip()!r:.40}."
                )
            yield found
            row += 1

    def kinds(self, record: dict[str, Any]) -> Mapping[str, Kind]:
        """Return the fields of the first object, and what is in them."""
        return {name: _kind(value) for name, value in record.items()}

    def vector(self, layout: Layout, record: dict[str, Any], where: str) -> Sequence[float]:
        """Return the vector of a row."""
        values = [self.value(record, name, where) for name in layout.vector]
        found = values[0] if layout.whole else values
        if not isinstance(found, list) or not {type(number) for number in found} <= {int, float}:
            raise InvalidInput(
                f"{self.name}: {where} has no vector: {layout.vector[0]!r} is {found!r:.40}, where numbers "
                "should be. Repair it, or name the vector with --vector."
            )
        return found

    def value(self, record: dict[str, Any], column: str, where: str) -> Any:
        """Return what a row has in a field."""
        if record.get(column) is None:
            raise InvalidInput(f"{self.name}: {where} has no {column!r}. Repair it.")
        return record[column]

    def metadata(self, layout: Layout, record: dict[str, Any]) -> dict[str, Any]:
        """Return the metadata of a row."""
        return as_metadata({name: record[name] for name in layout.metadata if name in record})


def _kind(value: Any) -> Kind:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    if isinstance(value, list) and {type(each) for each in value} in ({int}, {float}, {int, float}):
        return "list"
    return "other"
