"""The base class of batch hashing methods: parameters, and ``fit(X, y)``, which returns a mapping (Sec. 4.3.2)."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput
from ..kernels import one_thread
from ..mapping import HashMapping
from ..neighbors import Labels

Matrix = NDArray[np.float32]
Progress = Callable[[int, int], object]

FIRST, ANCHORS, ORDER = 2, 3, 4  # the purposes of random numbers: first parameters, anchors, order


class BatchMethod(ABC):
    """A batch hashing method: the constructor keeps the parameters, `fit` learns a mapping from all data at once.

    Subclasses name themselves, keep their parameters as attributes of the same names, and implement `learn`.

    Attributes
    ----------
    history
        The method's objective after each step of the last `fit`; each method documents its own.
    """

    name: ClassVar[str]
    needs_labels: ClassVar[bool] = True
    nested: ClassVar[bool] = False  # whether a short code is the beginning of a longer one
    history: list[float]

    def __init__(self, n_bits: int, seed: int) -> None:
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
        self.seed = validation.integer("seed", seed, minimum=0)
        self.history = []

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, progress: Progress | None = None) -> HashMapping:
        """Learn from vectors (n, d) and their labels; return the mapping.

        ``progress`` is called with the number of steps done and the number there are at most. The same data and
        the same seed give the same mapping.
        """
        self.history = []
        vectors = validation.features("X", X)
        if y is None and self.needs_labels:
            raise InvalidInput(
                f"{type(self).__name__} learns from neighbours and others: give `y` with the examples."
            )
        labels: Labels | None = None if y is None else validation.labels("y", y, len(vectors), names=True)
        refusal = self.refusal(vectors, labels)
        if refusal is not None:
            raise InvalidInput(refusal)
        with one_thread():
            return self.learn(vectors, labels, progress or _ignore)

    @abstractmethod
    def learn(self, X: Matrix, y: Labels | None, progress: Progress) -> HashMapping:
        """Learn from checked data, in one thread."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def generator(self, purpose: int) -> np.random.Generator:
        """Return random numbers for one purpose."""
        return np.random.default_rng(np.random.SeedSequence(self.seed, spawn_key=(purpose,)))

    def refusal(self, X: Matrix, y: Labels | None) -> str | None:
        """Return why the method cannot learn from these checked examples; None if it can."""
        who = type(self).__name__
        if len(X) < 2:
            return f"{who} learns from at least 2 examples; got {len(X)}."
        wanted = None if y is None else _wanted(y)
        return None if wanted is None else f"{who} learns from neighbours and others: give {wanted}."

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"


def _ignore(done: int, total: int) -> None:
    """Report to nobody: the default for ``progress``."""


def _wanted(y: Labels) -> str | None:
    """Return what labels lack to make some pairs neighbours and others not."""
    counts = np.unique(y, return_counts=True)[1] if y.ndim == 1 else y.sum(axis=0, dtype=int)
    if counts.max() == len(y):
        return "examples of at least 2 classes"
    return "at least 2 examples of some class" if counts.max() < 2 else None


def indicators(y: Labels) -> Matrix:
    """Return Y (n, classes), 1 where an example has a class.

    Examples
    --------
    >>> indicators(np.array([5, 2, 5]))
    array([[0., 1.],
           [1., 0.],
           [0., 1.]], dtype=float32)
    """
    if y.ndim == 2:
        return y.astype(np.float32)
    classes, which = np.unique(y, return_inverse=True)
    return np.eye(len(classes), dtype=np.float32)[which]
