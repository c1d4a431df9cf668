"""CSV: fields divided by commas, semicolons or tabs, with a header or without."""

import csv
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from ...errors import InvalidInput
from .layout import Kind, Layout
from .text_lines import Lines, TextSource
from .values import metadata_of_row, plain_text

_DELIMITERS = ",;\t"
_LONGEST_FIELD = 1 << 27
_FEW = 2  # columns, whose names would hardly count from 0
_FLAGS = {text: text.lower() == "true" for text in ("true", "false", "True", "False", "TRUE", "FALSE")}
_BETWEEN = re.compile(r"[\s,;]+")


def parse_vector(text: str) -> list[float]:
    """Return the numbers of a text such as ``"[0.5, 1]"`` or ``"0.5 1"``; raises `ValueError` where it has others.

    Examples
    --------
    >>> parse_vector("[0.5, -1e-3]"), parse_vector("0.5 1")
    ([0.5, -0.001], [0.5, 1.0])
    """
    return [float(part) for part in _BETWEEN.split(text.strip().strip("[](){}").strip())]


class DelimitedSource(TextSource):
    r"""Rows of a CSV file.

    A column of a vector may be numbers, or lists of numbers such as ``"[0.5, 1]"``. Without a header the columns
    are called 1, 2, 3 and so on.

    Examples
    --------
    >>> import io
    >>> from mihash.io.readers import Columns
    >>> stream = io.BytesIO(b"name,x,y,colour\nA,1,2,red\nB,3,4,blue\n")
    >>> source = DelimitedSource("stdin", stream, Columns(key="name", metadata=("colour",), vector="x:y"))
    >>> rows, = source.rows()
    >>> rows.X.tolist(), rows.keys, rows.metadata
    ([[1.0, 2.0], [3.0, 4.0]], ['A', 'B'], [{'colour': 'red'}, {'colour': 'blue'}])
    """

    def records(self, lines: Lines) -> Iterator[list[str]]:
        """Yield the fields of each row."""
        csv.field_size_limit(_LONGEST_FIELD)
        texts = iter(lines)
        head = next((text for text in texts if text.strip()), None)
        if head is None:
            return
        delimiter = max(_DELIMITERS, key=head.count)
        reader = csv.reader(chain([head], texts), delimiter=delimiter, strict=True)
        row = 0
        try:
            first = [field.strip() for field in next(reader)]
            named = self._wanted.header and self._is_header(first)
            self._names = first if named else [str(i + 1) for i in range(len(first))]
            self._places = {name: place for place, name in enumerate(self._names)}
            if len(self._places) < len(self._names):
                twice = next(name for name in self._names if self._names.count(name) > 1)
                raise InvalidInput(f"{self.name} has two columns {twice!r}. Rename one.")
            if first is not self._names:
                yield first
                row = 1
            for fields in reader:
                if not fields:
                    continue
                if len(fields) != len(self._names):
                    raise InvalidInput(
                        f"{self.name}: row {row} (line {lines.n}) has {len(fields)} fields, and the first line "
                        f"has {len(self._names)}. Remove or repair it."
                    )
                yield fields
                row += 1
        except csv.Error as error:
            raise InvalidInput(
                f"{self.name}: row {row} (line {lines.n}) is not CSV ({error}). Repair it, or name "
                f"another {self._wanted.option('file_format')}."
            ) from error

    def kinds(self, records: list[list[str]]) -> Mapping[str, Kind]:
        """Return the columns, and what the first row that has something in them has there."""
        fields = (next((field for field in column if field.strip()), "") for column in zip(*records, strict=True))
        return {name: _kind(field) for name, field in zip(self._names, fields, strict=True)}

    def vector(self, layout: Layout, record: list[str], where: str) -> Sequence[float]:
        """Return the vector of a row."""
        try:
            if layout.whole:
                return parse_vector(record[self._places[layout.vector[0]]])
            return [float(record[self._places[name]]) for name in layout.vector]
        except ValueError as error:
            wrong = next(name for name in layout.vector if not _is_number(record[self._places[name]]))
            field = record[self._places[wrong]]
            what = f"{field!r:.40}" if field.strip() else "nothing"
            raise InvalidInput(
                f"{self.name}: {where} has {what} in the column {wrong}, where a number should be. Repair it, or "
                f"name the vector columns with {self._wanted.option('vector')}."
            ) from error

    def value(self, record: list[str], column: str, where: str) -> Any:
        """Return a field of a row, as a number if it is one."""
        found = plain_text(record[self._places[column]])
        if found is None:
            raise InvalidInput(f"{self.name}: {where} has nothing in the column {column}. Repair it.")
        return found

    def key(self, record: list[str], column: str, where: str) -> Any:
        """Return the key of a row: a whole number where it is written as one, otherwise the text as it stands."""
        found = self.value(record, column, where)
        return found if isinstance(found, int) else record[self._places[column]]

    def label(self, record: list[str], column: str) -> Any:
        """Return the label of a row, None if its field is empty."""
        return plain_text(record[self._places[column]])

    def metadata(self, layout: Layout, record: list[str], where: str) -> dict[str, Any]:
        """Return the metadata of a row."""
        texts = {name: record[self._places[name]] for name in layout.metadata}
        found = {name: _FLAGS.get(text, plain_text(text)) for name, text in texts.items()}
        return metadata_of_row(found, f"{self.name}: {where}")

    def _is_header(self, fields: list[str]) -> bool:
        """Tell names from data: none is a number, or they count from 0, as pandas calls columns without names."""
        kinds = [_kind(field) for field in fields]
        numbers = [field for field, kind in zip(fields, kinds, strict=True) if kind in ("number", "list")]
        texts = [field for field, kind in zip(fields, kinds, strict=True) if kind == "other"]
        if len(fields) - len(texts) > _FEW and numbers == [str(i) for i in range(len(numbers))] != []:
            return True
        if numbers and texts:
            raise InvalidInput(
                f"{self.name}: the first line has both names ({texts[0]!r:.40}) and numbers ({numbers[0]!r:.40}). "
                f"If it is a row, use {self._wanted.option('header')}; if it names the columns, rename those "
                "that are numbers."
            )
        return bool(texts)


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _kind(field: str) -> Kind:
    if not field.strip():
        return "empty"
    try:
        n = len(parse_vector(field))
    except ValueError:
        return "other"
    return "list" if n > 1 or field.lstrip().startswith("[") else "number"
