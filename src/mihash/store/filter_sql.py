"""Filters as SQL expressions over the metadata of an item.

No name and no value is ever part of the SQL: each is bound to a question mark.
"""

from typing import Any, NamedTuple

from .metadata import Scalar, to_json

_SIGNS = {"$gt": ">", "$gte": ">=", "$lt": "<", "$lte": "<="}
_NUMBER = "IN ('integer', 'real')"


class Leaf(NamedTuple):
    """A condition on one field: its name, an operator, and what it is compared with.

    The operators are ``$in`` (equal to one of the operands), ``$gt``, ``$gte``, ``$lt``, ``$lte``, ``$contains``,
    ``$startswith`` and ``$exists``.
    """

    name: str
    operator: str
    operands: tuple[Scalar, ...]


class Group(NamedTuple):
    """Filters that must all be true, or one of which must be; of no filters, all are true."""

    every: bool
    parts: "tuple[Tree, ...]"


class Negation(NamedTuple):
    """What is true exactly where a filter is false."""

    part: "Tree"


Tree = Leaf | Group | Negation


class _Clause(NamedTuple):
    """A boolean expression, 0 or 1 but never NULL, so that NOT is true exactly where it is false.

    It binds tighter than NOT, AND and OR, or is itself a NOT: it can be joined without parentheses around it.
    """

    sql: str
    parameters: list[Any]
    walks: bool = False
    """Whether it is about every field of an item in turn, and stands in a SELECT from `json_each`."""


class _Field(NamedTuple):
    """The expressions for the JSON type of a field and its value, and the parameters of each one of them."""

    kind: str
    value: str
    parameters: list[str]
    walks: bool = False


def where_sql(tree: Tree) -> tuple[str, list[Any], bool]:
    """Return a filter as SQL in parentheses, its parameters, and whether it walks over the fields of an item.

    Examples
    --------
    >>> where_sql(Leaf("color", "$exists", (True,)))
    ('(json_type(metadata, ?) IS NOT NULL)', ['$."color"'], False)
    """
    clause = _clause(tree)
    sql = clause.sql
    if clause.walks:  # count(*) keeps the answer one row, also where SQLite takes every max() out as of no effect
        sql = f"SELECT min({sql}, count(*) >= 0) FROM json_each(metadata) AS entry"
    return f"({sql})", list(clause.parameters), clause.walks


def paths_of(name: str) -> list[str] | None:
    """Return where a field may be, as JSON paths: under its name, or else in objects; None if no path can say.

    A JSON path cannot say a double quote, a backslash or, in SQLite 3.40, a control character.

    Examples
    --------
    >>> paths_of("color"), paths_of("camera.lens"), paths_of('"')
    (['$."color"'], ['$."camera.lens"', '$."camera"."lens"'], None)
    """
    quoted = to_json(name)
    if quoted != f'"{name}"':
        return None
    steps = name.split(".")
    nested = ["$" + "".join(f'."{step}"' for step in steps)] if len(steps) > 1 and all(steps) else []
    return [f"$.{quoted}", *nested]


def _field(name: str) -> _Field:
    paths = paths_of(name)
    if paths is None:
        # All fields with such names are found in one walk over an item's fields: a SELECT for each would parse its
        # metadata each time.
        kind, value = (f"max({each}) FILTER (WHERE entry.key = ?)" for each in ("entry.type", "entry.atom"))
        return _Field(kind, value, [name], walks=True)
    if len(paths) == 1:
        return _Field("json_type(metadata, ?)", "json_extract(metadata, ?)", paths)
    path = "iif(json_type(metadata, ?) IS NULL, ?, ?)"
    return _Field(
        f"json_type(metadata, {path})", f"json_extract(metadata, {path})", [paths[0], paths[1], paths[0]]
    )


def _clause(tree: Tree) -> _Clause:
    if isinstance(tree, Leaf):
        return _condition(_field(tree.name), tree.operator, tree.operands)
    if isinstance(tree, Negation):
        inner = _clause(tree.part)
        return inner._replace(sql=f"NOT {inner.sql}")
    return _join(" AND " if tree.every else " OR ", [_clause(part) for part in tree.parts], str(int(tree.every)))


def _condition(field: _Field, operator: str, operands: tuple[Scalar, ...]) -> _Clause:
    if operator in _SIGNS:
        return _compare(field, _SIGNS[operator], operands[0])
    if operator == "$exists":
        return _Clause(f"{field.kind} IS {'NOT ' if operands[0] else ''}NULL", field.parameters, field.walks)
    if operator == "$startswith":
        sql = f"({field.kind} IS 'text' AND substr({field.value}, 1, length(?)) = ?)"
        return _Clause(sql, [*field.parameters * 2, operands[0], operands[0]], field.walks)
    if operator == "$contains":
        member = _has(field, operands)
        if not isinstance(operands[0], str):
            return member
        sql = f"({field.kind} IS 'text' AND instr({field.value}, ?) > 0)"
        return _join(" OR ", [_Clause(sql, [*field.parameters * 2, operands[0]], field.walks), member])
    return _join(" OR ", [*_equal(field, operands), _has(field, operands)], "0")


def _compare(field: _Field, sign: str, operand: Scalar) -> _Clause:
    # The operand goes in as JSON too: SQLite 3.51 reads some decimals a bit off, and must do so on both sides.
    kind = f"{field.kind} IS 'text'" if isinstance(operand, str) else f"ifnull({field.kind}, '') {_NUMBER}"
    sql = f"({kind} AND {field.value} {sign} json_extract(?, '$'))"
    return _Clause(sql, [*field.parameters * 2, to_json(operand)], field.walks)


def _equal(field: _Field, operands: tuple[Scalar, ...]) -> list[_Clause]:
    """Return what is true of a field that equals one of the operands."""
    parts = []
    if None in operands:
        parts.append(_Clause(f"ifnull({field.kind}, 'null') = 'null'", field.parameters, field.walks))
    for truth in (True, False):
        if any(value is truth for value in operands):
            parts.append(_Clause(f"{field.kind} IS '{to_json(truth)}'", field.parameters, field.walks))
    for same in _by_type(operands):
        if len(same) == 1:
            parts.append(_compare(field, "=", same[0]))
        elif same:
            kind = f"{field.kind} IS 'text'" if isinstance(same[0], str) else f"ifnull({field.kind}, '') {_NUMBER}"
            sql = f"({kind} AND {field.value} IN (SELECT atom FROM json_each(?)))"
            parts.append(_Clause(sql, [*field.parameters * 2, to_json(same)], field.walks))
    return parts


def _has(field: _Field, operands: tuple[Scalar, ...]) -> _Clause:
    """Return what is true of a field that is a list which has one of the operands."""
    if not operands:
        return _Clause("0", [])
    kinds = [
        f"each.type = '{to_json(value)}'" for value in (None, True, False) if any(value is one for one in operands)
    ]
    values: list[str] = []
    for same in _by_type(operands):
        if same:
            kind = "each.type = 'text'" if isinstance(same[0], str) else f"each.type {_NUMBER}"
            kinds.append(f"{kind} AND each.atom IN (SELECT atom FROM json_each(?))")
            values.append(to_json(same))
    among = " OR ".join(kinds)
    if field.walks:
        sql = f"EXISTS (SELECT 1 FROM json_each(entry.value) AS each WHERE {among})"
        sql = f"ifnull(max({sql}) FILTER (WHERE entry.key = ? AND entry.type = 'array'), 0)"
        return _Clause(sql, [*values, *field.parameters], True)
    path = field.kind.removeprefix("json_type(metadata, ").removesuffix(")")
    sql = f"EXISTS (SELECT 1 FROM json_each(metadata, {path}) AS each WHERE {among})"
    return _Clause(f"({field.kind} IS 'array' AND {sql})", [*field.parameters * 2, *values])


def _by_type(operands: tuple[Scalar, ...]) -> tuple[list[str], list[int | float]]:
    texts = [value for value in operands if isinstance(value, str)]
    numbers = [value for value in operands if isinstance(value, int | float) and not isinstance(value, bool)]
    return texts, numbers


def _join(connective: str, clauses: list[_Clause], empty: str = "1") -> _Clause:
    if not clauses:
        return _Clause(empty, [])
    if len(clauses) == 1:
        return clauses[0]
    # What stands to the left of a parenthesis waits on the parser's stack, which a deep filter would overflow.
    # With the longest clause first, each one that waits is at least as long as all that follows inside: few do.
    ordered = sorted(clauses, key=lambda clause: len(clause.sql), reverse=True)
    return _Clause(
        f"({connective.join(clause.sql for clause in ordered)})",
        [parameter for clause in ordered for parameter in clause.parameters],
        any(clause.walks for clause in ordered),
    )
