"""The language of filters on metadata (nothing of this is in the paper).

A filter is a dictionary. It is true of an item if every entry of it is::

    {"color": "red"}                          equal; of a list, that it has this value
    {"color": ["red", "blue"]}                one of, the same as {"color": {"$in": ["red", "blue"]}}
    {"color": None}                           the field is null, or absent
    {"year": {"$gte": 2000, "$lt": 2010}}     a range; every operator must hold
    {"year": {">=": 2000, "<": 2010}}         the same
    {"at": {">=": datetime(2026, 1, 1)}}      a time, which metadata stores as text
    {"camera.lens": "50 mm"}                  field lens of the object camera
    {"year": {"$exists": True}}               the item has the field, null or not
    {"$or": [{...}, {...}], "$not": {...}}    filters within filters: $and, $or, $not
    {}                                        true of every item

===================  ========  ===============================================================
operator             also      true if the field
===================  ========  ===============================================================
``$eq``              ``==``    equals the value, or is a list that has it
``$ne``              ``!=``    does not: exactly where ``$eq`` is false
``$gt``, ``$gte``    > >=      is a number above a number, or a string after a string
``$lt``, ``$lte``    < <=      is a number below a number, or a string before a string
``$in``              a list    equals one of the values; an empty list is true of no item
``$nin``                       equals none of them: exactly where ``$in`` is false
``$contains``                  is a list that has the value, or a string that has it as a part
``$startswith``                is a string that begins with the value
``$exists``                    exists (True) or does not exist (False); a null field exists
===================  ========  ===============================================================

- Types do not mix: the string "1", the number 1 and True are three things, and a range over another type, or
  over an absent field, is false. Integers and floats compare by value, strings by their code points.
- ``$ne`` and ``$nin`` are true of an item without the field, and of an item without metadata; except with None,
  which an absent field equals.
- A list is looked into one level deep. A range is false of a list. A field that is an object equals no value.
- "a.b" is field b of the object a, or, in an item that has one, the field of that name. A name with a double
  quote, a backslash or a control character is taken as it is written. A "$" at the start of a name is special:
  ``$and``, ``$or`` and ``$not`` are operators, and "$$" stands for "$", so {"$$x": 1} is a condition on the
  field "$x". Any other "$..." is an error.
- A float equals itself whatever its digits. SQLite may read two floats that differ only in the last bit as one.

`compile_filter` parses a filter, and translates it into SQL (`filter_sql`).
"""

from collections.abc import Iterable, Mapping, Set
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidInput
from .filter_sql import Group, Leaf, Negation, Tree, where_sql
from .metadata import RULE, as_scalar, check_text, is_plain, shown

_COMPARISONS = ("$gt", "$gte", "$lt", "$lte")
_OPERATORS = ("$eq", "$ne", *_COMPARISONS, "$in", "$nin", "$contains", "$startswith", "$exists")
_SPELLINGS = {"==": "$eq", "!=": "$ne", ">": "$gt", ">=": "$gte", "<": "$lt", "<=": "$lte"}
_KNOWN = f"Known: {', '.join(_OPERATORS)}, or {', '.join(_SPELLINGS)}."

MAX_CONDITIONS = 500
"""The most conditions of a filter: in SQLite an expression is at most 1000 deep, with at most 32766 parameters."""

_MAX_WALKED = 200  # conditions where a name needs `json_each`: SQLite counts the depth of a subquery twice
_MAX_FILTER_DEPTH = 16  # the parser of SQLite 3.40 has a stack of 100 entries


class Condition(NamedTuple):
    """A filter that was checked.

    Attributes
    ----------
    sql
        The filter as an SQL expression over a column ``metadata``, 0 or 1 for every item.
    parameters
        The values of its question marks.
    tree
        The filter as a tree of conditions on single fields.
    """

    sql: str
    parameters: list[Any]
    tree: Tree

    @property
    def leaves(self) -> list[Leaf]:
        """The conditions on single fields."""
        return list(_leaves(self.tree))

    @property
    def fields(self) -> list[str]:
        """The names of the fields that it asks about, each once."""
        return list(dict.fromkeys(leaf.name for leaf in _leaves(self.tree)))


def compile_filter(where: Mapping[str, Any], max_conditions: int = MAX_CONDITIONS) -> Condition:
    """Check a filter, and translate it into an SQL expression over a column ``metadata``, with its parameters.

    The expression stands in parentheses, is 0 or 1 for every item, and has its parameters as question marks in
    order. The column holds what `encode_metadata` made, or NULL for an item without metadata.

    Parameters
    ----------
    where
        The filter, in the language that the module describes; at most 16 filters deep.
    max_conditions
        How many conditions it may have, at most 500; at most 200 where the name of a field holds a double quote,
        a backslash or a control character. A long list of values for one field is one condition.

    Raises
    ------
    InvalidInput
        If the filter is not of that language.

    Examples
    --------
    >>> import sqlite3
    >>> from mihash.store.metadata import encode_metadata
    >>> database = sqlite3.connect(":memory:")
    >>> _ = database.execute("CREATE TABLE items (key TEXT, metadata TEXT)")
    >>> cars = {"a": {"color": "red", "year": 1999}, "b": {"color": ["red", "blue"], "year": 2005.5}, "c": None}
    >>> rows = [(key, encode_metadata(metadata)) for key, metadata in cars.items()]
    >>> _ = database.executemany("INSERT INTO items VALUES (?, ?)", rows)
    >>> def keys(where):
    ...     sql, parameters, _ = compile_filter(where)
    ...     return [key for key, in database.execute(f"SELECT key FROM items WHERE {sql}", parameters)]
    >>> keys({"color": "red", "year": {"$gte": 2000, "$lt": 2010}})
    ['b']
    >>> keys({"$or": [{"year": [1999, 2000]}, {"color": None}]})
    ['a', 'c']
    >>> keys({"color": {"$startswith": "r"}}), keys({"color": {"$contains": "e"}}), keys({"color": "blue"})
    (['a'], ['a'], ['b'])
    >>> database.close()
    >>> compile_filter({"year": {"$near": 2000}})
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `where['year']` must have known operators; got '$near'. Known: $eq, $ne, $gt, ...
    """
    count = _Count(max_conditions)
    tree = _filter("where", where, 0, count)
    sql, parameters, walks = where_sql(tree)
    if walks and count.n > _MAX_WALKED:
        raise InvalidInput(
            f"`where` must have at most {_MAX_WALKED} conditions where the name of a field holds a double quote, "
            f"a backslash or a control character; got {count.n}."
        )
    return Condition(sql, parameters, tree)


class _Count:
    """Counts conditions, and raises at the first one too many: the rest of a long filter is not looked at."""

    def __init__(self, most: int) -> None:
        self.n, self._most = 0, most

    def add(self, n: int) -> None:
        self.n += n
        if self.n > self._most:
            raise InvalidInput(
                f"`where` must have at most {self._most} conditions; got {self.n} or more. "
                'Write a long list of values as {"$in": [...]}, which is one.'
            )


def _leaves(tree: Tree) -> Iterable[Leaf]:
    if isinstance(tree, Leaf):
        yield tree
    elif isinstance(tree, Negation):
        yield from _leaves(tree.part)
    else:
        for part in tree.parts:
            yield from _leaves(part)


def _filter(place: str, where: Any, depth: int, count: _Count) -> Tree:
    if not isinstance(where, Mapping):
        raise InvalidInput(f'`{place}` must be a filter, such as {{"color": "red"}}; got {shown(where)}.')
    if depth > _MAX_FILTER_DEPTH:
        raise InvalidInput(
            f"`where` must be at most {_MAX_FILTER_DEPTH} filters deep; got a deeper one, `{place:.80}...`. "
            "Join what can be joined into one filter."
        )
    parts: list[Tree] = []
    for name, value in where.items():
        check_text(f"each name in `{place}`", name)
        inner = f"{place}[{name!r:.40}]"
        if name in ("$and", "$or"):
            if not isinstance(value, list | tuple) or not value:
                raise InvalidInput(f"`{inner}` must be a list of at least one filter; got {shown(value)}.")
            filters = [_filter(f"{inner}[{i}]", one, depth + 1, count) for i, one in enumerate(value)]
            parts.append(_joined(name == "$and", filters))
        elif name == "$not":
            parts.append(Negation(_filter(inner, value, depth + 1, count)))
        else:
            found = _conditions(inner, _name(place, name), value)
            count.add(len(found))
            parts.append(_joined(True, found))
    if not where:
        count.add(1)
    return _joined(True, parts)


def _joined(every: bool, parts: list[Tree]) -> Tree:
    return parts[0] if len(parts) == 1 else Group(every, tuple(parts))


def _name(place: str, name: str) -> str:
    """Return the name of a field; one that begins with a dollar is written with two."""
    if not name.startswith("$"):
        return name
    if not name.startswith("$$"):
        raise InvalidInput(
            f"`{place}` must have fields and known operators; got {name!r:.40}. Known: $and, $or, $not; "
            f"other operators belong to a field, as in {{'year': {{'$gte': 2000}}}}. "
            f"A field of this name is {'$' + name!r:.40}."
        )
    return name[1:]


def _conditions(place: str, name: str, value: Any) -> list[Tree]:
    if _is_list(value):
        return [_condition(place, name, "$in", value)]
    if not isinstance(value, Mapping):
        rule = f"{RULE}, a list of those, or a dictionary of operators"
        return [Leaf(name, "$in", (as_scalar(place, value, rule),))]
    if not value:
        raise InvalidInput(f"`{place}` must have at least one operator; got {{}}. {_KNOWN}")
    found = []
    for spelling, operand in value.items():
        operator = _SPELLINGS.get(spelling, spelling)
        if operator not in _OPERATORS:
            raise InvalidInput(f"`{place}` must have known operators; got {shown(spelling)}. {_KNOWN}")
        found.append(_condition(f"{place}[{spelling!r}]", name, operator, operand))
    return found


def _condition(place: str, name: str, operator: str, value: Any) -> Tree:
    if operator in _COMPARISONS:
        operand = as_scalar(place, value, "a number, a string or a datetime")
        if operand is None or isinstance(operand, bool):
            raise InvalidInput(f"`{place}` must be a number or a string, which have an order; got {operand}.")
        return Leaf(name, operator, (operand,))
    if operator == "$exists":
        if not isinstance(value, bool | np.bool_):
            raise InvalidInput(f"`{place}` must be True or False; got {shown(value)}.")
        return Leaf(name, operator, (bool(value),))
    if operator == "$startswith":
        if not isinstance(value, str):
            raise InvalidInput(f"`{place}` must be a string; got {shown(value)}.")
        return Leaf(name, operator, (as_scalar(place, value),))
    if operator == "$contains":
        return Leaf(name, operator, (as_scalar(place, value),))
    if operator in ("$in", "$nin"):
        if not _is_list(value):
            raise InvalidInput(f"`{place}` must be a list of values; got {shown(value)}.")
        values = tuple(one if is_plain(one) else as_scalar(f"{place}[{i}]", one) for i, one in enumerate(value))
    else:
        values = (as_scalar(place, value),)
    leaf = Leaf(name, "$in", values)
    return Negation(leaf) if operator in ("$ne", "$nin") else leaf


def _is_list(value: Any) -> bool:
    return isinstance(value, list | tuple | Set)
