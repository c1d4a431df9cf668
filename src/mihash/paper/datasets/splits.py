"""How the paper divides its data (Sec. 4.1, App. B.1): queries, retrieval set, stream and checkpoints.

Everything is drawn from ``(seed, trial)``, each purpose from a generator of its own, so that two runs of one
trial see the same queries, the same stream and the same checkpoints, whatever else they do.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ... import validation
from ...errors import InvalidInput
from ...neighbors import Labels, nearest_fraction
from .dataset import Dataset, column_mean, gather

_SPLIT, _ORDER, _CHECKPOINTS = range(3)


@dataclass(frozen=True, eq=False, repr=False)
class Split:
    """One division of a data set into queries and retrieval set, with the stream to learn from.

    Parameters
    ----------
    X_query, y_query
        The test set: features, and labels or None.
    X_base, y_base
        The retrieval set, in random order.
    stream
        The rows of the retrieval set (n_stream,) to learn from, in the order in which they arrive.
    query_rows, base_rows
        Which rows of the data set the queries and the retrieval set are.

    Examples
    --------
    >>> from mihash.paper.datasets import digits
    >>> split = draw_split(digits(), n_test_per_class=20, n_stream=500)
    >>> split
    Split(200 queries, 1597 base, stream of 500)
    >>> split.X_stream.shape, split.validation(100)
    ((500, 64), Split(100 queries, 400 base, stream of 400))
    """

    X_query: NDArray[np.float32]
    y_query: Labels | None
    X_base: NDArray[np.float32]
    y_base: Labels | None
    stream: NDArray[np.int64]
    query_rows: NDArray[np.int64]
    base_rows: NDArray[np.int64]

    def __repr__(self) -> str:
        return f"Split({len(self.X_query)} queries, {len(self.X_base)} base, stream of {len(self.stream)})"

    @property
    def X_stream(self) -> NDArray[np.float32]:
        """The features of the stream, in order (a copy)."""
        return self.X_base[self.stream]

    @property
    def y_stream(self) -> Labels | None:
        """The labels of the stream, in order (a copy), or None."""
        return None if self.y_base is None else self.y_base[self.stream]

    @cached_property
    def relevant(self) -> tuple[Labels, Labels] | NDArray[np.bool_]:
        """What is relevant to each query, in the form that `mihash.ranking` takes.

        With labels, the pair ``(y_query, y_base)``; without, the matrix (n_query, n_base) that is True for
        the nearest 5 % of the retrieval set, computed at first use.
        """
        if self.y_query is not None and self.y_base is not None:
            return self.y_query, self.y_base
        return nearest_fraction(self.X_query, self.X_base)

    def validation(self, n: int) -> "Split":
        """Return the split to choose parameters on: the last ``n`` of the stream query the rest of it.

        Nothing outside the stream is looked at, so neither the test set nor the labels of the retrieval set
        can leak into the choice.
        """
        validation.integer("n", n, minimum=1, maximum=len(self.stream) - 1)
        base, query = self.stream[:-n], self.stream[-n:]
        return Split(
            self.X_base[query],
            None if self.y_base is None else self.y_base[query],
            self.X_base[base],
            None if self.y_base is None else self.y_base[base],
            np.arange(len(base), dtype=np.int64),
            self.base_rows[query],
            self.base_rows[base],
        )


def draw_split(
    dataset: Dataset,
    *,
    n_test_per_class: int | None = None,
    n_test: int | None = None,
    official: bool = False,
    n_stream: int | None = None,
    normalized: bool = True,
    seed: int = 0,
    trial: int = 0,
) -> Split:
    """Draw a test set from a data set, keep the rest for retrieval, and a random stream from that rest.

    The test set is given by exactly one of the first three options. Queries and retrieval set come in random
    order, so that ties broken by index favour no class.

    Parameters
    ----------
    dataset
        The data set; its rows are copied.
    n_test_per_class
        The number of test examples of each class (labels needed, one class each).
    n_test
        The number of test examples, drawn uniformly.
    official
        Take the data set's own test set, ``is_test``.
    n_stream
        The length of the stream; None, or more than there is, takes the whole retrieval set.
    normalized
        Centre by the mean of the data set and scale rows to unit length, as `normalize` does.
    seed, trial
        What the draws depend on; each trial has its own split and its own stream.

    Examples
    --------
    >>> from mihash.paper.datasets import digits
    >>> split = draw_split(digits(), n_test_per_class=20, n_stream=500, seed=1, trial=2)
    >>> np.bincount(split.y_query).tolist(), split.stream[:3].tolist()
    ([20, 20, 20, 20, 20, 20, 20, 20, 20, 20], [1369, 239, 1411])
    """
    if (n_test_per_class is not None) + (n_test is not None) + bool(official) != 1:
        raise InvalidInput("Give exactly one of `n_test_per_class`, `n_test` and `official=True`.")
    rng = _generator(seed, trial, _SPLIT)
    if n_test_per_class is not None:
        is_test = _per_class(dataset, n_test_per_class, rng)
    elif n_test is not None:
        validation.integer("n_test", n_test, minimum=1, maximum=len(dataset) - 1)
        is_test = np.zeros(len(dataset), dtype=np.bool_)
        is_test[rng.choice(len(dataset), n_test, replace=False)] = True
    else:
        is_test = _official(dataset)
    query_rows = rng.permutation(np.flatnonzero(is_test))
    base_rows = rng.permutation(np.flatnonzero(~is_test))
    wanted = len(base_rows) if n_stream is None else validation.integer("n_stream", n_stream, minimum=1)
    stream = _generator(seed, trial, _ORDER).permutation(len(base_rows))[:wanted]
    X, y = dataset.X, dataset.y
    mean = column_mean(X) if normalized else None
    return Split(
        X[query_rows] if mean is None else gather(X, query_rows, mean),
        None if y is None else y[query_rows],
        X[base_rows] if mean is None else gather(X, base_rows, mean),
        None if y is None else y[base_rows],
        stream,
        query_rows,
        base_rows,
    )


def checkpoints(n_examples: int, n: int = 50, seed: int = 0, trial: int = 0) -> NDArray[np.int64]:
    """Return after how many examples to measure: ``n`` even places, moved a little at random (App. B.1).

    The first is 1 and the last ``n_examples``; each of the others moves by at most a sixth of the interval,
    before it is rounded. The places strictly increase.

    Examples
    --------
    >>> checkpoints(20_000, n=6).tolist()
    [1, 3501, 7509, 11992, 15874, 20000]
    """
    validation.integer("n_examples", n_examples, minimum=1)
    validation.integer("n", n, minimum=1, maximum=n_examples)
    if n == 1:
        return np.array([n_examples], dtype=np.int64)
    interval = (n_examples - 1) / (n - 1)
    places = np.linspace(1, n_examples, n)
    places[1:-1] += _generator(seed, trial, _CHECKPOINTS).uniform(-interval / 6, interval / 6, size=n - 2)
    rounded = np.floor(places + 0.5).astype(np.int64)
    # Rounding can only make places meet when the interval is about 1: push them apart, then back into range.
    ranks = np.arange(n)
    rounded = np.maximum.accumulate(rounded - ranks) + ranks
    return np.minimum(rounded, n_examples - ranks[::-1])


def _per_class(dataset: Dataset, n_test_per_class: int, rng: np.random.Generator) -> NDArray[np.bool_]:
    validation.integer("n_test_per_class", n_test_per_class, minimum=1)
    y = dataset.y
    if y is None or y.ndim != 1:
        got = "no labels" if y is None else "several labels for each example"
        raise InvalidInput(
            f"`n_test_per_class` needs one class for each example; {dataset.name!r} has {got}. Use `n_test`."
        )
    is_test = np.zeros(len(y), dtype=np.bool_)
    order = np.argsort(y, kind="stable")
    classes, counts = np.unique(y, return_counts=True)
    for label, members in zip(classes, np.split(order, np.cumsum(counts)[:-1]), strict=True):
        if len(members) <= n_test_per_class:
            raise InvalidInput(
                f"`n_test_per_class` must leave something to retrieve of each class; class {label} of "
                f"{dataset.name!r} has {len(members)} examples, and {n_test_per_class} were asked for."
            )
        is_test[rng.choice(members, n_test_per_class, replace=False)] = True
    return is_test


def _official(dataset: Dataset) -> NDArray[np.bool_]:
    is_test = dataset.is_test
    if is_test is None:
        raise InvalidInput(f"{dataset.name!r} has no official test set; use `n_test_per_class` or `n_test`.")
    if not is_test.any() or is_test.all():
        raise InvalidInput(f"The official test set of {dataset.name!r} is empty or everything; use `n_test`.")
    return is_test


def _generator(seed: int, trial: int, purpose: int) -> np.random.Generator:
    validation.integer("seed", seed, minimum=0)
    validation.integer("trial", trial, minimum=0)
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trial, purpose)))
