"""Metadata of stored items as JSON, and filters on it as SQL (nothing of this is in the paper).

A filter is a dictionary. It is true of an item if every entry of it is::

    {"color": "red"}                          equal
    {"color": ["red", "blue"]}                one of, the same as {"color": {"$in": ["red", "blue"]}}
    {"color": None}                           the field is null, or absent
    {"year": {"$gte": 2000, "$lt": 2010}}     a range; every operator must hold
    {"year": {">=": 2000, "<": 2010}}         the same
    {"year": {"$exists": True}}               the item has the field, be it null
    {"$or": [{...}, {...}], "$not": {...}}    filters within filters: $and, $or, $not
    {}                                        true of every item

===================  ========  ===============================================================
operator             also      true if the field
===================  ========  ===============================================================
``$eq``              ``==``    equals the value
``$ne``              ``!=``    does not equal it: exactly where ``$eq`` is false
``$gt``, ``$gte``    > >=      is a number above a number, or a string after a string
``$lt``, ``$lte``    < <=      is a number below a number, or a string before a string
``$in``              a list    equals one of the values; an empty list is true of no item
``$nin``                       equals none of them: exactly where ``$in`` is false
``$exists``                    is there (True) or is not (False); a field that is null is there
===================  ========  ===============================================================

- Types do not mix: the string "1", the number 1 and True are three things, and a range over another type, or
  over an absent field, is false. Integers and floats compare by value, strings by their code points.
- ``$ne`` and ``$nin`` are true of an item without the field, and of an item without metadata; except with None,
  which an absent field equals.
- A field that is a list or an object equals no value. One can only ask whether it exists.
- A field is a name at the top of the metadata, taken as it is written: "a.b" is the field of that name, not
  field b of an object a. Only a "$" at its start is special: ``$and``, ``$or`` and ``$not`` are operators, and
  two of them stand for one, so that {"$$x": 1} asks for the field "$x". Any other "$..." is an error.
- A float equals itself whatever its digits. SQLite may read two floats that differ only in the last bit as one.

No name and no value is ever part of the SQL: each is bound to a question mark.
"""

import json
import math
from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from ..errors import CorruptStore, InvalidInput

_COMPARISONS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_OPERATORS = ("$eq", "$ne", *_COMPARISONS, "$in", "$nin", "$exists")
_SPELLINGS = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_KNOWN = f"Known: {', '.join(_OPERATORS)}, or {', '.join(_SPELLINGS)}."
_CONNECTIVES = {"$and": " AND ", "$or": " OR "}

MAX_CONDITIONS = 500
"""The most conditions of a filter: in SQLite an expression is at most 1000 deep, with at most 32766 parameters."""

_MAX_WALKED = 400  # conditions where a name needs `json_each`: SQLite counts the depth of a subquery twice
_MAX_FILTER_DEPTH = 20  # the parser of SQLite 3.40 has a stack of 100 entries
_MAX_METADATA_DEPTH = 100  # SQLite: 1000

_RULE = "a string, a 64-bit integer, a finite float, True, False or None"

_Scalar = str | int | float | bool | None


class _Clause(NamedTuple):
    """A boolean expression, 0 or 1 but never NULL, so that NOT is true exactly where it is false.

    It binds tighter than NOT, AND and OR, or is itself a NOT: it can be joined without parentheses around it.
    """

    sql: str
    parameters: list[str]
    n_conditions: int = 1
    walks: bool = False
    """Whether it is about every field of an item in turn, and stands in a SELECT from `json_each`."""


class _Field(NamedTuple):
    """The expressions for the JSON type of a field and for its value, each with one parameter."""

    kind: str
    value: str
    parameter: str
    walks: bool = False


def compile_filter(where: Mapping[str, Any], max_conditions: int = MAX_CONDITIONS) -> tuple[str, list[Any]]:
    """Translate a filter into an SQL expression over a column ``metadata``, and its parameters.

    The expression stands in parentheses, is 0 or 1 for every item, and has its parameters as question marks in
    order. The column holds what `encode_metadata` made, or NULL for an item without metadata.

    Parameters
    ----------
    where
        The filter, in the language that the module describes; at most 20 filters deep.
    max_conditions
        How many conditions it may have, at most 500; at most 400 where the name of a field holds a double quote,
        a backslash or a control character. A long list of values for one field is one condition.

    Raises
    ------
    InvalidInput
        If the filter is not of that language.

    Examples
    --------
    >>> import sqlite3
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.execute("CREATE TABLE items (key TEXT, metadata TEXT)")
    >>> cars = {"a": {"color": "red", "year": 1999}, "b": {"color": "red", "year": 2005.5}, "c": None}
    >>> rows = [(key, encode_metadata(metadata)) for key, metadata in cars.items()]
    >>> _ = database.executemany("INSERT INTO items VALUES (?, ?)", rows)
    >>> def keys(where):
    ...     sql, parameters = compile_filter(where)
    ...     return [key for key, in database.execute(f"SELECT key FROM items WHERE {sql}", parameters)]
    >>> keys({"color": "red", "year": {"$gte": 2000, "$lt": 2010}})
    ['b']
    >>> keys({"$or": [{"year": [1999, 2000]}, {"color": None}]})
    ['a', 'c']
    >>> compile_filter({"color": True})
    ("(json_type(metadata, ?) IS 'true')", ['$."color"'])
    >>> compile_filter({"year": {"$near": 2000}})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `where['year']` must have known operators; got '$near'. Known: $eq, $ne, $gt, ...
    """
    clause = _filter("where", where, 0, max_conditions)
    sql = clause.sql
    if clause.walks and clause.n_conditions > _MAX_WALKED:
        raise InvalidInput(
            f"`where` must have at most {_MAX_WALKED} conditions where the name of a field holds a double quote, "
            f"a backslash or a control character; got {clause.n_conditions}."
        )
    if clause.walks:  # count(*) keeps the answer one row, also where SQLite takes every max() out as of no effect
        sql = f"SELECT min({sql}, count(*) >= 0) FROM json_each(metadata)"
    return f"({sql})", list(clause.parameters)


def encode_metadata(metadata: Mapping[str, Any] | None) -> str | None:
    """Return the metadata of one item as JSON text, None for none.

    Parameters
    ----------
    metadata
        Names and values: strings, integers of 64 bits, finite floats, booleans, None, and lists and dictionaries
        of those, at most 100 deep. NumPy's scalars count as Python's, tuples as lists.

    Raises
    ------
    InvalidInput
        If a name is not a string or a value is none of these. Strings must not hold the character NUL, at which
        SQLite would cut them off.

    Examples
    --------
    >>> encode_metadata({"color": "red", "sizes": (1, 2.5), "café": None})
    '{"color":"red","sizes":[1,2.5],"café":null}'
    >>> encode_metadata({"sizes": [1, float("nan")]})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `metadata['sizes'][1]` must be finite; got nan.
    """
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise InvalidInput(f"`metadata` must be a dictionary or None; got {_shown(metadata)}.")
    return _json(_plain("metadata", metadata, 0))


def decode_metadata(text: str | None) -> dict[str, Any] | None:
    """Return the metadata that `encode_metadata` made ``text`` of.

    Raises
    ------
    CorruptStore
        If the text is not a JSON object.

    Examples
    --------
    >>> decode_metadata('{"color":"red","sizes":[1,2.5]}')
    {'color': 'red', 'sizes': [1, 2.5]}
    >>> decode_metadata("[1, 2")
    Traceback (most recent call last):
    mihash.errors.CorruptStore: Metadata must be a JSON object; got '[1, 2'.
    """
    if text is None:
        return None
    try:
        metadata = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        metadata = None
    if not isinstance(metadata, dict):
        raise CorruptStore(f"Metadata must be a JSON object; got {_shown(text)}.")
    return metadata


def _filter(place: str, where: Any, depth: int, most: int) -> _Clause:
    if not isinstance(where, Mapping):
        raise InvalidInput(f'`{place}` must be a filter, such as {{"color": "red"}}; got {_shown(where)}.')
    if depth > _MAX_FILTER_DEPTH:
        raise InvalidInput(
            f"`where` must be at most {_MAX_FILTER_DEPTH} filters deep; got a deeper one, `{place:.80}...`. "
            "Join what can be joined into one filter."
        )
    parts = []
    for name, value in where.items():
        _check_text(f"each name in `{place}`", name)
        inner = f"{place}[{name!r:.40}]"
        if name in _CONNECTIVES:
            if not isinstance(value, list | tuple) or not value:
                raise InvalidInput(f"`{inner}` must be a list of at least one filter; got {_shown(value)}.")
            filters = (_filter(f"{inner}[{i}]", one, depth + 1, most) for i, one in enumerate(value))
            parts.append(_join(_CONNECTIVES[name], _few(filters, most)))
        elif name == "$not":
            parts.append(_negate(_filter(inner, value, depth + 1, most)))
        else:
            parts.append(_conditions(inner, _field(place, name), value))
        _few(parts, most)
    return _join(" AND ", parts) if parts else _Clause("1", [])


def _few(clauses: Iterable[_Clause], most: int) -> list[_Clause]:
    """Return the clauses, or raise at the first one too many: the rest of a long filter is not looked at."""
    found, n = [], 0
    for clause in clauses:
        n += clause.n_conditions
        if n > most:
            raise InvalidInput(
                f"`where` must have at most {most} conditions; got {n} or more. "
                'Write a long list of values as {"$in": [...]}, which is one.'
            )
        found.append(clause)
    return found


def _field(place: str, name: str) -> _Field:
    if name.startswith("$"):
        if not name.startswith("$$"):
            raise InvalidInput(
                f"`{place}` must have fields and known operators; got {name!r:.40}. Known: $and, $or, $not; "
                f"others go to a field, as in {{'year': {{'$gte': 2000}}}}. "
                f"A field of this name is {'$' + name!r:.40}."
            )
        name = name[1:]
    quoted = _json(name)
    if quoted == f'"{name}"':
        return _Field("json_type(metadata, ?)", "json_extract(metadata, ?)", f"$.{quoted}")
    # A JSON path cannot say a double quote, a backslash or, in SQLite 3.40, a control character. All fields with
    # such names are found in one walk over an item's fields: a SELECT for each would parse its metadata each time.
    return _Field("max(type) FILTER (WHERE key = ?)", "max(atom) FILTER (WHERE key = ?)", name, walks=True)


def _conditions(place: str, field: _Field, value: Any) -> _Clause:
    if _is_list(value):
        return _condition(place, field, "$in", value)
    if not isinstance(value, Mapping):
        return _one_of(field, [_scalar(place, value, f"{_RULE}, a list of those, or a dictionary of operators")])
    if not value:
        raise InvalidInput(f"`{place}` must have at least one operator; got {{}}. {_KNOWN}")
    clauses = []
    for spelling, operand in value.items():
        operator = _SPELLINGS.get(spelling, spelling)
        if operator not in _OPERATORS:
            raise InvalidInput(f"`{place}` must have known operators; got {_shown(spelling)}. {_KNOWN}")
        clauses.append(_condition(f"{place}[{spelling!r}]", field, operator, operand))
    return _join(" AND ", clauses)


def _condition(place: str, field: _Field, operator: str, value: Any) -> _Clause:
    if operator in _COMPARISONS:
        operand = _scalar(place, value, "a number or a string")
        if operand is None or isinstance(operand, bool):
            raise InvalidInput(f"`{place}` must be a number or a string, which have an order; got {operand}.")
        return _compare(field, _COMPARISONS[operator], operand)
    if operator == "$exists":
        if not isinstance(value, bool | np.bool_):
            raise InvalidInput(f"`{place}` must be True or False; got {_shown(value)}.")
        return _about(field, f"{field.kind} IS {'NOT ' if value else ''}NULL")
    if operator in ("$in", "$nin"):
        if not _is_list(value):
            raise InvalidInput(f"`{place}` must be a list of values; got {_shown(value)}.")
        values = [one if _is_fine(one) else _scalar(f"{place}[{i}]", one) for i, one in enumerate(value)]
        clause = _one_of(field, values)
    else:
        clause = _one_of(field, [_scalar(place, value)])
    return _negate(clause) if operator in ("$ne", "$nin") else clause


def _one_of(field: _Field, values: list[_Scalar]) -> _Clause:
    parts = []
    if None in values:
        parts.append(_about(field, f"ifnull({field.kind}, 'null') = 'null'"))
    for truth in (True, False):
        if any(value is truth for value in values):
            parts.append(_about(field, f"{field.kind} IS '{_json(truth)}'"))
    texts = [value for value in values if isinstance(value, str)]
    numbers = [value for value in values if isinstance(value, int | float) and not isinstance(value, bool)]
    for same in (texts, numbers):
        if len(same) == 1:
            parts.append(_compare(field, "=", same[0]))
        elif same:
            sql = f"({_is_like(field, same[0])} AND {field.value} IN (SELECT atom FROM json_each(?)))"
            parts.append(_about(field, sql, field.parameter, _json(same)))
    return _join(" OR ", parts) if parts else _Clause("0", [])


def _compare(field: _Field, operator: str, operand: str | int | float) -> _Clause:
    # The operand goes in as JSON too: SQLite 3.51 reads some decimals a bit off, and must do so on both sides.
    sql = f"({_is_like(field, operand)} AND {field.value} {operator} json_extract(?, '$'))"
    return _about(field, sql, field.parameter, _json(operand))


def _about(field: _Field, sql: str, *more: str) -> _Clause:
    return _Clause(sql, [field.parameter, *more], walks=field.walks)


def _is_like(field: _Field, operand: str | int | float) -> str:
    if isinstance(operand, str):
        return f"{field.kind} IS 'text'"
    return f"ifnull({field.kind}, '') IN ('integer', 'real')"


def _join(connective: str, clauses: list[_Clause]) -> _Clause:
    if len(clauses) == 1:
        return clauses[0]
    # What stands to the left of a parenthesis waits on the parser's stack, which a deep filter would overflow.
    # With the longest clause first, each one that waits is at least as long as all that follows inside: few do.
    ordered = sorted(clauses, key=lambda clause: len(clause.sql), reverse=True)
    return _Clause(
        f"({connective.join(clause.sql for clause in ordered)})",
        [parameter for clause in ordered for parameter in clause.parameters],
        sum(clause.n_conditions for clause in ordered),
        any(clause.walks for clause in ordered),
    )


def _negate(clause: _Clause) -> _Clause:
    return clause._replace(sql=f"NOT {clause.sql}")


def _plain(place: str, value: Any, depth: int) -> Any:
    if depth > _MAX_METADATA_DEPTH:
        raise InvalidInput(f"`metadata` must be at most {_MAX_METADATA_DEPTH} deep; `{place:.80}...` is deeper.")
    inside = depth < _MAX_METADATA_DEPTH
    if isinstance(value, list | tuple):
        return [
            one if inside and _is_fine(one) else _plain(f"{place}[{i}]", one, depth + 1)
            for i, one in enumerate(value)
        ]
    if isinstance(value, Mapping):
        for name in value:
            if type(name) is not str or not _is_fine(name):
                _check_text(f"each name in `{place}`", name)
        return {
            name: one if inside and _is_fine(one) else _plain(f"{place}[{name!r:.40}]", one, depth + 1)
            for name, one in value.items()
        }
    return _scalar(place, value, f"{_RULE}, or a list or a dictionary of those")


def _is_fine(value: Any) -> bool:
    """Tell of the commonest scalars that they break no rule, without the place that an error would name."""
    kind = type(value)
    if kind is str:
        return bool(value.isascii()) and "\0" not in value
    if kind is int:
        return bool(-(2**63) <= value < 2**63)
    return math.isfinite(value) if kind is float else value is None or kind is bool


def _scalar(place: str, value: Any, rule: str = _RULE) -> _Scalar:
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, bool):
        return plain
    if isinstance(plain, str):
        _check_text(f"`{place}`", plain)
        return plain
    if isinstance(plain, int):
        if not -(2**63) <= plain < 2**63:
            raise InvalidInput(f"`{place}` must fit into 64 bits; got an integer of {plain.bit_length()} bits.")
        return plain
    if isinstance(plain, float):
        if not math.isfinite(plain):
            raise InvalidInput(f"`{place}` must be finite; got {plain}.")
        return plain
    raise InvalidInput(f"`{place}` must be {rule}; got {_shown(value)}.")


def _check_text(what: str, text: Any) -> None:
    what = what[0].upper() + what[1:]
    if not isinstance(text, str):
        raise InvalidInput(f"{what} must be a string; got {_shown(text)}.")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(f"{what} must be text; got {_shown(text)}, which has half a surrogate pair.") from error
    if "\0" in text:
        raise InvalidInput(f"{what} must not hold the character NUL; got {_shown(text)}.")


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | Set)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def _shown(value: Any) -> str:
    try:
        return f"{value!r:.80}"
    except (ValueError, RecursionError):  # an integer of thousands of digits, a list within itself
        return f"a {type(value).__name__}"
