"""Which columns of a file hold the vector, the key, the label and the metadata: named by the user, or guessed."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from ...errors import InvalidInput, UnknownName

FEATURE_NAMES = ("features", "embedding", "embeddings", "vector", "emb", "X")  # in a file, the first that is there
LABEL_NAMES = ("labels", "label", "y")
IS_TEST = "is_test"
KEY_NAMES = ("key", "keys", "id", "ids")
NONE, ALL = "none", "all"
_ROW_NAMES = "__index_level_"  # how pandas calls the row names that it stores as a column
_SHOWN = 12

Kind = Literal["number", "list", "other", "empty"]


@dataclass(frozen=True)
class Columns:
    """The columns that a user names; None leaves the choice to the file.

    Attributes
    ----------
    vector
        A column of lists, or numeric columns: ``prefix*``, ``first:last``, or a tuple of names.
    key
        The column of keys; ``"none"`` numbers the rows.
    label
        The column of labels; None takes none. In a ``.mat`` file it may be a tuple of variables.
    metadata
        Columns that are stored with each item; ``("all",)`` for all that are left.
    left_out
        Columns that are not metadata, where all others are.
    header
        Whether the first line of a CSV file may be a header.
    dataset
        Whether the file is a data set: labels and ``is_test`` are read where columns of those names are there,
        names of classes stay names, and there are no keys.
    called
        The names of these parameters in messages, if they differ: the options of a command line.
    """

    vector: str | tuple[str, ...] | None = None
    key: str | None = None
    label: str | tuple[str, ...] | None = None
    metadata: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    header: bool = True
    dataset: bool = False
    called: Mapping[str, str] = field(default_factory=dict, compare=False)

    def option(self, name: str) -> str:
        """Return what a message calls a parameter of this class or of `open_source`."""
        return self.called.get(name, "`header=False`" if name == "header" else f"`{name}`")

    def wants_all(self, names: Collection[str]) -> bool:
        """Tell whether all remaining columns are metadata; a column may itself be named ``all``."""
        every = self.metadata == (ALL,) and ALL not in names
        if self.left_out and not every:
            raise InvalidInput(f"{self.option('left_out')} can only be used with {self.option('metadata')} {ALL}.")
        return every


@dataclass(frozen=True)
class Layout:
    """The columns that are read.

    Attributes
    ----------
    vector
        The columns that make the vector, in order.
    whole
        Whether that is one column of lists.
    key, label, is_test, metadata
        The others, None or empty if there are none.
    note
        What was guessed, and what is not used.
    """

    vector: tuple[str, ...]
    whole: bool
    key: str | None
    label: str | None
    metadata: tuple[str, ...]
    note: str
    is_test: str | None = None

    @property
    def used(self) -> list[str]:
        """Every column that is read, once."""
        others = [name for name in (self.key, self.label, self.is_test) if name is not None]
        return list(dict.fromkeys([*self.vector, *others, *self.metadata]))


def lay_out(file: str, kinds: Mapping[str, Kind], wanted: Columns) -> Layout:
    """Choose the columns of a file.

    Parameters
    ----------
    file
        Its name in messages.
    kinds
        Its columns, in order: a number, a list of numbers, something else or nothing in the first rows.
    wanted
        What the user said.

    Examples
    --------
    >>> lay_out("mine.csv", {"id": "number", "x": "number", "y": "number", "z": "number"}, Columns()).note
    'vector from the columns x, z (guessed), key from id (guessed), not used: y'
    >>> lay_out("mine.csv", {"f0": "number", "f1": "number", "a": "other"}, Columns(vector="f*")).vector
    ('f0', 'f1')
    """
    if not kinds:
        raise InvalidInput(f"{file} has no columns; give a file with rows of numbers.")
    key, label = _key(file, kinds, wanted), _label(file, kinds, wanted)
    is_test = IS_TEST if wanted.dataset and IS_TEST in kinds else None
    every = wanted.wants_all(kinds)
    option = wanted.option("metadata")
    named = () if every else tuple(_known(file, kinds, name, option) for name in wanted.metadata)
    taken = {name for name in (key, label, is_test, *named) if name is not None}
    vector = _guess(file, kinds, wanted, taken) if wanted.vector is None else _named(file, kinds, wanted, taken)
    whole = len(vector) == 1 and kinds[vector[0]] == "list"
    used = {*vector, *taken}
    aside = {*used, *(_known(file, kinds, name, wanted.option("left_out")) for name in wanted.left_out)}
    metadata = tuple(name for name in kinds if name not in aside and is_named(name)) if every else named
    note = _note(kinds, wanted, vector, key, used | set(metadata))
    return Layout(vector, whole, None if wanted.dataset else key, label, metadata, note, is_test)


def _key(file: str, kinds: Mapping[str, Kind], wanted: Columns) -> str | None:
    if wanted.key is None:
        return next((name for name in KEY_NAMES if kinds.get(name, "list") != "list"), None)
    if wanted.key == NONE and NONE not in kinds:
        return None
    return _known(file, kinds, wanted.key, wanted.option("key"))


def _label(file: str, kinds: Mapping[str, Kind], wanted: Columns) -> str | None:
    if wanted.label is not None:
        return _known(file, kinds, wanted.label, wanted.option("label"))
    return next((name for name in LABEL_NAMES if name in kinds), None) if wanted.dataset else None


def _guess(file: str, kinds: Mapping[str, Kind], wanted: Columns, taken: set[str]) -> tuple[str, ...]:
    lists = [name for name, kind in kinds.items() if kind == "list" and name not in taken]
    usual = [name for name in FEATURE_NAMES if name in lists]
    if usual or len(lists) == 1:
        vector = usual[0] if usual else lists[0]
        like = [
            name for name in kinds if name != vector and _stem(name) is not None and _stem(name) == _stem(vector)
        ]
        if like:
            raise InvalidInput(
                f"{file} has a list in the column {vector}, and {like[0]} looks like a part of the same vector. "
                f"Write decimal points, not commas, or name the vector columns with {wanted.option('vector')}."
            )
        return (vector,)
    if lists:
        raise InvalidInput(
            f"{file} has several columns of lists ({_listed(lists)}); name the vector column with "
            f"{wanted.option('vector')}, or rename it to {FEATURE_NAMES[-1]}."
        )
    aside = taken | set(LABEL_NAMES)
    found = [name for name, kind in kinds.items() if kind == "number" and name not in aside and is_named(name)]
    if not found:
        raise InvalidInput(
            f"{file} has neither a column of lists nor columns of numbers for a vector; its columns: "
            f"{_listed(list(kinds))}. Name them with {wanted.option('vector')}."
        )
    family = _family(found)
    if len(family) <= len(found) / 2:
        return tuple(found)
    others = [
        name for name in kinds if name not in taken and name not in family and _stem(name) == _stem(family[0])
    ]
    if others:
        what = "nothing" if kinds[others[0]] == "empty" else "no number"
        raise InvalidInput(
            f"{file} has {what} in the column {others[0]}, which looks like one of {family[0]} to {family[-1]}. "
            f"Repair it, or name the vector columns with {wanted.option('vector')}."
        )
    return tuple(family)


def _family(names: Sequence[str]) -> list[str]:
    """Return the most columns that differ only in a number at their end, such as f0, f1, f2."""
    families: dict[str, list[str]] = {}
    for name in names:
        stem = _stem(name)
        if stem is not None:
            families.setdefault(stem, []).append(name)
    return max(families.values(), key=len, default=[])


def _stem(name: str) -> str | None:
    """Return a name without the number at its end, None if it has none."""
    stem = name.rstrip("0123456789")
    return None if stem == name else stem


def _named(file: str, kinds: Mapping[str, Kind], columns: Columns, taken: set[str]) -> tuple[str, ...]:
    """Return the columns that a tuple, ``NAME``, ``PREFIX*`` or ``FIRST:LAST`` stands for."""
    names, option = list(kinds), columns.option("vector")
    wanted = columns.vector or ""
    if isinstance(wanted, tuple):
        if len(wanted) == 1:
            return _named(file, kinds, replace(columns, vector=wanted[0]), taken)
        return _numeric(file, kinds, [_known(file, kinds, name, option) for name in wanted], option)
    if wanted in kinds:
        if kinds[wanted] in ("other", "empty"):
            raise InvalidInput(f"The column {wanted!r} of {file} must hold numbers, or lists of numbers.")
        return (wanted,)
    first, colon, last = wanted.partition(":")
    if wanted.endswith("*"):
        chosen = [name for name in names if name.startswith(wanted[:-1])]
    elif colon and first in kinds and last in kinds:
        chosen = names[names.index(first) : names.index(last) + 1]
    else:
        chosen = []
    chosen = [name for name in chosen if name not in taken]
    if not chosen:
        return (_known(file, kinds, wanted, option),)
    return _numeric(file, kinds, chosen, f"{option} {wanted}")


def _numeric(file: str, kinds: Mapping[str, Kind], names: Sequence[str], option: str) -> tuple[str, ...]:
    wrong = [name for name in names if kinds[name] != "number"]
    if wrong:
        raise InvalidInput(
            f"The column {wrong[0]!r} of {file} must hold one number in each row: {option} names it."
        )
    return tuple(names)


def _known(file: str, kinds: Mapping[str, Kind], name: Any, option: str) -> str:
    if not isinstance(name, str) or name not in kinds:
        raise UnknownName(f"{file} has no column {name!r} ({option}); its columns: {_listed(list(kinds))}.")
    return name


def is_named(name: str) -> bool:
    """Tell whether a column has a name; those that pandas makes for its row names do not count."""
    return bool(name) and not name.startswith(_ROW_NAMES)


def _note(
    kinds: Mapping[str, Kind], wanted: Columns, vector: Sequence[str], key: str | None, used: set[str]
) -> str:
    parts = []
    if wanted.vector is None and len(kinds) > 1:
        place = list(kinds).index(vector[0])
        together = tuple(list(kinds)[place : place + len(vector)]) == tuple(vector)
        many = f"{len(vector)} columns {vector[0]} to {vector[-1]}" if together else f"columns {_listed(vector)}"
        parts.append(f"vector from {f'the {many}' if len(vector) > 1 else vector[0]} (guessed)")
    if wanted.key is None and key is not None:
        parts.append(f"key from {key} (guessed)")
    unused = [name for name in kinds if name not in used]
    if unused:
        parts.append(f"not used: {_listed(unused)}")
    return ", ".join(parts)


def _listed(names: Sequence[str]) -> str:
    shown = ", ".join(name or "''" for name in names[:_SHOWN])
    return shown if len(names) <= _SHOWN else f"{shown}, ... ({len(names)} in all)"
