"""Messages about values of the wrong form: where the value is and what it must be."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

_SHOWN = 3
_RULES = {
    "missing": "is missing",
    "extra_forbidden": "is not known here",
    "list_type": "must be a list",
    "dict_type": "must be an object",
    "model_type": "must be an object",
    "float_type": "must be a number",
    "float_parsing": "must be a number",
    "int_type": "must be a whole number",
    "int_parsing": "must be a whole number",
    "int_parsing_size": "must be a whole number of 64 bits",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "string_type": "must be a string",
    "too_short": "must not be empty",
    "less_than_equal": "must be at most {le}",
    "greater_than_equal": "must be at least {ge}",
    "literal_error": "must be {expected}",
}
_KEY = "must be a string without NUL, or a whole number of 64 bits"
_FIELDS = {  # fields that take one of several types, or a pattern
    "key": _KEY,
    "keys": _KEY,
    "labels": "must be whole numbers, or lists of 0 and 1, or null",
    "version": "must be a number, or 'current'",
}
_PLACES = ("query", "path", "body", "header")


def validation_message(errors: Sequence[Mapping[str, Any]], known: Collection[str] = ()) -> str:
    """Return the errors that pydantic found, in one line, with the ``known`` fields if one is not.

    Examples
    --------
    >>> validation_message([{"type": "greater_than_equal", "loc": ("query", "k"), "msg": "...", "ctx": {"ge": 1}}])
    '`k` must be at least 1.'
    >>> validation_message([{"type": "int_type", "loc": ("keys", 3, "constrained-int"), "msg": "..."}])
    '`keys[3]` must be a string without NUL, or a whole number of 64 bits.'
    >>> validation_message([{"type": "extra_forbidden", "loc": ("vector",), "msg": "..."}], ["vectors", "keys"])
    '`vector` is not known here. Known: vectors, keys.'
    """
    messages = list(dict.fromkeys(_message(each) for each in errors))
    more = f"; and {len(messages) - _SHOWN} more" if len(messages) > _SHOWN else ""
    listed = known and any(each["type"] == "extra_forbidden" and len(_steps(each)) == 1 for each in errors)
    return f"{'; '.join(messages[:_SHOWN])}{more}." + (f" Known: {', '.join(known)}." if listed else "")


def _steps(error: Mapping[str, Any]) -> list[int | str]:
    return [step for step in error["loc"] if step not in _PLACES]


def _message(error: Mapping[str, Any]) -> str:
    kind, context = error["type"], error.get("ctx") or {}
    steps = _steps(error)
    if kind == "value_error":
        return str(context.get("error", error["msg"]))
    name = steps[0] if steps else None
    variant = next((place for place, step in enumerate(steps) if place and _is_type_name(step)), None)
    if name in _FIELDS and (variant is not None or kind == "string_pattern_mismatch"):
        return f"{_path(steps[:variant])} {_FIELDS[name]}"
    text = str(error["msg"])
    rule = _RULES[kind].format(**context) if kind in _RULES else f"is wrong: {text[:1].lower()}{text[1:]}"
    return f"{_path(steps)} {rule}"


def _is_type_name(step: int | str) -> bool:
    """Tell whether a step is pydantic's name for one type of a union."""
    return isinstance(step, str) and ("constrained-" in step or "[" in step)


def _path(steps: Sequence[int | str]) -> str:
    """Return where a value is, as ``vectors[0][3]``."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step:.80}"
    return f"`{text}`" if text else "The request"
