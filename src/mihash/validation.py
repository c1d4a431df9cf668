"""Checks of arguments, in one place, so that all errors have the same form.

A message names the parameter, the rule, the value and what to do. A check returns the value in the form that the
rest of the package uses; it never changes the caller's array.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .errors import InvalidInput

_LONGEST = 1e15
TOO_LARGE = "has a number that is too large for it (above 3.4e38). Scale the features."
"""The end of a message about numbers that do not fit into float32."""
GivenLabels = ArrayLike | Sequence[Any]
"""Labels as a caller gives them: some of them may be None."""
MISSING = int(np.iinfo(np.int64).min)
"""The number of a class that is not known."""
_MISSING_FLAG = 255  # in each column of a row of a 0/1 matrix that is not known


def integer(name: str, value: Any, minimum: int, maximum: int | None = None) -> int:
    """Return ``value`` as an ``int`` between ``minimum`` and ``maximum``.

    >>> integer("n_bits", 0, minimum=1)
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `n_bits` must be a whole number of at least 1; got 0.
    """
    whole = type(value) is int or (isinstance(value, Integral) and not isinstance(value, bool))
    if not whole or int(value) < minimum or (maximum is not None and int(value) > maximum):
        rule = f"at least {minimum}" if maximum is None else f"{minimum} to {maximum}"
        raise InvalidInput(f"`{name}` must be a whole number of {rule}; got {value!r}.")
    return int(value)


def number(
    name: str,
    value: Any,
    *,
    above: float | None = None,
    minimum: float | None = None,
    maximum: float | None = None,
    finite: bool = True,
) -> float:
    """Return ``value`` as a ``float``; NaN is never a number, infinity only with ``finite=False``.

    >>> number("theta", "high", finite=False)
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `theta` must be a number; got 'high'.
    """
    rule = "a finite number" if finite else "a number"
    if above is not None:
        rule += f" above {above:g}"
    if minimum is not None:
        rule += f" of at least {minimum:g}"
    if maximum is not None:
        rule += f" and at most {maximum:g}"
    good = isinstance(value, Real) and not isinstance(value, bool) and not np.isnan(float(value))
    if good and finite:
        good = bool(np.isfinite(float(value)))
    low = good and ((above is not None and value <= above) or (minimum is not None and value < minimum))
    if not good or low or (maximum is not None and value > maximum):
        raise InvalidInput(f"`{name}` must be {rule}; got {value!r}.")
    return float(value)


def boolean(name: str, value: Any) -> bool:
    """Return ``value`` if it is True or False.

    >>> boolean("rotate", "no")
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `rotate` must be True or False; got 'no'.
    """
    if not isinstance(value, bool):
        raise InvalidInput(f"`{name}` must be True or False; got {value!r}.")
    return value


def choice(name: str, value: Any, options: Sequence[str | None]) -> Any:
    """Return ``value`` if it is one of ``options``."""
    if isinstance(value, str | None) and value in options:
        return value
    known = ", ".join(repr(option) for option in options)
    raise InvalidInput(f"`{name}` must be one of {known}; got {value!r}.")


def features(
    name: str, X: ArrayLike, n_features: int | None = None, *, allow_empty: bool = False, check: bool = True
) -> NDArray[np.float32]:
    """Return feature vectors as a C-ordered float32 matrix (n, d) of finite numbers.

    With ``check=False`` the caller checks the numbers later, with `finite`.

    >>> features("X", [[1.0, float("nan")]])
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `X` must hold finite numbers; row 0 has a NaN or an infinity. ...
    """
    raw = array(name, X)
    if raw.dtype.kind not in "fiub":
        raise InvalidInput(f"`{name}` must be a matrix of numbers; got an array of {raw.dtype}.")
    if raw.ndim != 2:
        hint = " Use X.reshape(1, -1) for a single vector." if raw.ndim == 1 else ""
        raise InvalidInput(f"`{name}` must have two dimensions (n, d); got shape {raw.shape}.{hint}")
    if raw.shape[1] == 0 or (raw.shape[0] == 0 and not allow_empty):
        raise InvalidInput(f"`{name}` must not be empty; got shape {raw.shape}.")
    width(name, raw, n_features)
    if raw.dtype == np.float32:
        matrix: NDArray[np.float32] = np.ascontiguousarray(raw)
    else:
        try:
            with np.errstate(over="raise", invalid="ignore"):
                matrix = np.ascontiguousarray(raw, dtype=np.float32)
        except FloatingPointError as error:
            raise InvalidInput(f"`{name}` must fit into float32; row {too_large(raw)} {TOO_LARGE}") from error
    if check:
        finite(name, matrix)
    return matrix


def too_large(X: NDArray[Any]) -> int:
    """Return the first row of a matrix with a finite number that is too large for float32.

    >>> too_large(np.array([[1.0, np.inf], [1e39, 1.0]]))
    1
    """
    with np.errstate(over="ignore"):
        infinite = np.isinf(X.astype(np.float32)) & np.isfinite(X)
    return int(np.flatnonzero(infinite.any(axis=1))[0])


def width(name: str, X: NDArray[Any], n_features: int | None) -> None:
    """Refuse a matrix (n, d) whose rows have another number of features; None for any."""
    if n_features not in (None, X.shape[1]):
        raise InvalidInput(
            f"`{name}` must have {n_features} features, like all earlier rows; got shape {X.shape}."
        )


def finite(name: str, matrix: NDArray[np.float32], first_row: int = 0, any_length: bool = False) -> None:
    """Raise if a row has a NaN, an infinity or a length above 1e15; rows are counted from ``first_row``.

    The inner product of two longer vectors may not fit into float32. ``any_length`` accepts them, for encoding:
    a code depends on signs alone.
    """
    flat = matrix.ravel()
    with np.errstate(over="ignore", invalid="ignore"):
        if np.dot(flat, flat) < _LONGEST**2:  # false for NaN; cheaper than a check of each number
            return
        bad = np.flatnonzero(~np.isfinite(matrix).all(axis=1))
        if len(bad):
            raise InvalidInput(
                f"`{name}` must hold finite numbers; row {first_row + bad[0]} has a NaN or an infinity. "
                "Remove or repair it."
            )
        if any_length:
            return
        long = np.flatnonzero(~(np.einsum("ij,ij->i", matrix, matrix, dtype=np.float64) < _LONGEST**2))
    if len(long):
        raise InvalidInput(
            f"`{name}` must have rows of a length below {_LONGEST:g}; row {first_row + long[0]} is longer. "
            "Scale the features."
        )


def labels(name: str, y: ArrayLike, n_rows: int, *, names: bool = False) -> NDArray[Any]:
    """Return labels as int64 (n,) for one class each, or as a uint8 0/1 matrix (n, classes) for several.

    With ``names``, classes may be strings: they are numbered in alphabetical order, for this call alone.

    >>> labels("y", ["dog", "cat", "dog"], 3, names=True)
    array([1, 0, 1])
    >>> labels("y", [3, 1], 3)
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `y` must have one label for each of the 3 rows; got 2.
    """
    raw = array(name, y)
    if raw.ndim not in (1, 2):
        raise InvalidInput(f"`{name}` must be integers (n,) or a 0/1 matrix (n, classes); got shape {raw.shape}.")
    if len(raw) != n_rows:
        raise InvalidInput(f"`{name}` must have one label for each of the {n_rows} rows; got {len(raw)}.")
    if names and raw.ndim == 1 and len(raw) and all(isinstance(each, str) for each in raw.tolist()):
        return np.unique(raw.astype(str), return_inverse=True)[1].astype(np.int64)
    if raw.dtype.kind == "u" and not _fits_int64(raw):
        raise InvalidInput(
            f"`{name}` must be integers below 2**63; got {int(raw.max())}. "
            "Number them: np.unique(y, return_inverse=True)[1]."
        )
    if raw.dtype.kind in "fO" and raw.ndim == 1:
        floats = raw.dtype.kind == "f"
        missing = (
            np.isnan(raw) if floats else np.array([is_missing(each) for each in raw.tolist()], dtype=np.bool_)
        )
        if missing.any():
            row = int(missing.argmax())
            raise InvalidInput(f"`{name}` lacks a label in row {row}: leave out rows without a label.")
    if raw.dtype.kind not in "biuf" or not _fits_int64(raw):
        hint = " Number them: np.unique(y, return_inverse=True)[1]." if raw.dtype.kind in "USO" else ""
        raise InvalidInput(f"`{name}` must be integers (n,) or a 0/1 matrix (n, classes); got {raw.dtype}.{hint}")
    if raw.ndim == 1 or raw.shape[1] == 1:  # one column is one label for each row
        classes = np.ascontiguousarray(raw.ravel(), dtype=np.int64)
        if (classes == MISSING).any():
            raise InvalidInput(f"`{name}`: {MISSING} is reserved for missing labels; use another class number.")
        return classes
    if raw.shape[1] == 0 or not np.isin(raw, (0, 1)).all():
        raise InvalidInput(f"`{name}` as a matrix must hold 0 or 1 for each class (multi-label).")
    return np.ascontiguousarray(raw, dtype=np.uint8)


def is_missing(label: Any) -> bool:
    """Tell whether a label is None, NaN, NaT, a masked value, or pandas' NA, which cannot be compared."""
    try:
        return label is None or label is np.ma.masked or bool(label != label)  # noqa: PLR0124 -- only NaN does
    except TypeError:
        return True
    except ValueError:  # an array: a row of a 0/1 matrix
        return False


def without_missing(name: str, y: GivenLabels, n_rows: int) -> tuple[Any, NDArray[np.bool_]]:
    """Return the labels that are known, and which of the rows (n,) have none.

    A label is missing where it is None, NaN, pandas' NA or masked; a row of a 0/1 matrix where it is None, or
    where all of it is.

    Examples
    --------
    >>> without_missing("y", ["cat", None, "dog"], 3)
    (['cat', 'dog'], array([False,  True, False]))
    >>> without_missing("y", np.array([[0, 1], [np.nan, np.nan]]), 2)
    (array([[0., 1.]]), array([False,  True]))
    """
    known, lost = _split_missing(name, y)
    if len(lost) != n_rows:
        raise InvalidInput(f"`{name}` must have one label for each of the {n_rows} rows; got {len(lost)}.")
    return known, lost


def _split_missing(name: str, y: GivenLabels) -> tuple[Any, NDArray[np.bool_]]:
    if isinstance(y, list | tuple):
        lost = np.array([is_missing(label) for label in y], dtype=np.bool_)
        if lost.any():
            y = [label for label, gone in zip(y, lost, strict=True) if not gone]
        if any(isinstance(label, list | tuple | np.ndarray) for label in y):
            y, lost[~lost] = _split_missing(name, array(name, y))
        return y, lost
    masked = np.atleast_1d(np.ma.getmaskarray(y)) if isinstance(y, np.ma.MaskedArray) else None
    raw: NDArray[Any] = np.atleast_1d(np.ma.getdata(y) if isinstance(y, np.ma.MaskedArray) else array(name, y))
    if masked is not None:
        each = masked
    elif raw.dtype.kind == "f":
        each = np.isnan(raw)
    elif raw.dtype.kind == "O":
        each = np.array([is_missing(label) for label in raw.ravel().tolist()], dtype=np.bool_).reshape(raw.shape)
    else:
        return y, np.zeros(raw.shape[:1], dtype=np.bool_)
    cells = each.reshape(len(each), -1)
    lost = np.asarray(cells.all(axis=1))
    part = cells.any(axis=1) & ~lost
    if part.any():
        raise InvalidInput(
            f"Each row of `{name}` must be complete or entirely missing; row {np.flatnonzero(part)[0]} is partly "
            "missing."
        )
    if not lost.any() and masked is None:
        return y, lost
    return (raw[~lost].tolist() if raw.dtype.kind == "O" else raw[~lost]), lost


def with_missing(
    known: NDArray[Any] | None, missing: NDArray[np.bool_], classes: tuple[int, ...] = ()
) -> NDArray[Any]:
    """Return checked labels in their rows, with the mark of a missing label in the others.

    Parameters
    ----------
    known
        The checked labels of the rows that have one; None if no row has.
    missing
        Which rows have none.
    classes
        The shape of one label where none is known: () or (classes,).

    Examples
    --------
    >>> with_missing(np.array([[1, 0]], dtype=np.uint8), np.array([True, False])).tolist()
    [[255, 255], [1, 0]]
    """
    if known is not None and not missing.any():
        return known
    shape = classes if known is None else known.shape[1:]
    kind, mark = (np.uint8, _MISSING_FLAG) if shape else (np.int64, MISSING)
    found: NDArray[Any] = np.full((len(missing), *shape), mark, dtype=kind)
    if known is not None:
        found[~missing] = known
    return found


def missing_rows(labels: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which rows (n,) of checked labels have none."""
    marked: NDArray[np.bool_] = labels == MISSING if labels.ndim == 1 else labels[:, 0] == _MISSING_FLAG
    return marked


def numbers(name: str, values: ArrayLike, ndim: int) -> NDArray[np.float64]:
    """Return a non-empty array of finite numbers as float64."""
    raw = array(name, values)
    if raw.dtype.kind not in "fiub" or raw.ndim != ndim or raw.size == 0:
        raise InvalidInput(
            f"`{name}` must be numbers in {ndim} dimension(s), not empty; got {raw.dtype} of shape {raw.shape}."
        )
    floats: NDArray[np.float64] = raw.astype(np.float64)
    if not np.isfinite(floats).all():
        raise InvalidInput(f"`{name}` must hold finite numbers.")
    return floats


def packed(name: str, codes: ArrayLike, n_bits: int | None = None) -> NDArray[np.uint8]:
    """Return packed codes as a C-ordered uint8 matrix (n, ceil(n_bits / 8)).

    >>> packed("codes", [[1.5]])
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `codes` must be packed codes (uint8, as mihash.pack makes); got float64.
    """
    raw = np.asarray(codes)
    if raw.dtype != np.uint8:
        raise InvalidInput(f"`{name}` must be packed codes (uint8, as mihash.pack makes); got {raw.dtype}.")
    if raw.ndim != 2 or raw.shape[1] == 0:
        raise InvalidInput(f"`{name}` must have shape (n, bytes); got {raw.shape}.")
    if n_bits is not None:
        n_bytes = -(-integer("n_bits", n_bits, minimum=1) // 8)
        if raw.shape[1] != n_bytes:
            raise InvalidInput(f"`{name}` must have {n_bytes} bytes for {n_bits} bits; got {raw.shape[1]}.")
        spare = 8 * n_bytes - n_bits
        if spare and len(raw) and int(raw[:, -1].max()) >> (8 - spare):
            raise InvalidInput(f"`{name}` has ones beyond its {n_bits} bits; pack the bits with mihash.pack.")
    return np.ascontiguousarray(raw)


def boolean_matrix(name: str, matrix: ArrayLike, shape: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return a 0/1 or boolean matrix of the given shape as booleans."""
    raw = array(name, matrix)
    if raw.shape != shape:
        raise InvalidInput(f"`{name}` must have shape {shape}; got {raw.shape}.")
    if raw.dtype.kind != "b" and (raw.dtype.kind not in "iuf" or not np.isin(raw, (0, 1)).all()):
        raise InvalidInput(f"`{name}` must hold True or False (or 0 and 1); got an array of {raw.dtype}.")
    return np.ascontiguousarray(raw, dtype=np.bool_)


def as_rows(name: str, X: ArrayLike, y: Any = None) -> tuple[NDArray[Any], Any]:
    """Return vectors as rows with their labels; one vector, which comes with one label, as one row; [] as no rows.

    >>> as_rows("X", [1.0, 2.0], "cat")
    (array([[1., 2.]]), ['cat'])
    """
    raw = array(name, X)
    if raw.shape == (0,):
        return raw.reshape(0, 1), y
    if raw.ndim != 1:
        return raw, y
    return raw[None], y if y is None or (np.ndim(y) == 1 and len(y) == 1) else [y]


def path(name: str, value: str | os.PathLike[str]) -> Path:
    """Return where a file or folder is.

    >>> path("path", b"index")
    Traceback (most recent call last):
    mihash.errors.InvalidInput: `path` must be a string or a Path; got b'index'.
    """
    if not isinstance(value, str | os.PathLike) or isinstance(os.fspath(value), bytes):
        raise InvalidInput(f"`{name}` must be a string or a Path; got {value!r:.80}.")
    if not os.fspath(value):
        raise InvalidInput(f"`{name}` must not be empty.")
    return Path(value)


def array(name: str, value: ArrayLike) -> NDArray[Any]:
    """Return an array-like value as an array; raise if its rows have several lengths.

    A column of vectors, as a table library returns it, becomes a matrix.
    """
    if np.ma.is_masked(value):
        raise InvalidInput(f"`{name}` has masked values: fill them, or leave these rows out.")
    try:
        raw = np.asarray(value)
        if raw.dtype == object and raw.ndim == 1 and len(raw) and isinstance(raw[0], np.ndarray):
            raw = np.stack(list(raw))
        return raw
    except RuntimeError as error:  # of PyTorch, which says what to do
        raise InvalidInput(f"`{name}` cannot be read as an array; {str(error).rstrip('.')}.") from error
    except (ValueError, TypeError) as error:
        ragged = "inhomogeneous" in str(error) or "same shape" in str(error)  # NumPy on rows of several lengths
        detail = "" if ragged else f"; {str(error).rstrip('.')}"
        raise InvalidInput(f"`{name}` must be an array with rows of one length{detail}.") from error


def _fits_int64(values: NDArray[Any]) -> bool:
    if values.dtype.kind == "f":
        good = np.isfinite(values).all() and (values == np.rint(values)).all() and (np.abs(values) < 2**63).all()
        return bool(good)
    return not len(values) or int(values.max()) < 2**63
