"""Keys, labels and metadata from what a file has in a row."""

import datetime
import decimal
import hashlib
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from ...records import time_text

_SPREAD = "metadata"  # the column whose objects are the metadata of their rows
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")
_DECIMAL = re.compile(r"-?(0|[1-9]\d*)?\.?\d+([eE][-+]?\d+)?")


def plain_text(text: str) -> Any:
    """Return what a text in a CSV file stands for: a number where it is written as one, None if it is empty.

    Examples
    --------
    >>> [plain_text(text) for text in ("17", "-0.5", "007", "red", "")]
    [17, -0.5, '007', 'red', None]
    """
    if _WHOLE.fullmatch(text):
        return int(text)
    if _DECIMAL.fullmatch(text) and not re.match(r"-?0\d", text):
        number = float(text)
        return number if math.isfinite(number) else text
    return text or None


def plain(value: Any) -> Any:
    """Return a value of a file as metadata: times as text, decimals as floats, a missing number as None.

    Examples
    --------
    >>> plain({"day": datetime.date(2024, 1, 4), "price": float("nan")})
    {'day': '2024-01-04', 'price': None}
    """
    if isinstance(value, Mapping):
        return {name: plain(each) for name, each in value.items()}
    if isinstance(value, list):  # a list may not lack a number
        return [each if isinstance(each, float) else plain(each) for each in value]
    if isinstance(value, datetime.date):
        return time_text(value)
    if isinstance(value, datetime.time):
        return value.isoformat()
    if isinstance(value, decimal.Decimal):
        value = float(value)
    return None if isinstance(value, float) and math.isnan(value) else value


def metadata_of_row(row: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the metadata of one row, which messages call ``where``.

    An object stays one under its name. That of a column called ``metadata`` gives its fields.

    Examples
    --------
    >>> metadata_of_row({"colour": "red", "camera": {"lens": 3}, "metadata": {"year": 1999}}, "row 0")
    {'colour': 'red', 'camera': {'lens': 3}, 'year': 1999}
    """
    found: dict[str, Any] = {}
    for name, value in row.items():
        spread = name == _SPREAD and isinstance(value, Mapping)
        for field, each in value.items() if spread else ((name, value),):
            if field in found:
                raise InvalidInput(
                    f"{where} has {field!r} twice in its metadata, once within {_SPREAD!r}. Rename one."
                )
            found[field] = plain(each)
    return found


def class_number(label: Any) -> Any:
    """Return a label as a number; names are hashed, as mihash 0.1 did.

    Examples
    --------
    >>> class_number("3"), class_number("cat"), class_number(True)
    (3, 28490760094750, 1)
    """
    if isinstance(label, str):
        if _WHOLE.fullmatch(label):
            return int(label)
        return int.from_bytes(hashlib.blake2b(label.encode(), digest_size=6).digest(), "big")
    return int(label) if isinstance(label, bool) else label


def class_numbers(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as numbers, masked as they are.

    Examples
    --------
    >>> class_numbers(np.array(["3", "cat"]))
    array([             3, 28490760094750])
    """
    if labels.dtype.kind != "U":
        return labels
    return _masked([class_number(label) for label in np.ma.getdata(labels).tolist()], np.ma.getmaskarray(labels))


def class_names(labels: NDArray[Any]) -> NDArray[Any]:
    """Return labels as names, masked as they are; a 0/1 matrix stays one.

    Examples
    --------
    >>> class_names(np.array([3, 4])).tolist()
    ['3', '4']
    """
    if labels.dtype.kind == "U" or labels.ndim > 1:
        return labels
    return _masked([str(label) for label in np.ma.getdata(labels).tolist()], np.ma.getmaskarray(labels))


def _masked(values: Any, missing: NDArray[np.bool_]) -> NDArray[Any]:
    """Return values as an array, masked where some are missing."""
    found: NDArray[Any] = np.array(values)
    return np.ma.array(found, mask=missing) if missing.any() else found


def as_flags(source: str, values: Sequence[Any], first: int) -> NDArray[np.bool_]:
    """Return yes or no for each row.

    Examples
    --------
    >>> as_flags("mine.csv", ["true", False, 1], 0)
    array([ True, False,  True])
    """
    found = [{"true": True, "false": False}.get(str(value).lower(), value) for value in values]
    for place, value in enumerate(found):
        if value not in (0, 1):
            raise InvalidInput(f"{source}: row {first + place} has {value!r:.40} where true or false should be.")
    return np.array(found, dtype=np.bool_)


def as_labels(source: str, labels: Sequence[Any], first: int, names: bool = False) -> NDArray[Any]:
    """Return the labels of rows as `OnlineIndex.add` takes them, masked where a row has none.

    Where one of them is a name, all become names. For a data set (``names``), also numbers that are text stay
    text, and a row without a label is an error.

    Examples
    --------
    >>> as_labels("mine.csv", [3, "", None], 0).tolist(), as_labels("mine.csv", [3, "cat", None], 0).tolist()
    ([3, None, None], ['3', 'cat', None])
    """
    missing = np.array(
        [validation.is_missing(label) or (isinstance(label, str) and not label) for label in labels],
        dtype=np.bool_,
    )
    for place, label in enumerate(labels):
        part = isinstance(label, float) and not missing[place] and not label.is_integer()
        if part or (names and missing[place]):
            what = f"the label {label!r}" if part else "no label"
            raise InvalidInput(
                f"{source}: row {first + place} has {what}; a label is a whole number or the name of a class."
            )
    if names and any(isinstance(label, str) for label in labels):
        return np.array([str(label) for label in labels])
    if any(isinstance(label, str) and label and not _WHOLE.fullmatch(label) for label in labels):
        return _masked(
            [
                "" if gone else _class_name(label, f"{source}: row {first + place}")
                for place, (label, gone) in enumerate(zip(labels, missing, strict=True))
            ],
            missing,
        )
    known = [class_number(label) for label, gone in zip(labels, missing, strict=True) if not gone]
    try:
        found = validation.labels("label", np.array(known), len(known)) if known else np.empty(0, dtype=np.int64)
    except ValueError as error:  # InvalidInput is one
        raise InvalidInput(f"{source}: rows {first} to {first + len(labels) - 1}: {error}") from error
    if not missing.any():
        return found
    rows = np.zeros((len(labels), *found.shape[1:]), dtype=found.dtype)
    rows[~missing] = found
    masked: NDArray[Any] = np.ma.array(rows)
    masked[missing] = np.ma.masked
    return masked


def _class_name(label: Any, where: str) -> str:
    """Return the name of a class among others that are names; that of a number is its digits."""
    if isinstance(label, str):
        return label
    if not isinstance(label, int | float):
        raise InvalidInput(
            f"{where} has the label {label!r:.80}, but other labels are names. Give each row one name or number."
        )
    return str(int(label))
