import datetime
import json
import math
import sqlite3
from decimal import Decimal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mihash.errors import CorruptStore, InvalidInput
from mihash.store.filters import compile_filter
from mihash.store.metadata import decode_metadata, encode_metadata

ODD_NAMES = [
    "", " ", "a.b", "a[0]", "$x", "$$x", "$and", "$", "#", "[#-1]", 'a"b', '"', '"."', "a\\b", "\\", "a'b", "a\nb",
    "\x01", "\x7f", "é", "e\u0301", "日本語", "\U0001d11e", "\u2028", "key", "type", "metadata", "?", "?1",
    "' OR 1 --",
]  # fmt: skip
NAMES = ["a", "b", *ODD_NAMES]

# ---- the language again, as plain Python ----------------------------------------------------------------------


COMPARE = {
    **dict.fromkeys(("$gt", ">"), lambda stored, value: stored > value),
    **dict.fromkeys(("$gte", ">="), lambda stored, value: stored >= value),
    **dict.fromkeys(("$lt", "<"), lambda stored, value: stored < value),
    **dict.fromkeys(("$lte", "<="), lambda stored, value: stored <= value),
}


def kind(value):
    if value is None or isinstance(value, bool):
        return str(value)
    if isinstance(value, int | float):
        return "number"
    return "string" if isinstance(value, str) else "no scalar"


def equal(stored, value):
    return kind(stored) == kind(value) and stored == value


def found(fields, name):
    """The value of a field in a list, an empty one where it is absent: of this name, or within objects."""
    steps = name.split(".")
    if name in fields or len(steps) == 1 or not all(steps) or json.dumps(name, ensure_ascii=False) != f'"{name}"':
        return [fields[name]] if name in fields else []
    for step in steps:
        if not isinstance(fields, dict) or step not in fields:
            return []
        fields = fields[step]
    return [fields]


def has(stored, value):
    return isinstance(stored, list) and any(equal(each, value) for each in stored)


def holds(fields, name, operator, value):
    there = found(fields, name)
    stored = there[0] if there else None
    if operator == "$exists":
        return bool(there) == value
    if operator in ("$in", "$nin"):
        return any(equal(stored, one) or has(stored, one) for one in value) == (operator == "$in")
    if operator in ("$eq", "==", "$ne", "!="):
        return (equal(stored, value) or has(stored, value)) == (operator in ("$eq", "=="))
    if operator == "$startswith":
        return isinstance(stored, str) and stored.startswith(value)
    if operator == "$contains":
        return has(stored, value) or (isinstance(stored, str) and isinstance(value, str) and value in stored)
    return kind(stored) == kind(value) and COMPARE[operator](stored, value)


def matches(metadata, where):
    fields = metadata or {}
    for name, value in where.items():
        if name == "$and":
            good = all(matches(metadata, one) for one in value)
        elif name == "$or":
            good = any(matches(metadata, one) for one in value)
        elif name == "$not":
            good = not matches(metadata, value)
        else:
            field = name[1:] if name.startswith("$$") else name
            conditions = value if isinstance(value, dict) else {"$in" if isinstance(value, list) else "$eq": value}
            good = all(holds(fields, field, *condition) for condition in conditions.items())
        if not good:
            return False
    return True


def written(name):
    return f"${name}" if name.startswith("$") else name


def selected(items, where):
    """Which items a real SQLite selects; checks on the way that the expression is 0 or 1 for each of them."""
    sql, parameters, _ = compile_filter(where)
    database = sqlite3.connect(":memory:")
    try:
        database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, metadata TEXT)")
        rows = [(i, encode_metadata(item)) for i, item in enumerate(items)]
        database.executemany("INSERT INTO items VALUES (?, ?)", rows)
        values = [value for (value,) in database.execute(f"SELECT {sql} FROM items ORDER BY id", parameters)]
        ids = [
            i for (i,) in database.execute(f"SELECT id FROM items WHERE id >= 0 AND {sql} ORDER BY id", parameters)
        ]
    finally:
        database.close()
    assert set(values) <= {0, 1}
    assert ids == [i for i, value in enumerate(values) if value]
    return [bool(value) for value in values]


# ---- SQL against plain Python ---------------------------------------------------------------------------------

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=5)
# Eighths are exact in the decimals of every SQLite; floats of any digits have a test of their own below.
numbers = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-8000, 8000).map(lambda i: i / 8),
    st.sampled_from([2.0**53, 2**53, 2**53 + 1, 2.0**63, -(2.0**63), 1e22, -0.0]),
)
few = [
    None,
    True,
    False,
    0,
    1,
    2,
    1.0,
    0.5,
    "",
    "0",
    "1",
    "a",
    "true",
    "null",
    "é",
    'a"b',
    "\\",
    "\n",
    "[1]",
    "{}",
]
scalars = st.one_of(st.sampled_from(few), st.sampled_from(few), texts, numbers)
ordered = st.one_of(st.sampled_from([0, 1, 2, 1.0, 0.5, "", "0", "1", "a", "é"]), texts, numbers)
documents = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(texts, inner, max_size=2), max_leaves=4
)
names = st.one_of(st.sampled_from(["a", "b"]), st.sampled_from(["a", "b"]), st.sampled_from(NAMES))
items = st.none() | st.dictionaries(names, st.one_of(scalars, scalars, documents), max_size=4)

conditions = st.fixed_dictionaries(
    {},
    optional={
        **dict.fromkeys(("$eq", "$ne", "==", "!="), scalars),
        **dict.fromkeys(("$gt", "$gte", "$lt", "$lte", ">", ">=", "<", "<="), ordered),
        **dict.fromkeys(("$in", "$nin"), st.lists(scalars, max_size=4)),
        "$exists": st.booleans(),
        "$contains": scalars,
        "$startswith": texts,
    },
).filter(bool)
one_condition = st.one_of(
    st.tuples(st.sampled_from(["$eq", "$ne", "==", "!="]), scalars),
    st.tuples(st.sampled_from(["$gt", "$gte", "$lt", "$lte", ">", ">=", "<", "<="]), ordered),
    st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(scalars, max_size=4)),
    st.tuples(st.just("$exists"), st.booleans()),
    st.tuples(st.just("$contains"), scalars),
    st.tuples(st.just("$startswith"), st.sampled_from(["", "a", "1", "t", "é"])),
).map(lambda pair: dict([pair]))
leaves = st.dictionaries(
    names.map(written), st.one_of(scalars, st.lists(scalars, max_size=4), one_condition, conditions), max_size=2
)
filters = st.recursive(
    leaves,
    lambda inner: st.builds(
        lambda fields, rest: fields | rest,
        leaves,
        st.fixed_dictionaries(
            {},
            optional={
                "$and": st.lists(inner, min_size=1, max_size=3),
                "$or": st.lists(inner, min_size=1, max_size=3),
                "$not": inner,
            },
        ),
    ),
    max_leaves=6,
)


@settings(max_examples=300)
@given(st.lists(items, min_size=1, max_size=8), filters)
def test_sql_selects_what_plain_python_selects(stored, where):
    assert selected(stored, where) == [matches(item, where) for item in stored]


@settings(max_examples=200)
@given(scalars, scalars, one_condition)
def test_one_condition_on_one_field(first, second, condition):
    stored = [{"a": first}, {"a": second}, {"b": first}, {"a": [first]}, {"a": {"a": first}}, {}, None]
    assert selected(stored, {"a": condition}) == [matches(item, {"a": condition}) for item in stored]


@settings(max_examples=200)
@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=5))
def test_every_float_equals_itself(values):
    for value in values:
        assert selected([{"x": value}], {"x": value}) == [True]
        assert selected([{"x": value}], {"x": [*values, 0.1, 0.2]}) == [True]
        assert selected([{"x": value}], {"x": {">=": value, "<=": value, "!=": value / 2 + 1e9}}) == [True]


@settings(max_examples=200)
@given(texts, texts, scalars)
def test_a_field_of_any_name_is_found_and_no_other(name, other, value):
    stored = [{name: value}, {other: value}, {"x": value, name: value, "y": value}, {"x": {name: value}}]
    exists = [bool(found(each, name)) for each in stored]
    assert exists[0]
    assert exists[2]
    assert selected(stored, {written(name): {"$exists": True}}) == exists


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("value", ["v", 1, 1.5, True, None])
def test_odd_names(name, value):
    stored = [{"first": "v", name: value}, {name + "x": value, "x": {name: value}}, None]
    where = {written(name): value}
    assert selected(stored, where) == [True, value is None, value is None]
    assert selected(stored, {written(name): {"$exists": True}}) == [True, False, False]
    assert selected(stored, {written(name): {"$ne": value}}) == [False, value is not None, value is not None]


# ---- the choices that the language makes ----------------------------------------------------------------------


def test_types_do_not_mix():
    stored = [{"x": value} for value in ("1", 1, 1.0, True, "true", [1], {"1": 1}, None)] + [{}, None]

    def which(condition):
        return [i for i, good in enumerate(selected(stored, {"x": condition})) if good]

    assert which("1") == [0]
    assert which(1) == which(1.0) == [1, 2, 5]
    assert which(True) == [3]
    assert which("true") == [4]
    assert which(False) == which("[1]") == which('{"1":1}') == []
    assert which(None) == [7, 8, 9]
    assert which({">=": 0}) == [1, 2]
    assert which({">=": ""}) == [0, 4]
    assert which({"<=": 1}) == [1, 2]
    assert which([True, "1"]) == [0, 3]


def test_what_holds_for_an_absent_field():
    stored = [{"x": None}, {"y": 1}, {}, None]
    for condition in (1, "", True, {">": 0}, {"<": 0}, {">=": ""}, [], [1, "1"], {"$in": [0]}):
        assert selected(stored, {"x": condition}) == [False] * 4, condition
        assert selected(stored, {"$not": {"x": condition}}) == [True] * 4, condition
    for condition in ({"$ne": 1}, {"!=": "a"}, {"$nin": [1, "1"]}, {"$nin": []}, {"$eq": None}, [None, 3]):
        assert selected(stored, {"x": condition}) == [True] * 4, condition
    assert selected(stored, {"x": {"$ne": None}}) == [False] * 4
    assert selected(stored, {"x": {"$exists": True}}) == [True, False, False, False]
    assert selected(stored, {"x": {"$exists": False}}) == [False, True, True, True]


def test_the_empty_filter_is_true_of_everything():
    stored = [{"x": 1}, {}, None]
    assert selected(stored, {}) == [True] * 3
    assert selected(stored, {"$not": {}}) == [False] * 3
    assert selected(stored, {"$or": [{"x": 2}, {}]}) == [True] * 3


def test_a_dot_leads_into_an_object_unless_it_is_part_of_a_name():
    stored = [{"a.b": 1}, {"a": {"b": 1}}, {"a.b": 2, "a": {"b": 1}}, {"a": {"b": [0, 1]}}, {"a": [{"b": 1}]}, {}]
    assert selected(stored, {"a.b": 1}) == [True, True, False, True, False, False]
    assert selected(stored, {"a.b": {"$exists": True}}) == [True, True, True, True, False, False]
    assert selected(stored, {"a.b": {">": 1}}) == [False, False, True, False, False, False]
    assert selected([{"a": {"b": {"c": "x"}}}, {".": 1}, {"a": {"": 1}}], {"a.b.c": "x"}) == [True, False, False]
    assert selected([{"a": {"": 1}}, {"a.": 1}], {"a.": 1}) == [False, True]


@pytest.mark.parametrize("name", ["tags", "a.tags", 'a"b'])
def test_a_list_is_looked_into(name):
    stored = [
        {name: value} for value in (["red", 1, None], "red", "bored", ["Red"], [], [["red"]], {"0": "red"}, 1)
    ]
    assert selected(stored, {name: "red"}) == [True, True] + [False] * 6
    assert selected(stored, {name: {"$ne": "red"}}) == [False, False] + [True] * 6
    assert selected(stored, {name: ["red", 1]}) == [True, True, False, False, False, False, False, True]
    assert selected(stored, {name: {"$contains": "red"}}) == [True, True, True] + [False] * 5
    assert selected(stored, {name: {"$contains": 1}}) == [True] + [False] * 7
    assert selected(stored, {name: {"$startswith": "bo"}}) == [False, False, True] + [False] * 5
    assert selected(stored, {name: None}) == [True] + [False] * 7
    assert selected(stored, {name: {">": ""}}) == [False, True, True] + [False] * 5


def test_times_are_text_that_is_ordered_as_time_is():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    times = [
        datetime.datetime(2026, 1, 1),
        datetime.datetime(2026, 1, 1, 0, 0, 0, 1),
        np.datetime64("2026-01-01T12:00"),
        datetime.date(2026, 1, 2),
        datetime.datetime(2026, 1, 2, 1),
    ]
    stored = [{"at": each} for each in times]
    texts = [decode_metadata(encode_metadata(each))["at"] for each in stored]
    assert texts == sorted(texts)
    assert texts[0] == "2026-01-01T00:00:00"
    for i, each in enumerate(times):
        assert selected(stored, {"at": {">=": each}}) == [False] * i + [True] * (len(times) - i)
        assert selected(stored, {"at": each}) == [i == j for j in range(len(times))]
    east, utc = datetime.datetime(2026, 1, 1, 2, tzinfo=zone), datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    assert encode_metadata({"at": east}) == '{"at":"2026-01-01T00:00:00+00:00"}'
    assert selected([{"at": east}], {"at": utc}) == [True]
    assert encode_metadata({"at": np.datetime64("NaT", "s")}) == '{"at":null}'


def test_two_dollars_stand_for_one():
    stored = [{"$x": 1}, {"$$x": 1}, {"$or": 1}]
    assert selected(stored, {"$$x": 1}) == [True, False, False]
    assert selected(stored, {"$$$x": 1}) == [False, True, False]
    assert selected(stored, {"$$or": 1}) == [False, False, True]


def test_integers_of_64_bits_are_exact():
    big = 2**63 - 1
    stored = [{"x": big}, {"x": big - 1}, {"x": -(2**63)}, {"x": 2.0**63}]
    assert selected(stored, {"x": big}) == [True, False, False, False]
    assert selected(stored, {"x": [big - 1, -(2**63)]}) == [False, True, True, False]
    assert selected(stored, {"x": {"$gt": big - 1}}) == [True, False, False, True]


def test_strings_are_ordered_by_code_point():
    stored = [{"x": x} for x in ("", "A", "Z", "a", "é", "\uffff", "\U00010000")]
    assert selected(stored, {"x": {">": "Z", "<": "\U00010000"}}) == [False, False, False, True, True, True, False]


def test_a_set_may_be_large():
    stored = [{"x": "7"}, {"x": 99_999}, {"x": 100_000}, {"x": True}]
    sql, parameters, _ = compile_filter({"x": {"$in": [*range(100_000), *map(str, range(100_000))]}})
    assert len(parameters) == 10
    assert len(sql) < 800
    assert selected(stored, {"x": list(range(100_000))}) == [False, True, False, False]
    assert selected(stored, {"x": {"$nin": list(range(100_000))}}) == [True, False, True, True]


def test_sets_tuples_and_numpy_scalars_are_values():
    stored = [{"x": 2}, {"x": 0.5}, {"x": True}, {"x": "s"}]
    assert selected(stored, {"x": np.int64(2)}) == [True, False, False, False]
    assert selected(stored, {"x": {"$in": {np.float32(0.5), np.str_("s")}}}) == [False, True, False, True]
    assert selected(stored, {"x": (2, np.True_)}) == [True, False, True, False]
    assert selected(stored, {"x": {"$exists": np.False_}}) == [False] * 4


def test_nothing_that_a_caller_wrote_is_in_the_sql():
    secret = "'); DROP TABLE items; --"
    where = {
        secret: secret,
        "a" + secret: [secret, "b" + secret, 4711, 4712],
        'a"' + secret: {"$gte": 4711, "$ne": secret},
        "$not": {"$or": [{"c": {"<": secret}}]},
    }
    sql, parameters, _ = compile_filter(where)
    assert "DROP" not in sql
    assert "4711" not in sql
    assert sql.count("?") == len(parameters)
    assert selected([{}], where) == [matches({}, where)]


def test_a_filter_is_left_as_it_was():
    where = {"a": {"$in": [1, 2]}, "$or": [{"b": 1}, {"c": {">": 1}}]}
    before = json.dumps(where)
    compile_filter(where)
    assert json.dumps(where) == before


# ---- the limits -----------------------------------------------------------------------------------------------


def chain(depth, step):
    where = {"x": 1}
    for _ in range(depth):
        where = step(where)
    return where


STEPS = {
    "not": lambda inner: {"$not": inner},
    "or": lambda inner: {"$or": [{"x": 2}, inner]},
    "and": lambda inner: {"$and": [{"x": {"$ne": 2}}, inner, {"y": None}]},
    "odd": lambda inner: {'a"b': {"$nin": ["1", "2"]}, "$not": inner},
    "field and or": lambda inner: {"y": None, "$or": [{"x": [2, 3]}, inner]},
    "all": lambda inner: {
        "y": None,
        "$or": [{"x": 2}, inner],
        "$and": [{"y": None}, {"x": {">": 0}}],
        "$not": {"y": 3},
    },
    "beside a chain": lambda inner: {"$or": [chain(min(15, depth_of(inner)), STEPS["not"]), inner]},
}


def depth_of(where):
    inner = [one for name in ("$and", "$or") for one in where.get(name, [])] + [
        where[k] for k in where if k == "$not"
    ]
    return 1 + max(map(depth_of, inner)) if inner else 0


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("depth", [0, 1, 10, 16])
def test_sqlite_takes_the_deepest_filter(step, depth):
    where = chain(depth, STEPS[step])
    assert depth_of(where) == depth
    stored = [{"x": 1}, {"x": 2, "y": 3}, {}, None]
    expected = [matches(item, where) for item in stored]
    assert selected(stored, where) == expected
    sql, parameters, _ = compile_filter(where)
    inside = f"SELECT id FROM (SELECT id FROM items WHERE id > 0 AND (id < 9 OR id IS NOT NULL) AND {sql})"
    query = f"WITH items(id, metadata) AS (VALUES (1, '{{}}')) SELECT id FROM items WHERE id IN ({inside})"
    database = sqlite3.connect(":memory:")
    assert len(database.execute(query, parameters).fetchall()) == expected[2]
    database.close()


def test_a_balanced_filter_of_many_conditions():
    def tree(low, high):
        if high - low == 1:
            return {'a"b': {"$ne": low}}
        middle = (low + high) // 2
        return {"$not": {"$or": [{"$not": tree(low, middle)}, {"$not": tree(middle, high)}]}}

    assert selected([{'a"b': 3}, {'a"b': 32}], tree(0, 32)) == [False, True]


def test_too_deep():
    for step in ("not", "or"):
        with pytest.raises(InvalidInput, match="at most 16 filters deep"):
            compile_filter(chain(17, STEPS[step]))
    endless = {}
    endless["$and"] = [endless, endless]
    with pytest.raises(InvalidInput, match="at most 16 filters deep"):
        compile_filter(endless)


@pytest.mark.parametrize("connective", ["$and", "$or"])
@pytest.mark.parametrize("condition", [{"x": 1}, {}, {'a"b': {"$ne": 3.5}}, {"x": {"$nin": [7, 8]}}])
def test_many_conditions(connective, condition):
    stored = [{"x": 1}, {'a"b': 3.5, "x": 7}, {}]
    n = 200 if 'a"b' in condition else 500
    where = {connective: [condition] * n}
    assert selected(stored, where) == [matches(item, where) for item in stored]
    if n < 500:
        with pytest.raises(InvalidInput, match=r"at most 200 conditions where .* a double quote.*; got 201"):
            compile_filter({connective: [condition] * (n + 1)})
    with pytest.raises(InvalidInput, match=r"at most 500 conditions; got 501 or more. Write .*\$in"):
        compile_filter({connective: [condition] * 501})


def test_many_fields():
    where = {f"f{i}": {">": i, "!=": 0} for i in range(250)}
    assert selected([{f"f{i}": i + 1 for i in range(250)}, {}], where) == [True, False]
    with pytest.raises(InvalidInput, match="got 502"):
        compile_filter({f"f{i}": {">": i, "!=": 0} for i in range(251)})


# ---- what is refused ------------------------------------------------------------------------------------------

KNOWN = (
    r"Known: \$eq, \$ne, \$gt, \$gte, \$lt, \$lte, \$in, \$nin, \$contains, \$startswith, \$exists, "
    r"or ==, !=, >, >=, <, <=\."
)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        (None, r"^`where` must be a filter, .*; got None\.$"),
        ([{"x": 1}], r"^`where` must be a filter"),
        ("x = 1", r"^`where` must be a filter, .*; got 'x = 1'\.$"),
        ({3: 1}, r"^Each name in `where` must be a string; got 3\.$"),
        ({b"x": 1}, r"^Each name in `where` must be a string; got b'x'\.$"),
        ({"a\0b": 1}, r"^Each name in `where` must not hold the character NUL"),
        ({"\ud800": 1}, r"^Each name in `where` must be text; .* half a surrogate pair"),
        ({"$nor": [{}]}, r"got '\$nor'\. Known: \$and, \$or, \$not; .* A field of this name is '\$\$nor'\."),
        ({"$gte": 3}, r"got '\$gte'\. Known: \$and, \$or, \$not; other operators belong to a field"),
        ({"$": 3}, r"got '\$'\."),
        ({"$or": []}, r"^`where\['\$or'\]` must be a list of at least one filter; got \[\]\.$"),
        ({"$and": ()}, r"^`where\['\$and'\]` must be a list of at least one filter"),
        ({"$or": {"x": 1}}, r"must be a list of at least one filter; got \{'x': 1\}\."),
        ({"$and": "x"}, r"must be a list of at least one filter; got 'x'\."),
        ({"$or": [{"x": 1}, 3]}, r"^`where\['\$or'\]\[1\]` must be a filter, .*; got 3\.$"),
        ({"$not": [{"x": 1}]}, r"^`where\['\$not'\]` must be a filter"),
        ({"x": {}}, rf"^`where\['x'\]` must have at least one operator; got \{{\}}\. {KNOWN}$"),
        ({"x": {"$near": 1}}, rf"^`where\['x'\]` must have known operators; got '\$near'\. {KNOWN}$"),
        ({"x": {"=": 1}}, rf"got '='\. {KNOWN}$"),
        ({"x": {"y": 1}}, rf"got 'y'\. {KNOWN}$"),
        ({"x": {"$not": {"$eq": 1}}}, rf"got '\$not'\. {KNOWN}$"),
        ({"x": {3: 1}}, rf"got 3\. {KNOWN}$"),
        ({"x": {None: 1}}, rf"got None\. {KNOWN}$"),
        ({"x": math.nan}, r"^`where\['x'\]` must be finite; got nan\.$"),
        ({"x": {"$lt": math.inf}}, r"^`where\['x'\]\['\$lt'\]` must be finite; got inf\.$"),
        ({"x": np.float32("nan")}, r"must be finite; got nan\."),
        ({"x": [1, -math.inf]}, r"^`where\['x'\]\[1\]` must be finite; got -inf\.$"),
        (
            {"x": {"$nin": [2**63]}},
            r"^`where\['x'\]\['\$nin'\]\[0\]` must fit into 64 bits; got an integer of 64 bits",
        ),
        ({"x": -(2**63) - 1}, r"must fit into 64 bits"),
        ({"x": 10**5000}, r"must fit into 64 bits; got an integer of 16610 bits\."),
        ({"x": np.uint64(2**63)}, r"must fit into 64 bits"),
        ({"x": b"red"}, r"^`where\['x'\]` must be a string, .*, or a dictionary of operators; got b'red'\.$"),
        ({"x": object}, r"must be a string, a 64-bit integer, a finite float, a datetime, True, False or None"),
        ({"x": 1j}, r"got 1j\."),
        ({"x": Decimal(1)}, r"got Decimal\('1'\)\."),
        ({"x": datetime.time(1, 2)}, r"got datetime.time\(1, 2\)\."),
        ({"x": np.datetime64(2**62, "us")}, r"must be a time in the years 1 to 9999"),
        ({"x": {"$contains": [1]}}, r"^`where\['x'\]\['\$contains'\]` must be a string"),
        ({"x": {"$startswith": 1}}, r"^`where\['x'\]\['\$startswith'\]` must be a string; got 1\.$"),
        ({"x": np.longdouble(1)}, r"must be a string"),
        ({"x": np.arange(2)}, r"got array\(\[0, 1\]\)\."),
        ({"x": {"$eq": [1]}}, r"^`where\['x'\]\['\$eq'\]` must be a string, .* or None; got \[1\]\.$"),
        ({"x": {"!=": {"y": 1}}}, r"^`where\['x'\]\['!='\]` must be a string"),
        ({"x": [[1]]}, r"^`where\['x'\]\[0\]` must be a string"),
        ({"x": {"$in": [[10**5000]]}}, r"got a list\.$"),
        ({"x": "a\0b"}, r"^`where\['x'\]` must not hold the character NUL; got 'a\\x00b'\.$"),
        ({"x": "\udfff"}, r"^`where\['x'\]` must be text; .* half a surrogate pair\.$"),
        (
            {"x": {">": None}},
            r"^`where\['x'\]\['>'\]` must be a number or a string, which have an order; got None\.$",
        ),
        ({"x": {"$lte": True}}, r"must be a number or a string, which have an order; got True\."),
        ({"x": {"$gt": [1]}}, r"^`where\['x'\]\['\$gt'\]` must be a number, a string or a datetime; got \[1\]\.$"),
        ({"x": {"$in": "red"}}, r"^`where\['x'\]\['\$in'\]` must be a list of values; got 'red'\.$"),
        ({"x": {"$nin": {"y": 1}}}, r"must be a list of values; got \{'y': 1\}\."),
        ({"x": {"$exists": 1}}, r"^`where\['x'\]\['\$exists'\]` must be True or False; got 1\.$"),
    ],
)
def test_what_is_no_filter(where, message):
    with pytest.raises(InvalidInput, match=message):
        compile_filter(where)


# ---- metadata -------------------------------------------------------------------------------------------------


@settings(max_examples=200)
@given(st.none() | st.dictionaries(texts, documents, max_size=4))
def test_metadata_comes_back(metadata):
    text = encode_metadata(metadata)
    back = decode_metadata(text)
    assert back == metadata
    assert repr(back) == repr(metadata)  # 1, 1.0 and True are equal
    assert (text is None) == (metadata is None)


def test_metadata_is_compact_json():
    assert encode_metadata({}) == "{}"
    assert encode_metadata({"é": [1, {"b": (True, None)}], "c": 'q"\\\n'}) == (
        '{"é":[1,{"b":[true,null]}],"c":"q\\"\\\\\\n"}'
    )
    assert encode_metadata({"n": np.int8(3), "f": np.float64(0.5), "s": np.str_("x"), "t": np.True_}) == (
        '{"n":3,"f":0.5,"s":"x","t":true}'
    )


def nested(depth):
    value = 1
    for _ in range(depth - 1):
        value = [value]
    return {"x": value}


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("red", r"^`metadata` must be a dictionary or None; got 'red'\.$"),
        ([("x", 1)], r"^`metadata` must be a dictionary or None"),
        ({1: 2}, r"^Each name in `metadata` must be a string; got 1\.$"),
        ({"x": {None: 2}}, r"^Each name in `metadata\['x'\]` must be a string; got None\.$"),
        ({"x": [{"y\0": 2}]}, r"^Each name in `metadata\['x'\]\[0\]` must not hold the character NUL"),
        ({"x": math.nan}, r"^`metadata\['x'\]` must be finite; got nan\.$"),
        ({"x": {"y": [0, math.inf]}}, r"^`metadata\['x'\]\['y'\]\[1\]` must be finite; got inf\.$"),
        ({"x": 2**63}, r"^`metadata\['x'\]` must fit into 64 bits"),
        ({"x": b"y"}, r"^`metadata\['x'\]` must be a string, .*, or a list or a dictionary of those; got b'y'\.$"),
        ({"x": {1, 2}}, r"^`metadata\['x'\]` must be a string"),
        ({"x": np.arange(3)}, r"^`metadata\['x'\]` must be a string"),
        ({"x": datetime.time(1, 2)}, r"^`metadata\['x'\]` must be a string"),
        ({"x": "a\0b"}, r"^`metadata\['x'\]` must not hold the character NUL"),
        ({"x": "\ud800"}, r"^`metadata\['x'\]` must be text"),
        (nested(101), r"^`metadata` must be at most 100 deep; `metadata\['x'\]\[0\]"),
    ],
)
def test_what_is_no_metadata(metadata, message):
    with pytest.raises(InvalidInput, match=message):
        encode_metadata(metadata)


def test_metadata_within_itself_is_refused():
    endless = {}
    endless["x"] = [endless]
    with pytest.raises(InvalidInput, match="at most 100 deep"):
        encode_metadata(endless)


def test_the_deepest_metadata_can_be_searched():
    assert decode_metadata(encode_metadata(nested(100))) == nested(100)
    assert selected([{**nested(100), "y": 1}], {"y": 1, "x": {"$exists": True}, "$not": {'"': 1}}) == [True]


@pytest.mark.parametrize("text", ["", "{", "[]", "1", "null", '{"x": }', "{'x': 1}", "[" * 100_000])
def test_text_that_is_no_metadata(text):
    with pytest.raises(CorruptStore, match="must be a JSON object; got "):
        decode_metadata(text)


def test_metadata_is_walked_over_once_whatever_the_names_are():
    """A walk for each name would parse it each time, and keep hundreds of copies of it in memory."""
    where = {"$or": [{f'"{i}': [1, "a", None]} for i in range(100)], "$not": {"\\": {">": 3}}, "plain": 1}
    sql, _, _ = compile_filter(where)
    assert sql.count("json_each(metadata)") == 1
    assert "json_each(metadata)" not in compile_filter({"plain": 1})[0]


def test_a_long_filter_is_refused_at_the_first_condition_too_many():
    class Once:
        """A filter that must not be looked at."""

        def __repr__(self):
            raise AssertionError

    with pytest.raises(InvalidInput, match="at most 500 conditions"):
        compile_filter({"$or": [{"$and": [{"a": 1}] * 400}] * 2 + [Once()]})
    with pytest.raises(InvalidInput, match="at most 2 conditions; got 3 or more"):
        compile_filter({"a": 1, "b": 2, "c": 3, "d": Once()}, max_conditions=2)
