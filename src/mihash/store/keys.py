"""Keys of items: strings or whole numbers of 64 bits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InvalidInput, UnknownName

Key = int | str


def as_keys(keys: ArrayLike | Key, n: int | None = None) -> list[Key]:
    """Return keys as a list of plain integers and strings. If `n` is None, a single key is accepted.

    Examples
    --------
    >>> as_keys(np.array([3, 1])), as_keys("a")
    ([3, 1], ['a'])
    """
    if isinstance(keys, bytes | bytearray | memoryview):
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits; got {keys!r:.80}.")
    if isinstance(keys, set | frozenset):
        raise InvalidInput("`keys` must have an order: give a list in place of a set.")
    values: Any = keys.tolist() if isinstance(keys, np.ndarray) else keys
    if n is None and (isinstance(values, str) or not isinstance(values, Iterable)):
        values = [values]
    values = list(values) if isinstance(values, Iterable) and not isinstance(values, str) else [values]
    if not all(_is_key(key) for key in values):
        wrong = next(key for key in values if not _is_key(key))
        raise InvalidInput(f"A key must be a string or a whole number of 64 bits, without NUL; got {wrong!r:.80}.")
    if n is not None and len(values) != n:
        wanted = "1 key" if n == 1 else f"{n} keys, one for each row"
        raise InvalidInput(f"`keys` must be {wanted}; got {len(values)}.")
    return [str.__str__(key) if isinstance(key, str) else int(key) for key in values]


def key_dtype(keys: Iterable[Key]) -> type[np.int64 | object]:
    """Return the type of an array of keys: int64, or objects where there are strings among them."""
    return object if any(isinstance(key, str) for key in keys) else np.int64


def key_array(keys: Sequence[Key], dtype: type[np.int64 | object] | None = None) -> NDArray[Any]:
    """Return keys as an array, of the type that they need if no other is named.

    Examples
    --------
    >>> key_array([3, 1]), key_array([3, "a"])
    (array([3, 1]), array([3, 'a'], dtype=object))
    """
    array: NDArray[Any] = np.empty(len(keys), dtype=key_dtype(keys) if dtype is None else dtype)
    array[:] = keys
    return array


def _is_key(key: Any) -> bool:
    if isinstance(key, Integral) and not isinstance(key, bool):
        return -(2**63) <= int(key) < 2**63
    return isinstance(key, str) and is_text(key)


def is_text(key: str) -> bool:
    """Tell whether a string can be stored: it is UTF-8 and has no NUL."""
    try:
        return b"\0" not in key.encode()
    except UnicodeEncodeError:
        return False


def readings(text: str) -> list[Key]:
    """Return what a key in a command or an address may stand for, the likelier first.

    A number is tried as one before it is a text; a text in double quotes is one without them.

    Examples
    --------
    >>> readings("17"), readings('"17"'), readings("a")
    ([17, '17'], ['17', '"17"'], ['a'])
    """
    if re.fullmatch(r"0|-?[1-9][0-9]{0,18}", text) and _is_key(int(text)):
        return [int(text), text]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return [text[1:-1], text]
    return [text]


def key_text(key: Key) -> str:
    """Return a key as a text of which it is the likelier of the `readings`.

    Examples
    --------
    >>> key_text(17), key_text("17"), key_text("a")
    ('17', '"17"', 'a')
    """
    text = str(key)
    return text if readings(text)[0] == key else f'"{text}"'


def stored_keys(texts: Sequence[str], contains: Callable[[list[Key]], NDArray[np.bool_]]) -> list[Key]:
    """Return the stored key that each text stands for: the first of its `readings` that an index contains."""
    candidates = [readings(text) for text in texts]
    flat = [key for keys in candidates for key in keys]
    stored = {key for key, there in zip(flat, contains(flat).tolist(), strict=True) if there}
    found: list[Key] = []
    for keys in candidates:
        key = next((key for key in keys if key in stored), None)
        if key is None:
            raise UnknownName(f"The key {keys[0]!r:.200} is not stored.")
        found.append(key)
    return found
