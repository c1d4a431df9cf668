"""Poison rows, which a learner may not bear, through a whole index: nothing stops the log.

Whatever is added, the rows that were acknowledged are found, and every call works. The index goes on learning, or
says in ``stats()["learning_error"]`` why it does not.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import mihash
from mihash import OnlineIndex
from mihash.errors import InvalidInput
from mihash.online import learner_class

from .report import Failure

__all__ = ["PLACES", "POISONS", "TOO_LONG", "poison"]

N_ROWS, N_FEATURES, N_BITS = 700, 16, 16
_BLOCK = 110  # a decision is made within
_BEFORE, _CHUNK = 640, 160  # what is added before the index is closed, in pieces
_INTERVAL, _RESERVOIR = 100, 1000  # no row escapes the sample
_N_CLASSES = 4
_N_DELETED = 10
_EVERY = 5  # rows: one of so many is read and searched for, and all are looked up

Vectors = NDArray[np.float32]
Labels = NDArray[np.int64]

PLACES = (5, 505)  # the rows that poison begins at: in the first 256 for normalisation, and just before 512
TOO_LONG = "1e30 and 1e38"  # too long for arithmetic in float32: refused


def _filled(value: float, n: int) -> Callable[[Vectors, Labels, int], None]:
    """Return what sets so many rows to a value."""

    def change(X: Vectors, y: Labels, at: int) -> None:  # noqa: ARG001 -- each poison takes both
        X[at : at + n] = value

    return change


def _duplicated(X: Vectors, y: Labels, at: int) -> None:
    X[at : at + _BLOCK], y[at : at + _BLOCK] = X[at], y[at]


def _one_hot(X: Vectors, y: Labels, at: int) -> None:  # noqa: ARG001
    X[at : at + _BLOCK] = np.eye(N_FEATURES, dtype=np.float32)[np.arange(_BLOCK) % N_FEATURES]


def _one_class(X: Vectors, y: Labels, at: int) -> None:  # noqa: ARG001
    y[at:] = 3


def _class_per_row(X: Vectors, y: Labels, at: int) -> None:  # noqa: ARG001
    y[at:] = 1000 + np.arange(len(y) - at)


POISONS: dict[str, Callable[[Vectors, Labels, int], None]] = {
    "subnormal": _filled(1e-40, 1),
    "all subnormal": _filled(1e-40, _BLOCK),
    "1e14": _filled(1e14, 1),
    "outlier of 1e6": _filled(1e6, 1),
    "constant": _filled(3, _BLOCK),
    "zero": _filled(0, _BLOCK),
    "duplicated": _duplicated,
    "one-hot": _one_hot,
    "one class": _one_class,
    "class per row": _class_per_row,
}


def poison(
    folder: Path, learner: str, metric: str, name: str, places: Sequence[int] = PLACES, seed: int = 0
) -> str | None:
    """Feed an index with poison, and use all of it; raise `Failure`, or whatever a call raises.

    Parameters
    ----------
    folder
        Where the index is made.
    learner, metric
        Of the index.
    name
        One of `POISONS`, or `TOO_LONG` for rows that `add` must refuse without harm.
    places
        The rows that the poison begins at.
    seed
        Of the rows around the poison.

    Returns
    -------
        Why the index has stopped learning, None where it goes on.
    """
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((N_ROWS, N_FEATURES)).astype(np.float32)
    y = rng.integers(0, _N_CLASSES, N_ROWS)
    for at in places if name in POISONS else ():
        POISONS[name](X, y, at)
    labelled = learner_class(learner).needs_labels or name.endswith(("class", "class per row"))
    expected: dict[int, Vectors] = {}
    options = {
        "metric": metric,
        "reservoir_size": _RESERVOIR,
        "trigger": mihash.TriggerUpdate(0.02, _INTERVAL, relative=True),
    }
    with OnlineIndex.create(folder, N_BITS, learner, **options) as index:
        edges = sorted({*range(0, _BEFORE + 1, _CHUNK), *(at + more for at in places for more in (0, 1))})
        for first, last in pairwise(
            edges
        ):  # the first row of poison comes alone, so the next `add` is another call
            _add(index, X, y if labelled else None, slice(first, last), expected)
            for value in map(float, name.split(" and ")) if name == TOO_LONG else ():
                _refused(index, value, labelled)
        _use(index, X, expected)
        for key in range(places[-1], places[-1] + _N_DELETED):
            index.delete(key)
            del expected[key]
        index.compact()
    with OnlineIndex.open(folder) as index:
        _add(index, X, y if labelled else None, slice(_BEFORE, N_ROWS), expected)
        _use(index, X, expected)
        index.verify()
        return _learning(index)


def _add(index: OnlineIndex, X: Vectors, y: Labels | None, part: slice, expected: dict[int, Vectors]) -> None:
    keys = index.add(X[part], None if y is None else y[part])
    expected.update(zip(map(int, keys), X[part], strict=True))


def _refused(index: OnlineIndex, value: float, labelled: bool) -> None:
    """Add a row that is too long: an error that says so, and nothing is stored."""
    n = len(index)
    try:
        index.add(np.full((1, N_FEATURES), value, dtype=np.float32), [0] if labelled else None)
    except InvalidInput:
        if len(index) != n:
            raise Failure(f"A row of {value:g} was refused and stored.") from None
        return
    raise Failure(f"A row of {value:g} was taken; the length of rows is limited.")


def _use(index: OnlineIndex, X: Vectors, expected: dict[int, Vectors]) -> None:
    """Call all that works on an index with rows, and compare them with those that were acknowledged."""
    index.rehash()
    index.wait()
    index.history()
    stats: dict[str, Any] = index.stats()
    if stats["items"] != len(expected) or stats["rehash_error"] is not None:
        raise Failure(f"{stats['items']} of {len(expected)} items; rehash_error {stats['rehash_error']}.")
    for rescore in (0, 50):
        keys, distances = index.search(X[::_EVERY], k=5, rescore=rescore)[:2]
        if keys.shape != (len(X[::_EVERY]), 5) or np.isnan(distances).any():
            raise Failure(f"A search gave the shape {keys.shape}, {np.isnan(distances).sum()} distances are NaN.")
    if not index.contains(list(expected)).all():
        raise Failure("A row that was acknowledged is not found by its key.")
    for key in list(expected)[::_EVERY]:
        if not np.array_equal(index.get(key).vector, expected[key]):
            raise Failure(f"The row {key} is not the one that was added.")


def _learning(index: OnlineIndex) -> str | None:
    """Return why an index has stopped learning, None where it has learned from every row."""
    reason = index.stats()["learning_error"]
    if reason is None and index.seen != N_ROWS:
        raise Failure(f"It has learned from {index.seen} of {N_ROWS} rows, and gives no reason.")
    if reason is not None and not reason.strip():
        raise Failure("It has stopped learning, and the reason is empty.")
    return None if reason is None else str(reason)
