"""Class labels that are strings, as the numbers that learners work with."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from . import validation
from .errors import InvalidInput
from .state import State
from .validation import GivenLabels

_KINDS = {True: "strings", False: "integers"}


class LabelNames:
    """Numbers the class names of a stream in the order of their first appearance.

    Labels that are not strings (integers, or a 0/1 matrix) pass through unchanged. A stream has labels of one
    kind: once it began with strings, integers are refused, and the other way round.

    Examples
    --------
    >>> names = LabelNames()
    >>> names.codes(["cat", "dog", "cat"])
    array([0, 1, 0])
    >>> names.names  # nothing is kept yet
    []
    >>> names.keep()
    >>> names.codes(["bird", "dog"]), names.names
    (array([2, 1]), ['cat', 'dog'])
    >>> names.codes([0, 1])
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `y` must be strings, like all earlier labels; got integers.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}
        self._are_names: bool | None = None  # None before the first labels
        self._found: tuple[dict[str, int], bool | None] = {}, None  # what the last call of `codes` would add

    @property
    def names(self) -> list[str]:
        """The class names; the position of a name is its number."""
        return list(self._numbers)

    def codes(self, y: ArrayLike | None, name: str = "y", like: str = "all earlier labels") -> Any:
        """Return labels as numbers; new names get the numbers that follow.

        Nothing changes until `keep` is called, so a caller may still refuse the examples for another reason. An
        error speaks of the argument ``name``, which must have labels of the kind that those ``like`` it have.
        """
        self._found = {}, self._are_names
        if y is None:
            return None
        labels = _strings(name, y)
        are_names = labels is not None
        if self._are_names not in (None, are_names):
            expected, got = _KINDS[not are_names], _KINDS[are_names]
            raise InvalidInput(f"`{name}` must be {expected}, like {like}; got {got}.")
        new: dict[str, int] = {}
        self._found = new, are_names
        if labels is None:
            return y
        known = self._numbers
        for each in labels:
            if each not in known and each not in new:
                new[each] = len(known) + len(new)
        return np.array([new[each] if each in new else known[each] for each in labels], dtype=np.int64)

    def checked(self, y: GivenLabels | None, n: int, shape: tuple[int, ...] | None) -> NDArray[Any] | None:
        """Return the labels of n rows as numbers, those that are missing marked; None without labels.

        Parameters
        ----------
        y
            Labels, of which some may be None, NaN, pandas' NA or masked; or None.
        n
            How many rows there are.
        shape
            The shape of a label before, () or (classes,); None before the first rows, which need a label.

        Examples
        --------
        >>> LabelNames().checked(["cat", None], 2, None).tolist()
        [0, -9223372036854775808]
        """
        if y is None:
            self._found = {}, self._are_names
            return None
        known, missing = validation.without_missing("y", y, n)
        n_known = n - int(missing.sum())
        if not n_known and shape is None:
            raise InvalidInput(
                "`y` must have a label for at least one of the first rows. Leave `y` out if no row will have one."
            )
        self._found = {}, self._are_names
        found = validation.labels("y", self.codes(known), n_known) if n_known else None
        return validation.with_missing(found, missing, shape or ())

    def keep(self) -> None:
        """Keep the names, and the kind, of the labels that were last given to `codes`."""
        new, self._are_names = self._found
        self._numbers.update(new)
        self._found = {}, self._are_names

    def state(self) -> State:
        """Return the names and the kind of the labels."""
        return {"names": self.names, "are_names": self._are_names}

    def restore(self, state: State) -> None:
        """Continue with the names that `state` returned."""
        self._numbers = {name: number for number, name in enumerate(state["names"])}
        self._are_names = state["are_names"]


def _strings(name: str, y: ArrayLike) -> list[str] | None:
    """Return labels as a list if they are strings, None if they are not; refuse a mixture."""
    labels: Any = y if isinstance(y, list | tuple) else validation.array(name, y)
    if isinstance(labels, np.ndarray):
        if labels.dtype.kind not in "UTO" or labels.shape[:1] != (labels.size,):
            return None
        labels = labels.ravel().tolist()  # also of a column
    are_strings = [isinstance(label, str) for label in labels]
    if not any(are_strings):
        return None
    if not all(are_strings):
        wrong = are_strings.index(False)
        if validation.is_missing(labels[wrong]):
            raise InvalidInput(f"`{name}` lacks a label in row {wrong}: leave out rows without a label.")
        raise InvalidInput(f"`{name}` must be all strings or all integers; row {wrong} has {labels[wrong]!r:.80}.")
    return list(labels)
