"""What every online hashing method is to the loop: a learner that moves a hash mapping (Fig. 2).

A learner sees a block of the stream at a time, together with the reservoir as it was before the block and the
slots that the block's examples will take in it. It keeps its own parameters and hands out frozen mappings; it
never encodes, and knows nothing of tables and triggers.
"""

import copy
from abc import ABC, abstractmethod
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from .. import validation
from ..errors import InvalidInput, NotReady
from ..kernels import one_thread
from ..mapping import HashMapping
from ..reservoir import Reservoir
from ..state import State


def hyperplanes(n_features: int, n_bits: int, seed: int) -> NDArray[np.float32]:
    """Return random hyperplanes through the origin: Gaussian columns of unit length (d, b).

    The first mapping of every method, before it has seen anything.

    Examples
    --------
    >>> np.linalg.norm(hyperplanes(5, 2, seed=0), axis=0).round(6).tolist()
    [1.0, 1.0]
    """
    W = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(2,))).standard_normal((n_features, n_bits))
    unit: NDArray[np.float32] = (W / np.linalg.norm(W, axis=0)).astype(np.float32)
    return unit


class OnlineLearner(ABC):
    """An online hashing method.

    Subclasses name themselves, keep their parameters as attributes, and implement `parameters`, `begin`, `learn`,
    `current` and the pair `learned` / `relearn`. Block edges stand at multiples of ``block_size`` examples of the
    stream, wherever `feed` was cut, so that the same stream gives the same bits.
    """

    name: ClassVar[str]
    needs_labels: bool = False
    block_size: int = 100
    forced_until: int = 0  # the table is updated at every block edge until so many were seen (App. D.2)

    def __init__(self, n_bits: int, seed: int) -> None:
        self.n_bits = validation.integer("n_bits", n_bits, minimum=1, maximum=4096)
        self.seed = validation.integer("seed", seed, minimum=0)
        self._n_features: int | None = None

    @property
    def n_features(self) -> int | None:
        """The dimension of the stream, None until it is known."""
        return self._n_features

    def start(self, n_features: int) -> None:
        """Fix the dimension of the stream and make the first mapping; a second call must agree."""
        if self._n_features is None:
            self.begin(validation.integer("n_features", n_features, minimum=1))
            self._n_features = n_features
        elif self._n_features != n_features:
            raise InvalidInput(
                f"This learner works with {self._n_features} features; got {n_features}. Use another learner."
            )

    def check(self, y: NDArray[Any] | None) -> None:
        """Raise if the method cannot learn from examples like these."""
        if self.needs_labels and y is None:
            raise InvalidInput(f"{type(self).__name__} learns from class labels: give `y` with the examples.")

    @property
    def mapping(self) -> HashMapping:
        """The current mapping Phi_t, frozen."""
        if self._n_features is None:
            raise NotReady("The dimension of the stream is not known yet: feed or store examples first.")
        try:
            with one_thread():
                return self.current()
        except InvalidInput as error:
            raise NotReady(
                f"{self!r} has diverged: {error} Start again with smaller steps, or with features that are "
                "centred and of unit length (mihash.datasets.normalize)."
            ) from error

    @abstractmethod
    def begin(self, n_features: int) -> None:
        """Make the first parameters for vectors of this dimension."""

    @abstractmethod
    def current(self) -> HashMapping:
        """Return the mapping that the parameters stand for now."""

    @abstractmethod
    def learn(
        self, X: NDArray[np.float32], y: NDArray[Any] | None, reservoir: Reservoir, slots: NDArray[np.int64]
    ) -> None:
        """Move the mapping by a block of examples, which take these slots of the reservoir afterwards."""

    @abstractmethod
    def parameters(self) -> dict[str, Any]:
        """Return the constructor's arguments."""

    @abstractmethod
    def learned(self) -> State:
        """Return everything learned so far."""

    @abstractmethod
    def relearn(self, learned: State) -> None:
        """Take over what `learned` returned."""

    def state(self) -> State:
        """Return parameters and everything learned, as plain values."""
        learned = None if self._n_features is None else self.learned()
        return {
            "name": self.name,
            "parameters": self.parameters(),
            "n_features": self._n_features,
            "learned": learned,
        }

    def restore(self, state: State) -> None:
        """Go on where `state` was taken; the parameters must be the same."""
        if state["name"] != self.name or state["parameters"] != self.parameters():
            raise InvalidInput(
                f"The state belongs to {state['name']} with {state['parameters']}, "
                f"not to {self.name} with {self.parameters()}."
            )
        if state["n_features"] is not None:
            self.start(state["n_features"])
            self.relearn(state["learned"])

    def copy(self) -> Self:
        """Return an independent learner in the same state."""
        return copy.deepcopy(self)

    def __repr__(self) -> str:
        """Show the parameters."""
        arguments = ", ".join(f"{key}={value!r}" for key, value in self.parameters().items())
        return f"{type(self).__name__}({arguments})"
