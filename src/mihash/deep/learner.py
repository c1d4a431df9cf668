"""What the batch methods of this room are: the interface of `mihash.batch`, which re-exports them (Sec. 4.3.2)."""

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray

from .. import validation
from ..errors import InvalidInput, NotReady
from ..mapping import HashMapping
from ..neighbors import Labels

__all__ = ["DeepLearner"]

Progress = Callable[[int, int], object]

FIRST, ORDER = 2, 4  # what a generator is for


class DeepLearner(ABC):
    """A batch hashing method that learns with torch: the constructor keeps the parameters, `fit` learns a mapping.

    Subclasses name themselves, keep their parameters as attributes of the same names, and implement `learn`.

    Attributes
    ----------
    history
        The mean loss of each epoch of the last `fit`.
    """

    name: ClassVar[str]
    needs_labels: ClassVar[bool] = True
    history: list[float]

    def __init__(self, n_bits: int, seed: int) -> None:
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
        self.seed = validation.integer("seed", seed, minimum=0)
        self.history = []

    def fit(self, X: ArrayLike, y: ArrayLike | None = None, progress: Progress | None = None) -> HashMapping:
        """Learn from vectors (n, d) and their labels; return the mapping.

        ``progress`` is called with the number of epochs done and the number there are at most. The same data and
        the same seed give the same mapping, on one machine and with as many threads.
        """
        vectors = validation.features("X", X)
        who = f"{type(self).__name__} learns from neighbours and others"
        if len(vectors) < 2:
            raise InvalidInput(f"{type(self).__name__} learns from at least 2 examples; got {len(vectors)}.")
        if y is None:
            raise InvalidInput(f"{who}: give `y` with the examples.")
        labels: Labels = validation.labels("y", y, len(vectors))
        counts = np.unique(labels, return_counts=True)[1] if labels.ndim == 1 else labels.sum(axis=0, dtype=int)
        if counts.max() == len(vectors):
            raise InvalidInput(f"{who}: give examples of at least 2 classes.")
        if counts.max() < 2:
            raise InvalidInput(f"{who}: give at least 2 examples of some class.")
        self.history = []
        try:
            return self.learn(vectors, labels, progress or _nobody)
        except (InvalidInput, torch.linalg.LinAlgError) as error:  # type: ignore[attr-defined]
            raise NotReady(f"{self!r} has diverged: {error} Start again with smaller steps.") from error

    @abstractmethod
    def learn(self, X: NDArray[np.float32], y: Labels, progress: Progress) -> HashMapping:
        """Learn from checked data."""

    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""
        return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

    def generator(self, purpose: int) -> torch.Generator:
        """Return random numbers for one purpose."""
        seed = np.random.SeedSequence(self.seed, spawn_key=(purpose,)).generate_state(1)[0]
        return torch.Generator().manual_seed(int(seed))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"


def _nobody(done: int, total: int) -> None:
    """Nobody wants to know."""
