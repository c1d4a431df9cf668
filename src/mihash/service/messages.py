"""What is wrong with a value, in plain words: what it must be, and where it stands."""

from collections.abc import Mapping, Sequence
from typing import Any

_SHOWN = 3
_MUST = {
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
    "string_type": "must be a text",
    "too_short": "must not be empty",
    "less_than_equal": "must be at most {le}",
    "greater_than_equal": "must be at least {ge}",
    "literal_error": "must be {expected}",
}
_KEY = "must be a text without NUL, or a whole number of 64 bits"
_EITHER = {  # fields of which one of several forms is taken, and values that follow a pattern
    "key": _KEY,
    "keys": _KEY,
    "labels": "must be whole numbers, or lists of 0 and 1",
    "version": "must be a number, or 'current'",
}
_HEADS = ("query", "path", "body", "header")


def worded(found: Sequence[Mapping[str, Any]]) -> str:
    """Return what pydantic found, in one line.

    Examples
    --------
    >>> worded([{"type": "greater_than_equal", "loc": ("query", "k"), "msg": "...", "ctx": {"ge": 1}}])
    '`k` must be at least 1.'
    >>> worded([{"type": "int_type", "loc": ("keys", 3, "constrained-int"), "msg": "..."}])
    '`keys[3]` must be a text without NUL, or a whole number of 64 bits.'
    """
    told = list(dict.fromkeys(_told(each) for each in found))
    more = f"; and {len(told) - _SHOWN} more" if len(told) > _SHOWN else ""
    return f"{'; '.join(told[:_SHOWN])}{more}."


def _told(each: Mapping[str, Any]) -> str:
    kind, context = each["type"], each.get("ctx") or {}
    steps = [step for step in each["loc"] if step not in _HEADS]
    if kind == "value_error":
        return str(context.get("error", each["msg"]))
    name = steps[0] if steps else None
    mark = next((place for place, step in enumerate(steps) if place and _is_form(step)), None)
    if name in _EITHER and (mark is not None or kind == "string_pattern_mismatch"):
        return f"{_place(steps[:mark])} {_EITHER[name]}"
    plain = str(each["msg"])
    must = _MUST[kind].format(**context) if kind in _MUST else f"is wrong: {plain[:1].lower()}{plain[1:]}"
    return f"{_place(steps)} {must}"


def _is_form(step: int | str) -> bool:
    """Tell whether a step is no place but the name of one of several forms."""
    return isinstance(step, str) and ("constrained-" in step or "[" in step)


def _place(steps: Sequence[int | str]) -> str:
    """Return where a value stands, as ``vectors[0][3]``."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f"{'.' if text else ''}{step:.80}"
    return f"`{text}`" if text else "The request"
